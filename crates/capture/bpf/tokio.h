/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Tasks of Rust's tokio: what a goroutine is to Go. A context each, by the address of its header, inherited from who makes one, and
 * from then on its own: it reads its sockets itself, on whichever worker it runs, so that no wake-up by the driver says anything.
 *
 * A task that works for others waits at a channel (mpsc), as HTTP clients have one for each connection: whoever sends wakes the
 * receiver, if it waits, and it acts for the sender from then on. It is the first in the queue then, as nobody waits at a queue
 * that is not empty. What is sent to a receiver that does not wait it finds without being woken, one cannot tell when: from then on
 * nothing is certain, until it waits again. A task that reads its requests itself, or was made for one and has never been sent
 * anything, is only told of a result. Locks and the like wake by other ways, which are not looked at.
 *
 * Which task runs is told by the entry of its poll function; that it sleeps or has ended by the change of its state, which no other
 * way out avoids. What was there before the probes is known by its owner (threads of the blocking pool have none), and acts for
 * nobody known until it reads a request. src/tls/tokio.rs finds the functions.
 */
#ifndef WS_TOKIO_H
#define WS_TOKIO_H

#define TOKIO_OWNER 24 /* struct Header: state, queue_next, vtable, owner_id */

enum tokio_point {
	TOKIO_RUNS = 1,	   /* raw::poll(header) */
	TOKIO_SLEEPS = 2,  /* State::transition_to_idle(header) */
	TOKIO_ENDS = 3,	   /* State::transition_to_complete(header) */
	TOKIO_BORN = 4,	   /* OwnedTasks::bind_inner(list, header, …) */
	TOKIO_SENDS = 5,   /* AtomicWaker::wake(waker) of tokio's own channels */
	TOKIO_PERHAPS = 6, /* …of futures, whose sets of futures have one, too */
};

/* The task that waits at an AtomicWaker, or did so last: that holds its state, and the two words of a waker in either order. */
static __always_inline struct context *tokio_receiver(struct goroutine_key *key, __u64 at, bool *waits)
{
	struct context *c;
	__u64 words[3];

	if (bpf_probe_read_user(words, sizeof(words), (void *)at))
		return NULL;
	*waits = !!words[0] + !!words[1] + !!words[2] > 1;
	for (int i = 0; i < 3; i++) {
		key->id = words[i];
		c = words[i] ? bpf_map_lookup_elem(&goroutines, key) : NULL;
		if (c)
			return c;
	}
	return NULL;
}

static __always_inline void tokio_doubt(struct context *to, __u64 channel)
{
	take(to, 0, WS_EV_INFERRED);
	to->place = channel;
}

static __always_inline void tokio_sent(const struct context *from, struct context *to, __u64 channel, bool waits, bool perhaps)
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
	take(to, cause, cause ? WS_EV_COROUTINE : from->evidence);
	if (cause)
		to->state = ACTS_LENT;
	to->place = channel;
}

SEC("uprobe.multi")
int tokio(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct goroutine_key key = { .pid = task->tgid };
	struct carrier_key unreceived = { .pid = task->tgid, .stream = TOKIO_UNRECEIVED };
	struct context *from, *to, born = {};
	struct carried none = {}, *sent;
	__u64 point = bpf_get_attach_cookie(ctx), channel;
	bool waits = false;

	if (!t)
		return 0;
	t->tokio = 1;
	switch (point) {
	case TOKIO_RUNS:
		key.id = WS_FN_ARG1(ctx);
		to = bpf_map_lookup_elem(&goroutines, &key);
		if (to) {
			to->slept = 1;
		} else {
			born.evidence = WS_EV_INFERRED;
			if (!user_word(key.id + TOKIO_OWNER) || bpf_map_update_elem(&goroutines, &key, &born, BPF_ANY))
				key.id = 0;
		}
		t->greenlet = key.id;
		break;
	case TOKIO_ENDS:
		key.id = WS_FN_ARG1(ctx);
		bpf_map_delete_elem(&goroutines, &key);
		t->greenlet = 0;
		break;
	case TOKIO_SLEEPS:
		t->greenlet = 0;
		break;
	case TOKIO_BORN:
		from = acting(task, t);
		key.id = WS_FN_ARG2(ctx);
		inherit(&born, from, WS_EV_COROUTINE);
		if (!born.cause && from->evidence == WS_EV_INFERRED)
			born.evidence = WS_EV_INFERRED;
		bpf_map_update_elem(&goroutines, &key, &born, BPF_ANY);
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
			tokio_sent(from, to, channel, waits, point == TOKIO_PERHAPS);
		break;
	}
	return 0;
}

#endif
