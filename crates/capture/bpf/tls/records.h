/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Where the records of TLS begin in the calls that move them. Of ciphertext only the start of each call is copied, but
 * a call may hold several records where somebody reads ahead (Go, event loops), and user space places plaintext by
 * their headers. So they are followed from one to the next, and a call is told in pieces where a header lies beyond
 * what was copied.
 */
#ifndef WS_TLS_RECORDS_H
#define WS_TLS_RECORDS_H

#define TLS_MAX_BODY (16384 + 2048)
#define TLS_PIECES 64 /* so many requests of one connection may come at once */

/* Of the record with these first bytes, the first one lowest: with the header; 0 if they are none of a record. */
static __always_inline __u32 tls_length(__u64 header)
{
	__u32 body = (header >> 16 & 0xff00) | (header >> 32 & 0xff);

	if ((__u8)((header & 0xff) - TLS_FIRST_TYPE) >= TLS_TYPES || (header >> 8 & 0xff) != 3 ||
	    (header >> 16 & 0xff) > 4)
		return 0;
	return body && body <= TLS_MAX_BODY ? TLS_HEADER + body : 0;
}

/*
 * Adds to the `had` bytes of a header those that stand at `base`, of which there are `left`. A receive may end
 * anywhere, also within a header: Go and Node receive into what is left of a buffer. Global functions of numbers, here
 * and below, are verified by themselves.
 */
__noinline __u64 tls_header(__u64 header, __u32 had, __u64 base, __u32 left)
{
	__u32 want = TLS_HEADER - had;
	__u64 more = 0;

	if (want > left)
		want = left;
	barrier_var(want);
	if (had >= TLS_HEADER || want > TLS_HEADER || bpf_probe_read_user(&more, want, (void *)base))
		return 0;
	return header | more << (8 * had);
}

/* What tls_follow() has found: the offset behind the last record that it knows, and what is there. */
enum tls_found { TLS_LOST = 0, TLS_FRAMED = 1, TLS_CUT = 2, TLS_BROKEN = 3 };

/*
 * Follows the records of a call of `total` bytes, the first of which begins at `at`: to its end (TLS_FRAMED), to the
 * header that it breaks off (TLS_BROKEN), or to the first one that is not within the `shown` bytes at its start
 * (TLS_CUT). Where nothing is known (TLS_LOST), the next call that begins with a header will tell.
 */
__noinline __u64 tls_follow(__u64 base, __u32 at, __u32 total, __u32 shown)
{
	for (int i = 0; i < 2 * TLS_PIECES && at < total; i++) {
		__u32 left = total - at, seen = left < TLS_HEADER ? left : TLS_HEADER, length;

		if (at && at + seen > shown)
			return (__u64)at << 32 | TLS_CUT;
		if (seen < TLS_HEADER)
			return (__u64)at << 32 | TLS_BROKEN;
		length = tls_length(tls_header(0, 0, base + at, left));
		if (!length)
			return TLS_LOST;
		at += length;
	}
	return at < total ? TLS_LOST : (__u64)at << 32 | TLS_FRAMED;
}

/*
 * Tells the rest of a call, from a header on, record by record; the last piece stands for all that is left. Returns as
 * above.
 */
__noinline __u64 tls_pieces(__u64 base, __u32 at, __u32 total)
{
	__u32 cpu = bpf_get_smp_processor_id(), seq, length = 0, end;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (!r)
		return TLS_LOST;
	seq = r->data.seq;
	r->data.flags &= ~WS_F_FIRST;
	for (int i = 0; i < TLS_PIECES && at < total; i++) {
		__u32 left = total - at;
		__u64 header = tls_header(0, 0, base + at, left);

		length = left < TLS_HEADER ? left : tls_length(header);
		end = length && i + 1 < TLS_PIECES ? at + length : total;
		r->data.seq = seq + at;
		r->data.len = (end < total ? end : total) - at;
		r->data.payload_len = !length ? 0 : left < TLS_HEADER ? left : TLS_HEADER;
		__builtin_memcpy(r->payload, &header, sizeof(header));
		emit_record(r, r->data.payload_len, 0);
		if (left < TLS_HEADER)
			return (__u64)at << 32 | TLS_BROKEN;
		if (!length)
			return TLS_LOST;
		at += length;
	}
	return at < total ? TLS_LOST : (__u64)at << 32 | TLS_FRAMED;
}

/*
 * Where in a call the first record begins that does not begin before it: at its start where that is not known. If the
 * call is so short that it does not even end the header which the last one broke off, that is behind it.
 */
static __always_inline __u32 tls_first(struct tls_half *half, __u32 seq, __u64 base, __u32 total)
{
	__u32 at = half->framed ? half->record - seq : 0, had = half->broken, length;
	__u64 header;

	half->broken = 0;
	if (!half->framed || !had || half->record + had != seq)
		return at > 1 << 30 ? 0 : at; /* else bytes came that were not seen */
	header = tls_header(half->header, had, base, total);
	if (had + total < TLS_HEADER) {
		half->header = header;
		half->broken = had + total;
		return total;
	}
	length = tls_length(header);
	return length ? length - had : 0;
}

/* The record of this call goes to user space, in pieces if need be. Not a part of its caller, whose stack is full. */
__noinline int tls_emit_records(struct tls_half *half, __u64 base, __u32 total, __u32 shown)
{
	__u32 cpu = bpf_get_smp_processor_id(), seq, at, behind;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);
	__u64 found;

	if (!half || !r)
		return 0;
	seq = r->data.seq;
	at = tls_first(half, seq, base, total);
	if (half->broken) {
		emit_record(r, r->data.payload_len, 0);
		return 0;
	}
	found = tls_follow(base, at, total, shown);
	if ((__u8)found == TLS_CUT)
		r->data.len = found >> 32;
	emit_record(r, r->data.payload_len, 0);
	if ((__u8)found == TLS_CUT)
		found = tls_pieces(base, found >> 32, total);
	behind = found >> 32;
	half->record = seq + behind;
	half->framed = (__u8)found != TLS_LOST;
	if ((__u8)found == TLS_BROKEN) {
		half->broken = total - behind;
		half->header = tls_header(0, 0, base + behind, total - behind);
	}
	return 0;
}

#endif
