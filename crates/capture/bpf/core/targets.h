/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The filter that comes before everything: is this task a target? The answer is kept in task storage and decided again
 * when user space raises `target_generation`, so that a task costs one storage look-up per call.
 */
#ifndef WS_TARGETS_H
#define WS_TARGETS_H

static __always_inline bool in_target_cgroup(void)
{
	for (__u32 i = 0; i < WS_MAX_CGROUPS; i++) {
		if (i >= cgroup_count)
			return false;
		if (bpf_current_task_under_cgroup(&target_cgroups, i) == 1)
			return true;
	}
	return false;
}

static __noinline bool decide_target(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	struct task_state *l;
	__u32 key = task->tgid;

	/* The kernel starts the workers of io_uring without a fork that could be seen. */
	if (task->flags & PF_IO_WORKER && leader) {
		l = bpf_task_storage_get(&tasks, leader, 0, 0);
		if (l && l->target)
			return true;
	}

	if (everything || bpf_map_lookup_elem(&target_pids, &key))
		return true;
	if (cgroup_count && in_target_cgroup())
		return true;
	if (by_netns) {
		key = BPF_CORE_READ(task, nsproxy, net_ns, ns.inum);
		if (bpf_map_lookup_elem(&target_netns, &key))
			return true;
	}
	return false;
}

/* State of the current task if it is a target, else NULL. */
static __always_inline struct task_state *target_task(struct task_struct *task)
{
	struct task_state *t = bpf_task_storage_get(&tasks, task, 0, 0);

	if (t && t->generation == target_generation)
		return t->target ? t : NULL;
	if (!t) {
		t = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!t) {
			count(WS_C_LOST_NO_STATE);
			return NULL;
		}
	}
	t->target = t->inherited || decide_target(task);
	t->generation = target_generation;
	return t->target ? t : NULL;
}

/* By thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct ws_process_facts);
} processes SEC(".maps");

/* Counts the changes of `processes` and of the runtimes' facts: a thread looks them up only after a change. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} facts_epoch SEC(".maps");

static __always_inline void learn_runtimes(struct task_struct *task, struct task_state *t)
{
	__u32 zero = 0, pid = task->tgid, *epoch = bpf_map_lookup_elem(&facts_epoch, &zero);
	struct ws_process_facts *facts;

	if (!epoch || t->facts_epoch == *epoch)
		return;
	t->facts_epoch = *epoch;
	facts = bpf_map_lookup_elem(&processes, &pid);
	t->process_runtimes = facts ? facts->runtimes : 0;
}

static __always_inline void fill_actor(struct ws_actor *a, struct task_struct *task)
{
	a->pid = task->tgid;
	a->tid = task->pid;
	a->cgroup_id = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	a->coroutine = 0;
	a->pad = 0;
	__builtin_memcpy(a->comm, task->comm, WS_COMM_LEN);
}

#endif
