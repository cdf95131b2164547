/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Resets and drops, counted on the flow of their socket. */
#ifndef WS_FLOW_TROUBLE_H
#define WS_FLOW_TROUBLE_H

/* Offsets of the source address and port in packet headers. */
#define WS_IPV4_SOURCE 12
#define WS_IPV6_SOURCE 8
struct ws_udp_ports {
	__be16 source;
	__be16 destination;
};

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(flow_reset_received, struct sock *sk)
{
	struct flow_slot *slot = NULL;
	struct flow_sock *f = flow_find(sk, &slot);

	if (f)
		f->resets_received = 1; /* is bundled when the socket closes, at once */
	return 0;
}

/* close() with unread bytes sends a reset after the socket has left its place, in the process that used it. */
static __noinline int flow_reset_at_close(struct sock *sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u8 role = BPF_CORE_READ(sk, sk_max_ack_backlog) ? WS_SERVER : WS_CLIENT;
	__u16 own = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	__u16 other = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	struct flow_due d = { .resets_sent = 1 };
	struct ws_flow_key key = {};
	struct flow_owner o;

	if (!target_task(task))
		return 0;
	flow_addresses(&key, sk);
	flow_fill_owner(&o, task);
	key.pid = o.pid;
	key.start_ns = o.start_ns;
	key.netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	key.transport = WS_TCP;
	key.role = role;
	key.port = role == WS_CLIENT ? other : own;
	key.client_port = flow_apart(&key, role == WS_CLIENT ? own : other);
	flow_bundle(&key, &o, &d);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(flow_reset_sent, struct sock *sk, const struct sk_buff *skb)
{
	struct flow_slot *slot = NULL;
	struct flow_sock *f;
	__u64 cookie;

	/*
	 * A reset in the name of no socket, or of a socket in TIME_WAIT or not yet accepted. Such sockets lack most of
	 * their fields.
	 */
	if (!sk || sk->__sk_common.skc_state == TCP_TIME_WAIT || sk->__sk_common.skc_state == TCP_NEW_SYN_RECV)
		return 0;
	cookie = flow_cookie(sk);
	f = cookie ? flow_listed(cookie, &slot) : NULL;
	if (f)
		__sync_fetch_and_add(&f->resets_sent, 1);
	else if (sk->__sk_common.skc_state == TCP_CLOSE && !skb)
		flow_reset_at_close(sk);
	return 0;
}

/* The sender of a packet that is dropped on its way to a socket that is not connected. */
static __always_inline void flow_sender(struct ws_flow_key *key, const struct sk_buff *skb)
{
	const unsigned char *head = BPF_CORE_READ(skb, head), *network = head + BPF_CORE_READ(skb, network_header);
	struct ws_udp_ports ports = {};
	__u8 version = 0;
	__be32 v4;

	bpf_probe_read_kernel(&version, sizeof(version), network);
	if (version >> 4 == 4 && !bpf_probe_read_kernel(&v4, sizeof(v4), network + WS_IPV4_SOURCE))
		put_v4(key->remote, v4);
	else if (version >> 4 == 6)
		bpf_probe_read_kernel(key->remote, sizeof(key->remote), network + WS_IPV6_SOURCE);
	bpf_probe_read_kernel(&ports, sizeof(ports), head + BPF_CORE_READ(skb, transport_header));
	if (key->role == WS_CLIENT)
		key->port = bpf_ntohs(ports.source);
	else if (bpf_ntohs(ports.source) == key->port)
		key->role = WS_ROLE_UNKNOWN; /* as in flow_datagram() */
}

/* A drop at a UDP socket, or at a TCP socket without a place. */
static __noinline int flow_drop_elsewhere(struct sock *sk, const struct sk_buff *skb, const struct flow_due *d)
{
	struct flow_sock *f = sk->sk_protocol == IPPROTO_TCP ? flow_placeless(sk, flow_cookie(sk))
							     : bpf_sk_storage_get(&flow_others, sk, 0, 0);
	struct ws_flow_key key;

	if (!f || !f->sk)
		return 0;
	key = f->key;
	if (sk->sk_protocol == IPPROTO_UDP) {
		flow_addresses(&key, sk); /* may have been bound to an address, or connected, since */
		if (!sk->__sk_common.skc_dport)
			flow_sender(&key, skb);
	}
	flow_bundle(&key, &f->owner, d);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(flow_drop, struct sk_buff *skb, void *location, __u32 reason, struct sock *rx_sk)
{
	const struct sock *sk = rx_sk ?: skb->sk;
	struct flow_due d = { .drop_reason = reason, .dropped = 1 };
	struct flow_slot *slot = NULL;
	struct flow_sock *f;
	__u64 cookie;

	if (!sk || reason < 2)
		return 0;
	/* Unread data of a closed connection, mostly the FIN. The connection has no place any more. */
	if (!rx_sk && sk->__sk_common.skc_state == TCP_CLOSE)
		return 0;
	cookie = flow_cookie(sk);
	f = cookie ? flow_listed(cookie, &slot) : NULL;
	if (f)
		flow_bundle(&f->key, &f->owner, &d);
	else if (rx_sk)
		flow_drop_elsewhere(rx_sk, skb, &d);
	return 0;
}

#endif
