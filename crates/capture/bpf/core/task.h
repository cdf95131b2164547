/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Tasks of targets: children become targets at birth, and act for the request of their creator. */
#ifndef WS_TASK_H
#define WS_TASK_H

static __always_inline void emit_task(struct task_struct *task, __u8 change)
{
	struct ws_task e = {};

	e.kind = WS_TASK;
	e.change = change;
	e.parent_pid = BPF_CORE_READ(task, real_parent, tgid);
	e.time_ns = bpf_ktime_get_ns();
	fill_actor(&e.actor, task);
	e.actor.netns = BPF_CORE_READ(task, nsproxy, net_ns, ns.inum);
	if (bpf_ringbuf_output(&events, &e, sizeof(e),
			       waited_for && change == WS_EXEC ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
	if (watch_lives) {
		struct ws_life life = { .pid = e.actor.pid, .change = change };

		bpf_ringbuf_output(&lives, &life, sizeof(life),
				   change == WS_EXIT ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
	}
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct task_state *p = target_task(parent), *c;

	if (!p)
		return 0;
	c = bpf_task_storage_get(&tasks, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!c) {
		count(WS_C_LOST_NO_STATE);
		return 0;
	}
	c->generation = target_generation;
	c->target = 1;
	c->inherited = 1;
	if (child->tgid != parent->tgid || threads_act(p))
		inherit(&c->acts, acting(parent, p), runtime_thread_evidence(p));
	if (child->pid == child->tgid)
		emit_task(child, WS_FORK);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task)
{
	if (target_task(task))
		emit_task(task, WS_EXEC);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	struct task_state *t = bpf_task_storage_get(&tasks, task, 0, 0);
	__u32 pid = task->tgid;

	if (!t || !t->target || BPF_CORE_READ(task, signal, live.counter) != 0)
		return 0;
	emit_task(task, WS_EXIT);
	/* The next process with this pid is not a target. */
	bpf_map_delete_elem(&target_pids, &pid);
	return 0;
}

#endif
