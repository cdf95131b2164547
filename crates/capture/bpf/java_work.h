/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A worker whose task does not say for whom it works: the same object is run for one request after the other, or a loop has made it, which
 * says little (java_loop.h). The JDK's client sends so: a task that its loop makes asks the object of a connection to send what it
 * has been given. But what is sent stands on the stack, too: next to its end, the first object that a thread has made for a request that
 * it had read, and that was not on a stack before when something was sent: what is sent is not sent again. Where it stands, and of
 * which class it is, is learnt, and looked at first.
 */
#ifndef WS_JAVA_WORK_H
#define WS_JAVA_WORK_H

#define JAVA_WORK_MARKS 2048 /* what is sent was made of late */
#define JAVA_WORK_OBJECTS 24 /* looked at of a piece of JAVA_FIRST_FRAMES bytes */
#define JAVA_WORK_CHECKS 64  /* so many times a worker has sent for its task; its first ones are looked at closely… */
#define JAVA_WORK_FIRST 2    /* …so many of them */

enum work { WORK_FOUND = 1, WORK_MAY_HAVE_MOVED = 2, WORK_IS_ELSEWHERE = 3 };

/* Classes of what has been sent, as often as a place is believed. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct java_class_key);
	__type(value, __u8);
} java_sent SEC(".maps");

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

/* Made by a thread for a request that it had read. */
static __always_inline bool is_work(struct task_state *t, struct java_search *s, __u64 object)
{
	if (!in_heap(t, object) || object & 7)
		return false;
	s->object = object;
	return find_mark(t, s) && s->found.cause && (s->found.bytes & WS_MARK_FLAGS) == WS_MARK_OWN;
}

/* Whether it is this word of the stack. Of its own, and its loop without a way out: Linux 6.1 takes no other. */
__noinline int look_at_work(struct task_state *t, struct java_search *s, __u32 i)
{
	struct java_class_key class;
	__u64 word;
	bool sent;

	if (!t || !s)
		return 0;
	word = next_object(t, s, i, JAVA_WORK_OBJECTS);
	if (!word || !is_work(t, s, word) || !is_first_run(t, word))
		return 0;
	class = class_of(word);
	sent = bpf_map_lookup_elem(&java_sent, &class) != NULL;
	if (s->inner && (s->is_sent || !sent))
		return 0;
	s->best = s->found;
	s->is_sent = sent;
	s->inner = s->above + 8 * i;
	s->work = word;
	return 0;
}

static __always_inline int take_work(struct task_state *t, __u64 object, __u32 at, __u64 cause, __u32 by)
{
	t->java_inner_task = object;
	t->java_inner_at = at;
	t->java_inner_for = cause;
	t->java_inner_runs = RUNS_TASK;
	take_task(t, cause, by);
	return WORK_FOUND;
}

/* What was found stands there: whether often enough to be believed. */
static __always_inline bool learn_work(struct task_state *t, struct java_search *s)
{
	struct allocations *all;

	s->class = class_of(s->work);
	t->java_inner_seen = s->inner != t->java_inner ? 1 : t->java_inner_seen < JAVA_SURE ? t->java_inner_seen + 1 : JAVA_SURE;
	t->java_inner = s->inner;
	t->java_class = s->class.class;
	if (t->java_inner_seen == JAVA_SURE) {
		bpf_map_update_elem(&java_sent, &s->class, &s->class, BPF_ANY);
		all = allocations_of(bpf_get_current_task_btf()->tgid, 0);
		if (all)
			all->sent_by_others = 1;
	}
	return s->is_sent || t->java_inner_seen > 1;
}

/* Looks through the stack, from its end to the first frames. The stack of these functions is short: what is done with it is the matter of take_found(). */
__noinline int find_work(struct task_state *t)
{
	struct java_search *s = java_search();
	__u64 sp;

	if (!t || !s)
		return 0;
	if (t->java_inner_wait) {
		t->java_inner_wait--;
		return 0;
	}
	s->inner = s->is_sent = 0;
	s->most = JAVA_WORK_MARKS;
	sp = WS_SP((struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf()));
	for (__u32 piece = 0; piece < JAVA_INNER_PIECES; piece++) {
		s->above = piece * sizeof(s->words);
		s->last = s->looked_at = 0;
		if (sp + s->above + JAVA_FIRST_FRAMES >= t->java_entry ||
		    bpf_probe_read_user(s->words, sizeof(s->words), (void *)(sp + s->above)))
			break;
		for (int i = 0; i < JAVA_WORDS; i++)
			look_at_work(t, s, i);
	}
	s->most = 0;
	if (!s->inner) {
		look_later(&t->java_inner_pause, &t->java_inner_wait, JAVA_PAUSE);
		return 0;
	}
	t->java_inner_pause = 0;
	return 1;
}

