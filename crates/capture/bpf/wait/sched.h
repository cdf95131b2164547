/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The scheduler's tracepoints, attached while waits are asked for: each switch of the machine passes here. No memory
 * is taken at a switch, because the scheduler's lock is held there: a ring is made when its thread is born, is woken,
 * or moves a message.
 */
#ifndef WS_WAIT_SCHED_H
#define WS_WAIT_SCHED_H

SEC("tp_btf/sched_switch")
int BPF_PROG(wait_switch, bool preempted, struct task_struct *from, struct task_struct *to)
{
	struct wait_ring *r = bpf_task_storage_get(&waits, from, 0, 0);
	struct wait_ring *next = bpf_task_storage_get(&waits, to, 0, 0);
	struct task_state *t;
	__u64 now = 0;

	if (r) {
		now = bpf_ktime_get_ns();
		wait_begins(ctx, from, r, preempted, to, next != NULL, now);
		t = sdk_is_seen ? bpf_task_storage_get(&tasks, from, 0, 0) : NULL;
		if (t && sdk_publishes(t))
			sdk_tell(t, t->acts.cause);
	}
	if (next) {
		now = now ? now : bpf_ktime_get_ns();
		note_ran_before(next, to, from, r != NULL, now);
		wait_ends(to, next, now);
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(wait_waking, struct task_struct *wakee)
{
	struct wait_ring *r = bpf_task_storage_get(&waits, wakee, 0, 0);
	struct task_struct *task = bpf_get_current_task_btf();
	bool by_target;

	if (!r && (task->tgid != wakee->tgid || task->pid == wakee->pid))
		return 0;
	by_target = bpf_task_storage_get(&waits, task, 0, 0) != NULL;
	if (r)
		wait_woken(r, task, by_target);
	else if (by_target)
		bpf_task_storage_get(&waits, wakee, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(wait_fork, struct task_struct *parent, struct task_struct *child)
{
	if (target_task(parent))
		bpf_task_storage_get(&waits, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;

/* Sends the waits of a thread, or begins to keep them. Run by user space. */
SEC("syscall")
int wait_take(struct ws_wait_take *a)
{
	struct task_struct *task;
	struct wait_ring *r;
	__u32 tid = a->tid;

	if (!bpf_ksym_exists(bpf_task_from_pid) || !bpf_ksym_exists(bpf_task_release))
		return 1;
	task = bpf_task_from_pid(tid);
	if (!task)
		return 1;
	r = bpf_task_storage_get(&waits, task, 0, a->make ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	if (r && !a->make) {
		if (is_open(r))
			take_waker(r, wait_at(r, r->next));
		else if (r->open)
			wait_at(r, r->next)->stopped_ns = 0;
		r->head.kind = WS_WAITS;
		r->head.slow = 0;
		r->head.depth = a->depth;
		r->head.count = WS_WAITS_KEPT;
		r->head.pid = task->tgid;
		r->head.tid = tid;
		r->head.exchange = 0;
		r->head.actor = 0;
		r->head.since_ns = a->since_ns;
		r->head.time_ns = bpf_ktime_get_ns();
		__builtin_memcpy(r->head.comm, task->comm, sizeof(r->head.comm));
		if (bpf_ringbuf_output(&events, r, sizeof(r->head) + sizeof(r->waits), BPF_RB_NO_WAKEUP))
			count(WS_C_LOST_WAITS);
	}
	bpf_task_release(task);
	return 0;
}

#endif
