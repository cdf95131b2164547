/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Messages by socket tracepoints (Linux 6.3): the cheapest rung, and no tax on other system calls. They see every call
 * that ends in sock_sendmsg or sock_recvmsg, io_uring included; splice() out of a socket is seen by its own tracepoint.
 *
 * When a call began is not measured, which would cost a program and a clock read more per call, but read from the clock
 * that TCP keeps itself: of a send, when its last packet left, if that was before the end of the call; of a receive,
 * when the last packet arrived. Only long sends, which may block, are timed from their entry.
 *
 * That clock also moves with what came and went since (an acknowledgement, before Linux 6.16 the read itself). When
 * data came last is kept, too, but in ticks: it says so if the bytes had lain there for long.
 */
#ifndef WS_SOCKET_TRACEPOINTS_H
#define WS_SOCKET_TRACEPOINTS_H

#define WS_LONG_SEND 16384

static __always_inline bool counts_flows(void)
{
	return flows_with_messages && flows_open;
}

/* Ends the call in progress; when it began to move bytes of this socket, 0 if that was not seen. */
static __always_inline __u64 end_call(struct task_state *t, struct sock *sk)
{
	__u64 enter_ns = t->enter_sk == (__u64)sk ? t->enter_ns : 0;

	t->enter_sk = 0;
	return enter_ns;
}

/*
 * When the last packet left. An acknowledgement that comes while the sender is preempted moves the clock, but not this;
 * with pacing it may lie ahead.
 */
static __always_inline __u64 left_at(const struct tcp_sock *tp)
{
	__u64 clock, left;

	if (!bpf_core_field_exists(tp->tcp_clock_cache))
		return 0;
	clock = tp->tcp_clock_cache;
	left = bpf_core_field_exists(tp->tcp_wstamp_ns) ? tp->tcp_wstamp_ns : clock;
	return left < clock ? left : clock;
}

#define WS_FEW_TICKS 2

/* When the last of what is being read had arrived; 0 if that is not known. */
static __always_inline __u64 arrived_at(const struct tcp_sock *tp)
{
	__u64 clock = bpf_core_field_exists(tp->tcp_clock_cache) ? tp->tcp_clock_cache : 0, coarse;
	__u32 ticks = (__u32)bpf_jiffies64() - tp->inet_conn.icsk_ack.lrcvtime;

	if (ticks <= WS_FEW_TICKS)
		return clock;
	coarse = bpf_ktime_get_ns() - (__u64)ticks * tick_ns;
	return clock && clock < coarse + tick_ns ? clock : coarse;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tcp_sendmsg_locked, struct sock *sk, const struct msghdr *msg)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool uring = uses_io_uring(task);
	const struct tcp_sock *tp;
	struct task_state *t;

	if (!uring && msg->msg_iter.count < WS_LONG_SEND)
		return 0;
	t = target_task(task);
	/* Called for each segment of a long message: the first one counts. */
	if (!t || t->enter_sk == (__u64)sk)
		return 0;
	tp = tcp_of(sk);
	if (!tp)
		return 0;
	t->enter_sk = (__u64)sk;
	t->enter_ns = bpf_ktime_get_ns();
	t->enter_seq = tp->write_seq;
	if (uring && !called_directly(task, sk))
		hold_sent(task, msg);
	return 0;
}

/* From now on the bytes of calls without registers are to be kept. */
SEC("tp_btf/io_uring_create")
int BPF_PROG(io_uring_create)
{
	if (target_task(bpf_get_current_task_btf()))
		want_hooks(WS_HOOK_SENDS | WS_HOOK_IO_URING);
	return 0;
}

/* Only for io_uring: elsewhere the registers tell where the bytes are. */
SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(skb_copy_datagram_iovec, struct sk_buff *skb, int len)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sock *sk;

	if (!uses_io_uring(task) || !target_task(task))
		return 0;
	sk = skb->sk;
	if (sk && !called_directly(task, sk))
		hold_received(task, sk, skb, len);
	return 0;
}

/* Bytes that leave a socket without sock_recvmsg: splice(). What was read before tells how many. */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tcp_rcv_space_adjust, struct sock *sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	const struct tcp_sock *tp;
	struct task_state *t;
	struct sock_state *s;
	__u32 from, to;

	if (WS_NR(regs) != NR_SPLICE)
		return 0;
	t = target_task(task);
	tp = tcp_of(sk);
	if (!t || !tp)
		return 0;
	s = use_sock(sk, task);
	if (!s)
		return 0;
	from = s->received;
	to = read_up_to(sk->__sk_common.skc_state, sk->sk_err, tp->copied_seq, tp->rcv_nxt);
	s->received = to;
	hold_processor();
	if (from && (__s32)(to - from) > 0)
		message(sk, s, task, t, WS_INGRESS, to - from, from, WS_F_HAS_SEQ, 0);
	leave_processor();
	return 0;
}

