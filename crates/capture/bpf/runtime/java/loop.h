/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A loop of Java that waits for events of many sockets, and runs tasks between them, which others have put into its queue (Netty). What it reads
 * it deals with at once. What it sends is for that, or for whom the task was made that it runs, which stands on its stack at two places:
 *
 *  - below its first frames, where the loop has it (place.h). What stands there when something is read is no task: while that stands there, an
 *    event is dealt with. Methods are compiled meanwhile, and places change: the place is believed while it shows tasks more often
 *    than not, and given up where answers refute it, or where the loop is woken for tasks and shows none.
 *  - above the end of the stack, where the task calls what sends: learnt from the first. There it is found also where an event has called it:
 *    a queue (of who waits for a connection) is emptied by whoever comes first, and what it finds may be another's.
 *
 * Objects that are used for one task after the other say nothing: what they refer to does.
 *
 * Not seen: what a loop makes for others in a task before it says anything in it. That is taken for its last event's; the traces put it on trial,
 * as what a child does.
 */
#ifndef WS_JAVA_LOOP_H
#define WS_JAVA_LOOP_H

#define JAVA_SURE 4	    /* so much more often than elsewhere a loop has had a task at a place… */
#define JAVA_SURER 16	    /* …at most, once that is believed */
#define JAVA_CALLED 8	    /* so often a loop was woken for a task, and none was seen */
#define JAVA_INNER_PIECES 8 /* of JAVA_FIRST_FRAMES bytes */
#define JAVA_RECYCLED \
	4 /* so many more objects of a class were seen again than not: they are used for one request after the other */
#define JAVA_CLASS 8 /* of an object: its class, in four bytes */

/* Of a loop whose place is known, or guessed: whether it runs a task now, not what an event calls for. */
static __always_inline bool runs_task(const struct task_state *t)
{
	return user_word(t->java_entry - t->java_seen_at) != t->java_event;
}

/*
 * A loop reads, which is an event: what stands now where its tasks do is not a task, but what that frame has there instead, or what
 * was left of the last one.
 */
static __always_inline void look_at_event(struct task_state *t)
{
	t->java_unsure = t->java_inner_runs = 0;
	if (t->loop)
		t->java_task = 0; /* what it ran has ended: if it is there again, it is used again */
	if (t->loop && t->java_seen)
		t->java_event = user_word(t->java_entry - t->java_seen_at);
}

/* Tasks that loops have run, and the classes of those that were run again: their objects are used for one after the other. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct moved_key);
	__type(value, __u8);
} java_ran SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct java_class_key);
	__type(value, __u8);
} java_recycled SEC(".maps");

__u32 java_worn; /* so many have been found */

static __always_inline struct java_class_key class_of(__u64 object)
{
	return (struct java_class_key){ .pid = bpf_get_current_task_btf()->tgid,
					.class = user_word(object + JAVA_CLASS) };
}

/* Whether nobody has run this object before. */
static __always_inline bool is_first_run(struct task_state *t, __u64 object)
{
	struct java_search *s = java_search(); /* before Linux 6.2 no key is read where an argument points */

	if (!s)
		return false;
	s->moved.object = object;
	s->moved.pid = bpf_get_current_task_btf()->tgid;
	s->moved.collections = t->java_collections;
	return !bpf_map_update_elem(&java_ran, &s->moved, &s->moved,
				    BPF_NOEXIST); /* the value says nothing, and the stack is short */
}

static __always_inline bool is_of_recycled(const struct java_class_key *class)
{
	__u8 *often = bpf_map_lookup_elem(&java_recycled, class);

	return often && *often >= JAVA_RECYCLED;
}

/* Another of this class: a loop sees itself that it has run it before; what a worker concludes may be wrong once. */
static __always_inline void recycle(const struct java_class_key *class, bool certain)
{
	__u8 *often = bpf_map_lookup_elem(&java_recycled, class), now;

	if (often && *often >= JAVA_RECYCLED)
		return;
	now = certain ? JAVA_RECYCLED : often ? *often + 1 : 1;
	bpf_map_update_elem(&java_recycled, class, &now, BPF_ANY);
	java_worn++;
}

/* What a worker sends was made for whom its task was. */
static __always_inline void confirm(const struct java_class_key *class)
{
	__u8 *often = bpf_map_lookup_elem(&java_recycled, class);

	if (often && *often && *often < JAVA_RECYCLED)
		--*often;
}

/* Whether it says nothing when this task was made, which somebody begins to run. */
__noinline int is_recycled(struct task_state *t)
{
	struct java_search *s = java_search();
	struct java_class_key class;

	if (!t || !s)
		return 0;
	class = class_of(t->java_task);
	if (is_of_recycled(&class))
		return 1;
	if (is_first_run(t, t->java_task))
		return 0;
	recycle(&class, true);
	return 1;
}

/*
 * Whether it is known for whom what a task refers to was made: the newest. References have four bytes, shifted if the heap is large;
 * s->found is that of the task if none is known.
 */
