/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What the kernel programs tell of SDKs of OpenTelemetry in processes; wire.h says how Rust gets it. */
#ifndef WS_SDK_CONTRACT_H
#define WS_SDK_CONTRACT_H

/* Where each thread of a process has the address of its SDK's context; found by src/runtime/sdk.rs. */
struct ws_sdk_place {
	__u64 module; /* number of the block of thread-local variables; 0: they count from the thread's own structure */
	__u64 offset; /* there; may be negative */
};

/* A thread acts for a request, and its SDK says in which span it is. */
struct ws_sdk_span {
	__u8 kind;
	__u8 pad[7];
	__u64 time_ns;
	__u64 cause; /* as in ws_data; 0: none is known */
	__u32 pid;
	__u32 tid;
	__u8 trace[16];
	__u8 span[8];
};

_Static_assert(sizeof(struct ws_sdk_place) == 16, "contract");
_Static_assert(sizeof(struct ws_sdk_span) == 56, "contract");

#endif
