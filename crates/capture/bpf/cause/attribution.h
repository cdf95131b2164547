/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * For which request somebody acts now, a thread or a goroutine, and how that passes from one to the other.
 *
 *  - Who reads a request acts for it (OWN), also after its answer has begun (ANSWERED): what it calls then is aftermath.
 *  - Who is woken by somebody that acts for a request takes it over (LENT), and with it the place of the hand-over. While it
 *    has it, a wake-up at another place is no hand-over: it waits for a lock or a result. A wake-up at the same place is
 *    the next one.
 *  - A wake-up in a way in which locks are passed on, at the place where a worker waits for work, passes on the right to look
 *    into a queue: whose work it finds there is not known, and may be that of the waker (a guess).
 *  - A program that says itself which job a worker takes (queue.h) is believed (TOLD), whoever woke whom.
 *  - Who waits for the end of a request of its own is given back what it lent. From then on (RETURNED) the other acts for
 *    nobody that is known; if it goes on without being woken, because its queue was not empty, it acts for a provisional
 *    cause, whose name is told when it gives back the next time.
 */
#ifndef WS_CONTEXT_H
#define WS_CONTEXT_H

enum attribution_state { ACTS_OWN = 0, ACTS_ANSWERED = 1, ACTS_LENT = 2, ACTS_RETURNED = 3 };

static __always_inline bool is_provisional(__u64 cause)
{
	return (cause & WS_PROVISIONAL) == WS_PROVISIONAL;
}

/*
 * Whether it acts for somebody alone, since it last slept: beside the request that is read now there is one that is not
 * answered (SEVERAL), for which nothing was sent since its last event (MIXED): both are to be acted for.
 */
enum overlap { ALONE = 0, SEVERAL = 1, MIXED = 2 };

/* Acts now for this, by its own doing; WS_EV_INFERRED without a cause: for somebody, it is not known for whom. */
static __always_inline void take(struct attribution *c, __u64 cause, __u8 evidence)
{
	bool busy = c->state == ACTS_OWN && (c->cause || c->evidence == WS_EV_INFERRED);

	if (!cause && evidence == WS_EV_NONE)
		c->overlap = ALONE;
	else if (busy && c->cause != cause && c->overlap != MIXED)
		c->overlap = c->acted ? SEVERAL : MIXED;
	c->acted = c->framed = c->authoritative = c->woken_idle = 0;
	c->cause = cause;
	c->place = c->guess = c->untrusted_cause = 0;
	c->evidence = evidence;
	c->state = ACTS_OWN;
	c->used = c->pending = 0;
}

/* A child acts for what its creator acts for, and may become anybody's worker later. */
static __always_inline void inherit(struct attribution *to, const struct attribution *from, __u8 evidence)
{
	__u64 cause = from->state == ACTS_RETURNED ? 0 : from->cause;

	to->cause = cause;
	to->place = to->guess = 0;
	to->evidence = cause ? evidence : WS_EV_NONE;
	to->state = cause ? ACTS_LENT : ACTS_OWN;
	to->used = to->pending = to->overlap = to->acted = to->framed = to->authoritative = to->woken_idle = 0;
}

static __always_inline void tell_alias_by(__u64 provisional, __u64 cause, __u8 what, __u8 evidence)
{
	struct ws_alias e = {
		.kind = WS_ALIAS, .what = what, .evidence = evidence, .provisional = provisional, .cause = cause
	};

	e.time_ns = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING);
}

static __always_inline void tell_alias(__u64 provisional, __u64 cause, __u8 what)
{
	tell_alias_by(provisional, cause, what, WS_EV_NONE);
}

enum attribution_use { USED_CONNECT = 1, USED_SEND = 2 };

/*
 * It is about to connect or to send. A worker acts for a provisional cause, a new one for each request that it sends: it may
 * have taken another's work since the last, which is likely the same if nothing better is known.
 */
static __always_inline void act(struct attribution *c, __u8 use)
{
	/* Who answers itself does one piece of work until then. */
	bool again = c->state == ACTS_LENT && is_provisional(c->cause) && !c->answers;
	__u64 fresh;

	bool hired = c->state < ACTS_LENT && !c->cause && c->woken_idle;

	if (c->state == ACTS_RETURNED || (c->state == ACTS_LENT && !c->cause) || hired ||
	    (again && c->used & use & USED_SEND)) {
		fresh = WS_PROVISIONAL | __sync_fetch_and_add(&next_provisional, 1);
		if (again && !c->guess)
			tell_alias(c->cause, fresh, WS_ALIAS_GUESS);
		else if (c->guess)
			tell_alias(fresh, c->guess, c->woken ? WS_ALIAS_WAKE_UP : WS_ALIAS_GUESS);
		c->woken = 0;
		c->used = c->pending = 0;
		c->cause = fresh;
		c->evidence = WS_EV_WAKE_UP;
		c->state = ACTS_LENT;
	}
	c->used |= use;
}

/*
 * A thread that has answered calls on: still for that request (aftermath, or a part of the answer), or for one that another has
 * read, as workers do. So it acts for a provisional cause, which is told by what it reads or answers next.
 */
