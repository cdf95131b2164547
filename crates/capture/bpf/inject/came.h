/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Reads contexts that come with requests of HTTP/2, frame by frame, by what the server has read. Without the tables of
 * HPACK only a `traceparent` that is written out can be read, as injection writes it. Once tables keep one, a later
 * request may name it by a number: from then on, no context of this connection is known.
 */
#ifndef WS_INJECT_CAME_H
#define WS_INJECT_CAME_H

#define WS_H2_CAME_STEPS 4096 /* pieces of frames in one read */

/* What is known of the bytes that a server has read on a connection of HTTP/2. */
struct h2_came {
	__u32 next;   /* sequence number up to which they were followed */
	__u32 left;   /* bytes of the current frame that are still to come, and are not looked at */
	__u32 stream; /* the last one that was begun */
	__u8 have;    /* bytes of `head` */
	__u8 keeping; /* the current frame is put together in `kept` */
	__u8 lost;    /* no context is known any more */
	__u8 pad;
	__u8 head[32]; /* twice as long as needed, for the verifier */
	struct h2_kept kept;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct h2_came);
} h2_cames SEC(".maps");

struct h2_reading {
	struct location where;
	struct h2_came *came;
	__u64 cookie;
	__u32 at;
	__u32 size;
};

/* Copies `n` bytes of the read, behind the first `skip`, into the scratch. Returns 0 if it cannot. */
__noinline int h2_fetch(const struct location *l, __u32 skip, __u32 n)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (!r || !l || n >= WS_H2_KEPT)
		return 0;
	if (l->vector)
		return copy_vector(l->vector, l->segments, skip, n) == n;
	barrier_var(n);
	if (n >= WS_H2_KEPT || skip + n > l->buffer.len ||
	    bpf_probe_read_user(r->payload, n, (void *)(l->buffer.base + skip)))
		return 0;
	return 1;
}

/* Remembers what a block of headers has told of its stream's context. */
static __always_inline void h2_came_with(struct h2_came *c, __u64 cookie)
{
	struct h2_kept *k = &c->kept;
	__u8 *value = k->bytes + (k->block.at & (WS_H2_KEPT - 1));
	__u64 name = by_stream(cookie, k->stream);
	struct trace_context came = {};

	if (k->block.own &&
	    (k->block.huffman || k->block.kept || *value != WS_H2_VALUE || k->block.at + 1 + WS_H2_VALUE > k->length)) {
		c->lost = 1;
		return;
	}
	if (k->stream <= c->stream)
		return; /* trailers */
	c->stream = k->stream;
	if (!name)
		return;
	if (!k->block.own || !read_traceparent(&came, value + 1)) {
		came = (struct trace_context){ .none = 1 };
	} else {
		inject_count(WS_I_RECEIVED_CONTEXTS);
	}
	remember(&contexts, &name, &came);
}

/* Begins the frame whose head was read. */
static __always_inline void h2_came_frame(struct h2_came *c)
{
	__u8 *head = c->head, flags = head[4];
	__u32 length = head[0] << 16 | head[1] << 8 | head[2];
	__u32 stream = (head[5] & 127) << 24 | head[6] << 16 | head[7] << 8 | head[8];

	c->have = 0;
	if (head[3] == H2_HEADERS) {
		c->keeping = 1;
		c->lost |= !(flags & H2_END_HEADERS) || flags & H2_PADDED ||
			   !begin_block(&c->kept, length, stream, flags & H2_PRIORITY);
	} else {
		c->left = length;
	}
}

/* Follows one piece of a frame. Returns 1 at the end of the read. */
static long h2_came_piece(__u32 i, struct h2_reading *r)
{
	struct h2_came *c = r->came;
	__u32 rest = r->size - r->at, n, cpu = bpf_get_smp_processor_id();
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &cpu);
	int whole;

	if (c->lost || !rest || !scratch)
		return 1;
	n = c->left;
	if (n) {
		n = n < rest ? n : rest;
		c->left -= n;
		r->at += n;
		return 0;
	}
	n = c->keeping ? c->kept.length - c->kept.have : WS_H2_HEAD - c->have;
	n = n < rest ? n : rest;
	if (!h2_fetch(&r->where, r->at, n)) {
		c->lost = 1;
		return 1;
	}
	r->at += n;
	if (c->keeping) {
		*(volatile __u64 *)&c->kept.from = (__u64)scratch->payload;
		whole = keep_block(&c->kept, n);
		c->lost |= whole < 0;
		c->keeping = !whole;
		if (whole > 0)
			h2_came_with(c, r->cookie);
		return 0;
	}
	barrier_var(n);
	if (n > WS_H2_HEAD || bpf_probe_read_kernel(c->head + (c->have & 15), n, scratch->payload)) {
		c->lost = 1;
		return 1;
	}
	c->have += n;
	if (c->have == WS_H2_HEAD)
		h2_came_frame(c);
	return 0;
}

/* Follows the frames of a read whose first byte has this sequence number. */
static __always_inline void h2_came_read(struct h2_reading *r, __u32 seq)
{
	struct h2_came *c = r->came;

	c->lost |= c->next != seq;
	c->next = seq + r->size;
	r->at = 0;
	if (!c->lost)
		bpf_loop(WS_H2_CAME_STEPS, h2_came_piece, r, 0);
	c->lost |= r->at != r->size;
}

#endif
