/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Copies of CPython's contexts: who has made them (context.h, ../asyncio/callbacks.h). */
#ifndef WS_PYTHON_COPIES_H
#define WS_PYTHON_COPIES_H

struct python_copy {
	__u64 cause;
	__u64 made_for; /* in a loop of asyncio: the request of the task or of the callback that made the copy */
	__u32 actor;	/* actor_id() of the actor that made the copy */
	__u8 evidence;
	__u8 pad[3];
};

/* By the address of the context. */
WS_TABLE(python_copies, struct carrier_key, struct python_copy);

#endif
