/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The records of packets: what the kernel programs and user space share. */
#ifndef WS_PACKET_CONTRACT_H
#define WS_PACKET_CONTRACT_H

/* Points that a packet passes, in the order of its way. */
enum ws_packet_point {
	WS_P_SEND = 0,	  /* bytes that a program gives to TCP */
	WS_P_QUEUE = 1,	  /* given to a device, before its queue */
	WS_P_XMIT = 2,	  /* given to the driver, after its queue */
	WS_P_RECEIVE = 3, /* came out of a device */
	WS_P_TCP = 4,	  /* an established connection takes the segment */
	WS_P_READY = 5,	  /* the reader is told; `seq` is the end of what it can read */
	WS_P_COPIED = 6,  /* copied to the reader */
	WS_P_DROP = 7,
	WS_P_RESENT = 8,   /* TCP has sent the segment again */
	WS_P_FUNCTION = 9, /* a function of the kernel that the user names; `reason` is its number */
	WS_P_MARK = 10,	   /* a program has called a function that the user names, see below */
	WS_P_EGRESS = 11,  /* given to a chosen device, before WS_P_QUEUE */
	WS_P_INGRESS = 12, /* came out of a chosen device, after WS_P_RECEIVE */
};

enum ws_packet_kind {
	WS_N_WHOLE = 0,	   /* an IP packet, or its first fragment */
	WS_N_FRAGMENT = 1, /* a later fragment, without ports */
	/* No IP: `source_port` is the kind of Ethernet frame; of ARP, `destination_port` is its operation. */
	WS_N_OTHER = 2,
};

enum ws_packet_tunnel {
	WS_T_NONE = 0,
	WS_T_VXLAN = 1,
	WS_T_GENEVE = 2,
	WS_T_GRE = 3,
	WS_T_IPIP = 4,
};

/* Of a packet in a tunnel, the headers that must be those of the filter. */
enum ws_packet_headers {
	WS_H_EITHER = 0,
	WS_H_OUTER = 1,
	WS_H_INNER = 2,
};

enum ws_packet_counter {
	WS_K_TAKEN = 0,	     /* records that were selected */
	WS_K_LOST = 1,	     /* of these, found no room in the ring */
	WS_K_UNREADABLE = 2, /* headers that end too early, or are of no known kind */
	WS_K_LIMITED = 3,    /* not taken: the limit was reached */
	WS_K_ENDS_FULL = 4,  /* the server of a connection found no room in the table of ends */
	WS_K_MAX = 5,
};

/* An end of connections: an address and port. */
struct ws_packet_end {
	__u8 address[16]; /* an IPv4 address is mapped; zeros: a target listens at all addresses of `netns` */
	__u32 port;
	__u32 netns; /* 0: anywhere */
};
_Static_assert(sizeof(struct ws_packet_end) == 24, "ws_packet_end");

/* Whether packets from and to an end are told. */
enum ws_packet_end_use {
	WS_E_LEFT = 0,	 /* no: nobody asks for its requests */
	WS_E_LEARNT = 1, /* yes: a target connects to it or listens there, and it is not known what for */
	WS_E_ASKED = 2,	 /* yes: user space has asked */
};

/*
 * A packet at a point. In a tunnel, the addresses and all that follows are of the inner packet. A mark is no packet: it
 * has the number of its function as `reason`, process and thread as `seq` and `len`, and the thread's name as `device`.
 */
struct ws_packet {
	__u64 time_ns;
	__u32 netns; /* inode of the namespace */
	__u32 ifindex;
	__u8 device[16];
	__u8 source[16]; /* an IPv4 address is mapped */
	__u8 destination[16];
	__u16 source_port; /* host order, as all numbers */
	__u16 destination_port;
	__u32 seq; /* TCP: of the first byte; ICMP echo: its number; a later fragment: its offset */
	__u32 len; /* of the payload */
	/* UDP: of the first bytes of the payload. TCP without payload, SYN, FIN and RST: of what else its header has.
	 * 0 if these bytes are not at hand. ICMP echo, fragment: its id. */
	__u32 hash;
	__u32 reason;	 /* of a drop */
	__u32 queue_len; /* packets that wait in the queue of the device, where it counts them in one place */
	__u8 point;
	__u8 protocol;
	__u8 flags; /* of TCP */
	__u8 tunnel;
	__u16 cpu;
	__u8 kind; /* enum ws_packet_kind */
	/* From the first network header to the end of the last transport header, bytes; at most 255. */
	__u8 headers;
};
_Static_assert(sizeof(struct ws_packet) == 96, "ws_packet");

/* Behind the packet and what else is told: the ends with which it came to its namespace, if they were others. */
struct ws_packet_was {
	__u8 source[16];
	__u8 destination[16];
	__u16 source_port;
	__u16 destination_port;
	__u32 pad;
};
_Static_assert(sizeof(struct ws_packet_was) == 40, "ws_packet_was");

/* Bytes of headers and places of a stack that are taken at most. */
enum ws_packet_most {
	WS_M_HEADERS = 192,
	WS_M_STACK = 24,
};

/*
 * What follows a packet if the program asks for it; then WS_M_HEADERS bytes, WS_M_STACK places and a struct
 * ws_packet_was. Else only the latter follows, or nothing.
 */
struct ws_packet_more {
	__u32 frame;  /* length of the whole frame, with its link header if that was taken */
	__u8 link;    /* bytes of the link header */
	__u8 headers; /* bytes that were taken: link, network and transport headers */
	__u8 stack;   /* places of the stack that are in use */
	__u8 was;     /* whether a struct ws_packet_was follows that is in use */
};
_Static_assert(sizeof(struct ws_packet_more) == 8, "ws_packet_more");

#endif
