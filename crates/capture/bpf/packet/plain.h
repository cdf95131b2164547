/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* A quick look at the packets that are not chosen: nearly all that pass. */
#ifndef WS_PACKET_PLAIN_H
#define WS_PACKET_PLAIN_H

static __always_inline bool is_tunnel(__u16 port)
{
	return port == VXLAN_PORT || port == VXLAN_OLD_PORT || port == GENEVE_PORT;
}

/* The beginning of a packet of IPv4 without options. */
struct plain_header {
	struct ipv4_header ip;
	__be16 source;
	__be16 destination;
};

/* Whether one look can say that a packet is not chosen. */
static __always_inline bool may_look(void)
{
	return !only_ends &&
	       (only_protocol || source_port || destination_port || either_port || only_ether_type == ETH_P_IPV6);
}

/*
 * Whether a packet is plainly not chosen: whole, of IPv4 without options, with TCP or UDP and no tunnel in it. Most
 * packets that pass are such, and one look must do: the whole way through the headers costs more than the hook.
 */
static __always_inline bool is_plainly_another(const struct plain_header *h, struct sk_buff *skb, bool known)
{
	__u16 from = bpf_ntohs(h->source), to = bpf_ntohs(h->destination);

	if (h->ip.version_length != 0x45 || h->ip.fragment & bpf_htons(0x1fff))
		return false;
	if (h->ip.protocol != IPPROTO_TCP && h->ip.protocol != IPPROTO_UDP)
		return false;
	if (h->ip.protocol == IPPROTO_UDP && is_tunnel(to))
		return false;
	if (only_ether_type == ETH_P_IPV6 || (only_protocol && h->ip.protocol != only_protocol))
		return true;
	return !chosen_ports(from, to) && !may_be_followed(skb, known);
}

static __always_inline bool is_another(struct sk_buff *skb, bool known, __u64 at, __u64 end)
{
	struct plain_header h;

	return may_look() && take(&h, sizeof(h), at, end) && is_plainly_another(&h, skb, known);
}

#endif
