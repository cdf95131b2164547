/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Goes through a header block of HTTP/2 (HPACK, RFC 7541), field by field, without a table of what was sent before. It
 * tells whether a field's name is written out as `traceparent`. As long as no block of a connection has had one, no
 * field of the connection can refer to such a name by its number either.
 */
#ifndef WS_INJECT_HPACK_H
#define WS_INJECT_HPACK_H

#define WS_H2_LONGEST_BLOCK 4096
#define WS_H2_STEPS 2048
/* A field that is not kept in tables: its name, and its value, each behind their length. */
#define WS_H2_TEXT 69
#define WS_H2_VALUE 55

enum block_part { BLOCK_FIELD, BLOCK_NAME, BLOCK_TEXT, BLOCK_VALUE };

struct block {
	__u32 at, end; /* in the window of the message */
	__u32 length;  /* of the name that comes */
	__u8 huffman;  /* whether this name is compressed */
	__u8 kept;     /* whether tables keep this field */
	__u8 part;     /* what comes next */
	__u8 malformed;
	__u8 own; /* a field is named `traceparent`; then the length of its value comes next */
};

struct block_source {
	struct sk_msg_md *message;
	struct block block;
};

/* Reads a number whose first byte has so many bits for it; the lowest byte of `word` is its first. */
static __always_inline __u32 block_number(struct block *b, __u64 word, __u32 bits)
{
	__u32 most = (1U << bits) - 1, n = (__u32)word & most;

	b->at++;
	if (n < most)
		return n;
	for (int i = 0; i < 3; i++) {
		word >>= 8;
		n += ((__u32)word & 127) << 7 * i;
		b->at++;
		if (!(word & 128))
			return n;
	}
	b->malformed = 1;
	return 0;
}

static __always_inline void block_field(struct block *b, __u64 word)
{
	if (word & 0x80)
		block_number(b, word, 7); /* a field by its number */
	else if ((word & 0xe0) == 0x20)
		block_number(b, word, 5); /* a new size of the table */
	else {
		b->kept = (word & 0x40) != 0;
		b->part = block_number(b, word, b->kept ? 6 : 4) ? BLOCK_VALUE : BLOCK_NAME;
	}
}

/*
 * Reads the next part of the block from eight of its bytes. Returns 1 when there is nothing more to read. A global
 * function, so that the verifier follows it once.
 */
__noinline int block_word(struct block *b, __u64 word)
{
	__u32 length;

	if (!b)
		return 1;
	switch (b->part) {
	case BLOCK_FIELD:
		block_field(b, word);
		break;
	case BLOCK_NAME:
		b->huffman = (__u8)word >> 7;
		b->length = block_number(b, word, 7);
		b->part = BLOCK_TEXT;
		break;
	case BLOCK_TEXT:
		/* "tracepar", or all of "traceparent" in the code of HPACK */
		b->own = b->huffman ? b->length == 8 && word == WS_TEXT(0x4d, 0x83, 0x21, 0x6b, 0x1d, 0x85, 0xa9, 0x3f)
				    : b->length == 11 && word == WS_TEXT('t', 'r', 'a', 'c', 'e', 'p', 'a', 'r');
		b->at += b->length;
		b->part = BLOCK_VALUE;
		break;
	default:
		length = block_number(b, word, 7);
		b->at += length;
		b->part = BLOCK_FIELD;
	}
	if (b->at >= b->end)
		b->malformed |= b->at > b->end || b->part != BLOCK_FIELD;
	return b->own || b->malformed || b->at >= b->end;
}

static long block_part(__u32 n, struct block_source *s)
{
	__u8 *data = s->message->data, *end = s->message->data_end;
	struct block *b = &s->block;
	__u64 word = 0;

	data += b->at & (WS_H2_LONGEST_BLOCK * 2 - 1);
	if (data + 8 <= end)
		return block_word(b, *(__u64 *)data) != 0;
	for (int i = 0; i < 7; i++)
		if (data + i + 1 <= end)
			word |= (__u64)data[i] << 8 * i;
	return block_word(b, word) != 0;
}

/* Goes through a block in the window of the message. */
static __always_inline void read_block(struct block_source *s)
{
	struct block *b = &s->block;

	if (b->at >= b->end)
		b->malformed = 1;
	else
		bpf_loop(WS_H2_STEPS, block_part, s, 0);
	b->malformed |= !b->own && b->at != b->end;
}

#define WS_H2_KEPT 2048 /* the longest block that is put together from several calls */

/* A block that comes in pieces, and what was read of it. */
struct h2_kept {
	__u64 from; /* where the next bytes lie; a number: global functions take no pointer to a packet */
	__u32 length;
	__u32 have;
	__u32 stream;
	struct block block;
	__u8 bytes[2 * WS_H2_KEPT]; /* twice: the verifier bounds offset and length separately */
};

struct kept_source {
	struct h2_kept *kept;
	struct block block;
};

static long kept_part(__u32 n, struct kept_source *s)
{
	__u8 *bytes = s->kept->bytes;

	return block_word(&s->block, *(__u64 *)(bytes + (s->block.at & (WS_H2_KEPT - 1)))) != 0;
}

/*
 * Adds `n` bytes at `from` to a block. Returns 1 if it is whole: then it has been read. -1: it cannot be read. A global
 * function, so that the verifier follows it once.
 */
__noinline int keep_block(struct h2_kept *k, __u32 n)
{
	struct kept_source source = {};
	struct block *b = &source.block;
	__u32 have;

	if (!k)
		return -1;
	have = k->have;
	if (have + n > k->length || k->length >= WS_H2_KEPT)
		return -1;
	barrier_var(have);
	barrier_var(n);
	if (have >= WS_H2_KEPT || n >= WS_H2_KEPT || bpf_probe_read_kernel(k->bytes + have, n, (void *)k->from))
		return -1;
	k->have = have + n;
	if (k->have < k->length)
		return 0;
	source.kept = k;
	b->at = k->block.at;
	b->end = k->length;
	if (b->at >= b->end)
		return -1;
	bpf_loop(WS_H2_STEPS, kept_part, &source, 0);
	k->block = *b;
	return b->malformed || (!b->own && b->at != b->end) ? -1 : 1;
}

/* Begins a block that comes in pieces. False: it cannot be put together. */
static __always_inline bool begin_block(struct h2_kept *k, __u32 length, __u32 stream, bool has_priority)
{
	k->length = length;
	k->have = 0;
	k->stream = stream;
	__builtin_memset(&k->block, 0, sizeof(k->block));
	k->block.at = has_priority ? 5 : 0;
	return length && length < WS_H2_KEPT;
}

static __always_inline void write_field(__u8 *to, const struct trace_context *c)
{
	/* A literal that no table keeps, with a name of its own; neither is compressed. */
	to[0] = 0;
	to[1] = 11;
	__builtin_memcpy(to + 2, "traceparent", 11);
	to[13] = WS_H2_VALUE;
	write_context(to + 14, c);
}

#endif
