/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Decides how many bytes of a call its record carries, and sends the record to user space. */
#ifndef WS_EMIT_H
#define WS_EMIT_H

/*
 * Number of payload bytes that are wanted of a call. `asks`: the call has the direction of requests. Then its beginning
 * is wanted even if it is not the first of its run: the next request may follow a body that was answered before it was
 * read. That costs little, because requests of many calls are rare, unlike answers of many calls.
 */
static __always_inline __u32 wanted(__u8 copy, __u16 bytes, bool young, bool first, bool asks, __u32 run_shown)
{
	__u32 n = bytes ? bytes : default_bytes;

	if (n > WS_MAX_PAYLOAD)
		n = WS_MAX_PAYLOAD;
	if (run_shown >= WS_RUN_BYTES && n > WS_CALL_BYTES)
		n = WS_CALL_BYTES;
	switch (copy) {
	case WS_COPY_EVERY:
	case WS_COPY_LONG_HEADERS:
		return n;
	case WS_COPY_FIRST:
		return first || asks ? n : 0;
	case WS_COPY_PAIR:
		return first ? n : 0;
	case WS_COPY_IGNORE:
	case WS_COPY_LENGTHS:
		return 0;
	}
	return young ? WS_MAX_PAYLOAD : n;
}

#ifndef WS_CHECKED_RECORDS

static __always_inline void emit_record(struct scratch *r, __u32 payload, __u32 appended)
{
	__u32 size = payload + appended;

	barrier_var(size); /* without it, the verifier of Linux 6.1 learns no bound from the comparison */
	if (size > sizeof(r->payload))
		size = sizeof(r->payload);
	if (bpf_ringbuf_output(&events, r, sizeof(r->data) + size, BPF_RB_NO_WAKEUP))
		count_held(WS_C_LOST_RING_FULL);
	else
		count_held(WS_C_RECORDS);
}

#else

/* A function of its own: a record that is signed within its callers exceeds what the verifier follows. */
__noinline int emit_scratch(__u32 size)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (!r)
		return 0;
	sign_record(&r->data, &r->owner);
	if (size > sizeof(r->payload))
		size = sizeof(r->payload);
	if (bpf_ringbuf_output(&events, r, sizeof(r->data) + size, BPF_RB_NO_WAKEUP))
		count_held(WS_C_LOST_RING_FULL);
	else
		count_held(WS_C_RECORDS);
	return 0;
}

static __always_inline void emit_record(struct scratch *r, __u32 payload, __u32 appended)
{
	emit_scratch(payload + appended);
}

#endif

#endif
