/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Java: virtual threads, workers of executors, and loops of events (Netty). Which virtual thread a thread has mounted,
 * and which task it runs, is read from the machine's memory at a message; no function is probed.
 */
#ifndef WS_JAVA_H
#define WS_JAVA_H

#include "thread.h"
#include "virtual_thread.h"
#include "allocation.h"
#include "virtual_birth.h"
#include "place.h"
#include "loop.h"
#include "path.h"
#include "task.h"

/*
 * The virtual thread that is mounted, else the thread: for its own request, or for that of its task. A virtual thread
 * acts for the actor that started it until it reads a request.
 */
static __always_inline struct attribution *java_acting(struct task_struct *task, struct task_state *t,
						       struct java_thread *j)
{
	struct actor_key key = { .pid = task->tgid, .kind = WS_VIRTUAL_THREAD };
	struct attribution *c;
	__u64 cause;

	key.id = virtual_thread(j);
	if (key.id == VIRTUAL_UNKNOWN)
		take(&t->acts, 0, WS_EV_NONE);
	if (!key.id)
		return acts_for_task(j) ? &j->job : &t->acts;
	j->mounts = 1;
	if (key.id == VIRTUAL_UNKNOWN)
		return &t->acts;
	t->actor = key.id;
	c = actor_find(&key);
	if (c)
		return c;
	cause = made_for(j);
	actor_met(key.id, key.pid, WS_VIRTUAL_THREAD, cause, cause ? WS_EV_CHILD : WS_EV_INFERRED);
	c = actor_find(&key);
	return c ? c : &t->acts;
}

/* Before a message, or before a connection is opened: finds the task that runs. Returns enum message_bits. */
static __always_inline __u32 java_find_task(struct java_thread *j, const struct sock_state *s, __u32 bits)
{
	if (bits & MESSAGE_SENT)
		return look_at_task(j, bits & MESSAGE_NEXT);
	look_at_event(j, brings_work(s));
	return 0;
}

/*
 * After a message, or when a connection is opened: for which request this thread allocates from now on. It is written
 * down by java_finish(), where there is more stack.
 */
static __always_inline void java_note_allocations(struct task_struct *task, struct task_state *t, struct java_thread *j,
						  const struct attribution *c)
{
	bool own;

	if (!(j->serves || j->mounts || j->loop))
		return;
	if (c && (c->state == ACTS_RETURNED || is_provisional(c->cause)))
		c = NULL;
	/* A thread that has work of others may get the next piece before its next message. */
	own = c && c == &t->acts && (j->serves || j->loop) && !j->mounts && c->state <= ACTS_ANSWERED &&
	      (j->loop ? !c->acted || c->authoritative : !is_untrusted(c, task->tgid));
	j->allocates_for = c ? c->cause : 0;
	j->allocates = ALLOCATES | (own ? ALLOCATES_OWN : 0);
}

static __always_inline void java_after_message(struct task_struct *task, struct task_state *t, struct java_thread *j,
					       const struct sock_state *s, struct attribution *a, const struct cause *c,
					       __u32 bits)
{
	bool sent = bits & MESSAGE_SENT, is_thread = a == &t->acts;

	/* A loop deals with what it reads at once. What it does besides are tasks, which are found on its stack. */
	if (!sent && j->loop && j->slot && is_thread && a->cause)
		a->authoritative = 1;
	if (sent && bits & MESSAGE_FIRST && is_thread && a->authoritative && j->slot &&
	    s->request_direction == WS_INGRESS && a->cause != c->exchange) {
		a->authoritative = 0;
		answers_another(j);
	}
	if (j->inner_runs != RUNS_IN_EVENT)
		java_note_allocations(task, t, j, a);
}

/* The message has been followed, or the call would have to wait, and with it its actor. Verified on its own. */
__noinline int java_finish(struct task_state *t, __u32 blocked)
{
	struct java_thread *j = bpf_task_storage_get(&java_threads, bpf_get_current_task_btf(), 0, 0);

	if (!t || !j)
		return 0;
	if (!blocked && j->allocates)
		allocates_for(j, j->allocates_for, (j->allocates & ALLOCATES_OWN) != 0);
	else if (blocked && t->actor)
		allocates_for(j, 0, 0);
	j->allocates = 0;
	return 0;
}

/*
 * A thread is woken at a futex. What a carrier mounts next is not known yet. A thread that waits for others to send
 * makes more than a buffer holds before it sends anything.
 */
static __always_inline void java_woken(struct task_struct *wakee, const struct task_state *w, struct java_thread *j)
{
	struct allocations *all;

	if (!j->allocator)
		return;
	if (j->mounts) {
		allocates_for(j, 0, 0);
	} else if (j->serves && w->acts.state == ACTS_OWN && w->acts.cause) {
		all = allocations_of(wakee->tgid, 0);
		if (all && all->sent_by_others)
			allocates_for(j, w->acts.cause, !is_untrusted(&w->acts, wakee->tgid));
	}
}

/* A loop is woken. If its tasks can be found, they say more than the waker: true. */
static __always_inline bool java_loop_woken(struct java_thread *j)
{
	if (!j->slot)
		return false;
	j->called += j->called < JAVA_CALLED;
	return true;
}

#endif
