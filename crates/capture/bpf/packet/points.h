/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The programs, each at one point of a packet's way. */
#ifndef WS_PACKET_POINTS_H
#define WS_PACKET_POINTS_H

static __always_inline __u32 netns_of_sock(const struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ns.inum;
}

/* Whether it is IP, as far as the device knows. A VLAN tag is before the network header. */
static __always_inline bool maybe_ip(__u16 kind)
{
	return kind == ETH_P_IP || kind == ETH_P_IPV6 || kind == ETH_P_VLAN || kind == ETH_P_QINQ;
}

static __always_inline void fill_device(struct ws_packet *p, struct net_device *dev)
{
	p->ifindex = BPF_CORE_READ(dev, ifindex);
	/* As text, so that nothing stands behind the end of the name. */
	bpf_probe_read_kernel_str(p->device, sizeof(p->device), &dev->name);
}

/* Whether frames are chosen that are not of IP. */
static __always_inline bool only_other_frames(void)
{
	return only_ether_type && only_ether_type != ETH_P_IP && only_ether_type != ETH_P_IPV6;
}

/* Headers from the linear part of the packet. `known`: as in SKB(). */
static __always_inline bool parse_skb(struct ws_packet *p, struct sk_buff *skb, bool known, bool received)
{
	__u64 at = network_header(skb, known, received), end = linear_end(skb, known, received, at);
	__u16 kind = bpf_ntohs(SKB(known, skb, protocol));
	__u32 whole = SKB(known, skb, len);
	bool other = only_other_frames();

	if (other ? kind != only_ether_type : !maybe_ip(kind) || is_another(skb, known, at, end))
		return false;
	if (!received)
		whole += (__u32)((__u64)BPF_CORE_READ(skb, data) - at);
	return other ? parse_other(p, kind, at, whole, end) : parse(p, skb, at, whole, end);
}

/* Packets that wait in the queue for which this one is meant. */
static __always_inline __u32 queued(struct sk_buff *skb, struct net_device *dev)
{
	__u64 queues = (__u64)BPF_CORE_READ(dev, _tx);
	struct netdev_queue *queue;

	queue = (void *)(queues + skb->queue_mapping * bpf_core_type_size(struct netdev_queue));
	return BPF_CORE_READ(queue, qdisc, q.qlen);
}

