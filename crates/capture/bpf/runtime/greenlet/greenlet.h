/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Greenlets of Python (gevent, eventlet): what a goroutine is to Go, and in one thread. A context each, inherited from who makes one;
 * which one runs is told where a switch has come to its end. Those that were there before their module was found, and that
 * with which a thread begins, stand for their thread. src/tls/greenlet.rs finds the functions.
 */
#ifndef WS_GREENLET_H
#define WS_GREENLET_H

enum greenlet_point {
	GREENLET_BORN = 1, /* UserGreenlet::UserGreenlet(this, …) */
	GREENLET_RUNS = 2, /* g_switchstack_success(result, this) of the one that goes on */
};

SEC("uprobe.multi")
int greenlet(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = { .pid = task->tgid };
	struct attribution born = {};

	if (!t)
		return 0;
	switch (bpf_get_attach_cookie(ctx)) {
	case GREENLET_BORN:
		key.id = WS_FN_ARG1(ctx);
		inherit(&born, acting(task, t), WS_EV_COROUTINE);
		remember(&actors, &key, &born);
		break;
	case GREENLET_RUNS:
		key.id = WS_FN_ARG2(ctx);
		t->runs = bpf_map_lookup_elem(&actors, &key) ? key.id : 0;
		break;
	}
	return 0;
}

#endif
