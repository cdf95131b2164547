/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Flows: connections bundled by process, remote address and listening port.
 *
 * A TCP socket in use has a place in two arrays: a slot, which each message reads, and its state. The place follows
 * from the socket's cookie, so that nothing is hashed, allocated or freed for a connection. TCP itself counts the bytes
 * of the socket. Only calls are counted here, in the slot, at almost no cost to a message. All counts go into the
 * socket's bundle when the socket closes, and when `flow_sweep` passes, just before each drain.
 *
 * Two tables of bundles take turns. User space puts the empty table into `flow_current`; the kernel then waits until no
 * program works with the other table (maybe_wait_bpf_programs). Only then does user space empty the other table: no
 * count is ever written to a bundle that has been read.
 *
 * Every table is bounded, and none may lose a dependency. If all places of a socket are taken, its state is in memory
 * of its own, and each message is bundled. A bundle without room goes out on its own through `flow_spills`.
 */
#ifndef WS_FLOW_MAPS_H
#define WS_FLOW_MAPS_H

/* The process that owns a socket. */
struct flow_owner {
	__u64 cgroup_id;
	__u64 start_ns;
	__u32 pid;
	__u32 pad;
	char comm[WS_COMM_LEN];
};

/*
 * State of a socket. "Bundled" fields have the total that is in the bundle already; the difference to the current total
 * is due. "Due" fields have counts that are not in the bundle yet.
 */
struct flow_sock {
	__u64 sk;	       /* 0 until a program meets it */
	__u64 bytes[2];	       /* bundled; by enum ws_direction, as all pairs */
	__u64 connect_jiffies; /* start of the handshake */
	__u32 calls[2];	       /* due; a socket with a slot has them there instead */
	__u32 handshake_us;    /* due if not 0 */
	__u32 opened;	       /* due */
	__u32 adopted;	       /* due */
	__u32 resets_sent;     /* due */
	__u32 resets_received; /* due */
	__u32 retransmits;     /* bundled, as the following */
	__u32 out_of_order;
	__u32 drops;	 /* a listener: connections that it refused */
	__u32 swept_now; /* a sweep looks at it; if it closes meanwhile, the sweep frees its place */
	__u16 client_port;
	__u8 based; /* `bytes` has the bytes from before the tracing */
	__u8 owned; /* a message has shown the process that uses it */
	__u8 listens;
	__u8 swept;
	__u8 bundled; /* it counts in its bundle as open */
	__u8 pad[5];
	struct flow_owner owner;
	struct ws_flow_key key;
};

/* A place: the cookie of its socket, and calls on that socket that are due. */
struct flow_slot {
	__u64 cookie; /* 0: free */
	__u32 calls[2];
};

#define FLOW_NEW (1ULL << 63) /* beside the cookie: the next call shows the owner, or where counting begins */
#define FLOW_GOING \
	(1ULL << 62)	   /* beside the cookie: the socket closes, and is settled for the last time; in the next two */
#define FLOW_TAKEN (~0ULL) /* being filled */
#define FLOW_ENDED (~0ULL - 1) /* closed while a sweep looks at it */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by user space, a power of two, as the next */
	__type(key, __u32);
	__type(value, struct flow_slot);
} flow_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* of the first WS_FLOW_NEAR places, or fewer */
	__type(key, __u32);
	__type(value, struct flow_sock);
} flow_sockets SEC(".maps");

/*
 * The states of all further places: many megabytes, of which few hosts need any. The box is empty until user space sees
 * `flow_far_wanted`.
 */
WS_BOXED_ARRAY(flow_far, struct flow_sock);

#define FLOW_PATIENCE 64 /* so many sockets may go without a place between two sweeps before further ones are made */
__u32 flow_beyond;	 /* sockets that went without since the last sweep */
bool flow_far_wanted;

const volatile __u32 flow_slot_mask = 0; /* set before load */

/* One mark for so many places: whether any is, or was since the last sweep, in use. A sweep skips unused blocks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by user space */
	__type(key, __u32);
	__type(value, __u32);
} flow_blocks SEC(".maps");
bool flow_unlisted_tcp;	    /* there were TCP sockets without a place */
__u32 flow_bound_listeners; /* listening sockets at one address only */

/* State of UDP sockets, whose end is not seen; and of TCP sockets whose places are all taken. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow_sock);
} flow_others SEC(".maps");

/*
 * State of TCP sockets whose places are all taken, by cookie, where calls are counted at the end of system calls:
 * socket storage wants a pointer that the verifier trusts, and a socket found by its descriptor is none.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by user space */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct flow_sock);
} flow_by_cookie SEC(".maps");

/* Addresses where targets listen. They show the owner of a connection before it is accepted. Zeros mean any address. */
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
	__uint(max_entries, 1); /* set by user space */
	__uint(map_flags, BPF_F_NO_PREALLOC);
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
	__uint(max_entries,
	       2 * 1024 * 1024); /* room for 5,000 bundles, while user space wakes up and switches the tables */
} flow_spills SEC(".maps");

/*
 * Remote ends of which user space knows that their connections are not translated (NAT). The box is empty as long as
 * connection tracking cannot be asked: then nothing is. See flow_apart().
 */
WS_TABLE(flow_plain, struct ws_flow_plain, __u8);

const volatile __u32 flow_many = 0; /* bundles at which user space is woken; user space sets it to half a table */
__u32 flow_made;		    /* bundles made since the last drain */

#endif
