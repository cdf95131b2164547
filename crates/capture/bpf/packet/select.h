/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Which packets are told, and how. */
#ifndef WS_PACKET_SELECT_H
#define WS_PACKET_SELECT_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by user space */
} packets SEC(".maps");

/* Inodes of the chosen network namespaces. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} packet_netns SEC(".maps");

/* Sequence numbers with which connections to chosen ends begin. They show the end behind address translation. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} packet_syns SEC(".maps");

#define WS_MAX_DEVICES 4
#define TCP_FLAG_OF_SYN 0x02
#define TCP_FLAG_OF_ACK 0x10

/* Set before load. 0 or an empty mask: any. */
const volatile bool any_netns = false;
const volatile bool only_ends = false;	/* one end must be in packet_ends */
const volatile bool only_hosts = false; /* the address of one end must be there, with port 0 */
const volatile __u32 only_netns = 0;	/* if one namespace is chosen */
const volatile __u64 source_address[2] = {};
const volatile __u64 source_mask[2] = {};
const volatile __u64 destination_address[2] = {};
const volatile __u64 destination_mask[2] = {};
const volatile __u64 either_address[2] = {};
const volatile __u64 either_mask[2] = {};
const volatile __u16 source_port = 0;
const volatile __u16 destination_port = 0;
const volatile __u16 either_port = 0;
const volatile __u8 only_protocol = 0;
const volatile __u8 any_of_flags = 0;
const volatile __u16 only_ether_type = 0;
const volatile __u8 which_headers = WS_H_EITHER;
const volatile __u32 device_count = 0;
const volatile __u64 device_names[2 * WS_MAX_DEVICES] = {};
const volatile __u32 one_flow_of = 0;
const volatile __u64 at_most = 0;
const volatile __u8 snap_bytes = 0;	/* of headers, with each packet */
const volatile bool with_stack = false; /* of the kernel, with each packet */

/* Read by user space. */
__u64 counts[WS_K_MAX];

static __always_inline void count(__u32 which)
{
	if (which < WS_K_MAX)
		__sync_fetch_and_add(&counts[which], 1);
}

static __always_inline bool chosen_netns(__u32 inode)
{
	if (any_netns)
		return true;
	if (only_netns)
		return inode == only_netns;
	return bpf_map_lookup_elem(&packet_netns, &inode) != NULL;
}

static __always_inline bool within(const __u8 *address, const volatile __u64 *net, const volatile __u64 *mask)
{
	__u64 a[2];

	__builtin_memcpy(a, address, sizeof(a));
	return (a[0] & mask[0]) == net[0] && (a[1] & mask[1]) == net[1];
}

static __always_inline bool is_end(const __u8 *address, __u16 port)
{
	struct ws_packet_end end = { .port = port };

	__u8 *use;

	__builtin_memcpy(end.address, address, sizeof(end.address));
	use = bpf_map_lookup_elem(&packet_ends, &end);
	return use && *use != WS_E_LEFT;
}

/*
 * The first packet of a connection shows the end of its server, before any request is sent: where a target listens at
 * all addresses, and where the address of the server was translated since a chosen end was seen.
 */
static __always_inline bool learn_end(const struct ws_packet *p)
{
	struct ws_packet_end end = { .port = p->destination_port, .netns = p->netns };
	__u8 learnt = WS_E_LEARNT;
	__u32 seq = p->seq;
	long refused;

	if (!bpf_map_lookup_elem(&packet_ends, &end) && !bpf_map_lookup_elem(&packet_syns, &seq))
		return false;
	end.netns = 0;
	__builtin_memcpy(end.address, p->destination, sizeof(end.address));
	refused = bpf_map_update_elem(&packet_ends, &end, &learnt, BPF_NOEXIST);
	if (refused && refused != -EEXIST)
		count(WS_K_ENDS_FULL);
	return !refused;
}

/* Whether one end of the packet is chosen. */
static __always_inline bool at_chosen_end(const struct ws_packet *p)
{
	bool begins = p->protocol == IPPROTO_TCP && (p->flags & (TCP_FLAG_OF_SYN | TCP_FLAG_OF_ACK)) == TCP_FLAG_OF_SYN;
	bool to = is_end(p->destination, p->destination_port) || (begins && learn_end(p));
	__u32 seq = p->seq;
	__u8 one = 1;

	if (to && begins)
		bpf_map_update_elem(&packet_syns, &seq, &one, BPF_ANY);
	return to || is_end(p->source, p->source_port);
}

