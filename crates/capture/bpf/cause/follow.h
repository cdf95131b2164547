/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * For which request a message is sent or read (causality ladder, rungs 3 to 5):
 *  - An actor that reads a request acts for it.
 *  - A request on another socket is sent for the sender's cause. The first request on a socket that the same thread
 *    connected has the cause of the connect: an event loop may have moved on since.
 *  - An actor that reads a response acts again for the cause of its request.
 *  - Bytes received by io_uring, or by a thread that waits for many sockets, may have come together with other
 *    requests: the actor is an event loop.
 *  - On a connection that carries many requests at a time, a response is for one of them, and it is not known for
 *    which.
 *  - An actor that reads a delivery of a broker acts for it as for a request. Its asking for more has no cause.
 *  - No request is as short as the bytes by which a loop that waits for its own socket is woken.
 *  - If another actor has answered the request that this one had read, this one's calls are for another request: its
 *    process hands work around.
 *
 * Which actor acts, and what else changes its cause, stands in attribution.h; whether a process follows these rules, in
 * trust.h.
 */
#ifndef WS_FOLLOW_H
#define WS_FOLLOW_H

struct cause {
	__u64 exchange;
	__u64 id;
	__u8 evidence;
};

/* Whether this socket brings work (a request, a delivery) when it is read, and no answer. */
static __always_inline bool brings_work(const struct sock_state *s)
{
	return s->request_direction == WS_INGRESS || (s->delivers && (!s->cause || s->cause >> 24 == s->cookie));
}

/*
 * By socket: the last request whose answer came from another actor than its reader: one with another cause, or that was
 * given the work.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} answered_by_others SEC(".maps");

__u32 has_others; /* there is one: else no actor has to look */

static __always_inline void answer_for_another(const struct sock_state *s, const struct attribution *a, __u64 exchange)
{
	bool was_given = a->authoritative && a->state == ACTS_LENT;
	__u64 cookie = s->cookie;

	if (!s->exchange || (seems_to_act_for(a, exchange) && !was_given))
		return;
	has_others = 1;
	remember(&answered_by_others, &cookie, &exchange);
}

/* An actor calls: whether another actor has answered the request that it has read. */
static __always_inline bool is_stale(const struct attribution *a)
{
	__u64 cookie = socket_of(a->cause), *answered;

	if (!has_others || a->state != ACTS_OWN || a->evidence != WS_EV_THREAD || !a->cause || is_by_stream(a->cause))
		return false;
	answered = bpf_map_lookup_elem(&answered_by_others, &cookie);
	return answered && *answered >= a->cause;
}

/*
 * A response is sent. Datagram servers answer in any order, and on a shared connection answers are for many requests.
 */
static __always_inline void follow_answer(struct sock_state *s, struct attribution *a, struct cause *c, bool first,
					  __u32 pid)
{
	if (first && !s->shared && s->tuple.transport != WS_UDP)
		answer_for_another(s, a, c->exchange);
	if (s->shared || s->tuple.transport == WS_UDP) {
		if (a->cause >> 24 == s->cookie)
			c->exchange = a->cause;
	} else if (first && s->exchange && by_rule(a) && !is_by_stream(by_rule(a))) {
		if (by_rule(a) == c->exchange) {
			if (a->overlap || a->framed)
				answer_in_turn(a, pid);
		} else if (goes_on(a)) {
			a->answers = 1; /* a request that another actor has read, without having sent anything for it */
		} else {
			out_of_turn(pid && a->framed ? pid | WS_DISTRUST_FRAMES : pid);
		}
	}
	if (a->state == ACTS_LENT && is_provisional(a->cause) && !a->authoritative && !s->shared && s->exchange) {
		if (first || c->exchange == a->guess)
			answer_lent(a, c->exchange);
	} else if (seems_to_act_for(a, c->exchange)) {
		a->acted = 1;
		if (a->cause && a->state == ACTS_OWN)
			a->state = ACTS_ANSWERED;
	}
}

