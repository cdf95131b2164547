/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Java: turns of virtual threads on their carriers, while waits are asked for (docs/decisions/0033). The machine thaws
 * the frames of a virtual thread that goes on, which is mounted by then, and freezes those of one that waits. One that
 * runs for the first time has nothing to thaw: its turn begins with its first message.
 */
#ifndef WS_JAVA_TURNS_H
#define WS_JAVA_TURNS_H

/* This thread runs the virtual thread, if `ends` or if the ends of turns are seen here. Its turn may have begun. */
static __always_inline void java_runs(struct task_struct *task, __u64 id, bool ends)
{
	struct wait_ring *r = bpf_task_storage_get(&waits, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (r && r->turn != id && (ends || r->head.runs_actors))
		turn_begins(task, id, 0, WS_PARK_UNKNOWN, 0);
}

/* The machine thaws a few frames at a time, and more of them when they are returned to. */
SEC("uprobe.multi")
int WS_UPROBE(java_mounts)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct java_thread *j;
	struct wait_ring *r;
	__u64 id;

	if (!t || !waits_on)
		return 0;
	switch (bpf_get_attach_cookie(ctx)) {
	case JAVA_FREEZES:
		r = bpf_task_storage_get(&waits, task, 0, 0);
		if (r && r->turn)
			turn_ends(r, task, bpf_ktime_get_ns());
		break;
	case JAVA_THAWS:
		learn_runtimes(task, t);
		j = java_thread(task, t);
		id = j ? virtual_thread(j) : 0;
		if (id && id != VIRTUAL_UNKNOWN)
			java_runs(task, id, true);
		break;
	}
	return 0;
}

/* A virtual thread moves a message: it runs, if it was not seen to begin. */
__noinline int java_turn_seen(__u64 id)
{
	java_runs(bpf_get_current_task_btf(), id, false);
	return 0;
}

#endif
