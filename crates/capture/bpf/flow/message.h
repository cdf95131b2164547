/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What targets send and receive: the programs that choose between connections and datagrams. */
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

/* What has a slot is a connection: nothing else of the socket is looked at. */
static __always_inline void flow_message(struct sock *sk, __u8 direction, int ret)
{
	__u64 cookie = flow_cookie(sk);

	if (!cookie || (!flow_call(cookie, 0, direction, ret) && !flow_call(cookie, 1, direction, ret)))
		flow_other_message(sk, direction, ret);
}

/* Where messages are seen on the same tracepoints, their programs do this: a hook costs more than what it does. */
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
