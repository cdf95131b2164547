/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of Go share; wire.h says how Rust gets it. */
#ifndef WS_GO_CONTRACT_H
#define WS_GO_CONTRACT_H

/* Offsets in structures of Go's runtime; found by src/runtime/go/. */
struct go_facts {
	__u16 goid;   /* in runtime.g: its id */
	__u16 parent; /* in runtime.g: the id of the goroutine that started it; 0: not kept (before Go 1.21) */
	__u16 curg;   /* in runtime.m: the goroutine that runs */
	__u8 births;  /* the start of goroutines is probed */
	__u8 recvq;   /* in runtime.hchan: the goroutines that wait for a value */
	__u8 reader;  /* in runtime.pollDesc: who waits to read; behind it, who waits to write */
	__u8 pad;
};

/* Cookies of the probes of Go's scheduler. */
enum go_turn { GO_READY = 1, GO_POLLED = 2, GO_EXECUTE = 3 };

/*
 * Where a goroutine is parked, and the runtime's own texts of why, by number: bytes of each, with zeros behind. The
 * place is the address and the size of runtime.gopark, 8 bytes each.
 */
enum go_reason_size { GO_REASONS = 64, GO_REASON_NAME = 32, GO_REASON_PLACE = 16 };

/* Cookies of the probes of Go's HTTP and gRPC libraries: src/runtime/go/http.rs. */
enum go_point {
	GO_HANDLER = 1,	   /* runHandler(sc *serverConn, rw *responseWriter, …) */
	GO_ROUND_TRIP = 2, /* roundTrip(pc *persistConn, …) */
	GO_CONN_WRITE = 3, /* Write(w persistConnWriter, …), which is the *persistConn */
	/* operateHeaders(t *http2Server, [ctx context.Context,] frame *http2.MetaHeadersFrame, …) */
	GO_HEADERS = 4,
	/* tryDeliver(w *wantConn, …): a dialled or free connection goes to a goroutine that waits for one */
	GO_DELIVER = 5,
	GO_RPC = 6,	   /* executeAndPut(c *controlBuffer, f func() bool, item cbItem) */
	GO_RPC_STREAM = 7, /* originateStream(l *loopyWriter, s *outStream, item *headerFrame), to gRPC 1.81 at least */
	GO_RPC_HEADERS = 8, /* clientHeaderHandler(l *loopyWriter, item *clientHeaders), since 1.85 at most */
};

_Static_assert(sizeof(struct go_facts) == 10, "contract");

#endif
