/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The list of runtimes. The message path and the rules of causes call the functions of this file, and know no runtime
 * by name. A runtime is a folder, a kind of actor in wire.h, an include here, and a line in each function below that
 * concerns it.
 */
#ifndef WS_RUNTIMES_H
#define WS_RUNTIMES_H

#include "go/goroutine.h"
#include "go/connection.h"
#include "go/http.h"
#include "java/java.h"
#include "java/agent.h"
#include "haproxy/haproxy.h"
#include "greenlet/greenlet.h"
#include "asyncio/asyncio.h"
#include "tokio/tokio.h"
#include "node/node.h"
#include "python/locks.h"
#include "python/queue.h"
#include "python/context.h"
#include "ruby/threads.h"
#include "interpreter/frames.h"

/* State of the current thread, looked up once because one message needs it several times. */
struct runtime_states {
	struct java_thread *java;
};

static __always_inline struct attribution *acting_with(struct task_struct *task, struct task_state *t,
						       struct runtime_states *r)
{
	struct actor_key key = { .pid = task->tgid };
	struct attribution *c;

	r->java = NULL;
	t->actor = 0;
	if (t->runs) {
		c = actor_running(t, &key);
		if (!c || (has_runtime(t, WS_ASYNCIO_TASK) && asyncio_stands_for_thread(c)))
			return &t->acts;
		t->actor = key.id;
		return c;
	}
	learn_runtimes(task, t);
	if (!t->process_runtimes)
		return &t->acts;
	r->java = java_thread(task, t);
	if (r->java)
		return java_acting(task, t, r->java);
	if (has_runtime(t, WS_HAPROXY_STREAM))
		return haproxy_acting(task, t);
	if (has_runtime(t, WS_GOROUTINE))
		return go_acting(task, t);
	return &t->acts;
}

static __always_inline struct attribution *acting(struct task_struct *task, struct task_state *t)
{
	struct runtime_states r;

	return acting_with(task, t, &r);
}

/*
 * After acting(): the actor that makes the current call, for records. It is told also if it stands for its thread,
 * because its cause is not known. 0: the thread.
 */
static __always_inline __u64 runtime_actor(struct task_struct *task, const struct task_state *t)
{
	if (!t->actor && t->runs && has_runtime(t, WS_ASYNCIO_TASK))
		return asyncio_superior(task->tgid, t->runs);
	return t->actor ? t->actor : t->runs;
}

/*
 * Called before acting(), where more stack is free. Finds the task that the thread runs. `bits` and the result are of
 * enum message_bits. `s` is not used if a connection is opened.
 */
static __always_inline __u32 runtime_find_task(struct task_struct *task, struct task_state *t,
					       const struct sock_state *s, __u32 bits)
{
	struct java_thread *j = java_thread(task, t);

	return j && !j->told ? java_find_task(j, s, bits) : 0;
}

/* Whether the runtime itself says for which other actor a thread works, each time. */
static __always_inline bool runtime_names_jobs(const struct task_state *t)
{
	return has_java_agent(t);
}

/* Whether runtime_before_message() wants the address of the first bytes. */
static __always_inline bool runtime_reads_bytes(const struct task_state *t)
{
	return has_runtime(t, WS_TOKIO_TASK);
}

/* Called before the cause of a message of actor `a` is decided. `at` is the address of the bytes. */
static __always_inline void runtime_before_message(struct task_struct *task, struct task_state *t, struct sock_state *s,
						   struct attribution *a, __u32 bits, __u64 at)
{
	__u8 direction = bits & MESSAGE_SENT ? WS_EGRESS : WS_INGRESS;

	if (has_runtime(t, WS_GOROUTINE))
		go_before_message(t, s, a, bits & MESSAGE_SENT);
	if (!t->thread_runtimes)
		return;
	if (has_runtime(t, WS_ASYNCIO_TASK))
		asyncio_before_message(task, t, s, a, direction);
	if (has_runtime(t, WS_TOKIO_TASK))
		tokio_before_message(task, t, s, a, direction, at);
}

/* Called after the cause of the message was decided. */
static __always_inline void runtime_after_message(struct task_struct *task, struct task_state *t, struct sock_state *s,
						  struct attribution *a, const struct cause *c, __u32 bits,
						  struct runtime_states *r)
{
	if (r->java)
		java_after_message(task, t, r->java, s, a, c, bits);
	if (!t->thread_runtimes)
		return;
	if (has_runtime(t, WS_NODE_EVENT))
		node_after_message(task, t, s, a, c, bits);
	if (has_runtime(t, WS_TOKIO_TASK))
		tokio_after_message(t, s, a, bits & MESSAGE_SENT ? WS_EGRESS : WS_INGRESS);
	if (has_runtime(t, WS_ASYNCIO_TASK) && !(bits & MESSAGE_SENT) && a == &t->acts)
		asyncio_after_message(task, t, s, c, bits & MESSAGE_SHORT && s->exchange <= 1);
}

