/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * SimpleQueue of CPython and of gevent, from which the workers of a ThreadPoolExecutor take their jobs. An item carries
 * the cause of the actor that puts it; the thread or greenlet that gets the item acts for that cause, whichever was
 * woken for it. An item is known by its address, which it keeps while it is in the queue. src/runtime/python/queue.rs
 * finds the functions.
 *
 * A list that heapq keeps in order is such a queue, too: that of timers of an event loop, and of jobs with a priority.
 * The work that a process has taken from a broker and puts off waits there. Only such processes are asked (heap.rs).
 */
#ifndef WS_PYTHON_QUEUE_H
#define WS_PYTHON_QUEUE_H

#include "contract.h"

/* The cause of a job that this actor gives to another one; no cause and no evidence: the job is for no request. */
static __always_inline struct carried python_job(struct attribution *a, __u32 pid)
{
	drop_if_superseded(a);
	/* The cause of a worker that has returned its result, or is provisional, does not belong to the next job. */
	if (a->state == ACTS_RETURNED || is_provisional(a->cause))
		return (struct carried){};
	if (is_untrusted(a, pid))
		return (struct carried){ .evidence = WS_EV_INFERRED };
	return (struct carried){ .cause = a->cause, .evidence = a->cause ? WS_EV_COROUTINE : WS_EV_NONE };
}

/* An actor has taken a job. */
static __always_inline void python_works(struct attribution *a, struct carried job)
{
	if (job.cause || job.evidence) {
		actor_pass_cause(a, job.cause, job.evidence, PASS_LENT);
		a->authoritative = 1;
	} else if (a->authoritative) {
		actor_pass_cause(a, 0, WS_EV_NONE, PASS_OWN);
	}
}

static __always_inline void python_got(struct attribution *a, const struct carrier_key *item)
{
	struct carried *got = actor_carried(item), job = {};

	if (got) {
		job = *got;
		actor_drop(item);
	}
	python_works(a, job);
}

#define PY_LIST_ITEMS 24 /* struct PyListObject: ob_item */

/*
 * An actor pops the first item of a heap. If the item carries nothing, the timer of an event loop is for no delivery:
 * without this, a timer that sets itself anew would carry the last delivery for ever.
 */
static __always_inline void python_popped(struct task_state *t, struct attribution *a, const struct carrier_key *item)
{
	if (actor_carried(item) || a->authoritative)
		python_got(a, item);
	else if (t->loop && a == &t->acts && a->delivery)
		actor_pass_cause(a, 0, WS_EV_NONE, PASS_OWN);
}

/* Words of the name "gevent._gevent_cqueue.SimpleQueue", and where the name of the class begins in it. */
#define GEVENT 0x5f2e746e65766567ULL
#define SIMPLE_QU 0x7551656c706d6953ULL
#define EUE 0x00657565U
#define GEVENT_CLASS 22

#define PY_OBJECT_TYPE 8 /* struct PyObject: ob_type */
#define PY_TYPE_NAME 24	 /* struct PyTypeObject: tp_name */

/*
 * Whether this object is of gevent's class SimpleQueue, and not of one that inherits from it: those are also used for
 * connections, which are passed on between requests.
 */
static __always_inline bool gevent_is_simple(__u64 object)
{
	__u64 name = user_word(user_word(object + PY_OBJECT_TYPE) + PY_TYPE_NAME);

	return user_word(name) == GEVENT && user_word(name + GEVENT_CLASS) == SIMPLE_QU &&
	       user_int(name + GEVENT_CLASS + 8) == EUE;
}

SEC("uprobe.multi")
int WS_UPROBE(python_queue)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct carrier_key item = { .pid = task->tgid };
	struct attribution *a;
	struct carried job;

	if (!t)
		return 0;
	switch (bpf_get_attach_cookie(ctx)) {
	case PYTHON_PUT:
		item.object = user_word(WS_FN_ARG2(ctx));
		break;
	case PYTHON_GIVEN:
		if (gevent_is_simple(WS_FN_ARG1(ctx)))
			item.object = WS_FN_ARG2(ctx);
		break;
	case PYTHON_PUSHED:
		item.object = user_word(WS_FN_ARG2(ctx) + sizeof(__u64));
		break;
	case PYTHON_POPPED:
		item.object = user_word(user_word(WS_FN_ARG2(ctx) + PY_LIST_ITEMS));
		if (item.object)
			python_popped(t, acting(task, t), &item);
		return 0;
	case PYTHON_GOT:
		item.object = WS_FN_RESULT(ctx);
		if (item.object)
			python_got(&t->acts, &item);
		return 0;
	case PYTHON_TAKEN: /* perhaps from another queue of gevent, whose items carry nothing */
		item.object = WS_FN_RESULT(ctx);
		if (actor_carried(&item))
			python_got(acting(task, t), &item);
		return 0;
	}
	if (!item.object)
		return 0;
	a = acting(task, t);
	job = python_job(a, thread_group(task, t));
	/*
	 * A thread that does not wait for the rest of its request may give away what another thread has read (grpcio's
	 * server): its word is as good as a wake-up.
	 */
	if (job.evidence == WS_EV_COROUTINE && a == &t->acts && !(a->state == ACTS_OWN && t->blocks))
		job.evidence = WS_EV_WAKE_UP;
	actor_carry(&item, &job);
	return 0;
}

#endif
