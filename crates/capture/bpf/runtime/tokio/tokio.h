/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Tasks of Rust's tokio: what a goroutine is to Go. A context each, by the address of its header, inherited from who makes one, and
 * from then on its own: it reads its sockets itself, on whichever worker it runs, so that no wake-up by the driver says anything.
 *
 * A task that works for others waits at a channel (mpsc), as HTTP clients have one for each connection: whoever sends wakes the
 * receiver, if it waits, and it acts for the sender from then on. It is the first in the queue then, as nobody waits at a queue
 * that is not empty. What is sent to a receiver that does not wait it finds without being woken, one cannot tell when: from then on
 * nothing is certain, until it waits again. A task that reads its requests itself, or was made for one and is sent something by who
 * works for others, is only told of a result. Locks and the like wake by other ways, which are looked at only where no channel
 * is seen: there they tell for whom a connection is used again (exchanges.h).
 *
 * Which task runs is told by the entry of its poll function; that it sleeps or has ended by the change of its state, which no other
 * way out avoids. What was there before the probes is known by its owner (tasks of the blocking pool have none, and stand for
 * their threads), and acts for nobody known until it reads a request. src/tls/tokio.rs finds the functions.
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

/* The task that waits at an AtomicWaker, or did so last: that holds its state, and the two words of a waker in either order. */
static __always_inline struct attribution *tokio_receiver(struct actor_key *key, __u64 at, bool *waits)
{
	struct attribution *c;
	__u64 words[3];

	if (bpf_probe_read_user(words, sizeof(words), (void *)at))
		return NULL;
	*waits = !!words[0] + !!words[1] + !!words[2] > 1;
	for (int i = 0; i < 3; i++) {
		key->id = words[i];
		c = words[i] ? bpf_map_lookup_elem(&actors, key) : NULL;
		if (c)
			return c;
	}
	return NULL;
}

/* Who compiles a whole program at once may leave out arguments that are not used. */
static __always_inline bool is_new_task(__u64 at)
{
	struct tokio_header h;

	return !bpf_probe_read_user(&h, sizeof(h), (void *)at) && (h.state & TOKIO_STATE) == TOKIO_NEW &&
	       h.state >> TOKIO_STATE_BITS <= TOKIO_NEW_COUNT && !h.queue_next && h.vtable && !h.owner_id;
}

static __always_inline void tokio_doubt(struct attribution *to, __u64 channel)
{
	take(to, 0, WS_EV_INFERRED);
	to->place = channel;
}

/* `evidence` is that of a sender that acts for somebody. */
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
	/* Something has happened; or a worker gives its result. */
	if (!known && (!cause || (from->place && to->cause && !is_over(to))))
		return;
	if (!waits || perhaps || (to->acted && to->cause)) {
		if (cause || !perhaps)
			tokio_doubt(to, channel);
		return;
	}
	take(to, cause, cause ? evidence : from->evidence);
	if (cause)
		to->state = ACTS_LENT;
	to->place = channel;
}

SEC("uprobe.multi")
int tokio(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = { .pid = task->tgid };
	struct carrier_key unreceived = { .pid = task->tgid, .stream = TOKIO_UNRECEIVED };
	struct attribution *from, *to, born = {};
	struct carried none = {}, *sent;
	__u64 point = bpf_get_attach_cookie(ctx), channel;
	bool waits = false;

	if (!t)
		return 0;
	if (!t->tokio)
		t->tokio = 1;
	switch (point) {
	case TOKIO_RUNS_ONLY:
		t->tokio = 3;
	case TOKIO_RUNS:
		key.id = WS_FN_ARG1(ctx);
		to = bpf_map_lookup_elem(&actors, &key);
		if (to) {
			to->slept = 1;
		} else {
			born.evidence = WS_EV_INFERRED;
			if (!user_word(key.id + __builtin_offsetof(struct tokio_header, owner_id)) ||
			    remember(&actors, &key, &born))
				key.id = 0;
		}
		t->runs = key.id;
		break;
	case TOKIO_ENDS:
		key.id = WS_FN_ARG1(ctx);
		bpf_map_delete_elem(&actors, &key);
		t->runs = 0;
		break;
	case TOKIO_SLEEPS:
		key.id = t->runs;
		to = key.id ? bpf_map_lookup_elem(&actors, &key) : NULL;
		if (to)
			to->woken_by = 0;
		t->runs = 0;
		break;
	case TOKIO_WAKES:
		key.id = WS_FN_ARG1(ctx);
		to = t->runs ? bpf_map_lookup_elem(&actors, &key) : NULL;
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
		remember(&actors, &key, &born);
		break;
	case TOKIO_SENDS:
	case TOKIO_PERHAPS:
		channel = WS_FN_ARG1(ctx);
		to = tokio_receiver(&key, channel, &waits);
		from = acting(task, t);
		if (!to && !waits && from->cause) {
			unreceived.object = from->cause;
			bpf_map_update_elem(&carriers, &unreceived, &none, BPF_NOEXIST);
			sent = bpf_map_lookup_elem(&carriers, &unreceived);
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
