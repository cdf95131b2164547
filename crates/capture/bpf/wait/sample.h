/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * In which code threads of targets run: a clock of each processor rings while waits are asked for
 * (docs/decisions/0026). User space keeps the stacks for a while, and names those of requests that turn out to be slow.
 */
#ifndef WS_WAIT_SAMPLE_H
#define WS_WAIT_SAMPLE_H

#define WS_NEVER_SLOW ~0ULL

struct sample {
	struct ws_sample head;
	__u64 kernel[WS_STACK_KERNEL];
	__u64 user[WS_STACK_USER];
};

/* The clock interrupts programs in process context, and nothing interrupts it that samples, too. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} sampled SEC(".maps");

SEC("perf_event")
int cpu_sample(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 *own, threshold = wait_threshold_ns, size;
	struct sample *s;
	__u32 first = 0, pid = task->tgid;
	long bytes;

	/* Threads of targets have a ring of waits. */
	if (!waits_on || !pid || !bpf_task_storage_get(&waits, task, 0, 0))
		return 0;
	own = bpf_map_lookup_elem(&wait_thresholds, &pid);
	if (own)
		threshold = *own;
	if (threshold == WS_NEVER_SLOW)
		return 0;
	s = bpf_map_lookup_elem(&sampled, &first);
	if (!s)
		return 0;
	__builtin_memset(&s->head, 0, sizeof(s->head));
	s->head.kind = WS_SAMPLE;
	s->head.pid = pid;
	s->head.tid = task->pid;
	s->head.time_ns = bpf_ktime_get_ns();
	bytes = bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
	s->head.kernel = bytes > 0 ? bytes / sizeof(__u64) : 0;
	bytes = bpf_get_stack(ctx, s->user, sizeof(s->user), BPF_F_USER_STACK);
	size = bytes > 0 ? bytes : 0;
	barrier_var(size); /* see emit_record() */
	if (size > sizeof(s->user))
		size = sizeof(s->user);
	s->head.user = size / sizeof(__u64);
	if (bpf_ringbuf_output(&events, s, sizeof(s->head) + sizeof(s->kernel) + size, BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_SAMPLES);
	return 0;
}

#endif
