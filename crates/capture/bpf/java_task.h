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
#define JAVA_LOOKED_AT 10 /* addresses of a piece */
#define JAVA_PIECES 3  /* of so many first frames */
#define JAVA_PAUSE 32 /* about: so many times it is not looked, where nothing is found */
#define JAVA_LOOP_PAUSE 8
#define JAVA_LATEST 256 /* marks: what a loop runs was not made long ago */
#define JAVA_SURE 4 /* so much more often than elsewhere a loop has had a task at a place… */
#define JAVA_SURER 16 /* …at most, once that is believed */
#define JAVA_INNER_PIECES 8 /* of 640 bytes */
#define JAVA_FIELDS 8
#define JAVA_CLASS 8 /* of an object: its class, in four bytes */
#define JAVA_CALLED 8 /* so often a loop was woken for a task, and none was seen: the place is another now */
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

/* Whether it is known who has made this, since the current thread was born. */
static __always_inline bool is_made(struct task_state *t, struct java_search *s, __u64 object)
{
	__u32 born = bpf_get_current_task_btf()->start_time >> WS_MARK_TICK;

	if (object < t->facts.java.heap_from || object >= t->facts.java.heap_to || object & 7)
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
	if (!is_made(t, s, word))
		return 0;
	if (t->loop ? s->found.buffer != t->java_thread && (!s->slot || s->age < s->best_age) :
		      s->found.cause && s->found.bytes & WS_MARK_OWN && (!s->slot || (__s32)(s->found.tick - s->best.tick) > 0)) {
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
		pieces = JAVA_PIECES;
		s->most = JAVA_LATEST;
	}
	for (__u32 piece = 0; piece < JAVA_PIECES && piece < pieces; piece++) {
		s->above = piece * JAVA_FIRST_FRAMES;
		s->last = s->looked_at = 0;
		if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)(t->java_entry - s->above - JAVA_FIRST_FRAMES)))
			break;
		for (int i = JAVA_WORDS - 1; i >= 0; i--)
			look_at_word(t, s, i);
	}
	s->most = 0;
	if (s->slot) {
		t->java_pause = 0;
		return s->slot;
	}
	t->java_pause = t->java_pause < most ? 2 * t->java_pause + 1 : t->java_pause;
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
	take(&t->job, cause, !cause ? WS_EV_INFERRED : t->loop ? WS_EV_CHILD : WS_EV_COROUTINE);
	t->job.state = cause ? ACTS_LENT : ACTS_OWN;
	t->job.told = 1;
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

/* Of a loop whose place is known, or guessed: whether it runs a task now, not what an event calls for. */
static __always_inline bool runs_task(const struct task_state *t)
{
	return user_word(t->java_entry - t->java_seen_at) != t->java_event;
}

/* Tasks that loops have run, and the classes of those that were run again: their objects are used for one after the other. */
struct java_class_key {
	__u32 pid;
	__u32 class;
};

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

