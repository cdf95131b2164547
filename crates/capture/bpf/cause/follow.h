/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Decides the cause of each message (causality ladder, rungs 3 to 5):
 *  - An actor that reads a request acts for it.
 *  - A request on another socket is sent for the sender's cause. The first request on a socket that the same thread
 *    connected has the cause of the connect: an event loop may have moved on since.
 *  - An actor that reads a response acts again for the cause of its request.
 *  - Bytes received by io_uring, or by a thread that waits for many sockets, may have come together with other
 *    requests: the actor is an event loop.
 *  - On a connection that carries many requests at a time, a response belongs to an unknown one of them.
 *  - An actor that reads a delivery of a broker acts for it as for a request. A request for more deliveries has no
 *    cause.
 *  - A message of very few bytes is no request: a loop may wake itself by sending such bytes to its own socket.
 *  - A socket that was shut down for sending receives no request: PHP-FPM reads the rest of one after its answer.
 *  - If another actor has answered the request that this actor had read, then later calls of this actor belong to
 *    another request: the process hands work from actor to actor.
 *
 * attribution.h has the other rules that change the cause of an actor; trust.h decides whether a process follows these
 * rules.
 */
#ifndef WS_FOLLOW_H
#define WS_FOLLOW_H

#include "others.h"

/* Whether reading this socket brings work (a request or a delivery), not an answer. */
static __always_inline bool brings_work(const struct sock_state *s)
{
	return s->request_direction == WS_INGRESS || brings_delivery(s);
}

/*
 * A response is sent. Datagram servers answer in any order, and a shared connection carries answers to many requests.
 */
