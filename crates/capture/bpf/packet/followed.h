/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Flows that a filter follows through conntrack. A packet tells under which addresses it came to a namespace only where
 * it leaves that namespace (translated.h). So what it told is kept, and the flow is chosen under all of its addresses.
 */
#ifndef WS_PACKET_FOLLOWED_H
#define WS_PACKET_FOLLOWED_H

struct packet_flow {
	__u8 source[16]; /* an IPv4 address is mapped */
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	__u32 protocol;
};

/* A connection takes four of these: both directions, before and behind the translation. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct packet_flow);
	__type(value, __u8);
} packet_flows SEC(".maps");

/* Whether there is any: until then, no packet pays for looking. */
__u32 any_followed;

static __always_inline struct packet_flow flow_of(const __u8 *source, const __u8 *destination, __u16 from, __u16 to,
						  __u8 protocol)
{
	struct packet_flow flow = { .source_port = from, .destination_port = to, .protocol = protocol };

	__builtin_memcpy(flow.source, source, sizeof(flow.source));
	__builtin_memcpy(flow.destination, destination, sizeof(flow.destination));
	return flow;
}

static __always_inline bool is_followed(const __u8 *source, const __u8 *destination, __u16 from, __u16 to,
					__u8 protocol)
{
	struct packet_flow flow;

	if (!any_followed)
		return false;
	flow = flow_of(source, destination, from, to, protocol);
	return bpf_map_lookup_elem(&packet_flows, &flow) != NULL;
}

static __always_inline void remember(const __u8 *source, const __u8 *destination, __u16 from, __u16 to, __u8 protocol)
{
	struct packet_flow flow = flow_of(source, destination, from, to, protocol);
	__u8 one = 1;

	bpf_map_update_elem(&packet_flows, &flow, &one, BPF_NOEXIST);
}

#endif
