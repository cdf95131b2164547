/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What user space and the kernel programs of Node share; wire.h says how Rust gets it. */
#ifndef WS_NODE_CONTRACT_H
#define WS_NODE_CONTRACT_H

/* Cookies of the probes: src/runtime/node.rs. */
enum node_point {
	NODE_READ = 1,	 /* Http2Session::OnStreamRead(this, length, …): of the socket that was read last */
	NODE_STREAM = 2, /* Http2Stream::Http2Stream(this, session, object, id, category, …) */
	NODE_FRAME = 3,	 /* OnFrameReceive(handle, frame, session) */
	NODE_DATA = 4,	 /* OnDataChunkReceived(handle, flags, id, data, length, session) */
	NODE_CLOSE = 5,	 /* OnStreamClose(handle, id, code, session) */
	/* Http2Session::OnStreamAfterWrite(this, …): delivers frames that came during the write (turns.h) */
	NODE_WRITTEN = 6,
	NODE_WRITTEN_END = 7, /* the return of OnStreamAfterWrite() */
	NODE_ANSWER = 8,      /* Http2Stream::SubmitResponse(this, …) */
};

#endif