static __always_inline bool goes_on(const struct attribution *c)
{
	return c->state == ACTS_ANSWERED && c->evidence == WS_EV_THREAD && c->cause && !c->framed && !c->overlap;
}

/* It answers a request: it has done the work for it, and what follows is for the next one, or for this one still. */
static __always_inline void answer_lent(struct attribution *c, __u64 request)
{
	tell_alias(c->cause, request, WS_ALIAS_NAME);
	c->answers |= request != c->guess;
	c->guess = request;
	c->woken = c->pending = 0;
	c->state = ACTS_RETURNED;
}

/* It reads the next request itself, and has answered none since: what it sent was for the last. */
static __always_inline void end_aftermath(const struct attribution *c)
{
	if (c->state == ACTS_LENT && is_provisional(c->cause) && c->guess && !c->place && !c->woken &&
	    c->evidence == WS_EV_THREAD)
		tell_alias(c->cause, c->guess, WS_ALIAS_NAME);
}

/*
 * How something passes: HOW_CHAIN in a way in which locks are passed on, and the right to look into a queue; HOW_WAKE_UP to
 * who is woken, which then may find another's work in the queue; HOW_CHANNEL together with the very value.
 */
enum { HOW_CHAIN, HOW_WAKE_UP, HOW_CHANNEL };

static __always_inline void lend(struct attribution *from, struct attribution *to, __u64 place, int how)
{
	__u64 cause = from->state == ACTS_RETURNED ? 0 : from->cause;

	if (from->state == ACTS_LENT && (!cause || from->pending))
		cause = from->guess;
	if (how != HOW_CHANNEL && to->state == ACTS_LENT && is_provisional(to->cause) && to->used & USED_SEND) {
		if (to->answers)
			return;
		/* The next piece of work, or a lock in the middle of this one: seen by what comes first, a request or a result. */
		to->guess = cause;
		to->woken = how == HOW_WAKE_UP;
		to->pending = 1;
		return;
	}
	to->cause = how == HOW_CHANNEL ? cause : 0;
	to->guess = how == HOW_CHANNEL ? 0 : cause;
	to->woken = how == HOW_WAKE_UP;
	to->place = place;
	to->evidence = WS_EV_WAKE_UP;
	to->state = ACTS_LENT;
	to->used = to->pending = to->overlap = to->acted = to->framed = to->authoritative = to->woken_idle = 0;
}

/* In the middle of a request of its own, where it was given a result before. */
static __always_inline bool waits_for_result(const struct attribution *c, __u64 place)
{
	return c->cause && c->state == ACTS_OWN && c->results == (__u32)place;
}

/*
 * Where a thread has one place for all that it waits for (.NET), who gives a lock back wakes as if by a result: of those who wait where they have been
 * given results, the last before it goes on is given this one.
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
	if (to->cause && to->state == ACTS_OWN) { /* it waits for a result */
		if (how == HOW_CHAIN || from->authoritative || from->answers)
			return;
		/* …or for a further request of the connection that it has begun to read itself. */
		if (from->state == ACTS_OWN && from->cause >> 24 == to->cause >> 24 && from->cause > to->cause) {
			lend(from, to, place, how);
			return;
		}
		if (from->state == ACTS_OWN && !from->cause && from->used) /* a worker, seen late */
			from->state = ACTS_RETURNED;
		if (from->state == ACTS_RETURNED && corrects(from, to, place))
			tell_alias(from->cause, to->cause, WS_ALIAS_NAME);
		if (from->state != ACTS_LENT)
			return;
		to->results = place;
		if (is_provisional(from->cause) && !is_provisional(to->cause))
			tell_alias(from->cause, to->cause, WS_ALIAS_NAME);
		/* It may have told only that it has begun. */
		from->woken = !from->used;
		from->guess = from->used || is_provisional(from->cause) ? 0 : from->cause ? from->cause : from->guess;
		from->pending = 0;
		from->state = ACTS_RETURNED;
		return;
	}
	if (to->state < ACTS_LENT) { /* acts for nobody */
		if ((cause || from->guess) && how != HOW_CHAIN)
			lend(from, to, place, how);
		else if (how != HOW_CHANNEL && (from->state >= ACTS_LENT || from->woken_idle))
			to->woken_idle =
				!to->cause; /* workers wake each other while there is work, whoever brought it */
	} else if (!to->place) {	    /* a child, which may have become a worker */
		if (cause && (how == HOW_CHANNEL || (how == HOW_WAKE_UP && to->used)))
			lend(from, to, place, how);
		else if (to->used && (to->state == ACTS_RETURNED || is_provisional(to->cause)))
			lend(from, to, place, HOW_CHAIN);
	} else if (to->place == place) { /* a worker where it waits for work */
		lend(from, to, place, how);
	} else if (to->state == ACTS_RETURNED && cause && how != HOW_CHAIN) {
		/* Perhaps a lock on the way to the queue: it is not where it waits for work. */
		lend(from, to, how == HOW_CHANNEL ? place : to->place, how == HOW_CHANNEL ? how : HOW_CHAIN);
	}
}

#endif
