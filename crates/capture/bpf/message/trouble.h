/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What goes wrong below the bytes: told with its place in the stream, joined to spans in user space. Rare, so it may
 * cost.
 */
#ifndef WS_TCP_TROUBLE_H
#define WS_TCP_TROUBLE_H

static __always_inline void emit_trouble(struct sock *sk, struct ws_trouble *e)
{
	struct sock_state *s = bpf_sk_storage_get(&socks, sk, 0, 0);

	/* A connection that is not made yet has its listener's. */
	if (!s || s->cookie != (__u64)sk->__sk_common.skc_cookie.counter)
		return;
	e->kind = WS_TROUBLE;
	e->socket = s->cookie;
	e->time_ns = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&events, e, sizeof(*e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING);
}

/* Also of probes for a lost tail, and of the first packet of a handshake. */
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

	/* In the name of no socket, or of one that lacks most of its fields. */
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
