/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Attribution: the cause of an actor, and the rules by which a cause passes from one actor to another.
 *
 *  - An actor that reads a request owns its cause (OWN), also after its answer has begun (ANSWERED): later calls belong
 *    to the aftermath of that request.
 *  - An actor that is woken by an actor with a cause borrows that cause (LENT), and keeps the place of the hand-over. A
 *    later wake-up at the same place is the next hand-over. A wake-up at another place is none: the actor waits there
 *    for a lock or a result.
 *  - A wake-up where a worker waits for work may pass only the right to look into a queue, as locks are passed on. The
 *    work in the queue may be that of the waker (a guess), or that of another actor.
 *  - A runtime that names the job of a worker (python/queue.h) is authoritative. Wake-ups then do not matter.
 *  - A worker that wakes an actor which waits within its own request returns the cause. From then on the worker has no
 *    known cause (RETURNED). If it goes on without being woken, because its queue was not empty, it acts for a
 *    provisional cause. That cause is named when the worker returns a cause the next time.
 */
#ifndef WS_ATTRIBUTION_H
#define WS_ATTRIBUTION_H

enum attribution_state { ACTS_OWN = 0, ACTS_ANSWERED = 1, ACTS_LENT = 2, ACTS_RETURNED = 3 };

static __always_inline bool is_provisional(__u64 cause)
{
	return (cause & WS_PROVISIONAL) == WS_PROVISIONAL;
}

static __always_inline bool is_by_stream(__u64 cause)
{
	return (cause & WS_PROVISIONAL) == WS_BY_STREAM;
}

/* The cookie of the socket on which a request came, for both names of requests; 0 for a provisional cause. */
static __always_inline __u64 socket_of(__u64 cause)
{
	return is_provisional(cause) ? 0 : (cause & ~WS_PROVISIONAL) >> WS_NUMBER_BITS;
}

/* The name of a request by its stream; 0 if the cookie of the socket is too large for it (sock.h). */
static __always_inline __u64 by_stream(__u64 cookie, __u32 stream)
{
	if (!cookie || cookie >> WS_SOCKET_BITS || !stream)
		return 0;
	return WS_BY_STREAM | exchange_of(cookie, stream);
}

/*
 * A name for the next request of a connection that no actor was made for yet: `n` counts what was made since this
 * exchange. It has the form of a stream's name, but its number is even, as no request's stream has. 0 if there is no
 * room for it. WS_ALIAS_BORN tells when the actor was made.
 */
static __always_inline __u64 by_order(__u64 exchange, __u32 n)
{
	if (exchange >> (WS_NUMBER_BITS + WS_SOCKET_BITS) || !n || n > 255)
		return 0;
	return WS_BY_STREAM | exchange_of(exchange >> WS_NUMBER_BITS, (exchange & 0x7fff) << 9 | n << 1);
}

/*
 * Requests that an actor has read since it last slept. SEVERAL: one was read while another was not answered. MIXED:
 * besides, nothing was sent for that other one since it was read, so that the next send may be for either.
 */
enum overlap { ALONE = 0, SEVERAL = 1, MIXED = 2 };

/* The actor owns this cause from now on. No cause and WS_EV_INFERRED: it acts for a request that is not known. */
static __always_inline void take(struct attribution *c, __u64 cause, __u8 evidence)
{
	/* Nothing answers a delivery, so the actor may be done with it as soon as it reads on. */
	bool busy = c->state == ACTS_OWN && (c->cause || c->evidence == WS_EV_INFERRED) && !c->delivery;

	if (!cause && evidence == WS_EV_NONE)
		c->overlap = ALONE;
	else if (busy && c->cause != cause && c->overlap != MIXED)
		c->overlap = c->acted ? SEVERAL : MIXED;
	c->acted = c->framed = c->authoritative = c->woken_by_worker = c->delivery = c->resumed = 0;
	c->cause = cause;
	c->place = c->guess = c->untrusted_cause = 0;
	c->evidence = evidence;
	c->state = ACTS_OWN;
	c->used = c->pending = c->bound = 0;
}

/* A loop acts for some request: which one is not known, and `guess` is as likely as any. */
static __always_inline void take_guess(struct attribution *c, __u64 guess)
{
	take(c, 0, WS_EV_INFERRED);
	c->guess = guess;
}

