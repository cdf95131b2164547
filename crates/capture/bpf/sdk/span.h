/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * In which span an SDK of OpenTelemetry is on a thread. SDKs publish it in a thread-local variable (OTEP 4947,
 * `otel_thread_ctx_v1`): the address of a record. It is read when the thread moves a message, and, while waits are
 * asked for, when it stops. Only what differs from the thread's last one is told.
 */
#ifndef WS_SDK_SPAN_H
#define WS_SDK_SPAN_H

/* By thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct ws_sdk_place);
} sdk_places SEC(".maps");

/* The record, as far as it is read; attributes follow. */
struct sdk_record {
	__u8 trace[16];
	__u8 span[8];
	__u8 valid; /* 1: the rest can be believed */
	__u8 flags;
	__u16 attributes;
};

#define SDK_BLOCKS 8 /* in the C library's structure of a thread: the table of its blocks, by number */
#define SDK_BLOCK 16 /* bytes of an entry: its address, and what is to be freed */

/* A process with such a context was seen: switches look for it from then on. */
__u32 sdk_is_seen;

static __always_inline bool sdk_read(struct task_struct *task, struct sdk_record *record)
{
	__u32 pid = task->tgid;
	struct ws_sdk_place *place = bpf_map_lookup_elem(&sdk_places, &pid);
	__u64 at;

	if (!place)
		return false;
	at = WS_THREAD_SELF(task);
	if (place->module) {
		at = user_word(user_word(at + SDK_BLOCKS) + SDK_BLOCK * place->module);
		if (!at || at == ~0ULL) /* the thread has not used it yet */
			return false;
	}
	at = user_word(at + place->offset);
	return at && !bpf_probe_read_user(record, sizeof(*record), (void *)at) && record->valid == 1;
}

/* Tells the span in which the current thread is, for this cause. A function of its own for the sake of the stack. */
__noinline int sdk_tell(struct task_state *t, __u64 cause)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ws_sdk_span e = { .kind = WS_SDK_SPAN, .cause = cause, .pid = task->tgid, .tid = task->pid };
	struct sdk_record record = {};
	__u64 span;

	if (!t)
		return 0;
	if (!sdk_read(task, &record)) {
		t->sdk_span = 0;
		return 0;
	}
	__builtin_memcpy(&span, record.span, sizeof(span));
	if (span == t->sdk_span && cause == t->sdk_cause)
		return 0;
	t->sdk_span = span;
	t->sdk_cause = cause;
	sdk_is_seen = 1;
	e.time_ns = bpf_ktime_get_ns();
	__builtin_memcpy(e.trace, record.trace, sizeof(e.trace));
	__builtin_memcpy(e.span, record.span, sizeof(e.span));
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
	return 0;
}

/* Whether the process of this thread publishes such a context. */
static __always_inline bool sdk_publishes(const struct task_state *t)
{
	return t->process_runtimes & WS_SDK_CONTEXT;
}

#endif
