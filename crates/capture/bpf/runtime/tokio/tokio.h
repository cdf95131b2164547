/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Tasks of Rust's tokio are actors, known by the address of their header. A task inherits from its creator. From then
 * on it has causes of its own. It reads its sockets itself, on any worker, so wake-ups by the driver do not matter.
 *
 * A task that works for others waits at a channel (mpsc); HTTP clients have one such task per connection. A sender
 * wakes a waiting receiver, which then acts for the sender's cause. This is certain, because a task waits only at an
 * empty queue, so it takes the value of that sender. A receiver that does not wait takes the value at an unknown time,
 * so its cause is unknown until it waits again. That holds also for one that is awake: it may take several values, and
 * send for all of them at once. Two kinds of tasks only get a result from a channel: a task that reads its requests
 * itself, and a task that was made for a request and gets a value from a worker. Locks and the like wake tasks in other
 * ways. These are used only in programs without visible channels (tokio_check()).
 *
 * The entry of its poll function shows which task runs. A change of its state, which every exit makes, shows that the
 * task sleeps or has ended. A task that is older than the probes is recognised by its owner, and has no known cause
 * until it reads a request. Tasks of the blocking pool have no owner, and stand for their threads. src/runtime/tokio.rs
 * finds the functions.
 *
 * Long because all probes of the program share its switch, and the rules of channels stand beside it.
 */
#ifndef WS_TOKIO_H
#define WS_TOKIO_H

#include "contract.h"
#include "shared.h"

/* turns.h, while waits are asked for. */
int tokio_turn_begins(__u64 header);
int tokio_turn_ends(void);
int tokio_turn_born(__u64 header);

/* repr(C) in tokio since 2022; no owner: a task of the blocking pool, or one that is being made. */
struct tokio_header {
	__u64 state, queue_next, vtable, owner_id;
};

#define TOKIO_STATE 63 /* mask of the state bits; the higher bits count references */
#define TOKIO_STATE_BITS 6
#define TOKIO_NEW 12	  /* state of a new task: to be run, and another task may wait for its end */
#define TOKIO_NEW_COUNT 3 /* most references of a new task */

#define TOKIO_SEVERAL (~0ULL) /* value of `woken_by`: several causes */
#define TOKIO_UNRECEIVED 1 /* `stream` of a carrier: what was sent for a request to channels that had no receiver yet */

#define TOKIO_WITHOUT_CHANNELS (1U << 30) /* in `thread_runtimes`: channels are not seen, only which task wakes which */

/*
 * The task that waits at an AtomicWaker, or did so last. It holds a state, and the two words of a waker in either
 * order.
 */
static __always_inline struct attribution *tokio_receiver(struct actor_key *key, __u64 at, bool *waits)
{
	struct attribution *c;
	__u64 words[3];

	if (bpf_probe_read_user(words, sizeof(words), (void *)at))
		return NULL;
	*waits = !!words[0] + !!words[1] + !!words[2] > 1;
	for (int i = 0; i < 3; i++) {
		key->id = words[i];
		c = words[i] ? actor_find(key) : NULL;
		if (c)
			return c;
	}
	return NULL;
}

/* A new task by its header: a compiler that sees the whole program leaves out unused arguments. */
static __always_inline bool is_new_task(__u64 at)
{
	struct tokio_header h;

	return !bpf_probe_read_user(&h, sizeof(h), (void *)at) && (h.state & TOKIO_STATE) == TOKIO_NEW &&
	       h.state >> TOKIO_STATE_BITS <= TOKIO_NEW_COUNT && !h.queue_next && h.vtable && !h.owner_id;
}

static __always_inline void tokio_drop(struct attribution *to, __u64 channel)
{
	actor_pass_cause(to, 0, WS_EV_INFERRED, PASS_OWN);
	to->place = channel;
}

/* A task is woken for this cause, but maybe only by a lock or a result: tokio_check() decides. */
static __always_inline void tokio_woken(struct attribution *to, __u64 cause)
{
	to->woken_by = to->woken_by && to->woken_by != cause ? TOKIO_SEVERAL : cause;
}

