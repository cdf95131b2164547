/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * HAProxy: a stream acts for a request, not its thread. HAProxy's scheduler keeps in each thread's context which task
 * the thread runs, and in each task which function it runs and on what. Both are read at a message. A stream is made
 * while the bytes that were read for it are looked at: sc_attach_strm() is probed (src/runtime/haproxy.rs). The task
 * that runs at that moment must be the one that has read; otherwise nothing is known of the stream.
 */
#ifndef WS_HAPROXY_H
#define WS_HAPROXY_H

#include "contract.h"

/* struct task and struct tasklet: the same in all versions since 2.4 that were looked at */
#define HAPROXY_RUNS 8
#define HAPROXY_FOR 16
/* Words of the thread's context, and of the end of a connection, that are looked at. */
#define HAPROXY_WORDS 32
#define HAPROXY_END_WORDS 16
/* Number of messages after which the search for the layout ends without a result. */
#define HAPROXY_PATIENCE 4096

/* By thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct haproxy_facts);
} haproxy_facts SEC(".maps");

struct haproxy_thread {
	struct haproxy_facts facts;
	__u64 task; /* task that ran at the last message of this thread */
	__u32 facts_epoch;
	__u16 current; /* place of the running task in the thread's context, plus one; 0: not known */
	__u16 looks;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct haproxy_thread);
} haproxy_threads SEC(".maps");

static __always_inline struct haproxy_thread *haproxy_thread(struct task_struct *task, struct task_state *t)
{
	struct haproxy_thread *h;
	const struct haproxy_facts *facts;
	__u32 pid = task->tgid;

	if (!has_runtime(t, WS_HAPROXY_STREAM))
		return NULL;
	h = bpf_task_storage_get(&haproxy_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!h)
		return NULL;
	if (h->facts_epoch != t->facts_epoch) {
		facts = bpf_map_lookup_elem(&haproxy_facts, &pid);
		if (!facts)
			return NULL;
		h->facts = *facts;
		h->facts_epoch = t->facts_epoch;
	}
	return h;
}

/* Finds the place of the running task in the thread's context. A global function, to be verified once. */
__noinline __u64 haproxy_learn(struct haproxy_thread *h, __u64 context)
{
	__u64 runs;

	if (!h || h->looks >= HAPROXY_PATIENCE)
		return 0;
	h->looks++;
	for (__u32 i = 0; i < HAPROXY_WORDS; i++) {
		runs = user_word(user_word(context + 8 * i) + HAPROXY_RUNS);
		if (runs && (runs == h->facts.stream || runs == h->facts.end)) {
			h->current = 8 * i + 1;
			return 0;
		}
	}
	return 0;
}

/* The stream to which this end of a connection belongs; 0 if none that is known. */
__noinline __u64 haproxy_owner(__u64 end, __u32 pid)
{
	struct actor_key key = { .pid = pid, .kind = WS_HAPROXY_STREAM };

	for (__u32 i = 0; i < HAPROXY_END_WORDS; i++) {
		key.id = user_word(end + 8 * i);
		if (key.id && actor_find(&key))
			return key.id;
	}
	return 0;
}

/* The stream that runs on the current thread; 0 if another task does, which is noted in `task`. */
__noinline __u64 haproxy_stream(struct haproxy_thread *h)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 context, current, runs;

	if (!h)
		return 0;
	context = user_word(WS_THREAD_SELF(task) + h->facts.context);
	if (!context)
		return 0;
	if (!h->current)
		haproxy_learn(h, context);
	if (!h->current)
		return 0;
	current = user_word(context + h->current - 1);
	h->task = current;
	runs = user_word(current + HAPROXY_RUNS);
	if (runs == h->facts.stream)
		return user_word(current + HAPROXY_FOR);
	if (runs == h->facts.end)
		return haproxy_owner(user_word(current + HAPROXY_FOR), task->tgid);
	return 0;
}

/* The stream that runs; one without a cause stands for its thread. */
static __always_inline struct attribution *haproxy_acting(struct task_struct *task, struct task_state *t)
{
	struct actor_key key = { .pid = task->tgid, .kind = WS_HAPROXY_STREAM };
	struct haproxy_thread *h = haproxy_thread(task, t);
	struct attribution *c;

	if (!h)
		return &t->acts;
	key.id = haproxy_stream(h);
	c = key.id ? actor_find(&key) : NULL;
	if (!c || !c->cause)
		return &t->acts;
	t->actor = key.id;
	return c;
}

/* sc_attach_strm(end, stream): HAProxy has made a stream for the bytes that the running task has read. */
SEC("uprobe.multi")
int WS_UPROBE(haproxy_stream_made)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = { .id = WS_FN_ARG2(ctx), .pid = task->tgid, .kind = WS_HAPROXY_STREAM };
	struct haproxy_thread *h;
	__u64 reader;
	bool known;

	if (!t)
		return 0;
	learn_runtimes(task, t);
	h = haproxy_thread(task, t);
	reader = h ? h->task : 0;
	/* If several requests were read at once, the stream may be for any of them. */
	known = h && !haproxy_stream(h) && reader == h->task && !t->acts.framed;
	actor_born(&key, known ? &t->acts : NULL, WS_EV_COROUTINE);
	return 0;
}

#endif
