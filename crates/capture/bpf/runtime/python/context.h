/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Contexts of CPython's contextvars. What gives work to a thread copies the current context, and the thread runs the
 * work in that copy: asyncio.to_thread(), anyio (FastAPI, Starlette), asgiref (Django). So a copy carries the cause of
 * the actor that made it, and another actor that runs something in the copy acts for that cause.
 *
 * In a thread that runs tasks of asyncio a context says nothing: the loop runs each callback in a context, also one
 * that reads for the requests of all others. src/runtime/python/context.rs finds the functions.
 */
#ifndef WS_PYTHON_CONTEXT_H
#define WS_PYTHON_CONTEXT_H

#include "contract.h"
#include "copies.h"

static __always_inline void python_copied(struct task_struct *task, struct task_state *t, const struct carrier_key *key)
{
	struct carried job = python_job(acting(task, t), thread_group(task, t));
	struct python_copy copy = { .cause = job.cause, .evidence = job.evidence, .actor = actor_id(task, t) };

	copy.made_for = asyncio_asks_for(task, t);
	table_remember(&python_copies, key, &copy);
}

static __always_inline void python_enters(struct task_struct *task, struct task_state *t, const struct carrier_key *key)
{
	struct python_copy *copy = table_find(&python_copies, key);
	struct attribution *a;

	if (!copy || t->runs_kind == WS_ASYNCIO_TASK)
		return;
	a = acting(task, t);
	if (copy->actor == actor_id(task, t) || (a->cause && a->cause == copy->cause))
		return;
	/* An actor that serves a request of its own runs a callback of another one. */
	if (a->cause && a->state == ACTS_OWN && !is_over(a))
		return;
	python_works(a, (struct carried){ .cause = copy->cause, .evidence = copy->evidence });
}

SEC("uprobe.multi")
int WS_UPROBE(python_context)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct carrier_key key = { .pid = task->tgid };

	if (!t)
		return 0;
	switch (bpf_get_attach_cookie(ctx)) {
	case PYTHON_COPIED:
		key.object = WS_FN_RESULT(ctx);
		if (key.object)
			python_copied(task, t, &key);
		break;
	case PYTHON_ENTERS:
		key.object = WS_FN_ARG1(ctx);
		python_enters(task, t, &key);
		break;
	}
	return 0;
}

#endif
