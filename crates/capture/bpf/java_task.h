/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a worker of an executor of Java runs: whoever took it from the queue, it was made by who handed it over. A worker is inside
 * the loop that takes one task after the other, and that is its first frame or one of its first: the task stands on its stack
 * there, at a place that is the same for each task and for all workers of a pool. It is learnt: of the words that are the address of
 * what another thread has made for a request that it had read itself (allocation.h), since the worker was born, the newest.
 * What a pool makes for a worker, to be its own, was there before; its queues are older than what is in them.
 *
 * Once the place is known, a worker is believed to act for whom its task was made, and for somebody who is not known if that cannot
 * be told: whoever woke it, and whatever its last task was.
 */
#ifndef WS_JAVA_TASK_H
#define WS_JAVA_TASK_H

#define JAVA_STACK_BYTES 8192 /* searched for the first frame of Java, once: the C library keeps data of its own there */
#define JAVA_NO_ENTRY 1
#define JAVA_LOOKED_AT 10 /* addresses */
#define JAVA_MISSES 16 /* in a row: the place is another now, as the loop was compiled */

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

/* Whether this is what a thread has made for a request that it had read, since the current thread was born. */
static __always_inline bool is_task(struct task_state *t, struct java_search *s, __u64 object)
{
	__u32 born = bpf_get_current_task_btf()->start_time >> WS_MARK_TICK;

	if (object < t->facts.java.heap_from || object >= t->facts.java.heap_to || object & 7)
		return false;
	s->object = object;
	if (!find_mark(t, s))
		return false;
	return s->found.cause && s->found.bytes & WS_MARK_OWN && (__s32)(s->found.tick - born) > 0;
}

/* The same if it has moved since; `all` is of its process. */
static __always_inline bool has_moved(struct task_state *t, struct allocations *all, struct java_search *s)
{
	__u32 born = bpf_get_current_task_btf()->start_time >> WS_MARK_TICK;

	if (t->java_task < t->facts.java.heap_from || t->java_task >= t->facts.java.heap_to)
		return false;
	s->object = t->java_task;
	return find_moved(t, all) && (__s32)(s->found.tick - born) > 0;
}

/* Whether that stands in this word of a worker's stack. Of its own, and its loop without a way out: Linux 6.1 takes no other. */
__noinline int look_at_word(struct task_state *t, struct java_search *s, __u32 i)
{
	__u64 word;

	if (!t || !s || i >= JAVA_WORDS || s->looked_at >= JAVA_LOOKED_AT)
		return 0;
	word = s->words[i];
	if (word == s->last || word < t->facts.java.heap_from || word >= t->facts.java.heap_to)
		return 0;
	s->last = word;
	s->looked_at++;
	if (is_task(t, s, word) && (!s->slot || (__s32)(s->found.tick - s->best.tick) > 0)) {
		s->best = s->found;
		t->java_task = word;
		s->slot = JAVA_FIRST_FRAMES - 8 * i;
	}
	return 0;
}

/* Looks for the place, of a worker whose task can be told. */
__noinline int find_slot(struct task_state *t, struct java_search *s)
{
	if (!t || !s)
		return 0;
	s->slot = 0;
	if (t->java_wait) {
		t->java_wait--;
		return 0;
	}
	if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)(t->java_entry - JAVA_FIRST_FRAMES)))
		return 0;
	s->last = s->looked_at = 0;
	for (int i = JAVA_WORDS - 1; i >= 0; i--)
		look_at_word(t, s, i);
	if (s->slot) {
		t->java_pause = 0;
		return s->slot;
	}
	t->java_pause = t->java_pause < 32 ? 2 * t->java_pause + 1 : t->java_pause;
	t->java_wait = t->java_pause;
	return 0;
}

/* Whether it still runs what it ran when it was last looked at. */
static __always_inline bool same_task(struct task_state *t)
{
	if (!t->java_task || user_word(t->java_entry - t->java_slot) != t->java_task)
		return false;
	return collections_now(&t->facts.java) == t->java_collections;
}

static __always_inline void take_task(struct task_state *t, __u64 cause)
{
	t->java_task_for = cause;
	take(&t->job, cause, cause ? WS_EV_COROUTINE : WS_EV_INFERRED);
	t->job.state = cause ? ACTS_LENT : ACTS_OWN;
	t->job.told = 1;
}

/* Before a thread of the platform sends or connects: whether it is a worker, which acts for whom its task was made (t->job). */
__noinline int look_at_task(struct task_state *t)
{
	struct java_search *s = java_search();
	struct allocations *all;
	__u32 slot;

	if (!t || !s || !t->facts.java.entry)
		return 0;
	if (!t->java_thread)
		virtual_thread(t);
	if (!t->java_thread || t->java_serves || t->java_mounts || t->loop)
		return 0;
	if (!t->java_entry)
		find_entry(t);
	if (t->java_entry == JAVA_NO_ENTRY)
		return 0;
	if (t->java_slot && same_task(t)) {
		if (t->job.cause != t->java_task_for)
			take_task(t, t->java_task_for);
		return 1;
	}
	all = allocations_of(bpf_get_current_task_btf()->tgid, 0);
	if (!all)
		return 0;
	slot = t->java_slot ?: all->task_slot;
	t->java_task = slot ? user_word(t->java_entry - slot) : 0;
	t->java_collections = all->collections;
	if (slot && (is_task(t, s, t->java_task) || has_moved(t, all, s))) {
		t->java_slot = slot;
		t->java_misses = 0;
		take_task(t, s->found.cause);
		return 1;
	}
	if (slot && t->java_misses < JAVA_MISSES) {
		t->java_misses++;
		if (t->java_slot)
			take_task(t, 0);
		return t->java_slot != 0;
	}
	t->java_slot = find_slot(t, s);
	if (t->java_slot) {
		all->task_slot = t->java_slot;
		t->java_misses = 0;
		take_task(t, s->best.cause);
	}
	return t->java_slot != 0;
}

#endif
