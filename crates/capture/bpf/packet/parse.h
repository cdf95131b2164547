/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Headers of a packet: IPv4 with options, IPv6 with extension headers, TCP, UDP, ICMP, and one tunnel around them. */
#ifndef WS_PACKET_PARSE_H
#define WS_PACKET_PARSE_H

/* Results of parse_one() that are no address. */
#define NO_INNER 0
#define UNREADABLE 1

#define TCP_MARKS 0x07 /* FIN, SYN, RST */

/*
 * The functions below that are not static are global for the verifier: it checks each of them once, and not once for
 * each way to each call. Otherwise it gives up after a million instructions.
 */

/* FNV-1a over words; never 0, which means that the bytes were not at hand. */
__noinline __u32 hash_payload(__u64 at, __u32 len, __u64 end)
{
	__u32 words[HASHED_BYTES / 4] = {};
	__u32 n = len < HASHED_BYTES ? len : HASHED_BYTES;
	__u32 hash = 2166136261;

	barrier_var(n);
	n &= 63;
	if (n > HASHED_BYTES)
		n = HASHED_BYTES;
	if (at + n > end || bpf_probe_read_kernel(words, n, (void *)at))
		return 0;
	for (int i = 0; i < HASHED_BYTES / 4; i++)
		hash = (hash ^ words[i]) * 16777619;
	return hash ? hash : 1;
}

/* Address of the IP packet in an Ethernet frame, or 0. */
static __always_inline __u64 in_frame(__u64 frame, __u64 end)
{
	__be16 kind = 0;

	if (!take(&kind, sizeof(kind), frame + ETHERNET_LEN - 2, end))
		return NO_INNER;
	return kind == bpf_htons(ETH_P_IP) || kind == bpf_htons(ETH_P_IPV6) ? frame + ETHERNET_LEN : NO_INNER;
}

__noinline __u64 in_gre(__u64 at, __u64 end)
{
	__u16 h[2] = {};
	__u64 inner = at + 4;

	if (!take(h, sizeof(h), at, end))
		return NO_INNER;
	h[0] = bpf_ntohs(h[0]);
	/* Checksum, key and number have four bytes each. */
	inner += (h[0] & 0x8000 ? 4 : 0) + (h[0] & 0x2000 ? 4 : 0) + (h[0] & 0x1000 ? 4 : 0);
	if (h[1] == bpf_htons(ETH_P_IP) || h[1] == bpf_htons(ETH_P_IPV6))
		return inner;
	return h[1] == bpf_htons(ETH_P_BRIDGED) ? in_frame(inner, end) : NO_INNER;
}

/* `at` is behind the header of UDP. */
__noinline __u64 in_udp(__u32 port, __u64 at, __u64 end)
{
	__u8 h[4] = {};

	if (!take(h, sizeof(h), at, end))
		return NO_INNER;
	if (port != GENEVE_PORT && is_tunnel(port) && h[0] == 0x08)
		return in_frame(at + 8, end);
	if (port == GENEVE_PORT && h[2] == (ETH_P_BRIDGED >> 8) && h[3] == (ETH_P_BRIDGED & 0xff))
		return in_frame(at + 8 + (h[0] & 0x3f) * 4, end);
	return NO_INNER;
}

/* Passes the extension headers. Returns the address of what follows, or 0. */
__noinline __u64 pass_extensions(struct ws_packet *p, __u64 at, __u64 end)
{
	__u8 h[8];

	if (!p)
		return 0;
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		__u8 kind = p->protocol;

		if (kind != IPPROTO_HOPOPTS && kind != IPPROTO_ROUTING && kind != IPPROTO_FRAGMENT &&
		    kind != IPPROTO_AH && kind != IPPROTO_DSTOPTS)
			return at;
		if (!take(h, sizeof(h), at, end))
			return 0;
		p->protocol = h[0];
		if (kind == IPPROTO_FRAGMENT) {
			p->seq = (h[2] << 8 | h[3]) & 0xfff8;
			p->hash = h[4] << 24 | h[5] << 16 | h[6] << 8 | h[7];
			p->kind = p->seq ? WS_N_FRAGMENT : WS_N_WHOLE;
			at += 8;
		} else if (kind == IPPROTO_AH) {
			at += (h[1] + 2) * 4;
		} else {
			at += (h[1] + 1) * 8;
		}
		if (p->kind == WS_N_FRAGMENT)
			return at;
	}
	return 0;
}

