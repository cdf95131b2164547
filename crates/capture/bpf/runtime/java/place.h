/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Where on its stack a thread of Java has the task that it runs: whoever took it from a queue, it was made by who handed it over, and that is
 * told by where it lies (allocation.h). Who runs one task after the other does it in a loop, which is among its first frames: the
 * place is the same for each task. It is learnt, of the words that are the address of what another thread has made since this
 * one was born: the newest. What was made for it, to be its own, was there before; queues are older than what is in them.
 */
#ifndef WS_JAVA_PLACE_H
#define WS_JAVA_PLACE_H

#define JAVA_STACK_BYTES \
	8192 /* searched for the first frame of Java, once: the C library keeps data of its own there */
#define JAVA_NO_ENTRY 1
#define JAVA_LOOKED_AT 10  /* addresses of a piece of JAVA_FIRST_FRAMES bytes */
#define JAVA_LOOP_PIECES 3 /* a loop of events has more frames before its tasks' */
#define JAVA_PAUSE 32	   /* about: so many times it is not looked, where nothing is found */
#define JAVA_LOOP_PAUSE 8  /* …by a loop, which looks behind few marks */
#define JAVA_LATEST 256	   /* marks: what a loop runs was not made long ago */

/* Sends an answer, more of what it sent last on that socket, or the first of it; or connects. */
enum java_when { LOOK_ANSWERS = 1, LOOK_GOES_ON = 2, LOOK_BEGINS = 4, LOOK_CONNECTS = 8 };

/* Where on the stack the first frame of Java begins: the machine enters it by a stub of its own. */
__noinline int find_entry(struct task_state *t)
{
	struct java_search *s = java_search();
	__u64 base, at;

	if (!t || !s)
		return 0;
	t->java_entry = JAVA_NO_ENTRY;
	base = user_word(t->java_thread + t->facts.java.stack);
	for (int piece = 1; piece <= JAVA_STACK_BYTES / JAVA_FIRST_FRAMES; piece++) {
		at = base - piece * JAVA_FIRST_FRAMES;
		if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)at))
			return 0;
		for (int i = JAVA_WORDS - 1; i >= 0; i--) {
			if (s->words[i] == t->facts.java.entry) {
				t->java_entry = at + 8 * i;
				return 0;
			}
		}
	}
	return 0;
}

/* Whether it is known who has made this, since the current thread was born. */
static __always_inline bool is_made(struct task_state *t, struct java_search *s, __u64 object)
{
	__u32 born = bpf_get_current_task_btf()->start_time >> WS_MARK_TICK;

	if (!in_heap(t, object) || object & 7)
		return false;
	s->object = object;
	return find_mark(t, s) && (__s32)(s->found.tick - born) > 0;
}

/* …and for whom: a request that it had read. */
static __always_inline bool is_task(struct task_state *t, struct java_search *s, __u64 object)
{
	return is_made(t, s, object) && s->found.cause && s->found.bytes & WS_MARK_OWN;
}

/* The same if it has moved since; `all` is of its process. */
static __always_inline bool has_moved(struct task_state *t, struct allocations *all, struct java_search *s)
{
	__u32 born = bpf_get_current_task_btf()->start_time >> WS_MARK_TICK;

	if (!in_heap(t, t->java_task))
		return false;
	s->object = t->java_task;
	return find_moved(t, all) && (__s32)(s->found.tick - born) > 0;
}

/* The address of an object in this word of what was read of a stack, if it is not the last one again; 0: none. Of each piece so many are looked at. */
static __always_inline __u64 next_object(struct task_state *t, struct java_search *s, __u32 i, __u32 most)
{
	__u64 word;

	if (i >= JAVA_WORDS || s->looked_at >= most)
		return 0;
	word = s->words[i];
	if (word == s->last || !in_heap(t, word))
		return 0;
	s->last = word;
	s->looked_at++;
	return word;
}

/* Nothing was found: it is not looked again for a while, longer each time. */
static __always_inline void look_later(__u8 *pause, __u8 *wait, __u32 most)
{
	if (*pause < most)
		*pause = 2 * *pause + 1;
	*wait = *pause;
}

/* Whether that stands in this word of a worker's stack. Of its own, and its loop without a way out: Linux 6.1 takes no other. */
__noinline int look_at_word(struct task_state *t, struct java_search *s, __u32 i)
{
	__u64 word;

	if (!t || !s)
		return 0;
	word = next_object(t, s, i, JAVA_LOOKED_AT);
	if (!word || !is_made(t, s, word))
		return 0;
	if (t->loop ? s->found.buffer != t->java_thread && (!s->slot || s->age < s->best_age)
		    : s->found.cause && s->found.bytes & WS_MARK_OWN &&
			      (!s->slot || (__s32)(s->found.tick - s->best.tick) > 0)) {
		s->best = s->found;
		s->best_age = s->age;
		t->java_task = word;
		s->slot = s->above + JAVA_FIRST_FRAMES - 8 * i;
	}
	return 0;
}

/* Looks for the place, of who runs a task that can be told. A loop has many frames before the task's. */
__noinline int find_slot(struct task_state *t, struct java_search *s)
{
	__u32 most = JAVA_PAUSE, pieces = 1;

	if (!t || !s)
		return 0;
	s->slot = 0;
	if (t->java_wait) {
		t->java_wait--;
		return 0;
	}
	if (t->loop) {
		most = JAVA_LOOP_PAUSE;
		pieces = JAVA_LOOP_PIECES;
		s->most = JAVA_LATEST;
	}
	for (__u32 piece = 0; piece < JAVA_LOOP_PIECES && piece < pieces; piece++) {
		s->above = piece * JAVA_FIRST_FRAMES;
		s->last = s->looked_at = 0;
		if (bpf_probe_read_user(s->words, sizeof(s->words),
					(void *)(t->java_entry - s->above - JAVA_FIRST_FRAMES)))
			break;
		for (int i = JAVA_WORDS - 1; i >= 0; i--)
			look_at_word(t, s, i);
	}
	s->most = 0;
	if (s->slot) {
		t->java_pause = 0;
		return s->slot;
	}
	look_later(&t->java_pause, &t->java_wait, most);
	return 0;
}

/* Whether it still runs what it ran when it was last looked at. */
static __always_inline bool same_task(struct task_state *t)
{
	if (!t->java_task || user_word(t->java_entry - t->java_slot) != t->java_task)
		return false;
	return collections_now(&t->facts.java) == t->java_collections;
}

/* `by`: flags of the mark by which it is known. */
static __always_inline void take_task(struct task_state *t, __u64 cause, __u32 by)
{
	t->java_task_for = cause;
	t->java_task_by = by;
	take(&t->job, cause, !cause ? WS_EV_INFERRED : t->loop || by & WS_MARK_LOOP ? WS_EV_CHILD : WS_EV_COROUTINE);
	t->job.state = cause ? ACTS_LENT : ACTS_OWN;
	t->job.authoritative = 1;
}

#endif
