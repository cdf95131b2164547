/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Copies of stacks. Most programs and libraries in C, C++ and Rust use the frame pointer as any other register, so that
 * their callers are found only by tables in their files. User space reads those tables, and needs the memory of the
 * stack as it was (docs/decisions/0028).
 *
 * All threads share one table of blocks, whose oldest blocks give way to the next. User space compares the numbers.
 */
#ifndef WS_WAIT_COPY_H
#define WS_WAIT_COPY_H

struct copy_block {
	__u64 number; /* 0: it is being written */
	__u8 bytes[WS_COPY_BLOCK];
};

/* The box is empty while no waits are asked for. */
WS_BOXED_ARRAY(stack_copies, struct copy_block);

__u64 blocks_taken;

/* Go keeps frame pointers everywhere. */
static __always_inline bool keeps_frame_pointers(__u32 pid)
{
	struct ws_process_facts *facts = bpf_map_lookup_elem(&processes, &pid);

	return facts && facts->runtimes & (1U << WS_GOROUTINE | WS_GO_TLS);
}

/*
 * The address at which the stack surely ends, as far as it is known: where the C library keeps the structure of a
 * thread that it has started, or where the kernel has put the arguments of the program.
 */
static __always_inline __u64 end_of_stack(struct task_struct *task, __u64 sp)
{
	__u64 end = sp + WS_COPY_BLOCKS * WS_COPY_BLOCK, self = WS_THREAD_SELF(task), first = task->mm->start_stack;

	if (self > sp && self < end)
		end = self;
	if (first > sp && first < end)
		end = first;
	return end;
}

/*
 * Copies the stack of the current thread. A block lies within one page, so a page that is not there costs only what
 * follows. A global function, so that the verifier goes through the loop once.
 */
__noinline int copy_stack(struct ws_stack_copy *to)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	void *table = table_in(&stack_copies);
	__u64 from, end, number, blocks;
	struct copy_block *b;
	__u32 at;

	if (!to)
		return 0;
	__builtin_memset(to, 0, sizeof(*to));
	if (!table || WS_COMPAT_TASK(task) || keeps_frame_pointers(task->tgid))
		return 0;
	to->ip = WS_IP(regs);
	to->sp = WS_SP(regs);
	to->fp = WS_FP(regs);
	to->lr = WS_LR(regs);
	from = to->sp & ~(WS_COPY_BLOCK - 1ULL);
	end = end_of_stack(task, to->sp);
	blocks = (end - from + WS_COPY_BLOCK - 1) / WS_COPY_BLOCK;
	if (blocks > WS_COPY_BLOCKS)
		blocks = WS_COPY_BLOCKS;
	to->cut = end == to->sp + WS_COPY_BLOCKS * WS_COPY_BLOCK;
	number = __sync_fetch_and_add(&blocks_taken, blocks) + 1;
	to->first = number;
	for (int i = 0; i < WS_COPY_BLOCKS; i++) {
		if (i >= blocks)
			break;
		at = number & (WS_COPIES_KEPT - 1);
		b = bpf_map_lookup_elem(table, &at);
		if (!b)
			break;
		*(volatile __u64 *)&b->number = 0;
		if (bpf_probe_read_user(b->bytes, sizeof(b->bytes), (void *)from)) {
			to->cut = 1;
			break;
		}
		*(volatile __u64 *)&b->number = number;
		to->blocks = i + 1;
		from += WS_COPY_BLOCK;
		number++;
	}
	return 0;
}

#endif
