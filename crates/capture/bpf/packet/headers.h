/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Layouts of headers, and how they are read. */
#ifndef WS_PACKET_HEADERS_H
#define WS_PACKET_HEADERS_H

#define ETH_P_IP 0x0800
#define ETH_P_ARP 0x0806
#define ETH_P_IPV6 0x86dd
#define ETH_P_VLAN 0x8100
#define ETH_P_QINQ 0x88a8
#define ETH_P_BRIDGED 0x6558
#define ETHERNET_LEN 14
#define IPPROTO_HOPOPTS 0
#define IPPROTO_ICMP 1
#define IPPROTO_IPIP 4
#define IPPROTO_IPV6 41
#define IPPROTO_ROUTING 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_GRE 47
#define IPPROTO_AH 51
#define IPPROTO_ICMPV6 58
#define IPPROTO_DSTOPTS 60
#define VXLAN_PORT 4789
#define VXLAN_OLD_PORT 8472
#define GENEVE_PORT 6081
#define MAX_EXTENSIONS 6
#define HASHED_BYTES 32

struct ipv4_header {
	__u8 version_length;
	__u8 service;
	__be16 total;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__be32 source;
	__be32 destination;
};

struct ipv6_header {
	__u8 version;
	__u8 label[3];
	__be16 payload;
	__u8 next;
	__u8 hops;
	__u8 source[16];
	__u8 destination[16];
};

struct arp_header {
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_len;
	__u8 protocol_len;
	__be16 operation;
	__u8 source_hardware[6];
	__be32 source;
	__u8 destination_hardware[6];
	__be32 destination;
} __attribute__((packed));

struct l4_header {
	__be16 source;
	__be16 destination;
	__be32 seq; /* TCP; UDP: length and checksum; ICMP echo: id and number */
	__be32 ack;
	__u8 data_offset;
	__u8 flags;
	__be16 window;
	__be32 rest;
};

/*
 * A field of a packet. Of a packet that the verifier knows as such (`known`), it is read at once; of another one, it is
 * copied, which takes much longer. Addresses are always copied: since Linux 6.17 the verifier takes skb->data for a
 * pointer, which a global function does not accept.
 */
#define SKB(known, skb, field) ((known) ? (skb)->field : BPF_CORE_READ(skb, field))

/* Bytes that lie behind the linear part of a packet are not read. */
static __always_inline bool take(void *to, __u32 n, __u64 at, __u64 end)
{
	return at + n <= end && !bpf_probe_read_kernel(to, n, (void *)at);
}

static __always_inline void map_ipv4(__u8 *to, __be32 address)
{
	__builtin_memset(to, 0, 10);
	to[10] = 0xff;
	to[11] = 0xff;
	__builtin_memcpy(to + 12, &address, 4);
}

#endif