/*
 * What tells an acknowledgement without payload from others of its connection: numbers, flags, window and options (the
 * times of both ends, gaps), which no device changes. 0 if the options are not at hand.
 */
__noinline __u32 hash_acknowledgement(const struct l4_header *h, __u64 options, __u32 len, __u64 end)
{
	__u32 hash;

	if (!h)
		return 0;
	hash = hash_payload(options, len, end);
	if (!hash)
		return 0;
	hash = (hash ^ h->seq) * 16777619;
	hash = (hash ^ h->ack) * 16777619;
	hash = (hash ^ ((__u32)h->window << 8 | h->flags)) * 16777619;
	return hash ? hash : 1;
}

/* Counts a header that belongs to the packet: bytes behind its end are none. */
static __always_inline void pass_header(struct ws_packet *p, __u64 len)
{
	len += p->headers;
	p->headers = len > 255 ? 255 : len;
}

/* Ports and identity. `len` has the bytes from here on. Returns what parse_one() returns. */
__noinline __u64 parse_l4(struct ws_packet *p, __u64 at, __u32 len, __u64 end)
{
	struct l4_header h = {};
	__u32 head;
	__u64 inner;

	if (!p)
		return UNREADABLE;
	p->len = len;
	if (p->kind == WS_N_FRAGMENT)
		return NO_INNER;
	p->source_port = p->destination_port = 0;
	switch (p->protocol) {
	case IPPROTO_TCP:
		if (!take(&h, 20, at, end))
			return UNREADABLE;
		head = (h.data_offset >> 4) * 4;
		if (head < 20)
			return UNREADABLE;
		p->source_port = bpf_ntohs(h.source);
		p->destination_port = bpf_ntohs(h.destination);
		p->seq = bpf_ntohl(h.seq);
		p->flags = h.flags;
		p->len = len > head ? len - head : 0;
		pass_header(p, len > head ? head : len);
		if (!p->len && !(h.flags & TCP_MARKS))
			p->hash = hash_acknowledgement(&h, at + 20, head - 20, end);
		return NO_INNER;
	case IPPROTO_UDP:
		if (!take(&h, 8, at, end))
			return UNREADABLE;
		p->source_port = bpf_ntohs(h.source);
		p->destination_port = bpf_ntohs(h.destination);
		p->len = len > 8 ? len - 8 : 0;
		inner = in_udp(p->destination_port, at + 8, end);
		if (inner) {
			p->tunnel = p->destination_port == GENEVE_PORT ? WS_T_GENEVE : WS_T_VXLAN;
			return inner;
		}
		p->hash = hash_payload(at + 8, p->len, end);
		pass_header(p, len - p->len);
		return NO_INNER;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (!take(&h, 8, at, end))
			return UNREADABLE;
		p->source_port = bpf_ntohs(h.source) >> 8;	  /* type */
		p->destination_port = bpf_ntohs(h.source) & 0xff; /* code */
		p->hash = bpf_ntohl(h.seq) >> 16;
		p->seq = bpf_ntohl(h.seq) & 0xffff;
		pass_header(p, len < 8 ? len : 8);
		return NO_INNER;
	case IPPROTO_GRE:
		inner = in_gre(at, end);
		if (inner)
			p->tunnel = WS_T_GRE;
		return inner;
	case IPPROTO_IPIP:
	case IPPROTO_IPV6:
		p->tunnel = WS_T_IPIP;
		return at;
	}
	return NO_INNER;
}