/*
 * Takes what was found. With the first request on a connection objects of the connection stand there, too, which teach no place; and what was left of
 * earlier calls may lie between: only what is known to be sent counts.
 */
__noinline int take_found(struct task_state *t, __u32 when)
{
	struct java_search *s = java_search();
	bool sure;

	if (!t || !s || (when & LOOK_BEGINS && !s->is_sent))
		return 0;
	sure = when & LOOK_BEGINS || learn_work(t, s);
	return take_work(t, s->work, s->inner, s->best.cause, sure ? 0 : WS_MARK_LOOP);
}

/* Whether it is known for whom a worker works, by where that stood before, and takes that. */
__noinline int look_at_place(struct task_state *t, __u32 when)
{
	struct java_search *s = java_search();
	__u64 word;

	if (!t || !s || when & LOOK_CONNECTS)
		return 0;
	t->java_collections = collections_now(&t->facts.java);
	if (when & LOOK_GOES_ON && t->java_inner_task && inner_word(t->java_inner_at) == t->java_inner_task)
		return take_work(t, t->java_inner_task, t->java_inner_at, t->java_inner_for, 0);
	if (t->java_inner_seen < JAVA_SURE || when & LOOK_BEGINS)
		return WORK_IS_ELSEWHERE;
	word = inner_word(t->java_inner);
	if ((__u32)user_word(word + JAVA_CLASS) != t->java_class || !in_heap(t, word) || !is_first_run(t, word))
		return WORK_IS_ELSEWHERE;
	if (is_work(t, s, word))
		return take_work(t, word, t->java_inner, s->found.cause, 0);
	t->java_inner_task = word;
	return WORK_MAY_HAVE_MOVED;
}

static __always_inline int look_at_work_of(struct task_state *t, __u32 when)
{
	int found = look_at_place(t, when);

	if (found == WORK_IS_ELSEWHERE)
		found = find_work(t) ? take_found(t, when) : 0;
	return found;
}

/* The same; looked at here, where fewer functions have been called, if the collector may have moved it. */
static __always_inline int look_for_work(struct task_state *t, struct allocations *all, struct java_search *s, __u32 when)
{
	int found = look_at_work_of(t, when);

	if (found != WORK_MAY_HAVE_MOVED)
		return found;
	s->object = t->java_inner_task;
	if (find_moved(t, all) && (s->found.bytes & WS_MARK_FLAGS) == WS_MARK_OWN)
		return take_work(t, s->object, t->java_inner, s->found.cause, 0);
	t->java_inner_seen--;
	return 0;
}

/* A worker begins: whether the task that it is believed to have stood on another stack before. Then it is none. */
static __always_inline bool is_known(struct task_state *t)
{
	struct java_class_key class;

	if (t->java_checks++ % JAVA_WORK_CHECKS >= JAVA_WORK_FIRST)
		return false;
	class = class_of(t->java_task);
	if (is_first_run(t, t->java_task)) {
		confirm(&class);
		return false;
	}
	recycle(&class, false);
	take_task(t, 0, 0);
	return true;
}

/* Now and then: whether what it works on was made for another request than its task: that is used for one after the other, then. */
static __always_inline bool is_refuted(struct task_state *t, __u32 when)
{
	__u8 checks = t->java_checks++ % JAVA_WORK_CHECKS;
	struct java_class_key class;
	__u64 cause = t->java_task_for;
	__u32 by = t->java_task_by;

	if (checks >= JAVA_WORK_FIRST || look_at_work_of(t, when) != WORK_FOUND)
		return false;
	class = class_of(t->java_task);
	if (t->java_inner_for != cause) {
		recycle(&class, false);
		return true;
	}
	confirm(&class);
	t->java_inner_runs = 0;
	take_task(t, cause, by);
	return false;
}

#endif
