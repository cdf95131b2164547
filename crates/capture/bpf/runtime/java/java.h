/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Java: virtual threads, workers of executors, and event loops (Netty). At each message, the mounted virtual thread and
 * the running task are read from the memory of the machine. Functions are probed only while waits are asked for.
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

int java_turn_seen(__u64 id); /* turns.h, while waits are asked for */

/*
 * The acting actor: the mounted virtual thread, else the thread, with its own attribution or that of its task. A
 * virtual thread has the cause of the actor that started it until it reads a request.
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
		return !j->told && acts_for_task(j) ? &j->job : &t->acts;
	j->mounts = 1;
	if (key.id == VIRTUAL_UNKNOWN)
		return &t->acts;
	t->actor = key.id;
	if (waits_on)
		java_turn_seen(key.id);
	c = actor_find(&key);
	if (c)
		return c;
	cause = made_for(j);
	actor_met(key.id, key.pid, WS_VIRTUAL_THREAD, cause, cause ? WS_EV_CHILD : WS_EV_INFERRED);
	c = actor_find(&key);
	return c ? c : &t->acts;
}

/* Called before a message, or before a connection is opened. Finds the running task. Returns enum message_bits. */
static __always_inline __u32 java_find_task(struct java_thread *j, const struct sock_state *s, __u32 bits)
{
	if (bits & MESSAGE_SENT)
		return look_at_task(j, bits & MESSAGE_NEXT);
	look_at_event(j, brings_work(s));
	return 0;
}

/*
 * Called after a message, or when a connection is opened. Decides the cause for which this thread allocates from now
 * on. java_finish() makes the mark, because more stack is free there.
 */
static __always_inline void java_note_allocations(struct task_struct *task, struct task_state *t, struct java_thread *j,
						  const struct attribution *c)
{
	bool own;

	if (!(j->serves || j->mounts || j->loop))
		return;
	if (c && (c->state == ACTS_RETURNED || is_provisional(c->cause)))
		c = NULL;
	/* A thread that runs work of others may take the next piece of work before its next message. */
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

	if (!sent && has_java_agent(t))
		a->authoritative = 1;
	if (j->told) {
		j->sent = sent;
		j->sent_on = s->request_direction == WS_EGRESS ? s->cookie : 0;
		java_note_allocations(task, t, j, a);
		return;
	}
	/* A loop handles at once what it reads. All its other work is tasks, which are found on its stack. */
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

/* Called after the message was followed. `blocked`: the call and its actor must wait. A global function. */
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
 * A thread is woken at a futex. If it is a carrier, the virtual thread that it mounts next is not known yet. If others
 * send for it, it may fill more than one buffer before its next message, so its mark is renewed here.
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

/*
 * The attribution of a thread that is woken. Which virtual thread a carrier mounts next is not known. A worker acts for
 * its task, whose place is on its stack, in the memory that the waking thread shares.
 */
static __always_inline const struct attribution *java_attribution_of(const struct task_state *w, struct java_thread *j)
{
	if (j->mounts)
		return NULL;
	if (j->slot && !j->loop && !j->serves)
		return runs_known_task(j) ? &j->job : NULL;
	return &w->acts;
}

/* A loop is woken. True if its tasks can be found, because they are better evidence than the waker. */
static __always_inline bool java_loop_woken(struct java_thread *j)
{
	if (j->told)
		return true;
	if (!j->slot)
		return false;
	j->called += j->called < JAVA_CALLED;
	return true;
}

#endif
