/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Reads the header block of an HTTP/1 request, eight bytes at a time: its end, and the headers that matter to
 * injection.
 */
#ifndef WS_INJECT_HEAD_H
#define WS_INJECT_HEAD_H

/* Which header the name of a line begins with. */
enum ws_name {
	WS_NAME_OTHER,
	WS_NAME_TRACEPAR,
	WS_NAME_CONTENT,
	WS_NAME_TRANSFER,
	WS_NAME_LENGTH, /* Content-Length: its value follows */
};

struct head {
	__u64 length;	 /* of the body, as the header says */
	__u64 last;	 /* eight bytes of the request line */
	__u32 at;	 /* read up to here */
	__u32 line;	 /* where this line begins */
	__u32 first_end; /* where the second line begins */
	__u32 end;	 /* behind the empty line; 0 if there is none */
	__u32 own;	 /* where the value of an existing `traceparent` begins; 0 if there is none */
	__u8 name;
	__u8 open_end; /* the body does not end where Content-Length says, or the connection changes its protocol */
	__u8 lengths;
	__u8 foreign; /* the first line is not one of HTTP/1 */
};

static __always_inline bool is_http1_method(__u32 first_four)
{
	return first_four == 0x20544547 /* "GET " */ || first_four == 0x54534f50 /* "POST" */ ||
	       first_four == 0x20545550 /* "PUT " */ || first_four == 0x44414548 /* "HEAD" */ ||
	       first_four == 0x454c4544 /* "DELE" */ || first_four == 0x43544150 /* "PATC" */ ||
	       first_four == 0x4954504f /* "OPTI" */;
}

/* The first of eight bytes is the lowest. */
#define WS_EIGHT(c) ((c) * 0x0101010101010101ULL)
#define WS_TEXT(a, b, c, d, e, f, g, h)                                                                             \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40 | \
	 (__u64)(g) << 48 | (__u64)(h) << 56)
#define WS_FIRST(n) (~0ULL >> (64 - 8 * (n)))

/* Which of eight bytes is the first '\n'; 8 if none is. */
static __always_inline __u32 newline_of(__u64 word)
{
	__u64 x = word ^ WS_EIGHT('\n');

	x = (x - WS_EIGHT(1ULL)) & ~x & WS_EIGHT(0x80ULL);
	/* The multiplication moves the number of the lowest byte that is marked into the highest. */
	return x ? ((x & -x) >> 7) * 0x0001020304050607ULL >> 56 : 8;
}

/* "TTP/1.0\r" and "TTP/1.1\r" */
static __always_inline bool is_http1_line(__u64 end)
{
	return end == WS_TEXT('T', 'T', 'P', '/', '1', '.', '1', '\r') ||
	       end == WS_TEXT('T', 'T', 'P', '/', '1', '.', '0', '\r');
}

/* Whether the byte ends a name. A space before the colon is not allowed, but some servers ignore it. */
static __always_inline bool ends_name(__u8 c)
{
	return c == ':' || c == ' ' || c == '\t';
}

static __always_inline void begin_name(struct head *h, __u64 word)
{
	__u64 lower = word | WS_EIGHT(0x20ULL);

	/* Some servers join such a line to the previous one, others read it as a header: no context is added. */
	if ((__u8)word == ' ' || (__u8)word == '\t') {
		h->own = h->own ?: h->at;
		h->open_end = 1;
	}
	if (lower == WS_TEXT('t', 'r', 'a', 'c', 'e', 'p', 'a', 'r'))
		h->name = WS_NAME_TRACEPAR;
	else if (lower == WS_TEXT('c', 'o', 'n', 't', 'e', 'n', 't', '-'))
		h->name = WS_NAME_CONTENT;
	else if (lower == WS_TEXT('t', 'r', 'a', 'n', 's', 'f', 'e', 'r'))
		h->name = WS_NAME_TRANSFER;
	else if ((lower & WS_FIRST(7)) == WS_TEXT('u', 'p', 'g', 'r', 'a', 'd', 'e', 0))
		h->open_end |= ends_name(word >> 56);
	else if ((lower & WS_FIRST(6)) == WS_TEXT('e', 'x', 'p', 'e', 'c', 't', 0, 0))
		h->open_end |= ends_name(word >> 48);
}