/* A packet at a device. The namespace is compared first, because that costs least. */
static __always_inline int at_device(void *ctx, struct sk_buff *skb, __u8 point)
{
	struct net_device *dev = skb->dev;
	struct ws_packet p = { .point = point };

	if (!dev)
		return 0;
	p.netns = dev->nd_net.net->ns.inum;
	if (!chosen_netns(p.netns) || !parse_skb(&p, skb, true, point == WS_P_RECEIVE))
		return 0;
	fill_device(&p, dev);
	if (!chosen_device(&p))
		return 0;
	if (point == WS_P_QUEUE)
		p.queue_len = queued(skb, dev);
	return tell(ctx, &p, skb);
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(packet_queue, struct sk_buff *skb)
{
	return at_device(ctx, skb, WS_P_QUEUE);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(packet_xmit, struct sk_buff *skb)
{
	return at_device(ctx, skb, WS_P_XMIT);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(packet_receive, struct sk_buff *skb)
{
	return at_device(ctx, skb, WS_P_RECEIVE);
}

/* Addresses of a connection, in the direction of its packets: `sent` by it, or received. */
static __always_inline bool of_connection(struct ws_packet *p, const struct sock *sk, bool sent)
{
	__u16 family = sk->__sk_common.skc_family;
	__u16 local = sk->__sk_common.skc_num;
	__u16 remote = bpf_ntohs(sk->__sk_common.skc_dport);
	__u8 *to = sent ? p->destination : p->source;
	__u8 *from = sent ? p->source : p->destination;

	p->protocol = IPPROTO_TCP;
	p->source_port = sent ? local : remote;
	p->destination_port = sent ? remote : local;
	if (family == AF_INET) {
		map_ipv4(from, sk->__sk_common.skc_rcv_saddr);
		map_ipv4(to, sk->__sk_common.skc_daddr);
	} else if (family == AF_INET6) {
		/* BPF_CORE_READ_INTO() would read as many bytes as `from` points to: one. */
		bpf_core_read(from, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(to, 16, &sk->__sk_common.skc_v6_daddr);
	} else {
		return false;
	}
	return true;
}

static __always_inline bool is_tcp(const struct sock *sk)
{
	return sk->sk_protocol == IPPROTO_TCP;
}

SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(packet_send, struct sock *sk, const struct msghdr *msg)
{
	struct ws_packet p = { .point = WS_P_SEND, .netns = netns_of_sock(sk) };

	if (!chosen_netns(p.netns) || !of_connection(&p, sk, true))
		return 0;
	p.seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
	p.len = BPF_CORE_READ(msg, msg_iter.count);
	return any_of_flags || !chosen_header(&p) ? 0 : tell(ctx, &p, NULL);
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(packet_ready, struct sock *sk)
{
	struct ws_packet p = { .point = WS_P_READY, .netns = netns_of_sock(sk) };

	if (!chosen_netns(p.netns) || !is_tcp(sk) || !of_connection(&p, sk, false))
		return 0;
	p.seq = BPF_CORE_READ((struct tcp_sock *)sk, rcv_nxt);
	return any_of_flags || !chosen_header(&p) ? 0 : tell(ctx, &p, NULL);
}

#define DEVICE_LISTS 256 /* NETDEV_HASHENTRIES */
#define DEVICES_OF_LIST 16

/*
 * Here the packet knows no device any more, but the number of the one by which it came. Returns whether that is a
 * chosen one. The namespace has lists of its devices by number.
 */
static __always_inline bool came_by_chosen_device(struct ws_packet *p, struct sk_buff *skb, const struct net *net)
{
	__u32 number = BPF_CORE_READ(skb, skb_iif), at = bpf_core_field_offset(struct net_device, index_hlist);
	struct hlist_head *lists = BPF_CORE_READ(net, dev_index_head);
	struct hlist_node *node = BPF_CORE_READ(&lists[number % DEVICE_LISTS], first);

	for (int i = 0; i < DEVICES_OF_LIST && node; i++) {
		struct net_device *dev = (void *)node - at;

		if (BPF_CORE_READ(dev, ifindex) == number) {
			fill_device(p, dev);
			break;
		}
		node = BPF_CORE_READ(node, next);
	}
	return chosen_device(p);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(packet_tcp, struct sock *sk, struct sk_buff *skb)
{
	struct ws_packet p = { .point = WS_P_TCP, .netns = netns_of_sock(sk) };

	if (!chosen_netns(p.netns) || !parse_skb(&p, skb, true, false))
		return 0;
	return came_by_chosen_device(&p, skb, sk->__sk_common.skc_net.net) ? tell(ctx, &p, skb) : 0;
}

/* The kernel keeps the interval of a TCP segment in its control block, in the order of the host. */
static __always_inline void take_interval(struct ws_packet *p, const struct sk_buff *skb)
{
	struct tcp_skb_cb *cb = (struct tcp_skb_cb *)&skb->cb;

	p->seq = BPF_CORE_READ(cb, seq);
	p->len = BPF_CORE_READ(cb, end_seq) - p->seq;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(packet_copied, struct sk_buff *skb, int len)
{
	struct ws_packet p = { .point = WS_P_COPIED };
	struct sock *sk = skb->sk;
	const struct net *net;
	__u32 done;

	/*
	 * skb->dev holds other data while a datagram waits for its reader. A datagram may have no socket here: then the
	 * namespace is that of the reader.
	 */
	if (sk) {
		__u16 family = sk->__sk_common.skc_family;

		if (family != AF_INET && family != AF_INET6)
			return 0;
		net = sk->__sk_common.skc_net.net;
	} else {
		net = BPF_CORE_READ(bpf_get_current_task_btf(), nsproxy, net_ns);
	}
	p.netns = BPF_CORE_READ(net, ns.inum);
	if (!chosen_netns(p.netns))
		return 0;
	if (!parse_skb(&p, skb, true, false) || !came_by_chosen_device(&p, skb, net))
		return 0;
	if (p.protocol == IPPROTO_TCP) {
		take_interval(&p, skb);
		if (sk && is_tcp(sk)) {
			done = BPF_CORE_READ((struct tcp_sock *)sk, copied_seq) - p.seq;
			if (done < p.len) {
				p.seq += done;
				p.len -= done;
				if (p.len > len)
					p.len = len;
			}
		}
	}
	return tell(ctx, &p, skb);
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(packet_resent, struct sock *sk, struct sk_buff *skb)
{
	struct ws_packet p = { .point = WS_P_RESENT, .netns = netns_of_sock(sk) };

	if (!chosen_netns(p.netns) || !of_connection(&p, sk, true))
		return 0;
	take_interval(&p, skb);
	return any_of_flags || !chosen_header(&p) ? 0 : tell(ctx, &p, NULL);
}

static __always_inline int dropped(void *ctx, struct sk_buff *skb, const struct sock *reader, __u32 reason)
{
	struct ws_packet p = { .point = WS_P_DROP, .reason = reason };
	struct net_device *dev = skb->dev;
	struct sock *sk;

	if (dev)
		p.netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	/* skb->dev may hold other data, as above: then the kernel reads no namespace from it. */
	if (p.netns) {
		fill_device(&p, dev);
	} else if (reader) {
		p.netns = netns_of_sock(reader);
	} else {
		sk = skb->sk;
		p.netns = sk ? netns_of_sock(sk) : 0;
	}
	if (!chosen_netns(p.netns) || !parse_skb(&p, skb, true, false) || !chosen_device(&p))
		return 0;
	return tell(ctx, &p, skb);
}

/* Since Linux 6.11, with the socket that was to receive the packet. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(packet_drop, struct sk_buff *skb, void *location, __u32 reason, struct sock *reader)
{
	return dropped(ctx, skb, reader, reason);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(packet_drop_old, struct sk_buff *skb, void *location, __u32 reason)
{
	return dropped(ctx, skb, NULL, reason);
}

#endif
