/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Tells of a packet: its record, and with it headers and stack if the program asks for them. */
#ifndef WS_PACKET_TELL_H
#define WS_PACKET_TELL_H

struct packet_and_more {
	struct ws_packet packet;
	struct ws_packet_more more;
	__u8 headers[WS_M_HEADERS];
	__u64 stack[WS_M_STACK];
	struct ws_packet_was was;
};

struct packet_and_was {
	struct ws_packet packet;
	struct ws_packet_was was;
};

/* Where the network header is. A device that receives has set skb->data to it. */
static __always_inline __u64 network_header(struct sk_buff *skb, bool known, bool received)
{
	if (received)
		return (__u64)BPF_CORE_READ(skb, data);
	return (__u64)BPF_CORE_READ(skb, head) + SKB(known, skb, network_header);
}

/* The end of the linear part of a packet whose network header is at `network`. */
static __always_inline __u64 linear_end(struct sk_buff *skb, bool known, bool received, __u64 network)
{
	if (received)
		return network + SKB(known, skb, len) - SKB(known, skb, data_len);
	return network + SKB(known, skb, tail) - SKB(known, skb, network_header);
}

/* Bytes of the link header before `at`: Ethernet, with up to two tags of VLAN. 0 if there is none, or an old one. */
static __always_inline __u32 link_len(struct sk_buff *skb, __u64 at)
{
	__u16 mac = BPF_CORE_READ(skb, mac_header);
	__u64 before = at - (__u64)BPF_CORE_READ(skb, head) - mac;

	return mac != 0xffff && (before == 14 || before == 18 || before == 22) ? before : 0;
}

/* The headers end where the payload begins: parse.h has counted them. */
static __always_inline void take_headers(struct packet_and_more *m, struct sk_buff *skb)
{
	bool received = m->packet.point == WS_P_RECEIVE;
	__u64 at = network_header(skb, false, received), end = linear_end(skb, false, received, at);
	__u32 link = link_len(skb, at), n = link + m->packet.headers;

	at -= link;
	m->more.frame = BPF_CORE_READ(skb, len) + (__u32)((__u64)BPF_CORE_READ(skb, data) - at);
	if (n > snap_bytes)
		n = snap_bytes;
	if (at + n > end)
		n = at < end ? end - at : 0;
	barrier_var(n);
	n &= 255;
	if (n > WS_M_HEADERS)
		n = WS_M_HEADERS;
	if (bpf_probe_read_kernel(m->headers, n, (void *)at))
		return;
	m->more.headers = n;
	m->more.link = n < link ? n : link;
}

/* Tells the packet, and with which ends it came if conntrack has translated them. */
static __always_inline int tell_plain(struct ws_packet *p, __u64 nfct)
{
	struct packet_and_was *t;
	struct ws_packet_was was = {};

	if (!nfct || !was_translated(p, &was, nfct)) {
		if (bpf_ringbuf_output(&packets, p, sizeof(*p), BPF_RB_NO_WAKEUP))
			count(WS_K_LOST);
		return 0;
	}
	if (follows())
		follow(p, &was);
	t = bpf_ringbuf_reserve(&packets, sizeof(*t), 0);
	if (!t) {
		count(WS_K_LOST);
		return 0;
	}
	t->packet = *p;
	t->was = was;
	bpf_ringbuf_submit(t, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * `skb` may be NULL: then no headers are at hand. `known`: as in SKB(). `stacks`: whether the kernel gives its stack to
 * such a program.
 */
static __always_inline int tell_of(void *ctx, struct ws_packet *p, struct sk_buff *skb, bool known, bool stacks)
{
	struct packet_and_more *m;
	struct ws_packet_was was = {};
	__u64 nfct;
	long bytes;

	if (!may_tell(p))
		return 0;
	nfct = connection_of(skb, known);
	if (!snap_bytes && !with_stack)
		return tell_plain(p, nfct);
	m = bpf_ringbuf_reserve(&packets, sizeof(*m), 0);
	if (!m) {
		count(WS_K_LOST);
		return 0;
	}
	m->packet = *p;
	m->more = (struct ws_packet_more){};
	if (nfct && was_translated(p, &was, nfct)) {
		m->more.was = 1;
		if (follows())
			follow(p, &was);
	}
	m->was = was;
	if (snap_bytes && skb)
		take_headers(m, skb);
	if (stacks && with_stack) {
		bytes = bpf_get_stack(ctx, m->stack, sizeof(m->stack), 0);
		m->more.stack = bytes > 0 ? bytes / sizeof(__u64) : 0;
	}
	bpf_ringbuf_submit(m, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int tell(void *ctx, struct ws_packet *p, struct sk_buff *skb)
{
	return tell_of(ctx, p, skb, true, true);
}

#endif