/* Adds the digits of eight bytes of a value; the line has `n` of these bytes. */
static __always_inline void read_length(struct head *h, __u64 word, __u32 n)
{
	for (__u32 i = 0; i < 8 && i < n; i++, word >>= 8) {
		__u8 c = word;

		if (c >= '0' && c <= '9' && h->length < 1ULL << 48)
			h->length = h->length * 10 + (c - '0');
	}
}

/* Reads eight bytes of a line behind its first eight; the line has `n` of these bytes. */
static __always_inline void go_on(struct head *h, __u64 word, __u32 n)
{
	__u64 lower = word | WS_EIGHT(0x20ULL);
	__u8 name = h->name;

	h->name = WS_NAME_OTHER;
	if (name == WS_NAME_TRACEPAR) {
		if ((lower & WS_FIRST(3)) == WS_TEXT('e', 'n', 't', 0, 0, 0, 0, 0) && ends_name(word >> 24))
			h->own = h->at + 4;
	} else if (name == WS_NAME_TRANSFER) {
		h->open_end |= lower == WS_TEXT('-', 'e', 'n', 'c', 'o', 'd', 'i', 'n');
	} else if (name == WS_NAME_CONTENT) {
		if ((lower & WS_FIRST(6)) != WS_TEXT('l', 'e', 'n', 'g', 't', 'h', 0, 0) || !ends_name(word >> 48))
			return;
		h->lengths++;
		h->open_end |= (__u8)(word >> 48) != ':';
		h->name = WS_NAME_LENGTH;
		read_length(h, word >> 56, n > 7);
	} else if (name == WS_NAME_LENGTH) {
		h->name = WS_NAME_LENGTH;
		read_length(h, word, n);
	}
}

struct head_source {
	void *bytes;
	__u32 size;
	struct head head;
};

/*
 * Reads the next eight bytes; behind the last byte they are 0xff. Returns 1 when there is nothing more to read. A
 * global function, so that the verifier follows it once, and not at each place of a head.
 */
__noinline int head_word(struct head *h, __u64 word)
{
	__u32 n = newline_of(word);

	if (!h)
		return 1;
	if (!h->first_end) {
		if (n == 8) {
			h->last = word;
		} else if (is_http1_line(n ? h->last >> 8 * n | word << (64 - 8 * n) : h->last)) {
			h->first_end = h->at + n + 1;
		} else {
			h->foreign = 1;
			return 1;
		}
	} else if (h->at != h->line) {
		if (h->name)
			go_on(h, word, n);
	} else if (n <= 1) {
		h->end = h->at + n + 1;
		return 1;
	} else {
		begin_name(h, word);
	}
	if (n == 8) {
		h->at += 8;
		return 0;
	}
	h->at += n + 1;
	h->line = h->at;
	h->name = WS_NAME_OTHER;
	return 0;
}

/* A table instead of comparisons: the verifier would follow both ways of each. */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winitializer-overrides" /* later lines override "no digit" */
static const __u8 HEX_VALUE[256] = {
	[0 ... 255] = 0x80, ['0'] = 0,	['1'] = 1,  ['2'] = 2,	['3'] = 3,  ['4'] = 4,
	['5'] = 5,	    ['6'] = 6,	['7'] = 7,  ['8'] = 8,	['9'] = 9,  ['a'] = 10,
	['b'] = 11,	    ['c'] = 12, ['d'] = 13, ['e'] = 14, ['f'] = 15,
};
#pragma clang diagnostic pop

/* Reads so many bytes of two digits each. The highest bit of the result is set if a character is no digit. */
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

/* "00-TRACE-SPAN-FLAGS": 55 bytes */
static __always_inline void write_context(__u8 *to, const struct trace_context *c)
{
	__builtin_memcpy(to, "00-", 3);
	write_hex(to + 3, c->trace, 16);
	to[35] = '-';
	write_hex(to + 36, c->span, 8);
	to[52] = '-';
	write_hex(to + 53, &c->flags, 1);
}

static __always_inline void write_traceparent(__u8 *to, const struct trace_context *c)
{
	__builtin_memcpy(to, "traceparent: ", 13);
	write_context(to + 13, c);
	to[68] = '\r';
	to[69] = '\n';
}

#endif
