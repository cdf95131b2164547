/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Retransmissions and resets. Each is recorded with its place in the stream; user space joins it to a span. They are
 * rare, so a record may be expensive.
 */
#ifndef WS_TCP_TROUBLE_H
#define WS_TCP_TROUBLE_H

static __always_inline void emit_trouble(struct sock *sk, struct ws_trouble *e)
{
	struct sock_state *s = bpf_sk_storage_get(&socks, sk, 0, 0);

	/* A connection that is not accepted yet has the state, and so the cookie, of its listener. */
	if (!s || s->cookie != (__u64)sk->__sk_common.skc_cookie.counter)
		return;
	e->kind = WS_TROUBLE;
	e->socket = s->cookie;
	e->time_ns = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&events, e, sizeof(*e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
}

/* Runs also for tail loss probes, and for the first packet of a handshake. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_skb_cb *cb = (struct tcp_skb_cb *)skb->cb;
	struct ws_trouble e = { .what = WS_RETRANSMIT };

	e.from = BPF_CORE_READ(cb, seq);
	e.to = BPF_CORE_READ(cb, end_seq);
	e.segments = BPF_CORE_READ(cb, tcp_gso_segs);
	emit_trouble(sk, &e);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(tcp_send_reset, struct sock *sk)
{
	struct ws_trouble e = { .what = WS_RESET_SENT };

	/* The reset may belong to no socket, or to a small one (TIME_WAIT, NEW_SYN_RECV) without most fields. */
	if (sk && sk->__sk_common.skc_state != TCP_TIME_WAIT && sk->__sk_common.skc_state != TCP_NEW_SYN_RECV)
		emit_trouble(sk, &e);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(tcp_receive_reset, struct sock *sk)
{
	struct ws_trouble e = { .what = WS_RESET_RECEIVED };

	emit_trouble(sk, &e);
	return 0;
}

#endif
