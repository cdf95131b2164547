/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * An event loop of Java that waits for many sockets, and between events runs tasks that other threads have put into its
 * queue (Netty). The loop handles each event at once. So a send belongs either to the current event or to the running
 * task. The task is found in one of two places on the stack:
 *
 *  - In the first frames, where the loop keeps it (place.h). The word in that place at a read is no task; while the
 *    word stays the same, an event runs. Places change when methods are compiled. So a place is trusted while it shows
 *    tasks more often than not. It is dropped if answers refute it, or if the loop is woken for tasks and it shows
 *    none.
 *  - In the last frames, where the task calls the send. This place is learnt from the first one. It also shows a task
 *    that was called by an event: the first thread to come empties a queue of waiters for a connection, and runs tasks
 *    of other requests.
 *
 * A task object that is used again and again does not show a cause; the objects to which it refers do.
 *
 * Not seen: objects that a loop makes in a task before it sends anything in that task. They count as made for its last
 * event. The solver puts such links on trial, as it does with those of a child.
 *
 * Long because both places are learnt from each other.
 */
#ifndef WS_JAVA_LOOP_H
#define WS_JAVA_LOOP_H

#define JAVA_SURE 4	    /* a place is trusted after so many more hits than misses */
#define JAVA_SURER 16	    /* most hits that are counted */
#define JAVA_CALLED 8	    /* wake-ups for a task without a task at the place, after which the place is dropped */
#define JAVA_INNER_PIECES 8 /* pieces of JAVA_FIRST_FRAMES bytes that are searched */
#define JAVA_RECYCLED \
	4 /* a class is recycled (one object serves many requests) if so many more objects were seen again than not */
#define JAVA_CLASS 8 /* offset in an object of its class, four bytes */

/* Whether a loop runs a task now, and no event. The place of its tasks is known or guessed. */
static __always_inline bool runs_task(const struct java_thread *j)
{
	return user_word(j->entry - j->seen_at) != j->event;
}

/*
 * A loop reads a socket, which is an event. So the word in the place of tasks is no task now, but something else of
 * that frame, or the remains of the last task.
 */
__noinline int look_at_event(struct java_thread *j, __u32 brings_work)
{
	if (!j)
		return 0;
	j->serves |= brings_work & 1;
	j->unsure = j->inner_runs = 0;
	if (j->loop)
		j->task = 0; /* the last task has ended; if the same object is seen again, it is recycled */
	if (j->loop && j->seen)
		j->event = user_word(j->entry - j->seen_at);
	return 0;
}

/*
 * Tasks that loops have run (java_ran), and the classes of tasks that were run again (java_recycled): one object of
 * such a class serves many requests.
 */
WS_TABLE(java_ran, struct moved_key, __u8);

WS_TABLE(java_recycled, struct java_class_key, __u8);

__u32 java_recycled_classes; /* changes when java_recycled does, so that threads decide again */

static __always_inline struct java_class_key class_of(__u64 object)
{
	return (struct java_class_key){ .pid = bpf_get_current_task_btf()->tgid,
					.class = user_word(object + JAVA_CLASS) };
}

/* Whether no thread has run this object before. */
static __always_inline bool is_first_run(struct java_thread *j, __u64 object)
{
	struct java_search *s = java_search(); /* before Linux 6.2, a map key cannot be in memory of an argument */

	if (!s)
		return false;
	s->moved.object = object;
	s->moved.pid = bpf_get_current_task_btf()->tgid;
	s->moved.collections = j->collections;
	/* The value has no meaning; a zero would need room on the stack. */
	return !table_put(&java_ran, &s->moved, &s->moved, BPF_NOEXIST);
}

static __always_inline bool is_of_recycled(const struct java_class_key *class)
{
	__u8 *often = table_find(&java_recycled, class);

	return often && *often >= JAVA_RECYCLED;
}

/*
 * An object of this class was run again. `certain`: a loop has seen itself that it ran the object before. A worker only
 * concludes it, and may be wrong once, so that it takes several such objects.
 */
static __always_inline void recycle(const struct java_class_key *class, bool certain)
{
	__u8 *often = table_find(&java_recycled, class), now;

	if (often && *often >= JAVA_RECYCLED)
		return;
	now = certain ? JAVA_RECYCLED : often ? *often + 1 : 1;
	table_put(&java_recycled, class, &now, BPF_ANY);
	java_recycled_classes++;
}

/* A worker runs a new object of this class, which speaks against its being recycled. */
static __always_inline void confirm(const struct java_class_key *class)
{
	__u8 *often = table_find(&java_recycled, class);

	if (often && *often && *often < JAVA_RECYCLED)
		--*often;
}

/* Whether the task that a loop begins to run is recycled, so that the mark of its birth does not show its cause. */
__noinline int is_recycled(struct java_thread *j)
{
	struct java_search *s = java_search();
	struct java_class_key class;

	if (!j || !s)
		return 0;
	class = class_of(j->task);
	if (is_of_recycled(&class))
		return 1;
	if (is_first_run(j, j->task))
		return 0;
	recycle(&class, true);
	return 1;
}

/*
 * Finds the newest object to which a task refers and whose cause is known (s->best); false if there is none. References
 * have four bytes, and are shifted if the heap is large.
 */
__noinline int look_into_task(struct java_thread *j, struct java_search *s)
{
	__u32 shift = j && j->facts.heap_to > 1ULL << 32 ? 3 : 0;

	if (!j || !s || bpf_probe_read_user(s->fields, sizeof(s->fields), (void *)(j->task + JAVA_CLASS + 4)))
		return 0;
	s->slot = 0;
	s->most = JAVA_LATEST;
	for (int i = 0; i < (int)(sizeof(s->fields) / sizeof(s->fields[0])); i++) {
		if (!is_task(j, s, (__u64)s->fields[i] << shift) || (s->slot && s->age >= s->best_age))
			continue;
		s->slot = 1;
		s->best = s->found;
		s->best_age = s->age;
	}
	s->most = 0;
	return s->slot;
}

