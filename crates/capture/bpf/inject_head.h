/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Reads the header block of an HTTP/1 request, byte by byte: where it ends, and what of it matters to injection. */
#ifndef WS_INJECT_HEAD_H
#define WS_INJECT_HEAD_H

#define WS_NAME_START 0x811c9dc5u

/* FNV-1a of a header's name in lower case. A stranger that hashes alike only keeps a request from being injected. */
static __always_inline __u32 name_step(__u32 hash, __u8 c)
{
	if (c >= 'A' && c <= 'Z')
		c |= 0x20;
	return (hash ^ c) * 0x01000193u;
}

#define WS_NAME(text) ({						\
	__u32 hash_ = WS_NAME_START;					\
	_Pragma("unroll") for (int i_ = 0; i_ < (int)sizeof(text) - 1; i_++) \
		hash_ = name_step(hash_, text[i_]);			\
	hash_;								\
})

struct head {
	void *source;	/* of the bytes */
	__u64 length;	/* of the body, as the header says */
	__u64 tail;	/* the last eight bytes of the request line */
	__u32 line;	/* where this line begins */
	__u32 first_end;/* where the second line begins */
	__u32 end;	/* behind the empty line; 0 if there is none */
	__u32 own;	/* where the value of `traceparent` begins; 0 if there is none */
	__u32 hash;
	__u8 in_value;
	__u8 in_length;
	__u8 open_end;	/* the body does not end where Content-Length says, or the connection changes its protocol */
	__u8 lengths;
	__u8 foreign;	/* the first line is not one of HTTP/1 */
};

static __always_inline bool is_http1_method(__u32 first_four)
{
	return first_four == 0x20544547 /* "GET " */ || first_four == 0x54534f50 /* "POST" */ ||
	       first_four == 0x20545550 /* "PUT " */ || first_four == 0x44414548 /* "HEAD" */ ||
	       first_four == 0x454c4544 /* "DELE" */ || first_four == 0x43544150 /* "PATC" */ ||
	       first_four == 0x4954504f /* "OPTI" */;
}

/* "TTP/1.0\r" and "TTP/1.1\r" as they lie in `tail` */
static __always_inline bool is_http1_line(__u64 tail)
{
	return tail == 0x5454502f312e310dULL || tail == 0x5454502f312e300dULL;
}

/* Takes the byte at `n`; 1 when there is nothing more to read. */
static __always_inline long head_byte(struct head *h, __u32 n, __u8 c)
{
	if (c == '\n') {
		if (!h->first_end) {
			if (!is_http1_line(h->tail)) {
				h->foreign = 1;
				return 1;
			}
			h->first_end = n + 1;
		} else if (n - h->line <= 1) {
			h->end = n + 1;
			return 1;
		}
		h->line = n + 1;
		h->hash = WS_NAME_START;
		h->in_value = 0;
		h->in_length = 0;
		return 0;
	}
	if (!h->first_end) {
		h->tail = h->tail << 8 | c;
		return 0;
	}
	if (h->in_value) {
		if (h->in_length && c >= '0' && c <= '9' && h->length < 1ULL << 48)
			h->length = h->length * 10 + (c - '0');
		return 0;
	}
	if (c != ':') {
		if (c != ' ' && c != '\t')
			h->hash = name_step(h->hash, c);
		return 0;
	}
	h->in_value = 1;
	if (h->hash == WS_NAME("traceparent")) {
		h->own = n + 1;
	} else if (h->hash == WS_NAME("content-length")) {
		h->in_length = 1;
		h->lengths++;
	} else if (h->hash == WS_NAME("transfer-encoding") || h->hash == WS_NAME("upgrade") ||
		   h->hash == WS_NAME("expect")) {
		h->open_end = 1;
	}
	return 0;
}

/* A table instead of comparisons: the verifier would follow both ways of each. */
static const __u8 HEX_VALUE[256] = {
	[0 ... 255] = 0x80,
	['0'] = 0, ['1'] = 1, ['2'] = 2, ['3'] = 3, ['4'] = 4, ['5'] = 5, ['6'] = 6, ['7'] = 7, ['8'] = 8, ['9'] = 9,
	['a'] = 10, ['b'] = 11, ['c'] = 12, ['d'] = 13, ['e'] = 14, ['f'] = 15,
};

/* Reads so many bytes of two digits each; what it returns has its highest bit set if one was no digit. */
static __always_inline __u8 read_hex(__u8 *to, const __u8 *text, int bytes)
{
	__u8 wrong = 0;

	for (int i = 0; i < bytes; i++) {
		__u8 high = HEX_VALUE[text[2 * i]], low = HEX_VALUE[text[2 * i + 1]];

		wrong |= high | low;
		to[i] = high << 4 | low;
	}
	return wrong;
}

/* Reads "00-TRACE-SPAN-FLAGS". */
static __always_inline bool read_traceparent(struct trace_context *c, const __u8 *text)
{
	__u8 wrong = 0, any = 0;

	wrong |= (text[2] ^ '-') | (text[35] ^ '-') | (text[52] ^ '-');
	wrong |= read_hex(c->trace, text + 3, 16) & 0x80;
	wrong |= read_hex(c->span, text + 36, 8) & 0x80;
	wrong |= read_hex(&c->flags, text + 53, 1) & 0x80;
	for (int i = 0; i < 16; i++)
		any |= c->trace[i];
	return !wrong && any;
}

static __always_inline __u8 hex_digit(int n)
{
	return '0' + n + (((9 - n) >> 31) & ('a' - '0' - 10));
}

static __always_inline void write_hex(__u8 *to, const __u8 *from, int bytes)
{
	for (int i = 0; i < bytes; i++) {
		to[2 * i] = hex_digit(from[i] >> 4);
		to[2 * i + 1] = hex_digit(from[i] & 15);
	}
}

static __always_inline void write_traceparent(__u8 *to, const struct trace_context *c)
{
	__builtin_memcpy(to, "traceparent: 00-", 16);
	write_hex(to + 16, c->trace, 16);
	to[48] = '-';
	write_hex(to + 49, c->span, 8);
	to[65] = '-';
	write_hex(to + 66, &c->flags, 1);
	to[68] = '\r';
	to[69] = '\n';
}

#endif
