/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * CPython's SimpleQueue, from which the workers of a ThreadPoolExecutor take their jobs. An item carries the cause of
 * the thread that puts it; the thread that gets the item acts for that cause, whichever thread was woken for it. An
 * item is known by its address, which it keeps while it is in the queue. src/runtime/python/queue.rs finds the
 * functions.
 */
#ifndef WS_PYTHON_QUEUE_H
#define WS_PYTHON_QUEUE_H

#include "contract.h"

static __always_inline void python_put(struct attribution *a, const struct carrier_key *item, __u32 pid)
{
	struct carried value = { .cause = a->cause, .evidence = WS_EV_COROUTINE };

	drop_if_superseded(a);
	/* The cause of a worker that has returned its result, or is provisional, does not belong to the next job. */
	if (a->state == ACTS_RETURNED || is_provisional(a->cause))
		value.cause = 0;
	else if (is_untrusted(a, pid))
		value = (struct carried){ .evidence = WS_EV_INFERRED };
	if (!value.cause && value.evidence != WS_EV_INFERRED)
		actor_drop(item); /* of an earlier item at this address */
	else
		actor_carry(item, &value);
}

static __always_inline void python_got(struct task_state *t, const struct carrier_key *item)
{
	struct carried *got = actor_carried(item), value;
	struct attribution *a = &t->acts;

	if (!got) {
		if (a->authoritative)
			actor_pass_cause(a, 0, WS_EV_NONE, PASS_OWN);
		return;
	}
	value = *got;
	actor_drop(item);
	actor_pass_cause(a, value.cause, value.evidence, PASS_LENT);
	a->authoritative = 1;
}

SEC("uprobe.multi")
int WS_UPROBE(python_queue)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct carrier_key item = { .pid = task->tgid };

	if (!t)
		return 0;
	switch (bpf_get_attach_cookie(ctx)) {
	case PYTHON_PUT:
		item.object = user_word(WS_FN_ARG2(ctx));
		if (item.object)
			python_put(acting(task, t), &item, thread_group(task, t));
		break;
	case PYTHON_GOT:
		item.object = WS_FN_RESULT(ctx);
		if (item.object)
			python_got(t, &item);
		break;
	}
	return 0;
}

#endif
