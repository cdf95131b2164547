/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the agent of `--attach-java` tells (crates/capture/agent/java): an object is handed over; a thread begins to run
 * it, and ends. An object is known by its identity hash, which the machine keeps with it wherever it moves. Its thread
 * acts meanwhile for the cause that acted when the object was handed over, whoever has woken that thread. Then it acts
 * again for what it did before.
 *
 * In a machine with an agent the threads deal at once with what they read, and nothing is read from stacks.
 */
#ifndef WS_JAVA_AGENT_H
#define WS_JAVA_AGENT_H

#include "agent_stream.h"

/* Objects that are nested deeper are counted, but change nothing. */
#define JAVA_MOST_NESTED 255

struct java_outer_key {
	__u64 actor;
	__u32 pid;
	__u32 depth;
};

/* The attribution of an actor before it began an object, to which it returns. */
WS_TABLE(java_outer, struct java_outer_key, struct attribution);

/* The object carries the cause of the actor. It is known, too, if that has none. */
static __always_inline void java_submitted(const struct attribution *a, const struct carrier_key *object, __u32 pid)
{
	struct carried value = { .cause = a->cause, .evidence = WS_EV_COROUTINE };

	if (is_untrusted(a, pid))
		value = (struct carried){ .evidence = WS_EV_INFERRED };
	else if (!a->cause || a->state == ACTS_RETURNED || is_provisional(a->cause))
		value = (struct carried){ .evidence = WS_EV_NONE };
	actor_carry(object, &value);
}

/* One more object runs inside another: keeps what was before. False if it is nested too deep. */
static __always_inline bool java_nests(struct attribution *a, struct java_outer_key *outer)
{
	outer->depth = a->depth;
	if (outer->depth < JAVA_MOST_NESTED)
		table_remember(&java_outer, outer, a);
	a->depth = outer->depth + 1;
	return outer->depth < JAVA_MOST_NESTED;
}

/* An object that was handed over unseen changes nothing. */
static __always_inline void java_begins(struct attribution *a, const struct carrier_key *object,
					struct java_outer_key *outer, bool again)
{
	struct carried *got = actor_carried(object), value;

	if (!java_nests(a, outer) || !got)
		return;
	value = *got;
	if (!again)
		actor_drop(object);
	actor_pass_cause(a, value.cause, value.evidence, PASS_LENT);
	a->authoritative = 1;
}

/*
 * What the thread runs turns to an object: a loop over a queue of those that wait. The cause of the object acts until
 * the loop turns to another, or ends.
 */
static __always_inline void java_turns(struct attribution *a, const struct carrier_key *object)
{
	struct carried *got = actor_carried(object);

	if (!got || !a->depth)
		return;
	actor_pass_cause(a, got->cause, got->evidence, PASS_LENT);
	a->authoritative = 1;
}

/*
 * A coroutine waits. Its continuation keeps the cause of the coroutine, whoever resumes it. A coroutine without a cause
 * of its own has acted for that of its resumer, and will act for that of the next.
 */
static __always_inline void java_suspends(const struct attribution *a, const struct carrier_key *continuation,
					  __u32 pid)
{
	struct carried none = { .evidence = WS_EV_NONE };

	if (a->resumed)
		actor_carry(continuation, &none);
	else
		java_submitted(a, continuation, pid);
}

static __always_inline void java_proceeds(struct attribution *a, const struct carrier_key *continuation,
					  struct java_outer_key *outer)
{
	struct carried *got = actor_carried(continuation);

	if (!java_nests(a, outer))
		return;
	if (!got || !got->cause) {
		a->resumed = 1;
		return;
	}
	actor_pass_cause(a, got->cause, got->evidence, PASS_LENT);
	a->authoritative = 1;
}

/* A new coroutine has the cause of the one that starts it, for good, if there is one. */
static __always_inline void java_starts(struct attribution *a, struct java_outer_key *outer)
{
	if (java_nests(a, outer))
		a->resumed = !a->cause;
}

/* A coroutine that serves whatever comes has taken it from an object, maybe without having waited for it. */
static __always_inline void java_receives(struct attribution *a, const struct carrier_key *object)
{
	struct carried *got = actor_carried(object);

	if (!a->resumed)
		return;
	actor_pass_cause(a, got ? got->cause : 0, got ? got->evidence : WS_EV_NONE, PASS_LENT);
	a->authoritative = a->resumed = 1;
}

