/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * tokio: turns of tasks on threads, while waits are asked for (docs/decisions/0033). A poll is a turn. A task is ready
 * when it is made, and when it is woken: while it sleeps, by a waker; while it runs, as soon as its poll has returned.
 */
#ifndef WS_TOKIO_TURNS_H
#define WS_TOKIO_TURNS_H

/* Bits of a task's state; the same in all versions with this header. */
#define TOKIO_RUNNING 1
#define TOKIO_COMPLETE 2
#define TOKIO_NOTIFIED 4

static __always_inline __u64 tokio_state(__u64 header)
{
	return user_word(header + __builtin_offsetof(struct tokio_header, state));
}

__noinline int tokio_turn_begins(__u64 header)
{
	turn_begins(bpf_get_current_task_btf(), header, 0, WS_PARK_UNKNOWN, 0);
	return 0;
}

/* The poll of the running task returns, or the task has ended. */
__noinline int tokio_turn_ends(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct wait_ring *r = bpf_task_storage_get(&waits, task, 0, 0);

	if (!r || !r->turn)
		return 0;
	if ((tokio_state(r->turn) & (TOKIO_COMPLETE | TOKIO_NOTIFIED)) == TOKIO_NOTIFIED)
		turn_is_due(r->turn, task->tgid);
	turn_ends(r, task, bpf_ktime_get_ns());
	return 0;
}

__noinline int tokio_turn_born(__u64 header)
{
	turn_born(bpf_get_current_task_btf(), header, 0);
	return 0;
}

/* At the entry of waker::wake_by_val(header) and wake_by_ref(header), by whatever thread. */
SEC("uprobe.multi")
int WS_UPROBE(tokio_due)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 header = WS_FN_ARG1(ctx);

	if (waits_on && target_task(task) && !(tokio_state(header) & (TOKIO_RUNNING | TOKIO_COMPLETE | TOKIO_NOTIFIED)))
		turn_is_due(header, task->tgid);
	return 0;
}

#endif
