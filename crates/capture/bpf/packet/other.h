/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Frames that are not of IP. */
#ifndef WS_PACKET_OTHER_H
#define WS_PACKET_OTHER_H

/* Returns whether the frame is chosen. */
static __always_inline bool parse_other(struct ws_packet *p, __u16 kind, __u64 at, __u32 whole, __u64 end)
{
	struct arp_header arp;

	p->kind = WS_N_OTHER;
	p->source_port = kind;
	p->len = whole;
	p->hash = hash_payload(at, whole, end);
	/* Of Ethernet and IPv4, as all are. */
	if (kind == ETH_P_ARP && take(&arp, sizeof(arp), at, end) && arp.protocol == bpf_htons(ETH_P_IP) &&
	    arp.hardware_len == 6 && arp.protocol_len == 4) {
		p->destination_port = bpf_ntohs(arp.operation);
		map_ipv4(p->source, arp.source);
		map_ipv4(p->destination, arp.destination);
		p->headers = sizeof(arp);
	}
	return chosen_header(p);
}

#endif
