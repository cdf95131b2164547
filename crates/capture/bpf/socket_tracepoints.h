/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Messages by socket tracepoints (Linux 6.3): the cheapest rung, and no tax on other system calls. They see every call
 * that ends in sock_sendmsg or sock_recvmsg, io_uring included; not splice() out of a socket, which shows as a gap in
 * the sequence numbers.
 */
#ifndef WS_SOCKET_TRACEPOINTS_H
#define WS_SOCKET_TRACEPOINTS_H

/* Ends the call in progress; when it began to move bytes of this socket, 0 if that was not seen. */
static __always_inline __u64 end_call(struct task_state *t, struct sock *sk)
{
	__u64 enter_ns = t->enter_sk == (__u64)sk ? t->enter_ns : 0;

	t->enter_sk = 0;
	return enter_ns;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tcp_sendmsg_locked, const struct sock *sk)
{
	struct task_state *t = target_task(bpf_get_current_task_btf());

	/* Called for each segment of a long message: the first one counts. */
	if (!t || t->enter_sk == (__u64)sk)
		return 0;
	t->enter_sk = (__u64)sk;
	t->enter_ns = bpf_ktime_get_ns();
	t->enter_seq = BPF_CORE_READ((const struct tcp_sock *)sk, write_seq);
	return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(skb_copy_datagram_iovec, const struct sk_buff *skb)
{
	struct task_state *t = target_task(bpf_get_current_task_btf());
	__u64 sk;

	if (!t)
		return 0;
	sk = (__u64)skb->sk;
	if (t->enter_sk == sk)
		return 0;
	t->enter_sk = sk;
	t->enter_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sock_send_length, struct sock *sk, int ret, int msg_flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct tcp_sock *tp;
	__u64 enter_ns;
	__u32 seq = 0;
	__u16 flags = 0;

	if (!t)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp) {
		seq = tp->write_seq - ret;
		flags = WS_F_HAS_SEQ;
	}
	enter_ns = end_call(t, sk);
	if (enter_ns) {
		flags |= WS_F_ENTER;
		if (tp)
			seq = t->enter_seq;
	}
	message(sk, use_sock(sk, task), task, t, WS_EGRESS, ret, seq, flags, enter_ns);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length, struct sock *sk, int ret, int msg_flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct tcp_sock *tp;
	__u64 enter_ns;
	__u32 seq = 0;
	__u16 flags = 0;

	if (!t)
		return 0;
	if (msg_flags & MSG_PEEK) {
		end_call(t, sk);
		count(WS_C_PEEK);
		return 0;
	}
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp) {
		seq = received_seq(sk, tp->copied_seq, tp->rcv_nxt, ret);
		flags = WS_F_HAS_SEQ;
	}
	enter_ns = end_call(t, sk);
	if (enter_ns)
		flags |= WS_F_ENTER;
	message(sk, use_sock(sk, task), task, t, WS_INGRESS, ret, seq, flags, enter_ns);
	return 0;
}

#endif