/*
 * In a function of its own, as the next: what flows need of the stack comes beside what messages need, not on top of
 * it. Before Linux 6.13 all that call each other have 512 bytes.
 */
static __noinline int sent(struct sock *sk, int ret, struct task_state *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tcp_sock *tp;
	struct sock_state *s;
	__u64 enter_ns;
	__u32 seq = 0, end = 0;
	__u16 flags = 0;
	bool late = false;

	s = use_sock(sk, task);
	tp = tcp_of(sk);
	enter_ns = end_call(t, sk);
	if (tp && s) {
		s->srtt_us = tp->srtt_us >> 3;
		seq = enter_ns ? t->enter_seq : tp->write_seq - ret;
		flags = WS_F_HAS_SEQ;
		if (ret > 0) {
			late = s->overtaken && (__s32)(seq - s->sent) < 0; /* else that one has no record */
			s->overtaken = 0;
			end = tp->write_seq;
		}
		if (!enter_ns && ret >= WS_LONG_SEND)
			want_hooks(WS_HOOK_SENDS);
		if (!enter_ns && (__s32)(tp->snd_nxt - seq) > 0)
			enter_ns = left_at(tp);
	}
	if (enter_ns)
		flags |= WS_F_ENTER;
	if (s && late) { /* its exchange has begun already, and goes on with the answer afterwards */
		flags |= WS_F_OVERTAKEN;
		s->exchange--;
	}
	message(sk, s, task, t, WS_EGRESS, ret, seq, flags, enter_ns);
	if (s && late)
		s->run = WS_INGRESS;
	if (s && end &&
	    (!s->sent || (__s32)(end - s->sent) >
				 0)) /* not before its run has begun: a thread that reads meanwhile looks at both */
		s->sent = end;
	forget_held(task);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sock_send_length, struct sock *sk, int ret, int msg_flags)
{
	struct task_state *t = target_task(bpf_get_current_task_btf());

	if (!t)
		return 0;
	if (counts_flows())
		flow_message(sk, WS_EGRESS, ret);
	hold_processor();
	sent(sk, ret, t);
	leave_processor();
	return 0;
}

/*
 * A send is recorded when it returns. Until then its peer may have answered, and another thread read that: the answer
 * overtakes its request. Then something was sent on a socket that asks, no record says so, and no request waits for an
 * answer; a FIN takes one number.
 */
static __always_inline bool overtakes(const struct tcp_sock *tp, const struct sock_state *s)
{
	return s->tuple.role == WS_CLIENT && s->request_direction != WS_INGRESS && !s->shared && !s->overtaken &&
	       s->sent && (__s32)(tp->write_seq - s->sent) > 1 && s->run != WS_EGRESS;
}

/* The exchange of the request that is not recorded begins; its cause is not known yet. */
static __always_inline void overtake(struct sock_state *s)
{
	s->overtaken = 1;
	s->request_direction = s->run = WS_EGRESS;
	s->exchange++;
	s->cause = 0;
	s->evidence = WS_EV_INFERRED;
}

static __noinline int received(struct sock *sk, int ret, struct task_state *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tcp_sock *tp;
	struct sock_state *s;
	__u64 enter_ns = 0;
	__u32 seq = 0;
	__u16 flags = 0;

	s = use_sock(sk, task);
	tp = tcp_of(sk);
	if (tp && s) {
		seq = read_up_to(sk->__sk_common.skc_state, sk->sk_err, tp->copied_seq, tp->rcv_nxt) - ret;
		flags = WS_F_HAS_SEQ;
		if (ret > 0) {
			if (s->received && s->received != seq)
				want_hooks(WS_HOOK_SPLICE);
			s->received = seq + ret;
			s->srtt_us = tp->srtt_us >> 3;
			enter_ns = arrived_at(tp);
			if (enter_ns)
				flags |= WS_F_ENTER | WS_F_ARRIVED;
			if (overtakes(tp, s)) {
				overtake(s);
				flags |= WS_F_OVERTAKEN;
			}
			s->sent = tp->write_seq; /* bytes without a send, as of a file, are passed once */
		}
	}
	message(sk, s, task, t, WS_INGRESS, ret, seq, flags, enter_ns);
	forget_held(task);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length, struct sock *sk, int ret, int msg_flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);

	if (!t)
		return 0;
	if (counts_flows() && !(msg_flags & (MSG_PEEK | MSG_ERRQUEUE)))
		flow_message(sk, WS_INGRESS, ret);
	if (msg_flags & MSG_PEEK) {
		count(WS_C_PEEK);
		forget_held(task);
		return 0;
	}
	hold_processor();
	received(sk, ret, t);
	leave_processor();
	return 0;
}

#endif
