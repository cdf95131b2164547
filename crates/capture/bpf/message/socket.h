/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Sockets that open, fail and close. State changes of TCP may run in softirq, in any task. So the socket's own state
 * says whether it belongs to a target, not the current task.
 */
#ifndef WS_SOCKET_STATE_H
#define WS_SOCKET_STATE_H

static __always_inline void emit_socket(struct sock *sk, struct sock_state *s, __u8 change, int error)
{
	struct ws_socket e = {};
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	e.kind = WS_SOCKET;
	e.change = change;
	e.evidence = s->evidence;
	e.error = error;
	e.socket = s->cookie;
	e.time_ns = bpf_ktime_get_ns();
	e.cause = s->connect_cause;
	e.connect_ns = s->connect_ns;
	if (tp) {
		e.bytes_sent = tp->bytes_acked;
		e.bytes_received = tp->bytes_received;
		e.srtt_us = tp->srtt_us >> 3;
		e.retransmits = tp->total_retrans;
	}
	e.tuple = s->tuple;
	e.actor = s->actor;
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
}

/* Notes the actor that opens a connection, and its cause. */
static __always_inline void note_opener(struct sock_state *s, const struct attribution *c, __u32 tid, bool untrusted,
					bool later)
{
	s->tuple.role = WS_CLIENT;
	s->connect_cause = untrusted ? 0 : c->cause;
	s->connect_guess = c->by_waker && !c->pending && is_provisional(s->connect_cause) ? c->guess : 0;
	s->connect_untrusted = untrusted;
	s->connect_later = later;
	s->connect_tid = tid;
}

static __always_inline void on_connecting(struct sock *sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct attribution *c;
	struct sock_state *s;
	bool untrusted, later;

	if (!t)
		return;
	learn_runtimes(task, t);
	runtime_find_task(task, t, NULL, MESSAGE_SENT | MESSAGE_CONNECTS);
	c = acting(task, t);
	s = use_sock(sk, task);
	if (!s)
		return;
	s->connect_ns = bpf_ktime_get_ns();
	runtime_before_connect(t, c);
	untrusted = is_untrusted(c, thread_group(task, t));
	later = BPF_CORE_READ(sk, sk_socket, file, f_flags) & O_NONBLOCK;
	act(c, USED_CONNECT);
	c->acted = 1;
	runtime_after_connect(task, t, c);
	note_opener(s, c, actor_id(task, t), untrusted, later);
	if (!by_syscalls)
		return;
	/* The rung that finds sockets by descriptor keeps a state of its own. */
	s = use_sock_by_address(sk, BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino), task);
	if (s)
		note_opener(s, c, actor_id(task, t), untrusted, later);
}

/* Whether bytes were read without a receive that was seen. A FIN takes one sequence number. */
static __always_inline bool was_spliced(struct sock *sk, const struct sock_state *s)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	return tp && s->received && (__s32)(tp->copied_seq - s->received) > 1;
}

/* Nothing of this connection was read or sent before this moment. */
static __always_inline void begin_here(struct sock *sk, struct sock_state *s)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp)
		return;
	s->received = tp->copied_seq;
	s->sent = tp->write_seq;
}

static __always_inline void on_established(struct sock *sk, int old)
{
	struct sock_state *s = bpf_sk_storage_get(&socks, sk, 0, 0);
	__u64 cookie;
	struct ws_actor listener;

	if (!s)
		return;
	if (old == TCP_SYN_SENT) {
		if (s->connect_ns)
			s->connect_ns = bpf_ktime_get_ns() - s->connect_ns;
		read_tuple(&s->tuple, sk); /* the local address is known only now */
		s->tuple.role = WS_CLIENT;
		begin_here(sk, s);
		emit_socket(sk, s, WS_OPEN, 0);
		return;
	}
	/* An accepted connection: it has a copy of the state of a target's listener. */
	cookie = bpf_get_socket_cookie(sk);
	if (s->cookie == cookie)
		return;
	listener = s->actor;
	init_sock_state(s, cookie);
	s->actor = listener;
	if (read_tuple(&s->tuple, sk)) {
		s->tuple.role = WS_SERVER;
		begin_here(sk, s);
		emit_socket(sk, s, WS_OPEN, 0);
	}
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock *sk, int old, int new)
{
	struct sock_state *s;
	int error;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	switch (new) {
	case TCP_SYN_SENT:
		on_connecting(sk);
		break;
	case TCP_LISTEN: {
		struct task_struct *task = bpf_get_current_task_btf();

		if (target_task(task))
			use_sock(sk, task); /* accepted connections get a copy of this state */
		break;
	}
	case TCP_ESTABLISHED:
		on_established(sk, old);
		break;
	case TCP_CLOSE:
		s = bpf_sk_storage_get(&socks, sk, 0, 0);
		if (!s || old == TCP_LISTEN)
			break;
		release_held(sk);
		if (was_spliced(sk, s))
			want_hooks(WS_HOOK_SPLICE);
		error = sk->sk_err;
		if (old == TCP_SYN_SENT) {
			s->connect_ns = s->connect_ns ? bpf_ktime_get_ns() - s->connect_ns : 0;
			emit_socket(sk, s, WS_CONNECT_FAILED, error);
		} else {
			emit_socket(sk, s, error ? WS_RESET : WS_CLOSE, error);
		}
		break;
	}
	return 0;
}

#endif
