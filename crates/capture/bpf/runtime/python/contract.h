/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of Python share; wire.h says how Rust gets it. */
#ifndef WS_PYTHON_CONTRACT_H
#define WS_PYTHON_CONTRACT_H

/* Addresses at which only the interpreter's locks lie. */
struct python_facts {
	__u64 locks_from;
	__u64 locks_to;
};

/* Cookies of the probes of SimpleQueue: src/runtime/python/queue.rs. */
enum python_point {
	PYTHON_PUT = 1, /* put(self, arguments, …) */
	PYTHON_GOT = 2, /* at the return of get(self, …): the item, 0 with an exception */
};

_Static_assert(sizeof(struct python_facts) == 16, "contract");

#endif
