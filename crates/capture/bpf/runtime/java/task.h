/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The task that a worker of a Java executor runs. Its place on the stack (place.h) is the same for all workers of a
 * pool. A task counts only if its maker had read the request itself.
 *
 * Once the place is known, a worker acts for the cause of its task, or for an unknown request if the task has no known
 * cause. The thread that woke it, and its last task, do not matter. Event loops run tasks, too (loop.h).
 */
#ifndef WS_JAVA_TASK_H
#define WS_JAVA_TASK_H

#define JAVA_MISSES 16	    /* misses in a row after which the place has changed, because the loop was compiled */
#define JAVA_CHECKS 64	    /* in every so many tasks of a worker… */
#define JAVA_CHECKS_FIRST 2 /* …the first ones are checked for recycled objects */

/* Whether a platform thread acts for its task, not for the request that it has read. */
__noinline int acts_for_task(struct java_thread *j)
{
	if (!j)
		return 0;
	if (j->inner_runs) {
		/* Programs that change a message ask this before the task is looked up. */
		if (inner_word(j->inner_at) != j->inner_task)
			take_task(j, 0, 0);
		return 1;
	}
	if (!j->slot)
		return j->unsure;
	if (!j->loop)
		return !j->serves && same_task(j);
	if (!runs_task(j))
		return 0;
	if (!same_task(j))
		take_task(j, 0, 0);
	return 1;
}

/*
 * Whether a loop has made the task, so that an object to which it refers shows the cause (path.h). The collector may
 * have moved that object.
 */
static __always_inline bool look_behind_task(struct java_thread *j, struct allocations *all, struct java_search *s,
					     __u32 when)
{
	int found = all->sent_by_others ? look_at_paths(j) : WORK_IS_ELSEWHERE;

	if (found == WORK_MAY_HAVE_MOVED && find_moved(j, all) && (s->found.bytes & WS_MARK_FLAGS) == WS_MARK_OWN)
		found = WORK_FOUND;
	if (found) {
		j->slot = j->root;
		j->task = user_word(j->entry - j->root);
		j->collections = all->collections;
		take_task(j, found == WORK_FOUND ? s->found.cause : 0, 0);
		return true;
	}
	if (when)
		return false;
	if (all->path_wait)
		all->path_wait--;
	else if (find_path(j, s))
		all->path_pause = 0;
	else
		look_later(&all->path_pause, &all->path_wait,
			   all->next < JAVA_PATH_EARLY ? JAVA_EARLY_PAUSE : JAVA_PATH_PAUSE);
	return false;
}

/* Whether the task object of a worker (j->task) is recycled: used for one request after the other. */
static __always_inline bool is_task_recycled(struct java_thread *j)
{
	if (j->task != j->last || j->recycled_at != java_recycled_classes) {
		struct java_class_key class = class_of(j->task);

		j->recycled = is_of_recycled(&class);
		j->last = j->task;
		j->recycled_at = java_recycled_classes;
	}
	return j->recycled;
}

/*
 * Checks for some tasks whether the object in the place of the task was run before, on this or another stack. If so,
 * its birth does not show the cause.
 */
static __always_inline bool is_used_again(struct java_thread *j)
{
	struct java_class_key class;

	if (j->checks++ % JAVA_CHECKS >= JAVA_CHECKS_FIRST)
		return false;
	class = class_of(j->task);
	if (is_first_run(j, j->task)) {
		confirm(&class);
		return false;
	}
	recycle(&class, false);
	return true;
}

/* Whether the cause of a worker is known. A function of its own, so that loops do not pay for its variables. */
__noinline int look_at_worker(struct java_thread *j, __u32 when)
{
	struct allocations *all = allocations_of(bpf_get_current_task_btf()->tgid, 0);
	struct java_search *s = java_search();
	__u32 slot;

	if (!j || !all || !s)
		return 0;
	if (all->loops && look_behind_task(j, all, s, when))
		return 1;
	if (j->slot && same_task(j) && !is_task_recycled(j)) {
		if (j->job.cause != j->task_for)
			take_task(j, j->task_for, j->task_by);
		return 1;
	}
	if (is_in_vain(all)) {
		ask(all);
		return 0;
	}
	slot = j->slot ?: all->task_slot;
	j->task = slot ? user_word(j->entry - slot) : 0;
	j->collections = all->collections;
	if (slot && (is_task(j, s, j->task) || has_moved(j, all, s))) {
		j->slot = slot;
		j->misses = 0;
		take_task(j, is_task_recycled(j) || is_used_again(j) ? 0 : s->found.cause, s->found.bytes);
		return 1;
	}
	if (slot && j->misses < JAVA_MISSES) {
		j->misses++;
		if (j->slot)
			take_task(j, 0, 0);
		return j->slot;
	}
	j->slot = find_slot(j, s);
	if (j->slot) {
		all->task_slot = j->slot;
		j->misses = 0;
		take_task(j, s->best.cause, s->best.bytes);
	}
	return j->slot != 0;
}

/*
 * A worker wakes another thread, or is woken: is its task known? The worker sends nothing itself at that moment, and
 * may have taken another task since its last message. The worker need not be the current thread.
 */
__noinline int runs_known_task(struct java_thread *j)
{
	struct java_search *s = java_search();
	__u64 task;

	if (!j || !s || !j->slot || j->loop || j->serves || j->told)
		return 0;
	if (same_task(j))
		return 1;
	task = user_word(j->entry - j->slot);
	if (!is_task(j, s, task))
		return 0;
	j->task = task;
	j->collections = collections_now(&j->facts);
	take_task(j, is_task_recycled(j) || is_used_again(j) ? 0 : s->found.cause, s->found.bytes);
	return 1;
}

enum java_kind { IS_LOOP = 1, IS_WORKER = 2 };

/* The kind of a thread that sends or connects: enum java_kind, or 0 if it does not run tasks of others. */
__noinline int kind_of_thread(struct java_thread *j)
{
	if (!j || !j->facts.entry)
		return 0;
	if (!j->thread)
		virtual_thread(j);
	if (!j->thread || j->mounts || (j->serves && !j->loop))
		return 0;
	if (!j->entry)
		find_entry(j);
	if (j->entry == JAVA_NO_ENTRY)
		return 0;
	return j->loop ? IS_LOOP : IS_WORKER;
}

/*
 * Whether a worker sends the first request on a connection without a certain task of its own. The opener of the
 * connection is better evidence than a task that a loop has made. Returns enum message_bits. A global function.
 */
__noinline int sends_for_opener(struct java_thread *j, __u32 when)
{
	if (!j || !(when & MESSAGE_BEGINS))
		return 0;
	if (j->job.cause && !(j->task_by & WS_MARK_LOOP) && acts_for_task(j))
		return 0;
	if (j->slot)
		take_task(j, 0, 0);
	return MESSAGE_BY_OPENER;
}

/*
 * Called before a platform thread sends or connects (`when` has bits of MESSAGE_NEXT). Finds its task (j->job). Returns
 * enum message_bits.
 */
static __always_inline __u32 look_at_task(struct java_thread *j, __u32 when)
{
	int kind = kind_of_thread(j);

	if (kind == IS_LOOP)
		look_at_loop(j, when & MESSAGE_ANSWERS);
	if (kind != IS_WORKER)
		return 0;
	look_at_worker(j, when);
	return sends_for_opener(j, when);
}

#endif