/* A worker looks for its next object: it runs none, and acts for no cause. */
static __always_inline void java_idles(struct attribution *a)
{
	a->depth = 0;
	actor_pass_cause(a, 0, WS_EV_NONE, PASS_OWN);
	a->authoritative = 1;
}

/*
 * A worker is about to run an object from its queue. A worker's loop that began before the agent came runs the code
 * from before until it ends, but calls methods as they are now.
 */
static __always_inline void java_takes(struct attribution *a, const struct carrier_key *object)
{
	struct carried *got = actor_carried(object), value;

	java_idles(a);
	if (!got)
		return;
	value = *got;
	actor_drop(object);
	actor_pass_cause(a, value.cause, value.evidence, PASS_LENT);
	a->authoritative = 1;
}

/*
 * A frame came on a stream of the socket that the thread has read last. It is the answer to a request of this process,
 * or else a request.
 */
static __always_inline void java_gets(struct task_state *t, struct attribution *a, struct carrier_key *stream,
				      struct java_outer_key *outer)
{
	struct carried *got, value = { .evidence = WS_EV_COROUTINE };

	if (!java_nests(a, outer))
		return;
	stream->object = t->received_from;
	got = actor_carried(stream);
	if (got)
		value = *got;
	else
		value.cause = by_stream(t->received_from, stream->stream);
	actor_pass_cause(a, value.cause, value.evidence, got ? PASS_LENT : PASS_OWN);
	a->authoritative = 1;
}

/* The agent has spoken of this thread, so it speaks of all that the thread runs. */
static __always_inline void java_told(struct task_struct *task, const struct task_state *t)
{
	struct java_thread *j = java_seen(task, t);

	if (j)
		j->told = 1;
}

static __always_inline void java_ends(struct attribution *a, struct java_outer_key *outer)
{
	struct attribution *before;

	if (!a->depth)
		return;
	outer->depth = --a->depth;
	if (outer->depth >= JAVA_MOST_NESTED)
		return;
	before = table_find(&java_outer, outer);
	if (before) {
		*a = *before;
		table_drop(&java_outer, outer);
	} else {
		actor_pass_cause(a, 0, WS_EV_NONE, PASS_OWN);
	}
}

SEC("uprobe.multi")
int WS_UPROBE(java_agent)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct carrier_key object = { .object = (__u32)WS_FN_ARG3(ctx), .pid = task->tgid, .stream = JAVA_OBJECT };
	struct java_outer_key outer = { .pid = task->tgid };
	struct attribution *a;

	if (!t)
		return 0;
	a = acting(task, t);
	if (!has_java_agent(t))
		return 0;
	java_told(task, t);
	outer.actor = t->actor ? t->actor : task->pid;
	switch (bpf_get_attach_cookie(ctx)) {
	case JAVA_SUBMITTED:
		java_submitted(a, &object, thread_group(task, t));
		break;
	case JAVA_BEGINS:
		java_begins(a, &object, &outer, false);
		break;
	case JAVA_RESUMES:
		java_begins(a, &object, &outer, true);
		break;
	case JAVA_SENDS:
		java_sends(task, a, (__u32)WS_FN_ARG3(ctx));
		break;
	case JAVA_GETS:
		object.stream = (__u32)WS_FN_ARG3(ctx);
		java_gets(t, a, &object, &outer);
		break;
	case JAVA_TAKES:
		java_takes(a, &object);
		break;
	case JAVA_SUSPENDS:
		object.stream = JAVA_CONTINUATION;
		java_suspends(a, &object, thread_group(task, t));
		break;
	case JAVA_PROCEEDS:
		object.stream = JAVA_CONTINUATION;
		java_proceeds(a, &object, &outer);
		break;
	case JAVA_RECEIVES:
		java_receives(a, &object);
		break;
	case JAVA_STARTS:
		java_starts(a, &outer);
		break;
	case JAVA_TURNS:
		java_turns(a, &object);
		break;
	case JAVA_IDLE:
		java_idles(a);
		break;
	case JAVA_ENDS:
		java_ends(a, &outer);
		break;
	}
	return 0;
}

#endif
