/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Servers to which targets connect, and where targets listen. They are in the table of ends before the first packet of
 * a connection is sent, so that the devices of its first request are seen. Attached only while packets are watched.
 */
#ifndef WS_PACKET_TARGETS_H
#define WS_PACKET_TARGETS_H

static __always_inline bool watch_address(struct ws_packet_end *end, const struct sock *sk, bool remote)
{
	__u16 family = sk->__sk_common.skc_family;

	if (family == AF_INET)
		put_v4(end->address, remote ? sk->__sk_common.skc_daddr : sk->__sk_common.skc_rcv_saddr);
	else if (family == AF_INET6 && remote)
		BPF_CORE_READ_INTO(&end->address, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
	else if (family == AF_INET6)
		BPF_CORE_READ_INTO(&end->address, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8);
	else
		return false;
	return true;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(packet_target, struct sock *sk, int old, int new)
{
	struct ws_packet_end end = {};
	__u8 learnt = WS_E_LEARNT;
	__u64 *address = (__u64 *)end.address;
	bool connects = new == TCP_SYN_SENT, listens = new == TCP_LISTEN;

	if (sk->sk_protocol != IPPROTO_TCP || !(connects || listens))
		return 0;
	if (!target_task(bpf_get_current_task_btf()) || !watch_address(&end, sk, connects))
		return 0;
	end.port = listens ? sk->__sk_common.skc_num : bpf_ntohs(sk->__sk_common.skc_dport);
	flow_any(end.address);
	if (!address[0] && !address[1])
		end.netns = sk->__sk_common.skc_net.net->ns.inum;
	if (bpf_map_update_elem(&packet_ends, &end, &learnt, BPF_NOEXIST) == -E2BIG)
		count(WS_C_PACKET_ENDS_FULL);
	return 0;
}

#endif
