/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * HAProxy: a stream, not its thread, acts for a request. Its scheduler keeps in each thread's context which task it runs, and a task
 * what it runs and for what; both are read at a message. A stream is made while what was read for it is looked at, where one
 * function is probed (src/tls/haproxy.rs); what runs then has read it, or nothing is known.
 */
#ifndef WS_HAPROXY_H
#define WS_HAPROXY_H

/* struct task and struct tasklet: the same in all versions since 2.4 that were looked at */
#define HAPROXY_RUNS 8
#define HAPROXY_FOR 16
/* Words of the thread's context, and of the end of a connection, that are looked at. */
#define HAPROXY_WORDS 32
#define HAPROXY_END_WORDS 16
/* So many messages are looked at before a layout is given up. */
#define HAPROXY_PATIENCE 4096

/* Where the thread's context has the task that runs. Verified on its own. */
__noinline __u64 haproxy_learn(struct task_state *t, __u64 context)
{
	__u64 runs;

	if (!t || t->haproxy_looks >= HAPROXY_PATIENCE)
		return 0;
	t->haproxy_looks++;
	for (__u32 i = 0; i < HAPROXY_WORDS; i++) {
		runs = user_word(user_word(context + 8 * i) + HAPROXY_RUNS);
		if (runs && (runs == t->facts.haproxy.stream || runs == t->facts.haproxy.end)) {
			t->haproxy_current = 8 * i + 1;
			return 0;
		}
	}
	return 0;
}

/* The stream for which this end of a connection is; 0 if none that is known. */
__noinline __u64 haproxy_owner(__u64 end, __u32 pid)
{
	struct actor_key key = { .pid = pid };

	for (__u32 i = 0; i < HAPROXY_END_WORDS; i++) {
		key.id = user_word(end + 8 * i);
		if (key.id && bpf_map_lookup_elem(&actors, &key))
			return key.id;
	}
	return 0;
}

/* The stream that runs on the current thread; 0 if something else does, which `haproxy_task` tells from others. */
__noinline __u64 haproxy_stream(struct task_state *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 context, current, runs;

	if (!t)
		return 0;
	context = user_word(WS_THREAD_SELF(task) + t->facts.haproxy.context);
	if (!context)
		return 0;
	if (!t->haproxy_current)
		haproxy_learn(t, context);
	if (!t->haproxy_current)
		return 0;
	current = user_word(context + t->haproxy_current - 1);
	t->haproxy_task = current;
	runs = user_word(current + HAPROXY_RUNS);
	if (runs == t->facts.haproxy.stream)
		return user_word(current + HAPROXY_FOR);
	if (runs == t->facts.haproxy.end)
		return haproxy_owner(user_word(current + HAPROXY_FOR), task->tgid);
	return 0;
}

/* What a stream of HAProxy acts for; one of which nothing is known stands for its thread. */
static __always_inline struct attribution *haproxy_context(struct task_state *t, struct actor_key *key)
{
	struct attribution *c;

	key->id = haproxy_stream(t);
	c = key->id ? bpf_map_lookup_elem(&actors, key) : NULL;
	if (!c || !c->cause)
		return &t->acts;
	t->actor = key->id;
	return c;
}

/* sc_attach_strm(end, stream): HAProxy has made a stream for what the task that runs has read. */
SEC("uprobe.multi")
int haproxy_stream_made(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = { .pid = task->tgid, .id = WS_FN_ARG2(ctx) };
	struct attribution born = {};
	__u64 reader;

	if (!t)
		return 0;
	know_process(task, t);
	reader = t->haproxy_task;
	/* Of several requests that were read at once it is not known which this is. */
	if (t->facts.haproxy.stream && !haproxy_stream(t) && reader == t->haproxy_task && !t->acts.framed)
		inherit(&born, &t->acts, WS_EV_COROUTINE);
	remember(&actors, &key, &born);
	return 0;
}

#endif