/* A child borrows the cause of its creator, and may become a worker for others later. */
static __always_inline void inherit(struct attribution *to, const struct attribution *from, __u8 evidence)
{
	__u64 cause = from->state == ACTS_RETURNED ? 0 : from->cause;

	to->cause = cause;
	to->place = to->guess = 0;
	to->evidence = cause ? evidence : WS_EV_NONE;
	to->state = cause ? ACTS_LENT : ACTS_OWN;
	to->used = to->pending = to->overlap = to->acted = to->framed = to->authoritative = to->woken_by_worker = 0;
	to->bound = 0;
}

static __always_inline void tell_alias_by(__u64 provisional, __u64 cause, __u8 what, __u8 evidence)
{
	struct ws_alias e = {
		.kind = WS_ALIAS, .what = what, .evidence = evidence, .provisional = provisional, .cause = cause
	};

	e.time_ns = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
}

static __always_inline void tell_alias(__u64 provisional, __u64 cause, __u8 what)
{
	tell_alias_by(provisional, cause, what, WS_EV_NONE);
}

enum attribution_use { USED_CONNECT = 1, USED_SEND = 2 };

/*
 * Called before an actor connects or sends. A worker without a known cause gets a provisional one. It gets a new one
 * for each request that it sends, as it may have taken other work since the last one. An alias says that both are
 * likely the same if nothing better is known.
 */
static __always_inline void act(struct attribution *c, __u8 use)
{
	/* A worker that answers requests itself does one piece of work until its answer. */
	bool again = c->state == ACTS_LENT && is_provisional(c->cause) && !c->answers;
	bool is_worker = c->state < ACTS_LENT && !c->cause && c->woken_by_worker;
	__u64 fresh;

	if (c->state == ACTS_RETURNED || (c->state == ACTS_LENT && !c->cause) || is_worker ||
	    (again && c->used & use & USED_SEND)) {
		fresh = WS_PROVISIONAL | __sync_fetch_and_add(&next_provisional, 1);
		if (again && !c->guess)
			tell_alias(c->cause, fresh, WS_ALIAS_GUESS);
		else if (c->guess)
			tell_alias(fresh, c->guess, c->woken ? WS_ALIAS_WAKE_UP : WS_ALIAS_GUESS);
		c->by_waker = c->guess && c->woken;
		c->woken = 0;
		c->used = c->pending = 0;
		c->cause = fresh;
		c->evidence = WS_EV_WAKE_UP;
		c->state = ACTS_LENT;
	}
	c->used |= use;
}

/*
 * Whether a thread goes on to call after it has answered: for the same request (its aftermath, or a part of the
 * answer), or as a worker for a request that another thread has read. Such a thread gets a provisional cause. The next
 * request that it reads or answers names that cause.
 */
static __always_inline bool goes_on(const struct attribution *c)
{
	return c->state == ACTS_ANSWERED && c->evidence == WS_EV_THREAD && c->cause && !c->framed && !c->overlap;
}

/*
 * A worker answers a request, so its work was for that request. Later calls belong to the next request, or still to
 * this one.
 */
static __always_inline void answer_lent(struct attribution *c, __u64 request)
{
	tell_alias(c->cause, request, WS_ALIAS_NAME);
	c->answers |= request != c->guess;
	c->guess = request;
	c->woken = c->pending = 0;
	c->state = ACTS_RETURNED;
}

/*
 * An actor reads the next request itself. If it has answered none since the last one, what it sent meanwhile belonged
 * to the last one.
 */
static __always_inline void end_aftermath(const struct attribution *c)
{
	if (c->state == ACTS_LENT && is_provisional(c->cause) && c->guess && !c->place && !c->woken &&
	    c->evidence == WS_EV_THREAD)
		tell_alias(c->cause, c->guess, WS_ALIAS_NAME);
}

/* The cause that an actor gives away with work. */
static __always_inline __u64 given_cause(const struct attribution *from)
{
	__u64 cause = from->state == ACTS_RETURNED ? 0 : from->cause;

	return from->state == ACTS_LENT && (!cause || from->pending) ? from->guess : cause;
}

/*
 * How a cause passes. HOW_CHAIN: from waiter to waiter, as a lock or the right to look into a queue passes.
 * HOW_WAKE_UP: to a woken actor, which may find other work in the queue. HOW_CHANNEL: together with the work itself.
 */
enum { HOW_CHAIN, HOW_WAKE_UP, HOW_CHANNEL };

