/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * In which code threads of targets run: a clock of each processor rings while waits are asked for
 * (docs/decisions/0026). User space keeps the stacks for a while, and names those of requests that turn out to be slow.
 */
#ifndef WS_WAIT_SAMPLE_H
#define WS_WAIT_SAMPLE_H

#define WS_NEVER_SLOW ~0ULL

/* `stack` is the end of `head`, and what follows it. */
struct sample {
	__u8 kind;
	__u8 pad[3];
	__u32 tid;
	__u64 time_ns;
	struct wait_stack stack;
};

_Static_assert(sizeof(struct sample) == sizeof(struct ws_sample) + sizeof(((struct sample *)0)->stack.kernel) +
						sizeof(((struct sample *)0)->stack.user),
	       "contract");

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

	/* Threads of targets have a ring of waits. */
	if (!waits_on || !(waits_kernel_stack | waits_user_stack) || !pid || !bpf_task_storage_get(&waits, task, 0, 0))
		return 0;
	own = table_find(&wait_thresholds, &pid);
	if (own)
		threshold = *own;
	if (threshold == WS_NEVER_SLOW)
		return 0;
	s = bpf_map_lookup_elem(&sampled, &first);
	if (!s)
		return 0;
	__builtin_memset(s->pad, 0, sizeof(s->pad));
	s->kind = WS_SAMPLE;
	s->tid = task->pid;
	s->time_ns = bpf_ktime_get_ns();
	s->stack.head.number = 0;
	size = fill_stack(ctx, task, &s->stack);
	barrier_var(size); /* see emit_record() */
	if (size > WS_STACK_USER)
		size = WS_STACK_USER;
	size = offsetof(struct sample, stack.user) + size * sizeof(__u64);
	if (bpf_ringbuf_output(&events, s, size, BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_SAMPLES);
	return 0;
}

#endif