/* Whether it says nothing when this task was made, which a loop begins to run. */
__noinline int is_recycled(struct task_state *t)
{
	struct java_search *s = java_search();
	struct java_class_key class = {};
	__u8 yes = 1;

	if (!t || !s)
		return 0;
	class.pid = bpf_get_current_task_btf()->tgid;
	class.class = user_word(t->java_task + JAVA_CLASS);
	if (bpf_map_lookup_elem(&java_recycled, &class))
		return 1;
	s->moved.object = t->java_task;
	s->moved.pid = class.pid;
	s->moved.collections = t->java_collections;
	if (!bpf_map_update_elem(&java_ran, &s->moved, &yes, BPF_NOEXIST))
		return 0;
	bpf_map_update_elem(&java_recycled, &class, &yes, BPF_ANY);
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
	for (int i = 0; i < JAVA_FIELDS; i++) {
		if (!is_task(t, s, (__u64)s->fields[i] << shift) || (s->slot && s->age >= s->best_age))
			continue;
		s->slot = 1;
		s->best = s->found;
		s->best_age = s->age;
	}
	s->most = 0;
	return s->slot;
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
	sp = WS_SP((struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf()));
	if (t->java_inner && user_word(sp + t->java_inner) == t->java_task) {
		t->java_inner_seen += t->java_inner_seen < JAVA_SURE;
		return 0;
	}
	if (t->java_inner_seen > 1) {
		t->java_inner_seen -= 2;
		return 0;
	}
	t->java_inner_seen = 0;
	s->inner = 0;
	for (__u32 piece = 0; piece < JAVA_INNER_PIECES; piece++) {
		if (s->inner || bpf_probe_read_user(s->words, sizeof(s->words), (void *)(sp + piece * sizeof(s->words))))
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
	task = user_word(WS_SP((struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf())) + t->java_inner);
	if (task < t->facts.java.heap_from || task >= t->facts.java.heap_to || (__u32)user_word(task + JAVA_CLASS) != t->java_class)
		return 0;
	if (!is_task(t, s, task))
		return 0;
	runs = t->java_slot && runs_task(t);
	if (runs && user_word(t->java_entry - t->java_slot) != task && !--t->java_seen)
		t->java_slot = 0;
	if (!runs && s->found.cause == t->acts.cause)
		return 1;
	t->java_called = 0;
	take_task(t, s->found.cause);
	t->java_inner_runs = runs ? RUNS_TASK : RUNS_IN_EVENT;
	return 1;
}

/*
 * A loop that runs tasks between its events: if it runs one now, it acts for whom that was made.
 */
__noinline int look_at_loop(struct task_state *t, struct allocations *all, bool answers)
{
	struct java_search *s = java_search();

	if (!t || !all || !s)
		return 0;
	if (t->java_slot) {
		t->java_called = 0;
		t->java_task = user_word(t->java_entry - t->java_slot);
		t->java_collections = all->collections;
		if (t->java_task >= t->facts.java.heap_from && t->java_task < t->facts.java.heap_to && is_recycled(t)) {
			take_task(t, look_into_task(t, s) ? s->best.cause : 0);
			return 0;
		}
		if (is_task(t, s, t->java_task) || has_moved(t, all, s)) {
			if (s->found.buffer != t->java_thread && t->java_seen < JAVA_SURER)
				t->java_seen++;
			find_inner(t, s);
			take_task(t, s->found.cause);
			return 0;
		}
		take_task(t, 0);
		if (answers || --t->java_seen)
			return 0;
		t->java_slot = 0;
	}
	/* Where another loop has them, which was there before when its code was compiled. */
	t->java_task = user_word(t->java_entry - all->loop_slot);
	if (all->loop_slot && t->java_task != t->java_last && is_made(t, s, t->java_task) && s->found.buffer != t->java_thread) {
		t->java_slot = t->java_seen_at = all->loop_slot;
		t->java_seen = JAVA_SURE / 2;
		t->java_event = 0;
		t->java_collections = all->collections;
		take_task(t, s->found.bytes & WS_MARK_OWN ? s->found.cause : 0);
		return 0;
	}
	/* There are tasks, and it is not known yet what is one. */
	t->java_unsure = all->loop_slot != 0;
	if (t->java_unsure)
		take_task(t, 0);
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
	take_task(t, s->best.bytes & WS_MARK_OWN ? s->best.cause : 0);
	return 0;
}

/* It answers in an event another request than that which it deals with: this is no event, and the place is another. */
static __always_inline void answers_another(struct task_state *t)
{
	t->acts.told = 0;
	if (t->java_seen > JAVA_SURE)
		t->java_seen -= JAVA_SURE;
	else
		t->java_slot = t->java_seen = 0;
}

/* Whether a thread of the platform acts for its task, not for what it has read. */
__noinline int acts_for_task(struct task_state *t)
{
	if (!t || !t->java_slot || t->java_inner_runs)
		return t && (t->java_unsure || t->java_inner_runs);
	if (!t->loop)
		return !t->java_serves && same_task(t);
	if (!runs_task(t))
		return 0;
	if (!same_task(t))
		take_task(t, 0);
	return 1;
}

/* Before a thread of the platform sends or connects: whether it is a worker, which acts for whom its task was made (t->job). */
__noinline int look_at_task(struct task_state *t, bool answers)
{
	struct java_search *s = java_search();
	struct allocations *all;
	__u32 slot;

	if (!t || !s || !t->facts.java.entry)
		return 0;
	if (!t->java_thread)
		virtual_thread(t);
	if (!t->java_thread || t->java_mounts || (t->java_serves && !t->loop))
		return 0;
	if (!t->java_entry)
		find_entry(t);
	if (t->java_entry == JAVA_NO_ENTRY)
		return 0;
	t->java_inner_runs = 0;
	if (t->loop && !answers && look_at_inner(t))
		return 0;
	if (t->loop && t->java_slot && t->java_called == JAVA_CALLED && !runs_task(t))
		t->java_slot = t->java_seen = t->java_called = 0;
	if (t->loop && t->java_slot && !runs_task(t))
		return 0;
	if (t->java_slot && same_task(t)) {
		if (t->job.cause != t->java_task_for)
			take_task(t, t->java_task_for);
		return 1;
	}
	all = allocations_of(bpf_get_current_task_btf()->tgid, 0);
	if (!all)
		return 0;
	if (t->loop)
		return look_at_loop(t, all, answers);
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
