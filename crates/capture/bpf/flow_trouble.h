/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Resets and drops, on the flow that they befall. */
#ifndef WS_FLOW_TROUBLE_H
#define WS_FLOW_TROUBLE_H

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(flow_reset_received, struct sock *sk)
{
	struct flow_sock *f = flow_find(sk);

	if (f)
		f->resets_received = 1; /* is bundled when the socket closes, at once */
	return 0;
}

/* close() with unread bytes resets after the socket has left its table, in the process that used it. */
static __noinline int flow_reset_at_close(struct sock *sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u8 role = BPF_CORE_READ(sk, sk_max_ack_backlog) ? WS_SERVER : WS_CLIENT;
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
	key.port = role == WS_CLIENT ? bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport)) :
				       bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	flow_bundle(&key, &o, &d);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(flow_reset_sent, struct sock *sk, const struct sk_buff *skb)
{
	__u64 cookie;
	struct flow_sock *f;

	/* A reset in the name of no socket, or of one in TIME_WAIT or not yet accepted (which lack most of their fields). */
	if (!sk || sk->__sk_common.skc_state == TCP_TIME_WAIT || sk->__sk_common.skc_state == TCP_NEW_SYN_RECV)
		return 0;
	cookie = flow_cookie(sk);
	f = bpf_map_lookup_elem(&flow_sockets, &cookie);
	if (f)
		__sync_fetch_and_add(&f->resets_sent, 1);
	else if (sk->__sk_common.skc_state == TCP_CLOSE && !skb)
		flow_reset_at_close(sk);
	return 0;
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(flow_drop, struct sk_buff *skb, void *location, __u32 reason, struct sock *rx_sk)
{
	const struct sock *sk = rx_sk ?: skb->sk;
	struct flow_due d = { .drop_reason = reason, .dropped = 1 };
	struct flow_sock *f;
	__u64 cookie;

	if (!sk || reason < 2)
		return 0;
	cookie = flow_cookie(sk);
	f = cookie ? bpf_map_lookup_elem(&flow_sockets, &cookie) : NULL;
	if (!f && rx_sk)
		f = bpf_sk_storage_get(&flow_others, rx_sk, 0, 0);
	if (f)
		flow_bundle(&f->key, &f->owner, &d);
	return 0;
}

#endif