__noinline int look_into_task(struct task_state *t, struct java_search *s)
{
	__u32 shift = t && t->facts.java.heap_to > 1ULL << 32 ? 3 : 0;

	if (!t || !s || bpf_probe_read_user(s->fields, sizeof(s->fields), (void *)(t->java_task + JAVA_CLASS + 4)))
		return 0;
	s->slot = 0;
	s->most = JAVA_LATEST;
	for (int i = 0; i < (int)(sizeof(s->fields) / sizeof(s->fields[0])); i++) {
		if (!is_task(t, s, (__u64)s->fields[i] << shift) || (s->slot && s->age >= s->best_age))
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
 * Where a task stands below which something is sent, above the end of the stack: there, it is found also if an event has called it, which may
 * be another one's task: a queue is emptied by whoever comes first.
 */
__noinline int find_inner(struct task_state *t, struct java_search *s)
{
	__u64 sp;

	if (!t || !s)
		return 0;
	if (t->java_inner && inner_word(t->java_inner) == t->java_task) {
		t->java_inner_seen += t->java_inner_seen < JAVA_SURE;
		return 0;
	}
	if (t->java_inner_seen > 1) {
		t->java_inner_seen -= 2;
		return 0;
	}
	t->java_inner_seen = 0;
	s->inner = 0;
	sp = WS_SP((struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf()));
	for (__u32 piece = 0; piece < JAVA_INNER_PIECES; piece++) {
		if (s->inner ||
		    bpf_probe_read_user(s->words, sizeof(s->words), (void *)(sp + piece * sizeof(s->words))))
			break;
		for (int i = JAVA_WORDS - 1; i >= 0; i--)
			if (s->words[i] == t->java_task)
				s->inner = piece * sizeof(s->words) + 8 * i;
	}
	t->java_inner = s->inner;
	t->java_class = user_word(t->java_task + JAVA_CLASS);
	return 0;
}

/*
 * Whether what sends now is a task, by that place, and takes what it was made for: also where the other place shows what was left of an earlier one,
 * and if an event has called it.
 */
__noinline int look_at_inner(struct task_state *t)
{
	struct java_search *s = java_search();
	bool runs;
	__u64 task;

	if (!t || !s || t->java_inner_seen < JAVA_SURE)
		return 0;
	task = inner_word(t->java_inner);
	if (!in_heap(t, task) || (__u32)user_word(task + JAVA_CLASS) != t->java_class)
		return 0;
	if (!is_task(t, s, task))
		return 0;
	runs = t->java_slot && runs_task(t);
	if (runs && user_word(t->java_entry - t->java_slot) != task && !--t->java_seen)
		t->java_slot = 0;
	if (!runs && s->found.cause == t->acts.cause)
		return 1;
	t->java_called = 0;
	take_task(t, s->found.cause, 0);
	t->java_inner_task = task;
	t->java_inner_at = t->java_inner;
	t->java_inner_runs = runs ? RUNS_TASK : RUNS_IN_EVENT;
	return 1;
}

/* Before a loop sends, or connects: if it runs a task now, it acts for whom that was made. */
__noinline int look_at_loop(struct task_state *t, bool answers)
{
	struct java_search *s = java_search();
	struct allocations *all = allocations_of(bpf_get_current_task_btf()->tgid, 0);

	if (!t || !all || !s)
		return 0;
	t->java_inner_runs = 0;
	if (!answers && look_at_inner(t))
		return 0;
	if (t->java_slot && !runs_task(t)) {
		if (t->java_called < JAVA_CALLED)
			return 0;
		t->java_slot = t->java_seen = t->java_called = 0;
	}
	if (t->java_slot && same_task(t)) {
		if (t->job.cause != t->java_task_for)
			take_task(t, t->java_task_for, 0);
		return 0;
	}
	if (t->java_slot) {
		t->java_called = 0;
		t->java_task = user_word(t->java_entry - t->java_slot);
		t->java_collections = all->collections;
		if (in_heap(t, t->java_task) && is_recycled(t)) {
			take_task(t, look_into_task(t, s) ? s->best.cause : 0, 0);
			return 0;
		}
		if (is_task(t, s, t->java_task) || has_moved(t, all, s)) {
			if (s->found.buffer != t->java_thread && t->java_seen < JAVA_SURER)
				t->java_seen++;
			find_inner(t, s);
			take_task(t, s->found.cause, 0);
			return 0;
		}
		take_task(t, 0, 0);
		if (answers || --t->java_seen)
			return 0;
		t->java_slot = 0;
	}
	/* Where another loop has them, which was there before when its code was compiled. */
	t->java_task = user_word(t->java_entry - all->loop_slot);
	if (all->loop_slot && t->java_task != t->java_last && is_made(t, s, t->java_task) &&
	    s->found.buffer != t->java_thread) {
		t->java_slot = t->java_seen_at = all->loop_slot;
		t->java_seen = JAVA_SURE / 2;
		t->java_event = 0;
		t->java_collections = all->collections;
		take_task(t, s->found.bytes & WS_MARK_OWN ? s->found.cause : 0, 0);
		return 0;
	}
	/* There are tasks, and it is not known yet what is one. */
	t->java_unsure = all->loop_slot != 0;
	if (t->java_unsure)
		take_task(t, 0, 0);
	if (answers || !find_slot(t, s) || t->java_task == t->java_last)
		return 0;
	t->java_last = t->java_task;
	if (!t->java_seen) {
		t->java_seen_at = s->slot;
		t->java_event = 0;
	} else if (t->java_seen_at != s->slot) {
		t->java_seen--;
		return 0;
	}
	if (++t->java_seen < JAVA_SURE)
		return 0;
	t->java_slot = all->loop_slot = s->slot;
	t->java_collections = all->collections;
	take_task(t, s->best.bytes & WS_MARK_OWN ? s->best.cause : 0, 0);
	return 0;
}

/* It answers in an event another request than that which it deals with: this is no event, and the place is another. */
static __always_inline void answers_another(struct task_state *t)
{
	t->acts.authoritative = 0;
	if (t->java_seen > JAVA_SURE)
		t->java_seen -= JAVA_SURE;
	else
		t->java_slot = t->java_seen = 0;
}

#endif