/*
 * Another thread has begun to open this connection, and has not waited. The actor that finds it open sends its first
 * request for the opener's cause, as if it had read an answer, whatever it has done before.
 */
static __always_inline bool is_opened_by_another(const struct sock_state *s, const struct attribution *a, __u32 tid,
						 __u32 pid)
{
	return pid && s->connect_later && s->connect_tid != tid && !a->authoritative &&
	       !is_provisional(s->connect_cause) && (s->connect_cause || s->connect_untrusted);
}

/*
 * 0: not known. An actor that has not acted yet for the request that it has read may do so now, on a connection that
 * was open before.
 */
static __always_inline __u64 opened_for(const struct sock_state *s, const struct attribution *a)
{
	bool undone = !a->acted && (a->cause || a->evidence == WS_EV_INFERRED);

	return undone && a->cause != s->connect_cause ? 0 : s->connect_cause;
}

/* A request is sent: its cause is kept until its response. */
static __always_inline void follow_request(struct sock_state *s, struct attribution *a, __u32 tid, __u32 pid)
{
	bool untrusted;
	__u64 rule;

	if (s->exchange == 1 && !s->pulls && is_opened_by_another(s, a, tid, pid)) {
		s->cause = opened_for(s, a);
		s->evidence = s->cause ? WS_EV_CONNECT : WS_EV_INFERRED;
		s->untrusted_cause = 0;
		a->acted = 1;
		return;
	}
	if (is_stale(a)) {
		out_of_turn(pid);
		take(a, 0, WS_EV_INFERRED);
	}
	untrusted = is_untrusted(a, pid);
	rule = by_rule(a);
	if (s->pulls) {
		s->cause = 0;
		s->evidence = WS_EV_NONE;
		return;
	}
	if (goes_on(a)) {
		a->state = ACTS_RETURNED;
		a->guess = a->cause;
		a->woken = a->place = 0;
		act(a, USED_SEND);
		a->evidence = WS_EV_THREAD;
		untrusted = false;
	} else {
		act(a, USED_SEND);
	}
	a->acted = 1;
	if (s->shared && s->cause && s->cause != a->cause)
		s->mixed = 1;
	s->cause = untrusted ? 0 : a->cause;
	s->untrusted_cause = untrusted ? rule : 0;
	s->evidence = untrusted ? WS_EV_INFERRED : a->evidence;
	if (a->authoritative && a->cause && a->state == ACTS_LENT)
		return; /* its job is known now, whatever it did when it connected */
	if (s->exchange == 1 && s->connect_tid == tid && s->connect_untrusted) {
		s->cause = s->untrusted_cause = 0;
		s->evidence = WS_EV_INFERRED;
	} else if (s->exchange == 1 && s->connect_tid == tid && s->connect_cause && s->connect_cause != s->cause &&
		   !is_provisional(s->connect_cause)) { /* a worker knew no better then than now */
		s->cause = s->connect_cause;
		s->evidence = WS_EV_CONNECT;
	}
}

/* A delivery is read, which ends the work on the last one of this connection. */
static __always_inline void follow_delivery(struct sock_state *s, struct attribution *a, __u8 how)
{
	if (a->state == ACTS_OWN && a->cause >> 24 == s->cookie)
		a->state = ACTS_ANSWERED;
	take(a, exchange_id(s), how);
}

/* What is known of a message before its cause is. */
enum message_bits {
	MESSAGE_SENT = 1,
	MESSAGE_FIRST = 2,	/* of a run */
	MESSAGE_LOOP = 4,	/* by an event loop */
	MESSAGE_SHORT = 8,	/* fewer bytes than any request has */
	MESSAGE_BY_OPENER = 16, /* the actor that opened the connection sends it, whichever thread does */
	/* What a send is on its socket; else it is the first call of a request, and not of the first one. */
	MESSAGE_ANSWERS = 32,	/* an answer */
	MESSAGE_GOES_ON = 64,	/* more of the last send */
	MESSAGE_BEGINS = 128,	/* the first request */
	MESSAGE_CONNECTS = 256, /* no message yet: the connection is opened */
};

