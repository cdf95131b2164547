/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Greenlets of Python (gevent, eventlet) are actors of one thread. Each has an attribution, inherited from its creator;
 * which one runs is seen at the end of a switch. Greenlets that existed before their module was found, and the one with
 * which a thread begins, stand for their thread. src/runtime/python/greenlet.rs finds the functions.
 *
 * A greenlet that is made in a task of asyncio is a part of that task: SQLAlchemy runs its plain code in one, and
 * switches back and forth within one step of the task.
 */
#ifndef WS_GREENLET_H
#define WS_GREENLET_H

#include "contract.h"

SEC("uprobe.multi")
int WS_UPROBE(greenlet)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = { .pid = task->tgid, .kind = WS_GREENLET };
	bool known;

	if (!t)
		return 0;
	switch (bpf_get_attach_cookie(ctx)) {
	case GREENLET_BORN:
		key.id = WS_FN_ARG1(ctx);
		if (t->runs && t->runs_kind != WS_GREENLET) {
			table_drop(&actors, &key); /* an older greenlet at this address */
			break;
		}
		actor_born(&key, acting(task, t), WS_EV_COROUTINE);
		break;
	case GREENLET_RUNS:
		key.id = WS_FN_ARG2(ctx);
		known = actor_find(&key);
		if (known || t->runs_kind == WS_GREENLET)
			actor_runs(t, WS_GREENLET, known ? key.id : 0);
		break;
	}
	return 0;
}

#endif
