/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The ends of connections whose packets are told. The programs of targets add to the table of the packets' programs. */
#ifndef WS_PACKET_ENDS_H
#define WS_PACKET_ENDS_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ws_packet_end);
	__type(value, __u8); /* enum ws_packet_end_use */
} packet_ends SEC(".maps");

#endif
