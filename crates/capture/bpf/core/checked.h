/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Debug builds (feature `checked-records`) notice when two tasks use one record under construction: docs/preemption.md,
 * "Checked records". Other builds are the same, instruction by instruction, as without this file.
 */
#ifndef WS_CHECKED_H
#define WS_CHECKED_H

#ifndef WS_CHECKED_RECORDS

/* No functions: even empty ones make the compiler choose other instructions for their callers. */
#define take_scratch() ((void)0)
#define release_scratch() ((void)0)
#define seal_scratch() ((void)0)
#define sign_scratch() ((void)0)

#else

/* What a task knows of the record that it builds. It stands apart from the record: no other task can write here. */
struct record_owner {
	__u64 mark; /* thread id and `taken` */
	__u64 taken;
	__u64 checksum; /* of the record as the task has filled it */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct record_owner);
} record_owners SEC(".maps");

static __always_inline struct record_owner *record_owner(void)
{
	return bpf_task_storage_get(&record_owners, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* Marks a place for a record as this task's. A mark that stands there already is of a task that is not done. */
static __always_inline void take_record(__u64 *owner)
{
	struct record_owner *own = record_owner();

	if (!own)
		return;
	own->taken++;
	own->mark = (__u64)bpf_get_current_task_btf()->pid << 32 | (__u32)own->taken;
	if (*(volatile __u64 *)owner)
		count(WS_C_CORRUPT_RECORDS);
	*(volatile __u64 *)owner = own->mark;
}

static __always_inline void release_record(__u64 *owner)
{
	struct record_owner *own = record_owner();

	if (own && *(volatile __u64 *)owner != own->mark)
		count(WS_C_CORRUPT_RECORDS);
	*(volatile __u64 *)owner = 0;
}

static __always_inline __u64 checksum_word(__u64 sum, __u64 word)
{
	sum = (sum ^ word) * 0x9e3779b97f4a7c15;
	return sum ^ sum >> 32;
}

/* The task has filled the record: keeps its checksum, apart from the record. */
static __always_inline void seal_record(const struct ws_data *d, const __u8 *payload)
{
	struct record_owner *own = record_owner();
	const volatile __u64 *words = (const volatile __u64 *)d;
	__u64 sum = 0;

	for (__u32 i = 0; i < __builtin_offsetof(struct ws_data, checksum) / 8; i++)
		sum = checksum_word(sum, words[i]);
	words = (const volatile __u64 *)payload;
	for (__u32 i = 0; i < WS_CHECKED_PAYLOAD / 8; i++) {
		if (d->payload_len < 8 * (i + 1))
			break;
		sum = checksum_word(sum, words[i]);
	}
	if (own)
		own->checksum = sum;
}

/* The record is about to leave: it must still be this task's. */
static __always_inline void sign_record(struct ws_data *d, const __u64 *owner)
{
	struct record_owner *own = record_owner();

	d->checksum = 0; /* no checksum: the record counts as unchecked */
	if (!own)
		return;
	count(WS_C_CHECKED_RECORDS);
	if (*(const volatile __u64 *)owner != own->mark)
		count(WS_C_CORRUPT_RECORDS);
	d->checksum = own->checksum;
}

/*
 * The same for the processor's record. Global functions: the verifier checks them once, and they need little of their
 * callers' stack.
 */
__noinline int take_scratch(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (r)
		take_record(&r->owner);
	return 0;
}

__noinline int release_scratch(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (r)
		release_record(&r->owner);
	return 0;
}

__noinline int seal_scratch(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (r)
		seal_record(&r->data, r->payload);
	return 0;
}

__noinline int sign_scratch(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (r)
		sign_record(&r->data, &r->owner);
	return 0;
}

#endif

/* The control of the test: records are left unguarded, so that the check has something to find. */
#ifdef WS_UNGUARDED_RECORDS
#define WS_GUARDS false
#else
#define WS_GUARDS true
#endif

#endif
