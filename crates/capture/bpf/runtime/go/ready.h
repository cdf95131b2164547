/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Go: which goroutine is woken by which answer (cause/answer.h). Goroutines that share a connection wait until another
 * one wakes them: by a channel, by closing one, by a lock. All of that ends in runtime.ready, which is probed once
 * requests of a process share a connection.
 */
#ifndef WS_GO_READY_H
#define WS_GO_READY_H

#define GO_MOST_WAITERS 64   /* that are told of a channel that is closed */
#define GO_CLOSING_NS 200000 /* longest time in which they are made ready */

/*
 * At the entry of runtime.closechan: the argument is the channel. All who wait there are made ready then, the last one
 * first. So they are told here, in the order in which they came.
 */
SEC("uprobe.multi")
int WS_UPROBE(go_close)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key mine = { .pid = task->tgid, .kind = WS_GOROUTINE }, theirs = mine;
	struct answer brings = {};
	const struct go_facts *go;
	__u64 waiter[2]; /* struct sudog: its goroutine, the next one */
	int n;

	go = go_probed(task, t);
	if (!go)
		return 0;
	t->closing = 0;
	waiter[1] = user_word(WS_GO_ARG1(ctx) + go->recvq);
	mine.id = user_word(WS_GO_G(ctx) + go->goid);
	if (!waiter[1] || !answer_of(t, &mine, t->actor == mine.id, &brings))
		return 0;
	for (n = 0; n < GO_MOST_WAITERS && waiter[1]; n++) {
		if (bpf_probe_read_user(waiter, sizeof(waiter), (void *)waiter[1]))
			break;
		theirs.id = user_word(waiter[0] + go->goid);
		if (theirs.id)
			bring_answer(&theirs, &brings, 0);
	}
	t->closing = n;
	t->closing_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * At the entry of runtime.ready, on the scheduler's stack: the argument is the goroutine that will go on. Where the
 * thread runs none, the scheduler itself wakes it: a timer.
 */
SEC("uprobe.multi")
int WS_UPROBE(go_ready)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key mine = { .pid = task->tgid, .kind = WS_GOROUTINE }, theirs = mine;
	struct answer brings = {};
	const struct go_facts *go;
	__u64 running;

	go = go_probed(task, t);
	if (!go)
		return 0;
	if (t->closing && bpf_ktime_get_ns() - t->closing_ns < GO_CLOSING_NS) {
		t->closing--;
		return 0;
	}
	running = user_word(user_word(WS_GO_G(ctx) + GO_G_M) + go->curg);
	if (!running)
		return 0;
	mine.id = user_word(running + go->goid);
	theirs.id = user_word(WS_GO_ARG1(ctx) + go->goid);
	if (theirs.id && answer_of(t, &mine, t->actor == mine.id, &brings))
		bring_answer(&theirs, &brings, 0);
	return 0;
}

#endif