static __always_inline __u64 inner_word(__u32 place)
{
	return user_word(WS_SP((struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf())) + place);
}

/*
 * Learns the place of the current task in the last frames, as a distance from the end of the stack. In that place a
 * task is found also if an event has called it. Such a task may belong to another request, because the first thread to
 * come empties a queue.
 */
__noinline int find_inner(struct java_thread *j, struct java_search *s)
{
	__u64 sp;
	int i;

	if (!j || !s)
		return 0;
	if (j->inner && inner_word(j->inner) == j->task) {
		j->inner_seen += j->inner_seen < JAVA_SURE;
		return 0;
	}
	if (j->inner_seen > 1) {
		j->inner_seen -= 2;
		return 0;
	}
	j->inner_seen = 0;
	s->inner = 0;
	sp = WS_SP((struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf()));
	for (__u32 piece = 0; piece < JAVA_INNER_PIECES; piece++) {
		if (s->inner ||
		    bpf_probe_read_user(s->words, sizeof(s->words), (void *)(sp + piece * sizeof(s->words))))
			break;
		i = first_word(s, j->task);
		if (i >= 0)
			s->inner = piece * sizeof(s->words) + 8 * i;
	}
	j->inner = s->inner;
	j->class = user_word(j->task + JAVA_CLASS);
	return 0;
}

/*
 * Whether a task sends now, according to its place in the last frames. If so, the loop acts for the cause of that task.
 * This also holds if the place in the first frames shows an earlier task, and if an event has called the task.
 */
__noinline int look_at_inner(struct java_thread *j)
{
	struct java_search *s = java_search();
	bool runs;
	__u64 task;

	if (!j || !s || j->inner_seen < JAVA_SURE)
		return 0;
	task = inner_word(j->inner);
	if (!in_heap(j, task) || (__u32)user_word(task + JAVA_CLASS) != j->class)
		return 0;
	if (!is_task(j, s, task))
		return 0;
	runs = j->slot && runs_task(j);
	if (runs && user_word(j->entry - j->slot) != task && !--j->seen)
		j->slot = 0;
	if (!runs && s->found.cause == j->cause)
		return 1;
	j->called = 0;
	take_task(j, s->found.cause, 0);
	j->inner_task = task;
	j->inner_at = j->inner;
	j->inner_runs = runs ? RUNS_TASK : RUNS_IN_EVENT;
	return 1;
}

/* Called before a loop sends or connects. If the loop runs a task now, it acts for the cause of that task. */
__noinline int look_at_loop(struct java_thread *j, bool answers)
{
	struct java_search *s = java_search();
	struct allocations *all = allocations_of(bpf_get_current_task_btf()->tgid, 0);

	if (!j || !all || !s)
		return 0;
	j->inner_runs = 0;
	if (!answers && look_at_inner(j))
		return 0;
	if (j->slot && !runs_task(j)) {
		if (j->called < JAVA_CALLED)
			return 0;
		j->slot = j->seen = j->called = 0;
	}
	if (j->slot && same_task(j)) {
		if (j->job.cause != j->task_for)
			take_task(j, j->task_for, 0);
		return 0;
	}
	if (j->slot) {
		j->called = 0;
		j->task = user_word(j->entry - j->slot);
		j->collections = all->collections;
		if (in_heap(j, j->task) && is_recycled(j)) {
			take_task(j, look_into_task(j, s) ? s->best.cause : 0, 0);
			return 0;
		}
		if (is_task(j, s, j->task) || has_moved(j, all, s)) {
			if (s->found.buffer != j->thread && j->seen < JAVA_SURER)
				j->seen++;
			find_inner(j, s);
			take_task(j, s->found.cause, 0);
			return 0;
		}
		take_task(j, 0, 0);
		if (answers || --j->seen)
			return 0;
		j->slot = 0;
	}
	/* Try the place of another loop, which ran first when the code was compiled. */
	j->task = user_word(j->entry - all->loop_slot);
	if (all->loop_slot && j->task != j->last && is_made(j, s, j->task) && s->found.buffer != j->thread) {
		j->slot = j->seen_at = all->loop_slot;
		j->seen = JAVA_SURE / 2;
		j->event = 0;
		j->collections = all->collections;
		take_task(j, s->found.bytes & WS_MARK_OWN ? s->found.cause : 0, 0);
		return 0;
	}
	/* The process has tasks, but this loop's place for them is not known yet. */
	j->unsure = all->loop_slot != 0;
	if (j->unsure)
		take_task(j, 0, 0);
	if (answers || !find_slot(j, s) || j->task == j->last)
		return 0;
	j->last = j->task;
	if (!j->seen) {
		j->seen_at = s->slot;
		j->event = 0;
	} else if (j->seen_at != s->slot) {
		j->seen--;
		return 0;
	}
	if (++j->seen < JAVA_SURE)
		return 0;
	j->slot = all->loop_slot = s->slot;
	j->collections = all->collections;
	take_task(j, s->best.bytes & WS_MARK_OWN ? s->best.cause : 0, 0);
	return 0;
}

/*
 * A loop seems to run an event, but answers another request than that of the event. So it runs a task, and the known
 * place is wrong.
 */
static __always_inline void answers_another(struct java_thread *j)
{
	if (j->seen > JAVA_SURE)
		j->seen -= JAVA_SURE;
	else
		j->slot = j->seen = 0;
}

#endif
