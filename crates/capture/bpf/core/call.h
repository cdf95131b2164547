/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* A call on a socket: what it was, where its bytes are, and what it was made for. */
#ifndef WS_CALL_H
#define WS_CALL_H

struct location {
	__u8 abi;
	__u16 segments;
	__u64 name;   /* user address of a sockaddr, 0 if none */
	__u64 vector; /* user address of the segments; 0 if there is only one, which is `buffer` */
	struct user_iovec buffer;
};

struct cause {
	__u64 exchange;
	__u64 id;
	__u8 evidence;
};

struct call {
	__s64 ret;
	__u64 enter_ns; /* 0 if it was not measured */
	__u32 seq;	/* of its first byte, if `flags` has WS_F_HAS_SEQ */
	__u16 flags;	/* WS_F_* */
	__u8 direction;
	bool first; /* the first call of its run */
	bool uring; /* its bytes were held by io_uring */
	bool parts; /* set here: there are more bytes than one record takes, and all are wanted */
};

/*
 * The call that a thread makes now. It is kept with the thread, not on the stack: a program has 512 bytes of stack, and
 * the verifier goes again through what follows for each difference in what the stack holds.
 */
struct message {
	struct location where;
	struct cause cause;
	struct call call;
};

#endif
