/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a worker of an executor of Java runs: the task whose place on its stack place.h finds, the same for all workers of a pool. Only
 * what was made for a request that its maker had read itself counts.
 *
 * Once the place is known, a worker is believed to act for whom its task was made, and for somebody who is not known if that cannot
 * be told: whoever woke it, and whatever its last task was. Loops of events run tasks, too (loop.h).
 */
#ifndef WS_JAVA_TASK_H
#define WS_JAVA_TASK_H

#define JAVA_MISSES 16	    /* in a row: the place is another now, as the loop was compiled */
#define JAVA_CHECKS 64	    /* so many times a worker has taken a task; its first ones are looked at closely… */
#define JAVA_CHECKS_FIRST 2 /* …so many of them */

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

/* Whether a loop has made what it runs, and what that refers to says for whom. The collector may have moved it. */
static __always_inline bool look_behind_task(struct task_state *t, struct allocations *all, struct java_search *s,
					     __u32 when)
{
	int found = all->sent_by_others ? look_at_paths(t) : WORK_IS_ELSEWHERE;

	if (found == WORK_MAY_HAVE_MOVED && find_moved(t, all) && (s->found.bytes & WS_MARK_FLAGS) == WS_MARK_OWN)
		found = WORK_FOUND;
	if (found) {
		t->java_slot = t->java_root;
		t->java_task = user_word(t->java_entry - t->java_root);
		t->java_collections = all->collections;
		take_task(t, found == WORK_FOUND ? s->found.cause : 0, 0);
		return true;
	}
	if (when)
		return false;
	if (all->path_wait)
		all->path_wait--;
	else if (find_path(t, s))
		all->path_pause = 0;
	else
		look_later(&all->path_pause, &all->path_wait,
			   all->next < JAVA_PATH_EARLY ? JAVA_EARLY_PAUSE : JAVA_PATH_PAUSE);
	return false;
}

/* Of a worker: whether its task, which stands in t->java_task, is used for one request after the other. */
static __always_inline bool is_worn(struct task_state *t)
{
	if (t->java_task != t->java_last || t->java_worn_at != java_worn) {
		struct java_class_key class = class_of(t->java_task);

		t->java_worn = is_of_recycled(&class);
		t->java_last = t->java_task;
		t->java_worn_at = java_worn;
	}
	return t->java_worn;
}

/* Now and then a worker looks, when it begins, whether what it takes for its task stood on another stack before. Then it is none. */
static __always_inline bool is_used_again(struct task_state *t)
{
	struct java_class_key class;

	if (t->java_checks++ % JAVA_CHECKS >= JAVA_CHECKS_FIRST)
		return false;
	class = class_of(t->java_task);
	if (is_first_run(t, t->java_task)) {
		confirm(&class);
		return false;
	}
	recycle(&class, false);
	return true;
}

/* Of a worker: whether it is known for whom it sends. Of its own: its variables would count for loops, too. */
__noinline int look_at_worker(struct task_state *t, __u32 when)
{
	struct allocations *all = allocations_of(bpf_get_current_task_btf()->tgid, 0);
	struct java_search *s = java_search();
	__u32 slot;

	if (!t || !all || !s)
		return 0;
	if (all->loops && look_behind_task(t, all, s, when))
		return 1;
	if (t->java_slot && same_task(t) && !is_worn(t)) {
		if (t->job.cause != t->java_task_for)
			take_task(t, t->java_task_for, t->java_task_by);
		return 1;
	}
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
		take_task(t, is_worn(t) || is_used_again(t) ? 0 : s->found.cause, s->found.bytes);
		return 1;
	}
	if (slot && t->java_misses < JAVA_MISSES) {
		t->java_misses++;
		if (t->java_slot)
			take_task(t, 0, 0);
		return t->java_slot;
	}
	t->java_slot = find_slot(t, s);
	if (t->java_slot) {
		all->task_slot = t->java_slot;
		t->java_misses = 0;
		take_task(t, s->best.cause, s->best.bytes);
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
	/* What a loop has made says less than who has connected. */
	t->java_begins = kind == IS_WORKER && when & LOOK_BEGINS &&
			 !(t->job.cause && !(t->java_task_by & WS_MARK_LOOP) && acts_for_task(t));
	if (t->java_begins && t->java_slot)
		take_task(t, 0, 0);
}

#endif