static __always_inline void follow_answer(struct sock_state *s, struct attribution *a, struct cause *c, bool first,
					  __u32 pid)
{
	if (first && !s->shared && s->tuple.transport != WS_UDP)
		answer_for_another(s, a, c->exchange);
	if (s->shared || s->tuple.transport == WS_UDP) {
		if (a->cause >> WS_NUMBER_BITS == s->cookie)
			c->exchange = a->cause;
	} else if (first && s->exchange && by_rule(a) && !is_by_stream(by_rule(a))) {
		if (by_rule(a) == c->exchange) {
			if (a->overlap || a->framed)
				answer_in_turn(a, pid);
		} else if (goes_on(a)) {
			a->answers = 1; /* another actor has read the request; this one had sent nothing for it */
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
 * Whether another thread has opened this connection, without waiting for the handshake. Then the actor that finds the
 * connection open sends its first request for the opener's cause, whatever that actor did before.
 */
static __always_inline bool is_opened_by_another(const struct sock_state *s, const struct attribution *a, __u32 tid,
						 __u32 pid)
{
	return pid && s->connect_later && s->connect_tid != tid && !a->authoritative &&
	       !is_provisional(s->connect_cause) && (s->connect_cause || s->connect_untrusted);
}

/*
 * The cause of the opener; 0 if it is not known which cause the first request has. The sender may have read a request
 * of its own for which it has not acted yet. Then the first request may be for that one, on a connection that was open
 * before.
 */
static __always_inline __u64 opened_for(const struct sock_state *s, const struct attribution *a)
{
	bool undone = !a->acted && (a->cause || a->evidence == WS_EV_INFERRED);

	return undone && a->cause != s->connect_cause ? 0 : s->connect_cause;
}

/*
 * A child that had sent nothing was given a value by an actor of another request: a job, or what it needs for its own
 * work, as a free connection of database/sql. Its first request tells. One who works for others opens its connections,
 * or has them from the start; a connection that was used before comes from a pool.
 */
static __always_inline void own_again(const struct sock_state *s, struct attribution *a)
{
	__u64 made_for = a->made_for;

	if (!a->in_wait)
		return;
	a->in_wait = 0;
	if (s->exchange <= 1 || a->used)
		return;
	take(a, made_for, WS_EV_COROUTINE);
	a->state = ACTS_LENT;
}

/* A request is sent. Its cause is kept until its response. */
static __always_inline void follow_request(struct sock_state *s, struct attribution *a, __u32 tid, __u32 pid)
{
	bool untrusted;
	__u64 rule;

	own_again(s, a);
	/* While it handles a request, an actor asks for the answer to what it has put into a queue itself. */
	if (s->takes && s->asking && a->state == ACTS_OWN && a->cause && !a->delivery)
		s->asking = 0;
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
	if (asks_for_deliveries(s)) {
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
	if ((s->shared || s->pipelined) && s->cause && s->cause != a->cause)
		s->mixed = 1;
	s->cause = untrusted ? 0 : a->cause;
	s->for_delivery = a->delivery;
	s->guessed = untrusted && !rule && a->state == ACTS_OWN;
	s->untrusted_cause = s->guessed ? a->guess : untrusted ? rule : 0;
	s->evidence = untrusted ? WS_EV_INFERRED : a->evidence;
	if (is_job(a) && a->cause)
		return; /* the runtime names the job, so the cause of the connect does not matter */
	if (s->exchange == 1 && s->connect_tid == tid && s->connect_untrusted) {
		s->cause = s->untrusted_cause = 0;
		s->evidence = WS_EV_INFERRED;
	} else if (s->exchange == 1 && s->connect_tid == tid && s->connect_cause && s->connect_cause != s->cause &&
		   !is_provisional(s->connect_cause)) { /* a provisional cause is no better than that of now */
		s->cause = s->connect_cause;
		s->evidence = WS_EV_CONNECT;
	}
}

/* A delivery is read. This ends the work on the last delivery of the same connection. */
static __always_inline void follow_delivery(struct sock_state *s, struct attribution *a, __u8 how)
{
	if (a->state == ACTS_OWN && a->cause >> WS_NUMBER_BITS == s->cookie)
		a->state = ACTS_ANSWERED;
	take(a, exchange_id(s), how);
	a->delivery = 1;
}

/* Facts about a message that are known before its cause is. */
enum message_bits {
	MESSAGE_SENT = 1,
	MESSAGE_FIRST = 2,	/* the first message of a run */
	MESSAGE_LOOP = 4,	/* an event loop sends or reads it */
	MESSAGE_SHORT = 8,	/* it has fewer bytes than any request */
	MESSAGE_BY_OPENER = 16, /* its actor is the one that opened the connection, on whichever thread */
	/* The kind of a send. If no bit is set, it is the first call of a request, but not of the first request. */
	MESSAGE_ANSWERS = 32,	/* an answer */
	MESSAGE_GOES_ON = 64,	/* more of the last send */
	MESSAGE_BEGINS = 128,	/* the first request */
	MESSAGE_CONNECTS = 256, /* no message: the connection is being opened */
	MESSAGE_REST = 512,	/* the socket can send no answer any more, so what it receives is no request */
	MESSAGE_JOBS = 1024,	/* the runtime names each job of its threads */
};

#define MESSAGE_NEXT (MESSAGE_ANSWERS | MESSAGE_GOES_ON | MESSAGE_BEGINS | MESSAGE_CONNECTS)

/*
 * The kind of the next send on this socket; called before the socket's state is changed. There are no branches, as each
 * would double the paths that the verifier follows. A direction is 0, 1 or WS_NO_DIRECTION, which has all bits set.
 */
static __always_inline __u32 next_send(const struct sock_state *s)
{
	__u32 answers = ~s->request_direction & 1, goes_on = s->run & ~(s->run >> 1) & ~s->shared & 1;
	__u32 begun = (s->exchange | -s->exchange) >> 31;

	return answers * MESSAGE_ANSWERS | goes_on * MESSAGE_GOES_ON | (begun ^ 1) * MESSAGE_BEGINS;
}

#define SHORTEST_REQUEST 4

/*
 * Decides the cause `c` of a message. `actor` is actor_id() in the upper half, and thread_group() in the lower half. A
 * global function, so that the verifier does not follow each of its exits through its caller.
 */
__noinline int follow_cause(struct sock_state *s, struct attribution *a, struct cause *c, __u64 actor, __u32 bits)
{
	__u8 direction = bits & MESSAGE_SENT ? WS_EGRESS : WS_INGRESS,
	     how = bits & MESSAGE_LOOP ? WS_EV_EVENT_LOOP : WS_EV_THREAD;
	__u32 tid = actor >> 32, pid = actor;
	bool first = bits & MESSAGE_FIRST;

	if (!s || !a || !c)
		return 0;
	c->exchange = exchange_id(s);
	c->id = c->evidence = 0;
	a->writes |= direction == WS_EGRESS;
	a->reads_answers = !a->writes && s->request_direction == WS_EGRESS && !s->delivers;
	if (s->request_direction == WS_INGRESS) { /* this process serves on the socket */
		if (direction == WS_EGRESS) {
			follow_answer(s, a, c, first, pid);
			return 0;
		}
		if (bits & MESSAGE_REST || (bits & MESSAGE_SHORT && s->exchange <= 1))
			return 0;
		/* A client that sends the next request has got its answer, maybe from another actor. */
		if (!s->shared && a->cause >> WS_NUMBER_BITS == s->cookie && a->state == ACTS_OWN)
			a->state = ACTS_ANSWERED;
		end_aftermath(a);
		a->polls |= a->state == ACTS_OWN && a->cause && !a->writes && socket_of(a->cause) != s->cookie;
		take(a, c->exchange, how);
		return 0;
	}
	if (direction == WS_EGRESS) {
		/*
		 * Actors that are no threads, or whose runtime names their job, share the connection, or nothing is
		 * answered there: no answer separates two requests. A change of the cause shows the new request.
		 */
		if (first || s->shared ||
		    ((!pid || s->one_way || s->pipelined || (bits & MESSAGE_JOBS && is_job(a))) &&
		     a->cause != s->cause))
			follow_request(s, a, tid, pid);
		if (first && !s->shared) /* what was sent before was answered */
			s->mixed = 0;
	} else if (brings_delivery(s)) {
		follow_delivery(s, a, how);
		return 0;
	} else if (s->shared && s->mixed) {
		/*
		 * The answer belongs to one of several requests. An actor that had a cause now acts for an unknown one;
		 * an actor that reads for all others, and hands on what it reads, has none.
		 */
		if (a->state <= ACTS_ANSWERED && a->cause)
			take(a, 0, WS_EV_INFERRED);
	} else if (s->pipelined && s->mixed && pid) {
		/* The same, of a connection whose answers come in order. */
		if (a->state <= ACTS_ANSWERED)
			take_guess(a, s->cause);
	} else if (!s->cause && (s->evidence == WS_EV_INFERRED || how == WS_EV_EVENT_LOOP)) {
		/*
		 * The cause of the request is not known. The actor acts for that unknown cause from now on, no longer
		 * for the request that it read before.
		 */
		if (a->state <= ACTS_ANSWERED || s->untrusted_cause) {
			take_guess(a, s->guessed ? s->untrusted_cause : 0);
			a->untrusted_cause = s->guessed ? 0 : s->untrusted_cause;
		}
	} else if (s->cause && s->cause != a->cause) {
		take(a, s->cause, s->evidence);
		a->delivery = s->for_delivery;
		a->authoritative = s->evidence == WS_EV_BROKER; /* a job from a pipe: no other work is found */
		if (is_provisional(s->cause) && !a->authoritative)
			a->state = ACTS_LENT;
	} else {
		a->acted = 0;
	}
	c->id = s->cause;
	c->evidence = s->cause || s->evidence == WS_EV_INFERRED ? s->evidence : WS_EV_NONE;
	return 0;
}

#endif
