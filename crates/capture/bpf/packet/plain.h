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

/*
 * Whether a packet is plainly not chosen: whole, of IPv4 without options, with TCP or UDP and no tunnel in it. Most
 * packets that pass are such, and one look must do: the whole way through the headers costs more than the hook.
 */
static __always_inline bool is_another(struct sk_buff *skb, __u64 at, __u64 end)
{
	struct plain_header h;
	__u16 from, to;

	bool of_ipv6 = only_ether_type == ETH_P_IPV6;

	if (only_ends || !(only_protocol || source_port || destination_port || either_port || of_ipv6))
		return false;
	if (!take(&h, sizeof(h), at, end) || h.ip.version_length != 0x45 || h.ip.fragment & bpf_htons(0x1fff))
		return false;
	if (h.ip.protocol != IPPROTO_TCP && h.ip.protocol != IPPROTO_UDP)
		return false;
	from = bpf_ntohs(h.source);
	to = bpf_ntohs(h.destination);
	if (h.ip.protocol == IPPROTO_UDP && is_tunnel(to))
		return false;
	if (of_ipv6 || (only_protocol && h.ip.protocol != only_protocol))
		return true;
	return !chosen_ports(from, to) && !may_be_followed(skb);
}

#endif
