/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Follows TLS records from one to the next within and across calls. User space needs the header of each record to find
 * the place of its plaintext, but only the start of each call is copied. Programs that read ahead (Go, event loops) get
 * several records in one call. Such a call is emitted in pieces: one for each header that lies behind the copied bytes.
 */
#ifndef WS_TLS_RECORDS_H
#define WS_TLS_RECORDS_H

#define TLS_MAX_BODY (16384 + 2048)
#define TLS_PIECES 64 /* most pieces of one call: as many requests of one connection may come at once */

/* Length of a record with its header; 0 if these are not the first bytes of a record. The first byte is the lowest. */
static __always_inline __u32 tls_length(__u64 header)
{
	__u32 body = (header >> 16 & 0xff00) | (header >> 32 & 0xff);

	if ((__u8)((header & 0xff) - TLS_FIRST_TYPE) >= TLS_TYPES || (header >> 8 & 0xff) != 3 ||
	    (header >> 16 & 0xff) > 4)
		return 0;
	return body && body <= TLS_MAX_BODY ? TLS_HEADER + body : 0;
}

/*
 * Completes a header of which `had` bytes are known with up to `left` bytes at `base`. A receive may end within a
 * header: Go and Node receive into the rest of a buffer. This function and the next ones are global, so that the
 * verifier checks them once; that is why they take and return numbers.
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

/* Lower half of the result of tls_step(). The upper half is the offset behind the last record that was followed. */
enum tls_found { TLS_LOST = 0, TLS_FRAMED = 1, TLS_CUT = 2, TLS_BROKEN = 3 };

/*
 * Goes on from the record at offset `at` to the next one. TLS_FRAMED: the offset behind this record is known. A
 * function of its own, so that the verifier knows as little of each round of the loop as of the first one.
 */
__noinline __u64 tls_step(__u64 base, __u32 at, __u32 total, __u32 shown)
{
	__u32 left = total - at, seen = left < TLS_HEADER ? left : TLS_HEADER, length;

	if (at && at + seen > shown)
		return (__u64)at << 32 | TLS_CUT;
	if (seen < TLS_HEADER)
		return (__u64)at << 32 | TLS_BROKEN;
	length = tls_length(tls_header(0, 0, base + at, left));
	return length ? (__u64)(at + length) << 32 | TLS_FRAMED : TLS_LOST;
}

/*
 * Follows the records of a call of `total` bytes, from the record at offset `at` on:
 *  - TLS_FRAMED: to the end of the call, which may lie within a record whose length is known;
 *  - TLS_BROKEN: to a header that continues in the next call;
 *  - TLS_CUT: to the first header that does not lie within the `shown` bytes at the start of the call;
 *  - TLS_LOST: there is no header. Records are followed again from the next call that begins with one.
 */
__noinline __u64 tls_follow(__u64 base, __u32 at, __u32 total, __u32 shown)
{
	for (int i = 0; i < 2 * TLS_PIECES && at < total; i++) {
		__u64 found = tls_step(base, at, total, shown);

		if ((__u8)found != TLS_FRAMED)
			return found;
		at = found >> 32;
	}
	return at < total ? TLS_LOST : (__u64)at << 32 | TLS_FRAMED;
}

/*
 * Emits the record of a call at offset `at`. `seq` is the position of the call. The last piece of a call stands for all
 * that are left. Returns what tls_step() returns.
 */
__noinline __u64 tls_piece(__u64 base, __u32 at, __u32 total, __u32 seq, bool last)
{
	__u32 cpu = bpf_get_smp_processor_id(), left = total - at, length, end;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);
	__u64 header = tls_header(0, 0, base + at, left);

	if (!r)
		return TLS_LOST;
	length = left < TLS_HEADER ? left : tls_length(header);
	end = length && !last ? at + length : total;
	r->data.seq = seq + at;
	r->data.len = (end < total ? end : total) - at;
	r->data.payload_len = !length ? 0 : left < TLS_HEADER ? left : TLS_HEADER;
	__builtin_memcpy(r->payload, &header, sizeof(header));
	seal_scratch();
	emit_record(r, r->data.payload_len, 0);
	if (left < TLS_HEADER)
		return (__u64)at << 32 | TLS_BROKEN;
	return length ? (__u64)(at + length) << 32 | TLS_FRAMED : TLS_LOST;
}

/*
 * Emits the rest of a call, from the header at offset `at` on, record by record. If there are too many records, the
 * last piece stands for all that are left. Returns what tls_follow() returns.
 */
__noinline __u64 tls_pieces(__u64 base, __u32 at, __u32 total)
{
	__u32 cpu = bpf_get_smp_processor_id(), seq;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (!r)
		return TLS_LOST;
	seq = r->data.seq;
	r->data.flags &= ~WS_F_FIRST;
	for (int i = 0; i < TLS_PIECES && at < total; i++) {
		__u64 found = tls_piece(base, at, total, seq, i + 1 == TLS_PIECES);

		if ((__u8)found != TLS_FRAMED)
			return found;
		at = found >> 32;
	}
	return at < total ? TLS_LOST : (__u64)at << 32 | TLS_FRAMED;
}

/*
 * Offset of the first record that begins within this call; 0 if it is not known. If the call does not even complete the
 * header that the last call broke off, the result is the length of the call.
 */
static __always_inline __u32 tls_first(struct tls_half *half, __u32 seq, __u64 base, __u32 total)
{
	__u32 at = half->framed ? half->record - seq : 0, had = half->broken, length;
	__u64 header;

	half->broken = 0;
	if (!half->framed || !had || half->record + had != seq)
		return at > 1 << 30 ? 0 : at; /* so far away only if bytes were missed */
	header = tls_header(half->header, had, base, total);
	if (had + total < TLS_HEADER) {
		half->header = header;
		half->broken = had + total;
		return total;
	}
	length = tls_length(header);
	return length ? length - had : 0;
}

/* Emits the record of this call, in pieces if needed. A function of its own because the stack of its caller is full. */
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
	if ((__u8)found == TLS_CUT) {
		r->data.len = found >> 32;
		seal_scratch();
	}
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
