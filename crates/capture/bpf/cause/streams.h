/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The cause of a request on a stream of a shared connection, named by its program before the request is sent. */
#ifndef WS_CAUSE_STREAMS_H
#define WS_CAUSE_STREAMS_H

/*
 * The causes of requests on streams of HTTP/2 whose bytes are still to be sent: for contexts that are put into them.
 * WS_PROVISIONAL: not known. The table has one entry while no context is put into requests.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64); /* by_stream() */
	__type(value, __u64);
} stream_causes SEC(".maps");

static __always_inline void tell_stream(__u64 name, __u64 cause, __u8 evidence)
{
	__u64 known = evidence == WS_EV_INFERRED ? WS_PROVISIONAL : cause;

	tell_alias_by(name, cause, WS_ALIAS_STREAM, evidence);
	if (keep_streams)
		remember(&stream_causes, &name, &known);
}

#endif