static __always_inline void lend(struct attribution *from, struct attribution *to, __u64 place, int how)
{
	__u64 cause = given_cause(from);

	if (how != HOW_CHANNEL && to->state == ACTS_LENT && is_provisional(to->cause) && to->used & USED_SEND) {
		if (to->answers)
			return;
		/*
		 * This is the next piece of work, or a lock within the current one. If the worker sends a request
		 * first, it is the former; if it returns a result first, the latter.
		 */
		to->guess = cause;
		to->woken = how == HOW_WAKE_UP;
		to->pending = 1;
		return;
	}
	/* What comes from an actor of the same request, such as the result of a child, brings nothing new. */
	if (how != HOW_CHANNEL || !cause || to->cause != cause)
		to->evidence = WS_EV_WAKE_UP;
	to->cause = how == HOW_CHANNEL ? cause : 0;
	to->guess = how == HOW_CHANNEL ? 0 : cause;
	to->woken = how == HOW_WAKE_UP;
	to->place = place;
	to->state = ACTS_LENT;
	to->used = to->pending = to->overlap = to->acted = to->framed = to->authoritative = to->woken_by_worker = 0;
}

/* Whether an actor waits within its own request, at a place where it has got a result before. */
static __always_inline bool waits_for_result(const struct attribution *c, __u64 place)
{
	return c->cause && c->state == ACTS_OWN && c->results == (__u32)place;
}

/*
 * Whether this wake-up corrects an earlier one of the worker. A .NET thread waits for everything at one place, so
 * releasing a lock looks like returning a result. Several threads may wait where they have got results. The last of
 * them that the worker wakes before it goes on gets the result.
 */
static __always_inline bool corrects(const struct attribution *from, const struct attribution *to, __u64 place)
{
	return from->used & USED_SEND && is_provisional(from->cause) && !is_provisional(to->cause) &&
	       waits_for_result(to, place);
}

/* `from` wakes `to`, which waits at `place`. */
static __always_inline void hand_over(struct attribution *from, struct attribution *to, __u64 place, int how)
{
	__u64 cause = from->state == ACTS_RETURNED ? 0 : from->cause;

	if (to->authoritative)
		return;
	if (to->cause && to->state == ACTS_OWN) { /* `to` waits for a result */
		if (how == HOW_CHAIN || from->authoritative || from->answers)
			return;
		/*
		 * It waits for a further request of its connection, and `from` has read that request. But threads may
		 * take messages from one connection in turn, each for itself, and wake each other by an interpreter's
		 * lock.
		 */
		if (!to->delivery && from->state == ACTS_OWN &&
		    from->cause >> WS_NUMBER_BITS == to->cause >> WS_NUMBER_BITS && from->cause > to->cause) {
			lend(from, to, place, how);
			return;
		}
		if (from->state == ACTS_OWN && !from->cause && from->used) /* a worker whose first job was missed */
			from->state = ACTS_RETURNED;
		if (from->state == ACTS_RETURNED && corrects(from, to, place))
			tell_alias(from->cause, to->cause, WS_ALIAS_NAME);
		if (from->state != ACTS_LENT)
			return;
		to->results = place;
		if (is_provisional(from->cause) && !is_provisional(to->cause))
			tell_alias(from->cause, to->cause, WS_ALIAS_NAME);
		/*
		 * A worker that has sent nothing may only have reported that it has begun. A child that was never given
		 * other work may return its result in parts.
		 */
		from->woken = !from->used;
		from->guess = (from->used && from->place) || is_provisional(from->cause) ? 0
			      : from->cause						 ? from->cause
											 : from->guess;
		from->pending = 0;
		from->state = ACTS_RETURNED;
		return;
	}
	if (to->state < ACTS_LENT) { /* no cause */
		if ((cause || from->guess) && how != HOW_CHAIN)
			lend(from, to, place, how);
		else if (how != HOW_CHANNEL && (from->state >= ACTS_LENT || from->woken_by_worker))
			to->woken_by_worker = !to->cause; /* workers wake each other while there is work */
	} else if (!to->place) {			  /* a child, which may have become a worker */
		if (cause && (how == HOW_CHANNEL || (how == HOW_WAKE_UP && to->used)))
			lend(from, to, place, how);
		else if (to->used && (to->state == ACTS_RETURNED || is_provisional(to->cause)))
			lend(from, to, place, HOW_CHAIN);
	} else if (to->place == place) { /* a worker where it waits for work */
		lend(from, to, place, how);
	} else if (to->state == ACTS_RETURNED && cause && how != HOW_CHAIN) {
		/* Perhaps a lock on the way to the queue, not the place where the worker waits for work. */
		lend(from, to, how == HOW_CHANNEL ? place : to->place, how == HOW_CHANNEL ? how : HOW_CHAIN);
	}
}

#endif
