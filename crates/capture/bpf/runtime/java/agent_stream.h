/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Requests on streams of HTTP/2, as the agent of `--attach-java` tells them: from their writer to their socket. */
#ifndef WS_JAVA_AGENT_STREAM_H
#define WS_JAVA_AGENT_STREAM_H

/*
 * Requests on streams of HTTP/2 that this thread is about to write, perhaps together. Netty writes them to one
 * connection, and sends them at once: the thread's next send is theirs.
 */
#define JAVA_STREAMS 64

struct java_streams {
	__u32 count;
	__u32 number[JAVA_STREAMS];
	__u8 evidence[JAVA_STREAMS];
	__u64 cause[JAVA_STREAMS];
	struct carrier_key name; /* room of java_sent(), which has little stack */
	struct carried value;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct java_streams);
} java_streams SEC(".maps");

static __always_inline void java_sends(struct task_struct *task, struct attribution *a, __u32 number)
{
	struct java_streams *all = bpf_task_storage_get(&java_streams, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u32 at;

	if (!all || all->count >= JAVA_STREAMS)
		return;
	at = all->count & (JAVA_STREAMS - 1);
	all->number[at] = number;
	all->cause[at] = is_provisional(a->cause) ? 0 : a->cause;
	all->evidence[at] = a->cause ? WS_EV_COROUTINE : a->evidence;
	all->count = at + 1;
}

/* Names the request of one stream by its cause. Before Linux 6.2 no key is read where an argument points. */
__noinline int java_names(__u64 cookie, __u32 i)
{
	struct java_streams *all = bpf_task_storage_get(&java_streams, bpf_get_current_task_btf(), 0, 0);
	__u64 name;

	if (!all || i >= JAVA_STREAMS)
		return 0;
	all->name.stream = all->number[i];
	all->value.cause = all->cause[i];
	all->value.evidence = all->evidence[i];
	name = by_stream(cookie, all->number[i]);
	count(name ? WS_C_STREAMS_NAMED : WS_C_STREAMS_UNKNOWN);
	if (!name)
		return 0;
	tell_stream(name, all->cause[i], all->evidence[i]);
	actor_carry(&all->name, &all->value);
	return 0;
}

/*
 * The thread has sent requests on a socket: the streams that wait are its streams. Their answers come as frames of the
 * same numbers. A global function, to be verified once; called when the message is done, because more stack is free
 * there.
 */
__noinline int java_sent(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct java_streams *all = bpf_task_storage_get(&java_streams, task, 0, 0);
	struct java_thread *j = bpf_task_storage_get(&java_threads, task, 0, 0);
	__u64 cookie;

	if (!j || !j->sent)
		return 0;
	cookie = j->sent_on;
	j->sent = 0;
	if (!all || !all->count)
		return 0;
	all->name = (struct carrier_key){ .object = cookie, .pid = task->tgid };
	all->value = (struct carried){};
	for (__u32 i = 0; i < JAVA_STREAMS && cookie && i < all->count; i++)
		java_names(cookie, i);
	all->count = 0;
	return 0;
}

#endif
