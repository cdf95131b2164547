/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a worker of an executor of Java runs: the task whose place on its stack java_place.h finds, the same for all workers of a pool. Only
 * what was made for a request that its maker had read itself counts.
 *
 * Once the place is known, a worker is believed to act for whom its task was made, and for somebody who is not known if that cannot
 * be told: whoever woke it, and whatever its last task was. Loops of events run tasks, too (java_loop.h).
 */
#ifndef WS_JAVA_TASK_H
#define WS_JAVA_TASK_H

#define JAVA_MISSES 16 /* in a row: the place is another now, as the loop was compiled */

/* Whether a thread of the platform acts for its task, not for what it has read. */
__noinline int acts_for_task(struct task_state *t)
{
	if (!t)
		return 0;
	if (t->java_inner_runs) {
		/* It is asked before it is looked what it runs: who changes a message. */
		if (inner_word(t->java_inner_at) != t->java_inner_task)
			take_task(t, 0, 0);
		return 1;
	}
	if (!t->java_slot)
		return t->java_unsure;
	if (!t->loop)
		return !t->java_serves && same_task(t);
	if (!runs_task(t))
		return 0;
	if (!same_task(t))
		take_task(t, 0, 0);
	return 1;
}

/* Of a worker: whether it is known for whom it sends. Of its own: its variables would count for loops, too. */
__noinline int look_at_worker(struct task_state *t, __u32 when)
{
	struct java_search *s = java_search();
	struct allocations *all;
	__u32 slot;

	if (!t || !s)
		return 0;
	t->java_inner_runs = 0;
	if (t->java_slot && same_task(t) && !is_worn(t) && !is_refuted(t, when)) {
		if (t->job.cause != t->java_task_for)
			take_task(t, t->java_task_for, t->java_task_by);
		return 1;
	}
	all = allocations_of(bpf_get_current_task_btf()->tgid, 0);
	if (!all)
		return 0;
	if (is_in_vain(all)) {
		ask(all);
		return 0;
	}
	slot = t->java_slot ?: all->task_slot;
	t->java_task = slot ? user_word(t->java_entry - slot) : 0;
	t->java_collections = all->collections;
	if (slot && (is_task(t, s, t->java_task) || has_moved(t, all, s))) {
		t->java_slot = slot;
		t->java_misses = 0;
		take_task(t, is_worn(t) ? 0 : s->found.cause, s->found.bytes);
		if (!t->java_task_for || t->java_task_by & WS_MARK_LOOP || is_known(t))
			look_for_work(t, all, s, when);
		return 1;
	}
	if (slot && t->java_misses < JAVA_MISSES) {
		t->java_misses++;
		if (t->java_slot)
			take_task(t, 0, 0);
		return look_for_work(t, all, s, when) || t->java_slot;
	}
	t->java_slot = find_slot(t, s);
	if (t->java_slot) {
		all->task_slot = t->java_slot;
		t->java_misses = 0;
		take_task(t, s->best.cause, s->best.bytes);
		if (t->java_task_by & WS_MARK_LOOP)
			look_for_work(t, all, s, when);
	}
	return t->java_slot != 0;
}

enum java_kind { IS_LOOP = 1, IS_WORKER = 2 };

/* What a thread is that sends or connects, if it may have tasks of others. */
__noinline int kind_of_thread(struct task_state *t)
{
	if (!t || !t->facts.java.entry)
		return 0;
	if (!t->java_thread)
		virtual_thread(t);
	if (!t->java_thread || t->java_mounts || (t->java_serves && !t->loop))
		return 0;
	if (!t->java_entry)
		find_entry(t);
	if (t->java_entry == JAVA_NO_ENTRY)
		return 0;
	return t->loop ? IS_LOOP : IS_WORKER;
}

/* Before a thread of the platform sends or connects (`when`: enum java_when): whether it acts for whom its task was made (t->job). */
static __always_inline void look_at_task(struct task_state *t, __u32 when)
{
	int kind = kind_of_thread(t);

	if (kind == IS_LOOP)
		look_at_loop(t, when & LOOK_ANSWERS);
	else if (kind == IS_WORKER)
		look_at_worker(t, when);
}

#endif
