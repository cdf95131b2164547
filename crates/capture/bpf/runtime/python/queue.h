/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * CPython's SimpleQueue, from which the workers of a ThreadPoolExecutor take their jobs. Who puts an item acts for a request;
 * who gets that very item acts for it from then on, whoever was woken for it. The item is known by its address, which it
 * keeps while it is in the queue. src/tls/python.rs finds the functions.
 */
#ifndef WS_PYTHON_QUEUE_H
#define WS_PYTHON_QUEUE_H

enum python_point {
	PYTHON_PUT = 1, /* put(self, arguments, …) */
	PYTHON_GOT = 2, /* at the return of get(self, …): the item, 0 with an exception */
};

static __always_inline void python_put(struct attribution *a, const struct carrier_key *item, __u32 pid)
{
	struct carried given = { .cause = a->cause, .evidence = WS_EV_COROUTINE };

	drop_if_superseded(a);
	/* One that gave back its result, or whose job is known by a provisional name, tells nothing about the next. */
	if (a->state == ACTS_RETURNED || is_provisional(a->cause))
		given.cause = 0;
	else if (is_untrusted(a, pid))
		given = (struct carried){ .evidence = WS_EV_INFERRED };
	if (!given.cause && given.evidence != WS_EV_INFERRED)
		bpf_map_delete_elem(&carriers, item); /* what lay at this address before */
	else
		remember(&carriers, item, &given);
}

static __always_inline void python_got(struct task_state *t, const struct carrier_key *item)
{
	struct carried *got = bpf_map_lookup_elem(&carriers, item), given;
	struct attribution *a = &t->acts;

	if (!got) {
		if (a->authoritative)
			take(a, 0, WS_EV_NONE);
		return;
	}
	given = *got;
	bpf_map_delete_elem(&carriers, item);
	take(a, given.cause, given.evidence);
	if (given.cause)
		a->state = ACTS_LENT;
	a->authoritative = 1;
}

SEC("uprobe.multi")
int python_queue(struct pt_regs *ctx)
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
