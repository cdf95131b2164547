/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Tasks of Rust's tokio are actors, known by the address of their header. A task inherits from its creator. From then
 * on it has causes of its own: it reads its sockets itself, on whichever worker it runs, so that wake-ups by the driver
 * say nothing.
 *
 * A task that works for others waits at a channel (mpsc), as HTTP clients have one per connection. A sender wakes a
 * waiting receiver, which acts for the sender's cause: no task waits at a queue that is not empty, so that the value is
 * the first one. A receiver that does not wait finds a value later, one cannot tell when: its cause is then unknown
 * until it waits again. A task that reads its requests itself, or that was made for one and is sent something by a
 * worker, is only given a result. Locks and the like wake in other ways, which are looked at only where no channel is
 * seen (tokio_check()).
 *
 * The entry of its poll function shows which task runs; the change of its state, which no other way out avoids, shows
 * that it sleeps or has ended. A task that existed before the probes is known by its owner, and has no known cause
 * until it reads a request. Tasks of the blocking pool have no owner, and stand for their threads. src/runtime/tokio.rs
 * finds the functions.
 */
#ifndef WS_TOKIO_H
#define WS_TOKIO_H

/* repr(C) in tokio since 2022; no owner: a task of the blocking pool, or one that is being made. */
struct tokio_header {
	__u64 state, queue_next, vtable, owner_id;
};

#define TOKIO_STATE 63 /* …of which the rest counts references */
#define TOKIO_STATE_BITS 6
#define TOKIO_NEW 12	  /* to be run, and somebody waits for its end */
#define TOKIO_NEW_COUNT 3 /* at most */

enum tokio_point {
	TOKIO_RUNS = 1,	  /* raw::poll(header) */
	TOKIO_SLEEPS = 2, /* State::transition_to_idle(header) */
	TOKIO_ENDS = 3,	  /* State::transition_to_complete(header) */
	TOKIO_BORN =
		4, /* OwnedTasks::bind_inner(list, header, …), blocking::pool::Spawner::spawn_task(pool, header, …) */
	TOKIO_SENDS = 5,     /* AtomicWaker::wake(waker) of tokio's own channels */
	TOKIO_PERHAPS = 6,   /* …of futures, whose sets of futures have one, too */
	TOKIO_WAKES = 7,     /* waker::wake_by_val(header), wake_by_ref(header), where channels are not seen */
	TOKIO_RUNS_ONLY = 8, /* as the first, there */
};

#define TOKIO_SEVERAL (~0ULL) /* of `woken_by` */
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

/* `evidence` is that of a sender with a cause. */
static __always_inline void tokio_sent(const struct attribution *from, struct attribution *to, __u64 channel,
				       __u8 evidence, bool waits, bool perhaps)
{
	__u64 cause = from->state == ACTS_RETURNED ? 0 : from->cause;
	bool known = to->place == channel;

	if (from == to || (to->cause && to->state == ACTS_OWN && to->evidence == WS_EV_THREAD))
		return;
	if (to->cause == cause && cause) {
		if (to->state == ACTS_LENT) {
			to->place = channel;
			to->used = 0;
		}
		return;
	}
	/* A signal; or a worker gives its result. */
	if (!known && (!cause || (from->place && to->cause && !is_over(to))))
		return;
	if (!waits || perhaps || (to->acted && to->cause)) {
		if (cause || !perhaps)
			tokio_drop(to, channel);
		return;
	}
	actor_pass_cause(to, cause, cause ? evidence : from->evidence, PASS_LENT);
	to->place = channel;
}

/*
 * Before a task sends a request: its cause is dropped if the request may be for another one. So it is on a shared
 * connection; if the task has asked before on this connection, and slept after it had read; and if another task has
 * connected, and nothing was sent to this new task for its cause. A task that was sent something asks once for it: more
 * may have been sent while it did not sleep.
 *
 * Where no channel is seen, a task that goes on on a connection of its own works for the one task that woke it.
 */
static __always_inline void tokio_check(struct sock_state *s, struct attribution *a, __u64 actor, bool channels)
{
	struct carrier_key key = { .object = a->cause, .pid = actor, .stream = TOKIO_UNRECEIVED };
	bool again, fresh = false, untrusted = s->shared;
	__u32 sender = actor >> 32;
	struct carried *sent;
	__u64 woken;

	again = s->sender == sender && a->writes; /* addresses are used again */
	if (again && a->acted && !untrusted)	  /* the same request goes on */
		return;
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
	woken = !s->shared && a->slept && (fresh || (again && (untrusted || !a->cause))) ? a->woken_by : 0;
	s->sender = sender;
	if (woken && woken != TOKIO_SEVERAL) {
		actor_pass_cause(a, woken, WS_EV_COROUTINE, PASS_LENT);
	} else if (untrusted) {
		actor_pass_cause(a, 0, WS_EV_INFERRED, PASS_OWN);
	}
}

#define HTTP2_PREFACE 0x20495250 /* "PRI " */

/* A connection on which HTTP/2 begins is shared before user space says so. */
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

/* A task reads for many requests on a shared connection, and it is not seen which it acts for. */
static __always_inline void tokio_after_message(struct task_state *t, struct sock_state *s, struct attribution *a,
						__u8 direction)
{
	if (direction != WS_INGRESS)
		return;
	a->slept = a->woken_by = 0;
	if (t->actor && s->shared)
		actor_pass_cause(a, 0, WS_EV_INFERRED, PASS_OWN);
}

SEC("uprobe.multi")
int tokio(struct pt_regs *ctx)
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
			to->slept = 1;
		} else {
			born.evidence = WS_EV_INFERRED;
			if (!user_word(key.id + __builtin_offsetof(struct tokio_header, owner_id)) ||
			    actor_born_with(&key, &born))
				key.id = 0;
		}
		actor_runs(t, WS_TOKIO_TASK, key.id);
		break;
	case TOKIO_ENDS:
		key.id = WS_FN_ARG1(ctx);
		actor_ends(t, &key);
		break;
	case TOKIO_SLEEPS:
		to = actor_running(t, &key);
		if (to)
			to->woken_by = 0;
		actor_runs(t, WS_TOKIO_TASK, 0);
		break;
	case TOKIO_WAKES:
		key.id = WS_FN_ARG1(ctx);
		to = t->runs ? actor_find(&key) : NULL;
		from = acting(task, t);
		if (to && to != from && from->cause && from->state != ACTS_RETURNED)
			to->woken_by = to->woken_by && to->woken_by != from->cause ? TOKIO_SEVERAL : from->cause;
		break;
	case TOKIO_BORN:
		key.id = WS_FN_ARG2(ctx);
		if (!is_new_task(key.id))
			key.id = WS_FN_ARG1(ctx);
		if (!is_new_task(key.id))
			break;
		from = acting(task, t);
		inherit(&born, from, WS_EV_COROUTINE);
		if (!born.cause && from->evidence == WS_EV_INFERRED)
			born.evidence = WS_EV_INFERRED;
		actor_born_with(&key, &born);
		break;
	case TOKIO_SENDS:
	case TOKIO_PERHAPS:
		channel = WS_FN_ARG1(ctx);
		to = tokio_receiver(&key, channel, &waits);
		from = acting(task, t);
		if (!to && !waits && from->cause) {
			unreceived.object = from->cause;
			bpf_map_update_elem(&carriers, &unreceived, &none, BPF_NOEXIST);
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
