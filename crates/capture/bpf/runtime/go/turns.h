/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Go: turns of goroutines on threads, probed while waits are asked for. */
#ifndef WS_GO_TURNS_H
#define WS_GO_TURNS_H

/*
 * At the entry of runtime.execute, on the scheduler's stack: the argument is the goroutine that this thread will run.
 * The runtime keeps it in runtime.m as long as the thread runs it, also in system calls.
 */
SEC("uprobe.multi")
int WS_UPROBE(go_execute)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	const struct go_facts *go;
	__u64 id, m;

	go = waits_on ? go_probed(task, t) : NULL;
	if (!go)
		return 0;
	id = user_word(WS_GO_ARG1(ctx) + go->goid);
	m = user_word(WS_GO_G(ctx) + GO_G_M);
	if (id && m)
		turn_begins(task, id, m + go->curg);
	return 0;
}

#endif
