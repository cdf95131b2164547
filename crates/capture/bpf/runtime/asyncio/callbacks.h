/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Callbacks of Python's asyncio. A callback acts for what it reads. Before it has read anything, two things tell for
 * which request it is called:
 *  - A future calls it, and that future was settled by a callback that had read something. So what was read passes
 *    through a chain of futures: Tornado waits for each request by gen.with_timeout(), which makes a second future.
 *  - An actor has asked for the callback by call_soon(), call_later() or call_soon_threadsafe(). Each copies the
 *    context of its caller, and the loop runs the callback in that copy (python/copies.h). A task that such a callback
 *    makes acts for the request of that actor. Nothing else follows from it: a callback may be a lock's or a pool's.
 *
 * The loop runs the callback of a socket in the same context again and again. So a copy counts only the first time.
 */
#ifndef WS_ASYNCIO_CALLBACKS_H
#define WS_ASYNCIO_CALLBACKS_H

#include "../python/copies.h"

#define PY_TYPE 8 /* struct PyObject */

struct asyncio_thread {
	__u64 read_for;	   /* if `fresh`: the request that the running callback has read, or whose answer it has read */
	__u64 born;	   /* task that the running callback has made */
	__u64 made_for;	   /* the request of the actor that has asked for the running callback */
	__u64 future_type; /* the type of the last future that a callback has settled with what it had read */
	__u64 began_ns;	   /* while waits are asked for: when the running callback began at the earliest */
	__u64 task_type;   /* the same: the type of the last task that ran */
	__u64 superior;	   /* the same: the task that waited for the running task when its turn began */
	__u8 fresh;	   /* what the running callback has read: enum carried_by */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct asyncio_thread);
} asyncio_threads SEC(".maps");

/*
 * A callback begins: context_run(context, (callback, argument…), count). A future calls with itself as the only
 * argument. A timer that is to settle a future has another argument, and its future may be at the address of one that
 * is gone; an object of another kind has another type. A function of its own, because its caller has little stack.
 */
__noinline int asyncio_called(__u64 context, __u64 arguments, __u64 count)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct asyncio_thread *l = bpf_task_storage_get(&asyncio_threads, task, 0, 0);
	struct carrier_key key = { .object = context, .pid = task->tgid };
	struct python_copy *copy;
	struct carried *got;

	if (!l)
		return 0;
	copy = table_find(&python_copies, &key);
	if (copy) {
		l->made_for = copy->made_for;
		table_drop(&python_copies, &key);
	}
	if (count != 2 || !l->future_type)
		return 0;
	key.object = user_word(arguments + sizeof(__u64));
	if (user_word(key.object + PY_TYPE) != l->future_type)
		return 0;
	got = actor_carried(&key);
	if (!got)
		return 0;
	l->fresh = got->by;
	l->read_for = got->cause;
	return 0;
}

/* For which request a callback is called that is asked for now; 0 if none is known, or in a thread without a loop. */
static __always_inline __u64 asyncio_asks_for(struct task_struct *task, struct task_state *t)
{
	struct asyncio_thread *l;
	struct actor_key key = { .pid = task->tgid };
	struct attribution *c;

	if (t->runs_kind != WS_ASYNCIO_TASK)
		return 0;
	if (t->runs) {
		c = actor_running(t, &key);
		return c && c->state != ACTS_RETURNED && !is_provisional(c->cause) ? c->cause : 0;
	}
	l = bpf_task_storage_get(&asyncio_threads, task, 0, 0);
	if (!l)
		return 0;
	return l->fresh ? l->read_for : l->made_for;
}

#endif