/* `evidence` is that of a sender with a cause. */
static __always_inline void tokio_sent(const struct attribution *from, struct attribution *to, __u64 channel,
				       __u8 evidence, bool waits, bool perhaps)
{
	__u64 cause = from->state == ACTS_RETURNED ? 0 : from->cause;
	bool known = to->place == channel, works = to->takes_work;

	if (from == to || (to->cause && to->state == ACTS_OWN && to->evidence == WS_EV_THREAD))
		return;
	if (to->cause == cause && cause) {
		if (to->state == ACTS_LENT) {
			to->place = channel;
			to->used = 0;
		}
		return;
	}
	/* Either a signal, or a worker that returns its result. */
	if (!known && (!cause || (from->place && to->cause && !is_over(to))))
		return;
	to->takes_work = 1;
	if (perhaps && works && cause)
		tokio_woken(to, cause);
	if (!waits || to->awake || perhaps || (to->acted && to->cause)) {
		if (cause || !perhaps)
			tokio_drop(to, channel);
		return;
	}
	to->awake = 1;
	actor_pass_cause(to, cause, cause ? evidence : from->evidence, PASS_LENT);
	to->place = channel;
}

/*
 * Called before a task sends a request. Drops the cause of the task if the request may belong to another one. That is
 * so:
 *  - on a shared connection;
 *  - if values were sent to the task while it was awake: an answer that it reads gives it back the cause of its
 *    request, but it may go on with one of these values;
 *  - if the task has sent a request on this connection before, and slept after its last read;
 *  - if another task has connected, and nothing was sent to this new task for its cause.
 * A task that got a value may send one request for it; it may have got more values while it did not sleep.
 *
 * In programs without visible channels, a task that sends again on a connection of its own works for the one task that
 * woke it. So does a task that others have woken before by what may be a channel of `futures` (tokio-postgres).
 */
static __always_inline void tokio_check(struct sock_state *s, struct attribution *a, __u64 actor, bool channels)
{
	struct carrier_key key = { .object = a->cause, .pid = actor, .stream = TOKIO_UNRECEIVED };
	bool again, fresh = false, untrusted = s->shared;
	__u32 sender = actor >> 32;
	__u64 woken, place = a->place;
	struct carried *sent;

	again = s->sender == sender && a->writes; /* not `sender` alone, as addresses of tasks are reused */
	if (again && a->acted && !untrusted)	  /* the same request goes on */
		return;
	untrusted = untrusted || (a->takes_work && a->state == ACTS_OWN && a->evidence != WS_EV_THREAD);
	if (a->cause && a->state == ACTS_LENT) {
		if (a->place) {
			untrusted = untrusted || (again && a->used & USED_SEND);
		} else if (s->exchange > 1) {
			untrusted = untrusted || (again && a->slept);
		} else if (s->connect_tid != sender && !again) {
			fresh = true;
			sent = actor_carried(&key);
			if (sent && sent->cause)
				sent->cause--;
			else
				untrusted = untrusted || channels;
		}
	}
	woken = !s->shared && !s->pipelined && a->slept && (fresh || (again && (untrusted || !a->cause))) ? a->woken_by
													  : 0;
	s->sender = sender;
	if (woken && woken != TOKIO_SEVERAL) {
		actor_pass_cause(a, woken, WS_EV_COROUTINE, PASS_LENT);
		a->place = place;
	} else if (untrusted) {
		actor_pass_cause(a, 0, WS_EV_INFERRED, PASS_OWN);
	}
}

#define HTTP2_PREFACE 0x20495250 /* "PRI " */

/* A connection that begins with the preface of HTTP/2 is shared, even before the verdict of user space. */
static __always_inline void tokio_note_preface(struct sock_state *s, __u64 at)
{
	__u32 word = 0;

	if (!bpf_probe_read_user(&word, sizeof(word), (void *)at) && word == HTTP2_PREFACE)
		s->shared = 1;
}

/* `at` is the address of the first bytes of the message. */
static __always_inline void tokio_before_message(struct task_struct *task, struct task_state *t, struct sock_state *s,
						 struct attribution *a, __u8 direction, __u64 at)
{
	if (s->exchange <= 1)
		tokio_note_preface(s, at);
	if (s->request_direction == WS_INGRESS)
		note_progress(s, direction);
	else if (direction == WS_EGRESS && t->actor)
		tokio_check(s, a, (__u64)actor_id(task, t) << 32 | task->tgid,
			    !(t->thread_runtimes & TOKIO_WITHOUT_CHANNELS));
	else if (direction == WS_EGRESS)
		drop_if_superseded(a);
}

