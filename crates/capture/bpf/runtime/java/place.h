/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The place of a task on the stack of a thread of Java. Whichever thread took the task from a queue, the thread that
 * handed it over has made it, and its address tells for which request (allocation.h). A thread that runs one task after
 * the other does so in a loop among its first frames, so that the place is the same for each task. The place is learnt:
 * of the words that are addresses of objects made by another thread since this one was born, it is the newest. Objects
 * made for the thread itself are older, and queues are older than the tasks in them.
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

/* Where on the stack the first frame of Java begins: the machine enters it by a stub of its own. */
__noinline int find_entry(struct java_thread *j)
{
	struct java_search *s = java_search();
	__u64 base, at;

	if (!j || !s)
		return 0;
	j->entry = JAVA_NO_ENTRY;
	base = user_word(j->thread + j->facts.stack);
	for (int piece = 1; piece <= JAVA_STACK_BYTES / JAVA_FIRST_FRAMES; piece++) {
		at = base - piece * JAVA_FIRST_FRAMES;
		if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)at))
			return 0;
		for (int i = JAVA_WORDS - 1; i >= 0; i--) {
			if (s->words[i] == j->facts.entry) {
				j->entry = at + 8 * i;
				return 0;
			}
		}
	}
	return 0;
}

/* Whether it is known that a thread has made this object since the current thread was born. */
static __always_inline bool is_made(struct java_thread *j, struct java_search *s, __u64 object)
{
	__u32 born = bpf_get_current_task_btf()->start_time >> WS_MARK_TICK;

	if (!in_heap(j, object) || object & 7)
		return false;
	s->object = object;
	return find_mark(j, s) && (__s32)(s->found.tick - born) > 0;
}

/* …for a request that it had read. */
static __always_inline bool is_task(struct java_thread *j, struct java_search *s, __u64 object)
{
	return is_made(j, s, object) && s->found.cause && s->found.bytes & WS_MARK_OWN;
}

/* The same if it has moved since; `all` is of its process. */
static __always_inline bool has_moved(struct java_thread *j, struct allocations *all, struct java_search *s)
{
	__u32 born = bpf_get_current_task_btf()->start_time >> WS_MARK_TICK;

	if (!in_heap(j, j->task))
		return false;
	s->object = j->task;
	return find_moved(j, all) && (__s32)(s->found.tick - born) > 0;
}

/*
 * The address of an object in this word of what was read of a stack, if it is not the last one again; 0: none. Of each
 * piece so many are looked at.
 */
static __always_inline __u64 next_object(struct java_thread *j, struct java_search *s, __u32 i, __u32 most)
{
	__u64 word;

	if (i >= JAVA_WORDS || s->looked_at >= most)
		return 0;
	word = s->words[i];
	if (word == s->last || !in_heap(j, word))
		return 0;
	s->last = word;
	s->looked_at++;
	return word;
}

/* Nothing was found: the next search is put off, longer each time. */
static __always_inline void look_later(__u8 *pause, __u8 *wait, __u32 most)
{
	if (*pause < most)
		*pause = 2 * *pause + 1;
	*wait = *pause;
}

/*
 * Whether that stands in this word of a worker's stack. Of its own, and its loop without a way out: Linux 6.1 takes no
 * other.
 */
__noinline int look_at_word(struct java_thread *j, struct java_search *s, __u32 i)
{
	__u64 word;

	if (!j || !s)
		return 0;
	word = next_object(j, s, i, JAVA_LOOKED_AT);
	if (!word || !is_made(j, s, word))
		return 0;
	if (j->loop ? s->found.buffer != j->thread && (!s->slot || s->age < s->best_age)
		    : s->found.cause && s->found.bytes & WS_MARK_OWN &&
			      (!s->slot || (__s32)(s->found.tick - s->best.tick) > 0)) {
		s->best = s->found;
		s->best_age = s->age;
		j->task = word;
		s->slot = s->above + JAVA_FIRST_FRAMES - 8 * i;
	}
	return 0;
}

/* Searches for the place of the task. A loop has many frames before that of its task. */
__noinline int find_slot(struct java_thread *j, struct java_search *s)
{
	__u32 most = JAVA_PAUSE, pieces = 1;

	if (!j || !s)
		return 0;
	s->slot = 0;
	if (j->wait) {
		j->wait--;
		return 0;
	}
	if (j->loop) {
		most = JAVA_LOOP_PAUSE;
		pieces = JAVA_LOOP_PIECES;
		s->most = JAVA_LATEST;
	}
	for (__u32 piece = 0; piece < JAVA_LOOP_PIECES && piece < pieces; piece++) {
		s->above = piece * JAVA_FIRST_FRAMES;
		s->last = s->looked_at = 0;
		if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)(j->entry - s->above - JAVA_FIRST_FRAMES)))
			break;
		for (int i = JAVA_WORDS - 1; i >= 0; i--)
			look_at_word(j, s, i);
	}
	s->most = 0;
	if (s->slot) {
		j->pause = 0;
		return s->slot;
	}
	look_later(&j->pause, &j->wait, most);
	return 0;
}

/* Whether it still runs what it ran when it was last looked at. */
static __always_inline bool same_task(struct java_thread *j)
{
	if (!j->task || user_word(j->entry - j->slot) != j->task)
		return false;
	return collections_now(&j->facts) == j->collections;
}

/* `by`: flags of the mark by which it is known. */
static __always_inline void take_task(struct java_thread *j, __u64 cause, __u32 by)
{
	j->task_for = cause;
	j->task_by = by;
	take(&j->job, cause, !cause ? WS_EV_INFERRED : j->loop || by & WS_MARK_LOOP ? WS_EV_CHILD : WS_EV_COROUTINE);
	j->job.state = cause ? ACTS_LENT : ACTS_OWN;
	j->job.authoritative = 1;
}

#endif
