/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Stacks on which threads stopped. All threads share one table, whose oldest stack gives way to the next: a wait has
 * the number of its stack, and user space looks whether the stack is still there (docs/decisions/0025).
 */
#ifndef WS_WAIT_STACK_H
#define WS_WAIT_STACK_H

struct wait_stack {
	struct ws_stack head;
	__u64 kernel[WS_STACK_KERNEL];
	__u64 user[WS_STACK_USER];
};

/* Set by user space while waits are asked for. */
__u8 waits_kernel_stack; /* stacks of the kernel are taken */
__u8 waits_user_stack;	 /* stacks of programs are taken and copied */

/* Takes the stacks of the current thread that are asked for. Returns how many places of `user` are in use. */
static __always_inline __u32 fill_stack(void *ctx, struct task_struct *task, struct wait_stack *s)
{
	__u64 size;
	long bytes;

	s->head.pid = task->tgid;
	s->head.pad = 0;
	s->head.kernel = 0;
	if (waits_kernel_stack) {
		bytes = bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
		s->head.kernel = bytes > 0 ? bytes / sizeof(__u64) : 0;
	}
	s->head.user = 0;
	s->head.interpreted = 0;
	if (!waits_user_stack) {
		__builtin_memset(&s->head.copy, 0, sizeof(s->head.copy));
		return 0;
	}
	copy_stack(&s->head.copy);
	bytes = bpf_get_stack(ctx, s->user, sizeof(s->user), BPF_F_USER_STACK);
	size = bytes > 0 ? bytes / sizeof(__u64) : 0;
	s->head.interpreted = runtime_frames(s->user + WS_STACK_NATIVE);
	if (s->head.interpreted && size > WS_STACK_NATIVE)
		size = WS_STACK_NATIVE;
	s->head.user = size;
	return s->head.interpreted ? WS_STACK_NATIVE + s->head.interpreted : size;
}

/* The box is empty while no waits are asked for. */
WS_BOXED_ARRAY(wait_stacks, struct wait_stack);

__u64 stacks_taken;

/* Takes the stack of this thread. Returns its number; 0 if there is no place for it. */
static __always_inline __u64 take_stack(void *ctx, struct task_struct *task)
{
	void *table = table_in(&wait_stacks);
	struct wait_stack *s;
	__u64 number;
	__u32 at;

	if (!table)
		return 0;
	number = __sync_fetch_and_add(&stacks_taken, 1) + 1;
	at = number & (WS_STACKS_KEPT - 1);
	s = bpf_map_lookup_elem(table, &at);
	if (!s)
		return 0;
	*(volatile __u64 *)&s->head.number = 0;
	fill_stack(ctx, task, s);
	*(volatile __u64 *)&s->head.number = number;
	return number;
}

#endif
