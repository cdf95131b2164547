/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Where the records of TLS begin in the calls that move them. Of ciphertext only the start of each call is copied, but a call may
 * hold several records where somebody reads ahead (Go, event loops), and user space places plaintext by their headers. So they are
 * followed from one to the next, and a call is told in pieces where a header lies beyond what was copied.
 */
#ifndef WS_TLS_RECORDS_H
#define WS_TLS_RECORDS_H

#define TLS_MAX_BODY (16384 + 2048)
#define TLS_PIECES 16

/* Of the record whose header stands there, with the header; 0 if none does. */
static __always_inline __u32 tls_record(__u64 at, __u8 *header)
{
	__u32 body;

	if (bpf_probe_read_user(header, TLS_HEADER, (void *)at))
		return 0;
	body = header[3] << 8 | header[4];
	if ((__u8)(header[0] - TLS_FIRST_TYPE) >= TLS_TYPES || header[1] != 3 || header[2] > 4 || !body || body > TLS_MAX_BODY)
		return 0;
	return TLS_HEADER + body;
}

/* What tls_follow() has found: the offset behind the last record that it knows, and what is there. */
enum tls_found { TLS_LOST = 0, TLS_FRAMED = 1, TLS_CUT = 2 };

/*
 * Follows the records of a call of `total` bytes, the first of which begins at `at`: to its end (TLS_FRAMED), or to the first header
 * that is not within the `shown` bytes at its start (TLS_CUT). Where nothing is known (TLS_LOST), the next call that begins with a
 * header will tell. Global functions of numbers, here and below, are verified by themselves.
 */
__noinline __u64 tls_follow(__u64 base, __u32 at, __u32 total, __u32 shown)
{
	__u8 header[8] = {};
	__u32 length;

	for (int i = 0; i < 2 * TLS_PIECES && at < total; i++) {
		length = tls_record(base + at, header);
		if (!length)
			return TLS_LOST;
		if (at && at + TLS_HEADER > shown)
			return (__u64)at << 32 | TLS_CUT;
		at += length;
	}
	return at < total ? TLS_LOST : (__u64)at << 32 | TLS_FRAMED;
}

/* Tells the rest of a call, from a header on, record by record; the last piece stands for all that is left. Returns as above. */
__noinline __u64 tls_pieces(__u64 base, __u32 at, __u32 total)
{
	__u32 cpu = bpf_get_smp_processor_id(), seq, length = 0, end;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (!r)
		return TLS_LOST;
	seq = r->data.seq;
	r->data.flags &= ~WS_F_FIRST;
	for (int i = 0; i < TLS_PIECES && at < total; i++) {
		length = tls_record(base + at, r->payload);
		end = length && i + 1 < TLS_PIECES ? at + length : total;
		r->data.seq = seq + at;
		r->data.len = (end < total ? end : total) - at;
		r->data.payload_len = length ? TLS_HEADER : 0;
		emit_record(r, r->data.payload_len, 0);
		if (!length)
			return TLS_LOST;
		at += length;
	}
	return at < total ? TLS_LOST : (__u64)at << 32 | TLS_FRAMED;
}

/* The record of this call goes to user space, in pieces if need be. */
static __always_inline void tls_emit_records(struct sock_state *s, struct scratch *r, __u64 base, __u32 total, __u32 shown)
{
	__u8 half = r->data.direction & 1;
	__u32 seq = r->data.seq, at = 0;
	__u64 found;

	if (s->framed & (1 << half))
		at = s->record[half] - seq;
	if (at > 1 << 30) /* bytes came that were not seen */
		at = 0;
	found = tls_follow(base, at, total, shown);
	if ((__u8)found == TLS_CUT)
		r->data.len = found >> 32;
	emit_record(r, r->data.payload_len, 0);
	if ((__u8)found == TLS_CUT)
		found = tls_pieces(base, found >> 32, total);
	s->record[half] = seq + (__u32)(found >> 32);
	s->framed &= ~(1 << half);
	if ((__u8)found == TLS_FRAMED)
		s->framed |= 1 << half;
}

#endif
