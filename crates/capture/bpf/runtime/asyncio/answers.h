/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Python's asyncio: which task is woken by which answer, where requests share a connection (cause/answer.h). */
#ifndef WS_ASYNCIO_ANSWERS_H
#define WS_ASYNCIO_ANSWERS_H

/*
 * A future is settled: it brings the answer that the callback has read, or that the task was brought. The keys of
 * futures are those of tasks, as a task is a future. A function of its own, because its callers have little stack.
 */
__noinline int asyncio_brings(__u64 future, bool by_answer)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = bpf_task_storage_get(&tasks, task, 0, 0);
	struct actor_key key = { .pid = task->tgid, .kind = WS_ASYNCIO_TASK };
	struct answer brings = {};

	if (!t)
		return 0;
	key.id = t->runs;
	if (!answer_of(t, &key, !t->runs && by_answer, &brings))
		return 0;
	key.id = future;
	table_put(&answers, &key, &brings, BPF_ANY);
	return 0;
}

/* A task is woken by a future. */
__noinline int asyncio_brought(__u64 future, __u64 to)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = bpf_task_storage_get(&tasks, task, 0, 0);
	struct actor_key key = { .pid = task->tgid, .kind = WS_ASYNCIO_TASK };
	struct answer brings = {};
	struct attribution *c;

	if (!t)
		return 0;
	key.id = future;
	if (!answer_of(t, &key, false, &brings))
		return 0;
	table_drop(&answers, &key);
	key.id = to;
	c = actor_find(&key);
	return bring_answer(&key, &brings,
			    c && (c->place == ASYNCIO_READER || c->place == ASYNCIO_WORKER) ? BROUGHT_TO_READER : 0);
}

#endif
