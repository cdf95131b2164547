/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Messages by socket tracepoints (Linux 6.3): the cheapest rung, as it does not slow other system calls. The
 * tracepoints see every call that ends in sock_sendmsg or sock_recvmsg, io_uring included. splice() out of a socket is
 * seen by a tracepoint of its own.
 *
 * The begin of a call is not measured: that would cost one more program and one more clock read per call. It is taken
 * from TCP's own clock: for a send, when its last packet left, if that was before the end of the call; for a receive,
 * when its last packet arrived. Only long sends, which may block, are timed from their entry.
 *
 * TCP's clock also moves with later packets (an acknowledgement; before Linux 6.16 the read itself). TCP keeps the time
 * of the last data, too, but only in ticks. It is used if the bytes had been waiting for longer than a few ticks.
 */
#ifndef WS_SOCKET_TRACEPOINTS_H
#define WS_SOCKET_TRACEPOINTS_H

#define WS_LONG_SEND 16384

static __always_inline bool counts_flows(void)
{
	return flows_with_messages && flows_open;
}

/* Ends the call in progress. Returns when it began to send on this socket, 0 if that was not measured. */
static __always_inline __u64 end_call(struct task_state *t, struct sock *sk)
{
	__u64 enter_ns = t->enter_sk == (__u64)sk ? t->enter_ns : 0;

	t->enter_sk = 0;
	return enter_ns;
}

/*
 * When the last packet left: `tcp_wstamp_ns`, unless that lies ahead, as it may with pacing. An acknowledgement that
 * arrives while the sender is preempted moves TCP's clock, but not that time.
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

/* When the last of the bytes that are being read arrived; 0 if that is not known. */
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
	/* The tracepoint runs for each piece of a long message; only the first one counts. */
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

/* A target has made an io_uring. Attaches the programs that keep the bytes of its calls. */
SEC("tp_btf/io_uring_create")
int BPF_PROG(io_uring_create)
{
	if (target_task(bpf_get_current_task_btf()))
		want_hooks(WS_HOOK_SENDS | WS_HOOK_IO_URING);
	return 0;
}

/* Used only for io_uring; the bytes of other calls are found by the registers. */
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

/*
 * Bytes that leave a socket by splice(), without sock_recvmsg. Their number is the difference to the position that was
 * read before.
 */
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
 * A function of its own, as received(): so flow_message() and message() use the same part of the stack one after the
 * other. Before Linux 6.13, functions that call each other share 512 bytes.
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
			late = s->overtaken && (__s32)(seq - s->sent) < 0; /* this send was overtaken */
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
	if (s && late) { /* overtake() has begun the exchange of this send already */
		flags |= WS_F_OVERTAKEN;
		s->exchange--;
	}
	message(sk, s, task, t, WS_EGRESS, ret, seq, flags, enter_ns);
	if (s && late)
		s->run = WS_INGRESS;
	if (s && end &&
	    (!s->sent ||
	     (__s32)(end - s->sent) > 0)) /* set after the run has begun: a thread that reads meanwhile checks both */
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
	hold_processor(); /* at once: meanwhile the kernel drops the calls of other tasks */
	if (counts_flows())
		flow_message(sk, WS_EGRESS, ret);
	sent(sk, ret, t);
	leave_processor();
	return 0;
}

/*
 * Whether an answer is read before its request was recorded. A send is recorded when it returns. By then the peer may
 * have answered, and another thread may have read the answer: the answer overtakes its request. The signs are: this end
 * sends requests, more bytes were sent than are recorded, and no request waits for an answer. A FIN takes one sequence
 * number.
 */
static __always_inline bool overtakes(const struct tcp_sock *tp, const struct sock_state *s)
{
	return s->tuple.role == WS_CLIENT && s->request_direction != WS_INGRESS && !s->shared && !s->overtaken &&
	       s->sent && (__s32)(tp->write_seq - s->sent) > 1 && s->run != WS_EGRESS;
}

/* Begins the exchange of a request that is not recorded yet. Its cause is not known yet either. */
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
			s->sent = tp->write_seq; /* so that bytes without a send, as of a file, count only once */
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
	hold_processor();
	if (counts_flows() && !(msg_flags & (MSG_PEEK | MSG_ERRQUEUE)))
		flow_message(sk, WS_INGRESS, ret);
	if (msg_flags & MSG_PEEK) {
		count(WS_C_PEEKS);
		forget_held(task);
	} else {
		received(sk, ret, t);
	}
	leave_processor();
	return 0;
}

#endif
