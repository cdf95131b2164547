/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * asyncio: turns of tasks on the thread of their loop, while waits are asked for (docs/decisions/0033). A step of a
 * task is a turn. A task is ready when its next step is asked for: it is made, the future that it waits for is settled,
 * or the task that it waits for has ended; one that only lets others go first is ready all the time.
 *
 * The functions are global, because the program of asyncio has little stack left.
 */
#ifndef WS_ASYNCIO_TURNS_H
#define WS_ASYNCIO_TURNS_H

#define ASYNCIO_DEEPEST 32 /* coroutines that await each other */

/*
 * The innermost coroutine of a task that waits, and the instruction at which it does: what it awaits lies uppermost on
 * its stack. 0 if the layout of the interpreter is not known.
 */
__noinline __u64 asyncio_stopped_at(__u64 id)
{
	__u32 pid = bpf_get_current_task_btf()->tgid;
	struct asyncio_facts *f = bpf_map_lookup_elem(&asyncio_facts, &pid);
	struct interpreter_layout *l = bpf_map_lookup_elem(&interpreter_layouts, &pid);
	__u64 coroutine, type, frame, top, place = 0;

	if (!f || !l || !l->suspended)
		return 0;
	coroutine = user_word(id + f->coroutine);
	type = user_word(coroutine + PY_TYPE);
	for (int i = 0; i < ASYNCIO_DEEPEST; i++) {
		frame = coroutine + l->suspended;
		place = interpreter_place(l, frame);
		top = l->values ? frame + l->values + 8ULL * user_int(frame + l->top) : user_word(frame + l->top);
		coroutine = user_word(top - 8) & ~7ULL;
		if (!coroutine || user_word(coroutine + PY_TYPE) != type)
			break;
	}
	return place;
}

/* A task runs: `stepped` if it was made, or had let others go first; else what it waited for has come. */
__noinline int asyncio_turn_begins(__u64 id, bool stepped)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct asyncio_thread *l = bpf_task_storage_get(&asyncio_threads, task, 0, 0);
	struct actor_key key = { .pid = task->tgid };
	__u64 awaited = stepped ? 0 : asyncio_stopped_at(id);

	if (!l || !id)
		return 0;
	l->task_type = user_word(id + PY_TYPE);
	l->superior = asyncio_waits(&key, l->task_type, id) ? key.id : 0;
	turn_begins(task, id, 0, stepped ? WS_PARK_READY : WS_PARK_UNKNOWN, awaited);
	return 0;
}

/* The task that has got what it waited for. One that has not run yet was taken for ready when it was made. */
static __always_inline void asyncio_is_due(__u64 id, __u32 pid)
{
	struct ws_turns *of = turns_for(id, pid);

	if (of && of->next <= 1)
		of->ready_ns = 0;
	turn_is_due(id, pid);
}

/*
 * The running task stops. If it has ended, a task that waited for it directly is ready. Whoever sends its answer later
 * sends it for this task.
 */
__noinline int asyncio_turn_ends(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct asyncio_thread *l = bpf_task_storage_get(&asyncio_threads, task, 0, 0);
	struct wait_ring *r = bpf_task_storage_get(&waits, task, 0, 0);
	struct actor_key key = { .pid = task->tgid, .kind = WS_ASYNCIO_TASK };
	struct attribution *c;
	struct ws_turns *of;
	__u64 request;

	if (!l || !r || !r->turn)
		return 0;
	key.id = r->turn;
	if (l->superior && !user_word(key.id + PY_FUTURE_CALLBACK))
		asyncio_is_due(l->superior, task->tgid);
	c = actor_find(&key);
	of = turns_of(key.id, task->tgid);
	request = c && !is_provisional(c->cause) ? c->cause : 0;
	if (of && request && of->acts_for != request && turns_are_of(of, key.id, task->tgid)) {
		of->acts_for = request;
		table_put(&turn_actors, &request, &key.id, BPF_ANY);
	}
	turn_ends(r, task, bpf_ktime_get_ns());
	return 0;
}

/* A future is settled: the task that waits for it will go on. */
__noinline int asyncio_turn_due(__u64 future)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct asyncio_thread *l = bpf_task_storage_get(&asyncio_threads, task, 0, 0);
	struct actor_key key = { .pid = task->tgid };

	if (l && asyncio_waits(&key, l->task_type, future))
		asyncio_is_due(key.id, task->tgid);
	return 0;
}

/* A task is made, by another one or by a callback. */
__noinline int asyncio_turn_born(__u64 id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct asyncio_thread *l = bpf_task_storage_get(&asyncio_threads, task, 0, 0);

	if (l)
		turn_born(task, id, l->began_ns);
	return 0;
}

#endif
