/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Actors: a thread, goroutine, virtual thread, coroutine, task or stream that acts for a request. The attribution of a
 * thread is in its task_state; that of any other actor is in `actors`. A runtime reports five things here, and nothing
 * else: an actor is born, runs on this thread, ends; a cause passes to it; an object carries a cause.
 */
#ifndef WS_ACTOR_H
#define WS_ACTOR_H

struct actor_key {
	__u64 id; /* chosen by the runtime: a number of its own, or an address */
	__u32 pid;
	__u32 kind; /* enum ws_actor_kind */
};

WS_TABLE(actors, struct actor_key, struct attribution);

/* The actor that makes the current call: chosen by the runtimes of its process (runtime/runtimes.h). */
static __always_inline struct attribution *acting(struct task_struct *task, struct task_state *t);

static __always_inline struct attribution *actor_find(const struct actor_key *key)
{
	return table_find(&actors, key);
}

/* The actor that runs on this thread according to its runtime; NULL if there is none, or it is no longer known. */
static __always_inline struct attribution *actor_running(const struct task_state *t, struct actor_key *key)
{
	if (!t->runs)
		return NULL;
	key->id = t->runs;
	key->kind = t->runs_kind;
	return actor_find(key);
}

/* Born: an actor is made, with this attribution. */
static __always_inline long actor_born_with(const struct actor_key *key, const struct attribution *born)
{
	return table_remember(&actors, key, born);
}

/* Born of another actor: it acts for the request of `from`. If that is NULL, its cause is not known. */
static __always_inline long actor_born(const struct actor_key *key, const struct attribution *from, __u8 evidence)
{
	struct attribution born = {};

	if (from)
		inherit(&born, from, evidence);
	return actor_born_with(key, &born);
}

/*
 * Born unseen: an actor is met for the first time, and borrows this cause. The caller looks it up afterwards. A
 * function of its own, so that its variables do not take room on the stack of its callers.
 */
__noinline int actor_met(__u64 id, __u32 pid, __u32 kind, __u64 cause, __u32 evidence)
{
	struct actor_key key = { .id = id, .pid = pid, .kind = kind };
	struct attribution born = { .cause = cause, .evidence = evidence, .state = cause ? ACTS_LENT : ACTS_OWN };

	return table_put(&actors, &key, &born, BPF_ANY);
}

/* Runs: this thread runs the actor with this id from now on; 0: no actor that is known. */
static __always_inline void actor_runs(struct task_state *t, enum ws_actor_kind kind, __u64 id)
{
	t->runs = id;
	t->runs_kind = kind;
}

/* Ends: the actor does not exist any more. */
static __always_inline void actor_ends(struct task_state *t, const struct actor_key *key)
{
	table_drop(&actors, key);
	t->runs = 0;
}

/*
 * Passes: `from` hands over to `to`, which waits at `place`. The rules of hand-over (attribution.h) decide by `how`
 * which cause passes.
 */
static __always_inline void actor_pass(struct attribution *from, struct attribution *to, __u64 place, int how)
{
	hand_over(from, to, place, how);
}

/*
 * Passes: the runtime itself names the cause of this actor from now on. The actor owns the cause (PASS_OWN) or borrows
 * it from another actor (PASS_LENT). Without a cause and with WS_EV_INFERRED, it acts for a request that is not known.
 */
enum actor_pass { PASS_OWN, PASS_LENT };

static __always_inline void actor_pass_cause(struct attribution *to, __u64 cause, __u8 evidence, enum actor_pass how)
{
	take(to, cause, evidence);
	if (cause && how == PASS_LENT)
		to->state = ACTS_LENT;
}

/*
 * Objects that carry a cause from one place in a program to another: a connection of Go's net/http, from the goroutine
 * that has a request to the one that writes it; a stream of an HTTP/2 session, from its request to its answer; an item
 * of a queue, from the actor that puts it to the one that takes it.
 */
struct carrier_key {
	__u64 object; /* address of the object */
	__u32 pid;
	__u32 stream; /* number of a stream of an HTTP/2 session; 0: the object itself */
};

/* What a callback of an event loop had read when it made or settled the object: a request, or an answer. */
enum carried_by { CARRIED_BY_REQUEST = 1, CARRIED_BY_ANSWER = 2 };

struct carried {
	__u64 cause; /* for an HTTP/2 session itself (stream 0): the cookie of its socket */
	__u8 evidence;
	__u8 by;
	__u8 pad[6];
};

WS_TABLE(carriers, struct carrier_key, struct carried);

/* Carries: this object carries a cause from now on. */
static __always_inline void actor_carry(const struct carrier_key *object, const struct carried *value)
{
	table_remember(&carriers, object, value);
}

/* The cause that this object carries; NULL if none is known. */
static __always_inline struct carried *actor_carried(const struct carrier_key *object)
{
	return table_find(&carriers, object);
}

/* The object carries nothing any more, because another object may get its address. */
static __always_inline void actor_drop(const struct carrier_key *object)
{
	table_drop(&carriers, object);
}

/*
 * After acting(): the process whose trust applies to this actor. 0 for an actor that is no thread: it does one thing at
 * a time, and is always trusted.
 */
static __always_inline __u32 thread_group(struct task_struct *task, const struct task_state *t)
{
	return t->actor ? 0 : task->tgid;
}

/* After acting(): a number by which the same actor is recognised later. */
static __always_inline __u32 actor_id(struct task_struct *task, const struct task_state *t)
{
	return t->actor ? (__u32)t->actor : task->pid;
}

#endif
