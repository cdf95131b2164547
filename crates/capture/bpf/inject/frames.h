/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Follows the frames that a client sends on a connection of HTTP/2, from its first byte on, by what TCP has taken, and
 * notes the requests of a message that may get a context. When a byte cannot be followed, or the application has sent a
 * `traceparent` of its own, the connection is left alone for good.
 */
#ifndef WS_INJECT_FRAMES_H
#define WS_INJECT_FRAMES_H

#define WS_H2_PREFACE 24
#define WS_H2_HEAD 9
#define WS_H2_FRAMES 4096 /* frames of one call */
#define WS_H2_AT_ONCE 32  /* requests of one message that get a context */

enum { H2_HEADERS = 1, H2_PUSH = 5, H2_CONTINUATION = 9 };
enum { H2_END_HEADERS = 4, H2_PADDED = 8, H2_PRIORITY = 0x20 };

/* A request that is about to be sent: its frame, and the end of its frame, as distances from the message's start. */
struct h2_request {
	__u32 frame, end, stream;
};

/* What is known of the bytes that a client has sent on a connection of HTTP/2. */
struct h2_sock {
	struct h2_request requests[WS_H2_AT_ONCE]; /* of this message */
	__u32 count;
	__u32 put;	/* contexts put into this message */
	__u32 last;	/* where the last of them ends in the message */
	__u32 followed; /* sequence number up to which frames were followed */
	__u32 solid;	/* TCP must have taken all bytes before this one */
	__u32 left;	/* bytes of the current frame that are still to come */
	__u32 stream;	/* the last one that was begun */
	__u8 head[16];	/* of a frame whose head comes in pieces */
	__u8 have;
	__u8 broken; /* the message cannot be sent any more */

	__u8 limited;  /* the server has announced too small a limit */
	__u8 settings; /* what the server announces was read */
	__u8 keeping;  /* the current frame is put together in `kept` */
	__u8 pad[3];
	struct h2_kept kept;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct h2_sock);
} h2_socks SEC(".maps");

struct h2_walk {
	struct sk_msg_md *message;
	struct h2_sock *h;
	__u32 at;	 /* distance from the message's start */
	__u32 size;	 /* of the message */
	__u32 certainly; /* so many bytes does TCP take in any case */
	__u32 why;	 /* counter of the reason why the connection is left */
};

static __always_inline long h2_leave(struct h2_walk *w, __u32 why)
{
	w->why = why;
	return 1;
}

/* Notes a request, or says why its frame cannot be followed. The whole frame is in the window of the message. */
static __always_inline long h2_request(struct h2_walk *w, __u32 length, __u8 flags, __u32 stream)
{
	struct block_source source = { .message = w->message,
				       .block = { .at = WS_H2_HEAD, .end = WS_H2_HEAD + length } };
	struct block *b = &source.block;
	struct h2_sock *h = w->h;
	__u32 n = h->count;
	bool begins = stream > h->stream;

	if (flags & H2_PRIORITY)
		b->at += 5;
	read_block(&source);
	if (b->own)
		return h2_leave(w, WS_I_INJECT_OWN_CONTEXT);
	if (b->malformed)
		return h2_leave(w, WS_I_INJECT_H2_UNREAD);
	if (!begins)
		return 0; /* trailers */
	h->stream = stream;
	if (n >= WS_H2_AT_ONCE) {
		inject_count(WS_I_INJECT_H2_MANY);
	} else if (w->at + WS_H2_HEAD + length + (n + 1) * WS_H2_TEXT > w->certainly) {
		inject_count(WS_I_INJECT_BUSY);
	} else {
		h->requests[n].frame = w->at;
		h->requests[n].end = w->at + WS_H2_HEAD + length;
		h->requests[n].stream = stream;
		h->count = n + 1;
	}
	return 0;
}

/* Takes more bytes of a block that comes in several messages. It gets no context: the head of its frame has left. */
static __always_inline long h2_go_on(struct h2_walk *w)
{
	struct h2_sock *h = w->h;
	struct sk_msg_md *m = w->message;
	__u32 rest = w->size - w->at, n = h->left < rest ? h->left : rest;
	int whole;

	if (!n)
		return 1;
	if (bpf_msg_pull_data(m, w->at, w->at + n, 0))
		return h2_leave(w, WS_I_INJECT_FAILED);
	*(volatile __u64 *)&h->kept.from = (__u64)m->data;
	whole = keep_block(&h->kept, n);
	w->at += n;
	h->left -= n;
	if (!whole)
		return 0;
	h->keeping = 0;
	if (whole < 0)
		return h2_leave(w, WS_I_INJECT_H2_UNREAD);
	if (h->kept.block.own)
		return h2_leave(w, WS_I_INJECT_OWN_CONTEXT);
	if (h->kept.stream > h->stream)
		h->stream = h->kept.stream;
	return 0;
}

/* Follows one frame, or one byte of a head that comes in pieces. Returns 1 at the end of the message. */
static long h2_frame(__u32 n, struct h2_walk *w)
{
	struct h2_sock *h = w->h;
	struct sk_msg_md *m = w->message;
	__u32 rest = w->size - w->at, skip = h->left < rest ? h->left : rest, length, stream;
	__u8 *data, *end, *head, type, flags;
	bool split;

	if (h->keeping)
		return h2_go_on(w);
	w->at += skip;
	h->left -= skip;
	rest -= skip;
	if (!rest)
		return 1;
	split = h->have || rest < WS_H2_HEAD;
	if (bpf_msg_pull_data(m, w->at, w->at + (split ? 1 : WS_H2_HEAD), 0))
		return h2_leave(w, WS_I_INJECT_FAILED);
	data = m->data;
	end = m->data_end;
	head = h->head;
	if (split) {
		if (data + 1 > end)
			return h2_leave(w, WS_I_INJECT_FAILED);
		head[h->have & 15] = *data;
		h->have++;
		w->at++;
		if (h->have < WS_H2_HEAD)
			return 0;
		h->have = 0;
	} else {
		if (data + WS_H2_HEAD > end)
			return h2_leave(w, WS_I_INJECT_FAILED);
		__builtin_memcpy(head, data, WS_H2_HEAD);
	}
	length = head[0] << 16 | head[1] << 8 | head[2];
	type = head[3];
	flags = head[4];
	stream = (head[5] & 127) << 24 | head[6] << 16 | head[7] << 8 | head[8];
	h->left = length;
	if (type == H2_CONTINUATION || type == H2_PUSH)
		return h2_leave(w, WS_I_INJECT_H2_CONTINUED);
	if (type == H2_HEADERS) {
		if (!(flags & H2_END_HEADERS))
			return h2_leave(w, WS_I_INJECT_H2_CONTINUED);
		if (flags & H2_PADDED || length > WS_H2_LONGEST_BLOCK)
			return h2_leave(w, WS_I_INJECT_H2_UNREAD);
		if (split || length > rest - WS_H2_HEAD) {
			inject_count(WS_I_INJECT_H2_SPLIT);
			if (!begin_block(&h->kept, length, stream, flags & H2_PRIORITY))
				return h2_leave(w, WS_I_INJECT_H2_UNREAD);
			h->keeping = 1;
		} else if (bpf_msg_pull_data(m, w->at, w->at + WS_H2_HEAD + length, 0)) {
			return h2_leave(w, WS_I_INJECT_FAILED);
		} else if (h2_request(w, length, flags, stream)) {
			return 1;
		}
	}
	if (!split)
		w->at += WS_H2_HEAD;
	return 0;
}

#endif
