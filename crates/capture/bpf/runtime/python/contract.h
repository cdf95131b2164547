/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of Python share; wire.h says how Rust gets it. */
#ifndef WS_PYTHON_CONTRACT_H
#define WS_PYTHON_CONTRACT_H

/* Addresses at which only the interpreter's locks lie. */
struct python_facts {
	__u64 locks_from;
	__u64 locks_to;
};

/* Cookies of the probes of queues and of contexts: queue.rs, heap.rs and context.rs in src/runtime/python. */
enum python_point {
	PYTHON_PUT = 1,	   /* put(self, arguments, …) */
	PYTHON_GOT = 2,	   /* at the return of get(self, …): the item, 0 with an exception */
	PYTHON_GIVEN = 3,  /* gevent: _put(self, item, …) */
	PYTHON_TAKEN = 4,  /* gevent: at the return of _get(self, …), in which no other greenlet runs */
	PYTHON_COPIED = 5, /* at the return of copy_context(): the copy, 0 with an exception */
	PYTHON_ENTERS = 6, /* context_run(context, …) */
	PYTHON_PUSHED = 7, /* heappush(module, arguments, …): the arguments are a list and an item */
	PYTHON_POPPED = 8, /* heappop(module, list) */
};

_Static_assert(sizeof(struct python_facts) == 16, "contract");

#endif