/* Called when a message is done. `blocked`: there was none, as the call and its actor must wait. */
static __always_inline void runtime_finish_message(struct task_state *t, bool blocked)
{
	if (t->process_runtimes & 1U << WS_VIRTUAL_THREAD)
		java_finish(t, blocked);
	if (has_java_agent(t))
		java_sent();
}

/* An actor opens a connection. Called before the cause of the connection is decided. */
static __always_inline void runtime_before_connect(struct task_state *t, struct attribution *a)
{
	if (has_runtime(t, WS_ASYNCIO_TASK))
		drop_if_superseded(a);
}

/* Called after the cause of the connection was decided. */
static __always_inline void runtime_after_connect(struct task_struct *task, struct task_state *t, struct attribution *a)
{
	struct java_thread *j = java_thread(task, t);

	if (!j)
		return;
	java_note_allocations(task, t, j, t->actor ? NULL : a);
	java_finish(t, false);
}

/*
 * Whether threads of the process take over causes. In Go only goroutines do: a thread inherits none, and its wake-ups
 * pass none.
 */
static __always_inline bool threads_act(const struct task_state *t)
{
	return !has_runtime(t, WS_GOROUTINE);
}

/*
 * How it is known for which request a new thread acts. Ruby's threads are actors of its programs. Elsewhere a thread
 * may as well be made for a pool.
 */
static __always_inline __u8 runtime_thread_evidence(const struct task_state *t)
{
	return has_runtime(t, WS_RUBY_THREAD) ? WS_EV_COROUTINE : WS_EV_CHILD;
}

/* The actor that wakes another thread. */
static __always_inline struct attribution *waking(struct task_struct *task, struct task_state *t)
{
	struct java_thread *j;

	learn_runtimes(task, t);
	j = java_seen(task, t);
	if (j)
		runs_known_task(j);
	return t->runs || has_runtime(t, WS_VIRTUAL_THREAD) || has_runtime(t, WS_TOKIO_TASK) ? acting(task, t)
											     : &t->acts;
}

/* Whether a runtime uses this futex for itself, so that a wake-up there hands over no work. */
static __always_inline bool runtime_is_lock(struct task_struct *task, const struct task_state *t, __u64 place)
{
	if (has_runtime(t, WS_RUBY_THREAD))
		return ruby_is_lock(task);
	return has_runtime(t, WS_PYTHON_JOB) && python_is_lock(task, t, place);
}

/* Whether a woken thread begins anew: its runtime had kept it for the next thread of the program. */
static __always_inline bool runtime_begins(const struct task_state *w, const struct pt_regs *theirs, __u64 place)
{
	return has_runtime(w, WS_RUBY_THREAD) && ruby_is_kept(theirs, place);
}

/* Called when a thread is woken at a futex, by another thread of its process. */
static __always_inline void runtime_woken(struct task_struct *wakee, const struct task_state *w)
{
	struct java_thread *j = java_seen(wakee, w);

	if (j)
		java_woken(wakee, w, j);
}

/*
 * Writes the functions that the current thread runs in an interpreter, WS_STACK_INTERPRETED at most, innermost first;
 * what such a word means is known to the interpreter's part of user space. Returns their number.
 */
static __always_inline __u32 runtime_frames(__u64 *to)
{
	return interpreter_frames((struct interpreter_stack *)to);
}

/* The attribution of a thread that is woken by another thread of its process; NULL if it is not known. */
static __always_inline const struct attribution *runtime_attribution_of(struct task_struct *wakee,
									const struct task_state *w)
{
	struct java_thread *j = java_seen(wakee, w);

	return j ? java_attribution_of(w, j) : &w->acts;
}

/*
 * The current thread (`t` is NULL if it belongs to another process) wakes an event loop. True if the loop's own tasks
 * are better evidence than the waker.
 */
static __always_inline bool runtime_loop_woken(struct task_struct *task, const struct task_state *t,
					       struct task_struct *wakee, const struct task_state *w, bool written)
{
	struct java_thread *j = t ? java_seen(task, t) : NULL;

	if (j && !j->mounts)
		java_woken(task, t, j); /* it has made objects that others will send */
	j = written ? java_seen(wakee, w) : NULL;
	return j && java_loop_woken(j);
}

#endif