/* Whether the version of IP is the chosen one. Mapped addresses are those of IPv4, at a socket of IPv6 too. */
static __always_inline bool chosen_version(const struct ws_packet *p)
{
	bool is_v4 = *(__u64 *)p->source == 0 && *(__u32 *)(p->source + 8) == bpf_htonl(0xffff);

	if (p->kind == WS_N_OTHER)
		return true;
	return only_ether_type == (is_v4 ? ETH_P_IP : ETH_P_IPV6);
}

static __always_inline bool chosen_ports(__u16 from, __u16 to)
{
	if (source_port && from != source_port)
		return false;
	if (destination_port && to != destination_port)
		return false;
	return !either_port || from == either_port || to == either_port;
}

/* Whether the filter asks for addresses or ports. Then a flow is followed if conntrack translates these. */
static __always_inline bool follows(void)
{
	if (only_ends)
		return false;
	return source_port || destination_port || either_port || only_hosts || source_mask[0] || source_mask[1] ||
	       destination_mask[0] || destination_mask[1] || either_mask[0] || either_mask[1];
}

/* Whether addresses and ports are those of the filter. */
static __always_inline bool chosen_addresses(const __u8 *source, const __u8 *destination, __u16 from, __u16 to)
{
	if (!chosen_ports(from, to))
		return false;
	if (only_hosts && !is_end(source, 0) && !is_end(destination, 0))
		return false;
	return within(source, source_address, source_mask) &&
	       within(destination, destination_address, destination_mask) &&
	       (within(source, either_address, either_mask) || within(destination, either_address, either_mask));
}

/* Whether all else is that of the filter. */
static __always_inline bool chosen_kind(const struct ws_packet *p)
{
	if (only_protocol && p->protocol != only_protocol)
		return false;
	if (any_of_flags && !(p->flags & any_of_flags))
		return false;
	return !only_ether_type || chosen_version(p);
}

/* Whether one header is that of the filter, or of a flow that is followed. Global: see parse.h. */
__noinline int chosen_header(const struct ws_packet *p)
{
	if (!p || !chosen_kind(p))
		return false;
	if (only_ends && !at_chosen_end(p))
		return false;
	if (chosen_addresses(p->source, p->destination, p->source_port, p->destination_port))
		return true;
	return follows() && is_followed(p->source, p->destination, p->source_port, p->destination_port, p->protocol);
}

static __always_inline bool chosen_device(const struct ws_packet *p)
{
	__u64 name[2];

	if (!device_count || !p->ifindex)
		return true;
	__builtin_memcpy(name, p->device, sizeof(name));
	for (int i = 0; i < WS_MAX_DEVICES; i++) {
		if (i < device_count && name[0] == device_names[2 * i] && name[1] == device_names[2 * i + 1])
			return true;
	}
	return false;
}

/* The same for both directions of a flow, so that a sample has whole conversations. */
static __always_inline bool sampled(const struct ws_packet *p)
{
	__u64 a[2], b[2], mix;

	if (one_flow_of < 2)
		return true;
	__builtin_memcpy(a, p->source, sizeof(a));
	__builtin_memcpy(b, p->destination, sizeof(b));
	mix = (a[0] ^ b[0]) + (a[1] ^ b[1]) * 0x9e3779b97f4a7c15 + (p->source_port ^ p->destination_port);
	mix *= 0xbf58476d1ce4e5b9;
	return (__u32)(mix >> 32) % one_flow_of == 0;
}

/* Whether a chosen packet is told; then it has its time. Global: see parse.h. */
__noinline int may_tell(struct ws_packet *p)
{
	if (!p || !sampled(p))
		return false;
	if (at_most && __sync_fetch_and_add(&counts[WS_K_TAKEN], 1) >= at_most) {
		__sync_fetch_and_add(&counts[WS_K_TAKEN], -1);
		count(WS_K_LIMITED);
		return false;
	}
	if (!p->time_ns)
		p->time_ns = bpf_ktime_get_ns();
	p->cpu = bpf_get_smp_processor_id();
	return true;
}

#endif
