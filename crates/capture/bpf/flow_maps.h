/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Flows: connections bundled by process, remote address and listening port.
 *
 * A TCP socket in use has an entry in `flow_sockets`, to which a message costs one look-up and two additions. What it
 * gathered goes into its bundle when the socket closes, and when `flow_sweep` passes, just before each drain. Two tables of
 * bundles take turns: user space puts the empty one into `flow_current`, for which the kernel waits until no program works
 * with the other (maybe_wait_bpf_programs), and only then empties that one: no count is ever written to a bundle that has
 * been read.
 *
 * Every table is bounded and none may lose a dependency: a socket without room in `flow_sockets` has its state in socket
 * storage, and is bundled with each message; a bundle without room goes out on its own through `flow_spills`.
 */
#ifndef WS_FLOW_MAPS_H
#define WS_FLOW_MAPS_H

/* Who owns a socket. */
struct flow_owner {
	__u64 cgroup_id;
	__u64 start_ns;
	__u32 pid;
	__u32 pad;
	char comm[WS_COMM_LEN];
};

/* A socket, and what was exchanged on it. Where two hold a total and what of it was bundled, the difference is due. */
struct flow_sock {
	__u64 sk;		/* 0 until a program meets it */
	__u64 bytes[2];		/* by enum ws_direction, as all pairs */
	__u64 bytes_bundled[2];
	__u64 messages[2];
	__u64 messages_bundled[2];
	__u64 connect_ns;	/* start of the handshake */
	__u32 handshake_us;	/* due if not 0 */
	__u32 opened;		/* due */
	__u32 adopted;		/* due */
	__u32 resets_sent;	/* due */
	__u32 resets_received;	/* due */
	__u32 retransmits;	/* bundled, as the following */
	__u32 out_of_order;
	__u32 drops;		/* of a listener: connections refused */
	__u32 first_byte;	/* sequence number of the first byte received */
	__u16 client_port;
	__u8 owned;		/* a message told which process uses it */
	__u8 listens;
	__u8 swept;
	__u8 bundled;		/* its bundle knows of it */
	__u8 pad[6];
	struct flow_owner owner;
	struct ws_flow_key key;
};

/* By cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768); /* set by user space */
	__type(key, __u64);
	__type(value, struct flow_sock);
} flow_sockets SEC(".maps");

/* Sockets of UDP, which end without a sign; and of TCP for which `flow_sockets` has no room. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow_sock);
} flow_others SEC(".maps");

/* Where targets listen: tells whose a connection is before anybody accepts it. An address of zeros is any. */
struct flow_listener_key {
	__u8 local[16];
	__u32 netns;
	__u16 port;
	__u16 pad;
};

struct flow_listener {
	struct flow_owner owner;
	__u64 sockets;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flow_listener_key);
	__type(value, struct flow_listener);
} flow_listeners SEC(".maps");

struct flow_bundles {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* set by user space */
	__type(key, struct ws_flow_key);
	__type(value, struct ws_flow_counts);
} flow_bundles_a SEC(".maps"), flow_bundles_b SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct flow_bundles);
} flow_current SEC(".maps") = {
	.values = { (void *)&flow_bundles_a },
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024); /* ten thousand bundles, while user space wakes up and turns the tables */
} flow_spills SEC(".maps");

#endif