/*
 * One IP packet at `at`, of `whole` bytes; the bytes up to `end` can be read. Returns the address of the packet in the
 * tunnel, if this is one.
 */
__noinline __u64 parse_one(struct ws_packet *p, __u64 at, __u32 whole, __u64 end)
{
	struct ipv6_header v6 = {};
	struct ipv4_header v4 = {};
	__u32 len, head;

	if (!p)
		return UNREADABLE;
	p->flags = 0;
	p->seq = p->hash = 0;
	p->kind = WS_N_WHOLE;
	if (!take(&v4, sizeof(v4), at, end))
		return UNREADABLE;
	if (v4.version_length >> 4 == 4) {
		head = (v4.version_length & 15) * 4;
		len = bpf_ntohs(v4.total);
		if (!len) /* longer than the field can say */
			len = whole;
		if (head < sizeof(v4) || len < head)
			return UNREADABLE;
		map_ipv4(p->source, v4.source);
		map_ipv4(p->destination, v4.destination);
		p->protocol = v4.protocol;
		if (v4.fragment & bpf_htons(0x1fff)) {
			p->kind = WS_N_FRAGMENT;
			p->seq = (bpf_ntohs(v4.fragment) & 0x1fff) * 8;
			p->hash = bpf_ntohs(v4.id);
			p->source_port = p->destination_port = 0;
		}
		pass_header(p, head);
		return parse_l4(p, at + head, len - head, end);
	}
	if (v4.version_length >> 4 == 6 && take(&v6, sizeof(v6), at, end)) {
		__u64 l4;

		len = bpf_ntohs(v6.payload);
		if (!len && whole > sizeof(v6))
			len = whole - sizeof(v6);
		__builtin_memcpy(p->source, v6.source, 16);
		__builtin_memcpy(p->destination, v6.destination, 16);
		p->protocol = v6.next;
		l4 = pass_extensions(p, at + sizeof(v6), end);
		head = l4 - at - sizeof(v6);
		if (!l4 || len < head)
			return UNREADABLE;
		if (p->kind == WS_N_FRAGMENT)
			p->source_port = p->destination_port = 0;
		pass_header(p, l4 - at);
		return parse_l4(p, l4, len - head, end);
	}
	return UNREADABLE;
}

/* Whether a header is chosen, or was before conntrack translated it. */
static __always_inline bool is_chosen(const struct ws_packet *p, struct sk_buff *skb)
{
	__u64 nfct;

	if (chosen_header(p))
		return true;
	nfct = follows() ? connection_of(skb, false) : 0;
	return nfct && chosen_before(p, nfct);
}

/* Whether the packet, or the packet in its tunnel, is chosen. The record is of the inner one. */
static __always_inline bool parse(struct ws_packet *p, struct sk_buff *skb, __u64 at, __u32 whole, __u64 end)
{
	__u64 inner;
	bool chosen;
	__u8 tunnel;

	/* Before the headers are read: the sooner, the narrower are the bounds of the clocks of two hosts. */
	if (p->point == WS_P_RECEIVE || p->point == WS_P_INGRESS)
		p->time_ns = bpf_ktime_get_ns();
	p->headers = 0;
	inner = parse_one(p, at, whole, end);
	if (inner == UNREADABLE) {
		count(WS_K_UNREADABLE);
		return false;
	}
	chosen = (inner == NO_INNER || which_headers != WS_H_INNER) && is_chosen(p, skb);
	if (inner == NO_INNER)
		return chosen;
	tunnel = p->tunnel;
	p->headers = 0;
	pass_header(p, inner - at);
	if (parse_one(p, inner, whole - (__u32)(inner - at), end) == UNREADABLE) {
		count(WS_K_UNREADABLE);
		return false;
	}
	p->tunnel = tunnel;
	return chosen || (which_headers != WS_H_OUTER && is_chosen(p, skb));
}

#endif
