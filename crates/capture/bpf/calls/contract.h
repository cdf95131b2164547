/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What the programs of system calls share with user space. */
#ifndef WS_CALLS_CONTRACT_H
#define WS_CALLS_CONTRACT_H

enum ws_call_size {
	WS_CALL_WORDS = 8, /* of 64 numbers of system calls each */
	WS_CALLS_PROCESSES = 4096,
};

/* Which calls of a process are recorded: a bit for each number. */
struct ws_calls_wanted {
	__u64 bits[WS_CALL_WORDS];
};

/* A system call that has ended. */
struct ws_call {
	__u64 began_ns;
	__u64 ended_ns;
	__s64 result; /* negative: -errno */
	__u32 pid;
	__u32 tid;
	__u32 number; /* of this thread's calls, from 1: a gap is a call that was lost */
	__u16 call;
	__u16 pad;
};

_Static_assert(sizeof(struct ws_calls_wanted) == 64, "contract");
_Static_assert(sizeof(struct ws_call) == 40, "contract");

#endif
