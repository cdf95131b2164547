/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* A record goes to user space. */
#ifndef WS_EMIT_H
#define WS_EMIT_H

static __always_inline void emit_record(struct scratch *r, __u32 payload, __u32 appended)
{
	__u32 size = payload + appended;

	barrier_var(
		size); /* or the compiler compares what it is made of, and the verifier of Linux 6.1 learns nothing of it */
	if (size > sizeof(r->payload))
		size = sizeof(r->payload);
	if (bpf_ringbuf_output(&events, r, sizeof(r->data) + size, BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING);
	else
		count(WS_C_MESSAGES);
}

#endif