/*
 * A task that reads a shared connection acts for an unknown one of its requests. A server makes a task for each of
 * them, in their order, before it sleeps again: so what it reads is noted.
 */
static __always_inline void tokio_after_message(struct task_state *t, struct sock_state *s, struct attribution *a,
						__u8 direction)
{
	__u64 since = a->serves_many && !a->slept ? a->guess : 0;

	if (direction != WS_INGRESS)
		return;
	a->slept = a->woken_by = 0;
	a->serves_many = t->actor && s->shared && s->request_direction == WS_INGRESS;
	if (t->actor && s->shared)
		actor_pass_cause(a, 0, WS_EV_INFERRED, PASS_OWN);
	if (!a->serves_many)
		return;
	a->guess = since ? since : exchange_id(s);
	a->births = since ? a->births : 0;
}

SEC("uprobe.multi")
int WS_UPROBE(tokio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = { .pid = task->tgid, .kind = WS_TOKIO_TASK };
	struct carrier_key unreceived = { .pid = task->tgid, .stream = TOKIO_UNRECEIVED };
	struct attribution *from, *to, born = {};
	struct carried none = {}, *sent;
	__u64 point = bpf_get_attach_cookie(ctx), channel;
	bool waits = false;

	if (!t)
		return 0;
	t->thread_runtimes |= 1U << WS_TOKIO_TASK;
	switch (point) {
	case TOKIO_RUNS_ONLY:
		t->thread_runtimes |= TOKIO_WITHOUT_CHANNELS;
	case TOKIO_RUNS:
		key.id = WS_FN_ARG1(ctx);
		to = actor_find(&key);
		if (to) {
			to->slept = to->awake = 1;
		} else {
			born.evidence = WS_EV_INFERRED;
			born.awake = 1;
			if (!user_word(key.id + __builtin_offsetof(struct tokio_header, owner_id)) ||
			    actor_born_with(&key, &born))
				key.id = 0;
		}
		actor_runs(t, WS_TOKIO_TASK, key.id);
		if (waits_on && key.id)
			tokio_turn_begins(key.id);
		break;
	case TOKIO_ENDS:
		key.id = WS_FN_ARG1(ctx);
		actor_ends(t, &key);
		if (waits_on)
			tokio_turn_ends();
		break;
	case TOKIO_SLEEPS:
		to = actor_running(t, &key);
		if (to)
			to->woken_by = to->awake = 0;
		actor_runs(t, WS_TOKIO_TASK, 0);
		if (waits_on)
			tokio_turn_ends();
		break;
	case TOKIO_WAKES:
		key.id = WS_FN_ARG1(ctx);
		to = t->runs ? actor_find(&key) : NULL;
		from = acting(task, t);
		if (to && to != from && from->cause && from->state != ACTS_RETURNED)
			tokio_woken(to, from->cause);
		tokio_brings(t, key.id);
		break;
	case TOKIO_ANSWERS:
		tokio_brings(t, WS_FN_ARG1(ctx));
		break;
	case TOKIO_BORN:
		key.id = WS_FN_ARG2(ctx);
		if (!is_new_task(key.id))
			key.id = WS_FN_ARG1(ctx);
		if (!is_new_task(key.id))
			break;
		from = acting(task, t);
		inherit(&born, from, WS_EV_COROUTINE);
		if (!born.cause && from->evidence == WS_EV_INFERRED) {
			born.cause = tokio_next_request(from);
			born.evidence = born.cause ? WS_EV_COROUTINE : WS_EV_INFERRED;
		}
		actor_born_with(&key, &born);
		if (waits_on)
			tokio_turn_born(key.id);
		break;
	case TOKIO_SENDS:
	case TOKIO_PERHAPS:
		channel = WS_FN_ARG1(ctx);
		to = tokio_receiver(&key, channel, &waits);
		from = acting(task, t);
		if (!to && !waits && from->cause) {
			unreceived.object = from->cause;
			table_put(&carriers, &unreceived, &none, BPF_NOEXIST);
			sent = actor_carried(&unreceived);
			if (sent)
				__sync_fetch_and_add(&sent->cause, 1);
		}
		if (to)
			tokio_sent(from, to, channel, t->runs ? WS_EV_COROUTINE : from->evidence, waits,
				   point == TOKIO_PERHAPS);
		break;
	}
	return 0;
}

#endif