#define MESSAGE_NEXT (MESSAGE_ANSWERS | MESSAGE_GOES_ON | MESSAGE_BEGINS | MESSAGE_CONNECTS)

/*
 * What the next send on this socket will be, before the socket turns to it. Without branches, each of which would
 * double the paths that the verifier follows: a direction is 0, 1 or WS_NO_DIRECTION, which has all bits.
 */
static __always_inline __u32 next_send(const struct sock_state *s)
{
	__u32 answers = ~s->request_direction & 1, goes_on = s->run & ~(s->run >> 1) & ~s->shared & 1;
	__u32 begun = (s->exchange | -s->exchange) >> 31;

	return answers * MESSAGE_ANSWERS | goes_on * MESSAGE_GOES_ON | (begun ^ 1) * MESSAGE_BEGINS;
}

#define SHORTEST_REQUEST 4

/*
 * `who` is the actor (actor_id()), and its process in the lower half. Verified on its own: its ways out would multiply
 * those of its caller.
 */
__noinline int follow_cause(struct sock_state *s, struct attribution *a, struct cause *c, __u64 who, __u32 bits)
{
	__u8 direction = bits & MESSAGE_SENT ? WS_EGRESS : WS_INGRESS,
	     how = bits & MESSAGE_LOOP ? WS_EV_EVENT_LOOP : WS_EV_THREAD;
	__u32 tid = who >> 32, pid = who;
	bool first = bits & MESSAGE_FIRST;

	if (!s || !a || !c)
		return 0;
	c->exchange = exchange_id(s);
	c->id = 0;
	c->evidence = 0;
	if (direction == WS_EGRESS)
		a->writes = 1;
	a->reads_answers = !a->writes && s->request_direction == WS_EGRESS && !s->delivers;
	if (s->request_direction == WS_INGRESS) { /* this process serves on the socket */
		if (direction == WS_EGRESS) {
			follow_answer(s, a, c, first, pid);
			return 0;
		}
		if (bits & MESSAGE_SHORT && s->exchange <= 1)
			return 0;
		/* A client that asks again has been answered, maybe by another actor. */
		if (!s->shared && a->cause >> 24 == s->cookie && a->state == ACTS_OWN)
			a->state = ACTS_ANSWERED;
		end_aftermath(a);
		take(a, c->exchange, how);
		return 0;
	}
	if (direction == WS_EGRESS) {
		/*
		 * Actors that are no threads have causes of their own: requests of two of them may follow each other
		 * without an answer.
		 */
		if (first || s->shared || (!pid && a->cause != s->cause))
			follow_request(s, a, tid, pid);
	} else if (s->delivers && (!s->cause || s->cause >> 24 == s->cookie)) {
		follow_delivery(s, a, how);
		return 0;
	} else if (s->shared && s->mixed) {
		/*
		 * An actor that reads for all, and hands on, has no cause; one that acts itself acts for one of them.
		 */
		if (a->state <= ACTS_ANSWERED && a->cause)
			take(a, 0, WS_EV_INFERRED);
	} else if (!s->cause && (s->evidence == WS_EV_INFERRED || how == WS_EV_EVENT_LOOP)) {
		/*
		 * A loop acts now for the cause of the request, which is not known, and no more for what it read
		 * before.
		 */
		if (a->state <= ACTS_ANSWERED || s->untrusted_cause) {
			take(a, 0, WS_EV_INFERRED);
			a->untrusted_cause = s->untrusted_cause;
		}
	} else if (s->cause && s->cause != a->cause) {
		take(a, s->cause, s->evidence);
		if (is_provisional(s->cause))
			a->state = ACTS_LENT;
	} else {
		a->acted = 0;
	}
	c->id = s->cause;
	c->evidence = s->cause || s->evidence == WS_EV_INFERRED ? s->evidence : WS_EV_NONE;
	return 0;
}

#endif
