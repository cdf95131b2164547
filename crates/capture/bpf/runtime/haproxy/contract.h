/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of HAProxy share; wire.h says how Rust gets it. */
#ifndef WS_HAPROXY_CONTRACT_H
#define WS_HAPROXY_CONTRACT_H

/* Addresses of functions that a task may run, and where a thread keeps its context: src/runtime/haproxy.rs. */
struct haproxy_facts {
	__u64 stream;  /* process_stream(), which runs a stream */
	__u64 end;     /* sc_conn_io_cb(), which runs one end of a stream */
	__u64 context; /* distance of the thread's context from the C library's structure of the thread */
};

_Static_assert(sizeof(struct haproxy_facts) == 24, "contract");

#endif
