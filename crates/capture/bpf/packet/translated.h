/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What addresses a packet had before conntrack translated them. A packet that conntrack has seen in its namespace
 * carries its connection (skb->_nfct) until it leaves the namespace or comes to a socket. The connection has the ends
 * of both directions: those that packets of one direction came with are in its own tuple, and those that they leave
 * with are in the tuple of the other direction, the other way round.
 */
#ifndef WS_PACKET_TRANSLATED_H
#define WS_PACKET_TRANSLATED_H

#define NFCT_INFO 7UL /* the lower bits of skb->_nfct (NFCT_INFOMASK) */
#define CT_RELATED 1  /* an error of ICMP about the connection */
#define CT_IS_REPLY 3
#define CT_RELATED_REPLY 4
#define CT_TRANSLATED 0x30UL /* IPS_SRC_NAT | IPS_DST_NAT */

static __always_inline void ct_address(__u8 *to, const union nf_inet_addr *from, bool is_v4)
{
	__be32 v4 = 0;

	if (is_v4) {
		bpf_core_read(&v4, sizeof(v4), &from->ip);
		map_ipv4(to, v4);
	} else {
		bpf_core_read(to, 16, &from->all);
	}
}

static __always_inline void ct_ends(struct ws_packet_was *to, const struct nf_conntrack_tuple *tuple, bool is_v4)
{
	ct_address(to->source, &tuple->src.u3, is_v4);
	ct_address(to->destination, &tuple->dst.u3, is_v4);
	to->source_port = bpf_ntohs(BPF_CORE_READ(tuple, src.u.all));
	to->destination_port = bpf_ntohs(BPF_CORE_READ(tuple, dst.u.all));
}

static __always_inline bool same_address(const __u8 *one, const __u8 *other)
{
	__u64 a[2], b[2];

	__builtin_memcpy(a, one, sizeof(a));
	__builtin_memcpy(b, other, sizeof(b));
	return a[0] == b[0] && a[1] == b[1];
}

/*
 * Whether the packet has other addresses or ports than those with which it came to this namespace, by the connection of
 * its skb->_nfct. In a tunnel, conntrack may know the outer packet, or the inner one: its ends must be those of `p`.
 * Global: see parse.h.
 */
__noinline int was_translated(const struct ws_packet *p, struct ws_packet_was *was, __u64 nfct)
{
	struct ws_packet_was leaves = {};
	__u64 ct = nfct & ~NFCT_INFO, hashes;
	__u32 info = nfct & NFCT_INFO, dir = info >= CT_IS_REPLY, size;
	const struct nf_conntrack_tuple *tuple;
	bool is_v4, has_ports, moved, came;

	if (!p || !was || !bpf_core_type_exists(struct nf_conn))
		return false;
	if (!ct || info == CT_RELATED || info == CT_RELATED_REPLY || info > CT_RELATED_REPLY || p->kind != WS_N_WHOLE)
		return false;
	if (!(BPF_CORE_READ((struct nf_conn *)ct, status) & CT_TRANSLATED))
		return false;
	hashes = ct + bpf_core_field_offset(((struct nf_conn *)0)->tuplehash);
	size = bpf_core_type_size(struct nf_conntrack_tuple_hash);
	tuple = &((struct nf_conntrack_tuple_hash *)(hashes + dir * size))->tuple;
	if (BPF_CORE_READ(tuple, dst.protonum) != p->protocol)
		return false;
	is_v4 = BPF_CORE_READ(tuple, src.l3num) == AF_INET;
	has_ports = p->protocol == IPPROTO_TCP || p->protocol == IPPROTO_UDP;
	ct_ends(was, tuple, is_v4);
	ct_ends(&leaves, &((struct nf_conntrack_tuple_hash *)(hashes + !dir * size))->tuple, is_v4);
	if (!has_ports) {
		/* Of ICMP, these are its id, type and code. */
		was->source_port = leaves.destination_port = p->source_port;
		was->destination_port = leaves.source_port = p->destination_port;
	}
	/* Each end of the packet is as it came, or as it leaves. */
	came = same_address(p->source, was->source) && p->source_port == was->source_port;
	moved = same_address(p->source, leaves.destination) && p->source_port == leaves.destination_port;
	if (!came && !moved)
		return false;
	moved = !came;
	came = same_address(p->destination, was->destination) && p->destination_port == was->destination_port;
	if (!came && !(same_address(p->destination, leaves.source) && p->destination_port == leaves.source_port))
		return false;
	return moved || !came;
}

/* The connection by which conntrack knows the packet; 0 for none. `known`: as in SKB(). */
static __always_inline __u64 connection_of(struct sk_buff *skb, bool known)
{
	if (!skb || !bpf_core_field_exists(skb->_nfct))
		return 0;
	return SKB(known, skb, _nfct);
}

/* Whether the packet may be of a flow that is followed: a look without its headers. */
static __always_inline bool may_be_followed(struct sk_buff *skb, bool known)
{
	__u64 ct;

	if (!follows())
		return false;
	if (any_followed)
		return true;
	ct = connection_of(skb, known) & ~NFCT_INFO;
	return ct && bpf_core_type_exists(struct nf_conn) &&
	       (BPF_CORE_READ((struct nf_conn *)ct, status) & CT_TRANSLATED);
}

/* Whether the packet is chosen by the addresses with which it came to its namespace. Global: see parse.h. */
__noinline int chosen_before(const struct ws_packet *p, __u64 nfct)
{
	struct ws_packet_was was = {};

	if (!p || !chosen_kind(p) || !was_translated(p, &was, nfct))
		return false;
	if (chosen_addresses(was.source, was.destination, was.source_port, was.destination_port))
		return true;
	return is_followed(was.source, was.destination, was.source_port, was.destination_port, p->protocol);
}

/*
 * A chosen packet was translated: from now on its flow is chosen under both pairs of addresses. So are the answers,
 * which come to other addresses than they leave with, if the filter chooses these. Global: see parse.h.
 */
__noinline int follow(const struct ws_packet *p, const struct ws_packet_was *was)
{
	if (!p || !was)
		return 0;
	if (is_followed(p->source, p->destination, p->source_port, p->destination_port, p->protocol))
		return 0;
	remember(p->source, p->destination, p->source_port, p->destination_port, p->protocol);
	remember(was->source, was->destination, was->source_port, was->destination_port, p->protocol);
	if (chosen_addresses(was->destination, was->source, was->destination_port, was->source_port) ||
	    chosen_addresses(p->destination, p->source, p->destination_port, p->source_port)) {
		remember(p->destination, p->source, p->destination_port, p->source_port, p->protocol);
		remember(was->destination, was->source, was->destination_port, was->source_port, p->protocol);
	}
	any_followed = 1;
	return 0;
}

#endif
