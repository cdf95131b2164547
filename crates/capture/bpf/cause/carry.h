/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Objects of a program that carry for whom they were given from one place in it to another: a connection of Go's net/http
 * from who asks to who writes, a stream of an HTTP/2 session from the request that is sent to its answer.
 */
#ifndef WS_CARRY_H
#define WS_CARRY_H

struct carrier_key {
	__u64 object; /* its address */
	__u32 pid;
	__u32 stream; /* of an HTTP/2 session; 0: the object itself */
};

/* What a callback of asyncio had read that settled a future. */
enum carried_by { CARRIED_BY_REQUEST = 1, CARRIED_BY_ANSWER = 2 };

struct carried {
	__u64 cause; /* of an HTTP/2 session, whose stream is 0: the cookie of its socket */
	__u8 evidence;
	__u8 by;
	__u8 pad[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct carrier_key);
	__type(value, struct carried);
} carriers SEC(".maps");

static __always_inline bool is_by_stream(__u64 cause)
{
	return (cause & WS_PROVISIONAL) == WS_BY_STREAM;
}

/* The cookie of the socket on which a request came, whichever way it is named; provisional causes have none. */
static __always_inline __u64 socket_of(__u64 cause)
{
	return is_provisional(cause) ? 0 : (cause & ~WS_PROVISIONAL) >> 24;
}

/* The name of a request by its stream; 0 if the socket has no number of its own that fits (sock.h). */
static __always_inline __u64 by_stream(__u64 cookie, __u32 stream)
{
	if (!cookie || cookie >> 38 || !stream)
		return 0;
	return WS_BY_STREAM | cookie << 24 | (stream & 0xffffff);
}

#endif
