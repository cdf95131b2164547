/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Messages of targets: these programs choose between connections and datagrams. */
#ifndef WS_FLOW_MESSAGE_H
#define WS_FLOW_MESSAGE_H

#define MSG_ERRQUEUE 0x2000

static __always_inline int flow_connection(struct sock *sk, __u8 direction, int ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	int next = flow_first_call(sk, direction, ret);

	if (next == FLOW_IS_UNLISTED)
		next = flow_unlisted(sk, task, direction, ret);
	if (next == FLOW_IS_UNKNOWN)
		next = flow_unknown(sk, task, direction, ret);
	return next == FLOW_HAS_ENDED ? flow_after_the_end(sk, task, direction) : 0;
}

static __noinline int flow_other_message(struct sock *sk, __u8 direction, int ret)
{
	__u16 family = sk->__sk_common.skc_family;

	if (family != AF_INET && family != AF_INET6)
		return 0;
	if (sk->sk_protocol == IPPROTO_TCP)
		return flow_connection(sk, direction, ret);
	if (sk->sk_protocol == IPPROTO_UDP)
		return flow_datagram(sk, bpf_get_current_task_btf(), direction, ret);
	return 0;
}

/* A socket with a slot is a connection, so the fast path looks at nothing else. */
static __always_inline void flow_message(struct sock *sk, __u8 direction, int ret)
{
	__u64 cookie = flow_cookie(sk);

	if (!cookie || (!flow_call(cookie, 0, direction, ret) && !flow_call(cookie, 1, direction, ret) &&
			!flow_call(cookie, 2, direction, ret)))
		flow_other_message(sk, direction, ret);
}

/*
 * Not used if the programs of messages hang on the same tracepoints. Those do this work then, because a second hook
 * would cost more than the work itself.
 */
SEC("tp_btf/sock_send_length")
int BPF_PROG(flow_send, struct sock *sk, int ret, int msg_flags)
{
	flow_message(sk, WS_EGRESS, ret);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(flow_receive, struct sock *sk, int ret, int msg_flags)
{
	if (!(msg_flags & (MSG_PEEK | MSG_ERRQUEUE)))
		flow_message(sk, WS_INGRESS, ret);
	return 0;
}

#endif
