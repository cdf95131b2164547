/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a message says of the request for which it is sent or read (causality ladder, rungs 3 to 5):
 *  - reading a request makes the reader act for it;
 *  - sending a request on another socket happens for what the sender acts for; the first request on a socket that the
 *    same thread connected happens for what it acted for when it connected (an event loop may have moved on);
 *  - reading the response makes the reader act again for what the request was sent for;
 *  - what io_uring received, or a thread that waits for many sockets, may have been received together with other
 *    requests: that is an event loop, not a thread;
 *  - a connection that carries many requests at a time says of a response only that it is for one of them;
 *  - who reads what a broker brings acts for that, as if it were a request; it asks for more of it for nobody;
 *  - no request is as short as what wakes up a loop that waits for a socket to itself;
 *  - who calls although another has answered what it had read calls for somebody else: its process hands work around.
 * Who acts, and what else may change it, is the matter of attribution.h; whether that holds in this process, of trust.h.
 */
#ifndef WS_CAUSE_H
#define WS_CAUSE_H

struct cause {
	__u64 exchange;
	__u64 id;
	__u8 evidence;
};

/* By socket: the last request that was answered by who had not read it, but acts for somebody else, or was given it to work on. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} answered_by_others SEC(".maps");

__u32 has_others; /* there is one: nobody else has to look */

static __always_inline void answer_for_another(const struct sock_state *s, const struct attribution *a, __u64 exchange)
{
	bool was_given = a->authoritative && a->state == ACTS_LENT;
	__u64 cookie = s->cookie;

	if (!s->exchange || (seems_to_act_for(a, exchange) && !was_given))
		return;
	has_others = 1;
	remember(&answered_by_others, &cookie, &exchange);
}

/* It acts for what it had read, and calls: whether another has answered that. */
static __always_inline bool is_stale(const struct attribution *a)
{
	__u64 cookie = socket_of(a->cause), *answered;

	if (!has_others || a->state != ACTS_OWN || a->evidence != WS_EV_THREAD || !a->cause || is_by_stream(a->cause))
		return false;
	answered = bpf_map_lookup_elem(&answered_by_others, &cookie);
	return answered && *answered >= a->cause;
}

/* A response is sent. Datagram servers answer in any order, and who shares a connection answers for many. */
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
			a->answers = 1; /* what another has read, without having sent anything for it */
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
 * Another thread has begun to open this connection, and has not waited: who finds it up sends the first request on it for who opened
 * it, as if it had read an answer, whatever it has done before.
 */
static __always_inline bool is_opened_by_another(const struct sock_state *s, const struct attribution *a, __u32 tid,
						 __u32 pid)
{
	return pid && s->connect_later && s->connect_tid != tid && !a->authoritative &&
	       !is_provisional(s->connect_cause) && (s->connect_cause || s->connect_untrusted);
}

/* 0: not known. Who has done nothing yet for what it has read may do so now, on a connection that was up before. */
static __always_inline __u64 opened_for(const struct sock_state *s, const struct attribution *a)
{
	bool undone = !a->acted && (a->cause || a->evidence == WS_EV_INFERRED);

	return undone && a->cause != s->connect_cause ? 0 : s->connect_cause;
}

/* A request is sent: for whom is noted for the time of its response. */
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
		return; /* it is known what it does now, whatever it did when it connected */
	if (s->exchange == 1 && s->connect_tid == tid && s->connect_untrusted) {
		s->cause = s->untrusted_cause = 0;
		s->evidence = WS_EV_INFERRED;
	} else if (s->exchange == 1 && s->connect_tid == tid && s->connect_cause && s->connect_cause != s->cause &&
		   !is_provisional(s->connect_cause)) { /* a worker knows no better then than now */
		s->cause = s->connect_cause;
		s->evidence = WS_EV_CONNECT;
	}
}

/* Something to work on is read, which ends the work on what this connection brought before. */
static __always_inline void follow_delivery(struct sock_state *s, struct attribution *a, __u8 how)
{
	if (a->state == ACTS_OWN && a->cause >> 24 == s->cookie)
		a->state = ACTS_ANSWERED;
	take(a, exchange_id(s), how);
}

#define FOLLOW_SENT 1
#define FOLLOW_FIRST 2 /* of a run */
#define FOLLOW_LOOP 4  /* by an event loop */
#define FOLLOW_SHORT 8 /* fewer bytes than any request has */
#define SHORTEST_REQUEST 4

/* `who` is the actor, and its process in the lower half. Verified on its own: its ways out would multiply those of its caller. */
__noinline int follow_cause(struct sock_state *s, struct attribution *a, struct cause *c, __u64 who, __u32 bits)
{
	__u8 direction = bits & FOLLOW_SENT ? WS_EGRESS : WS_INGRESS,
	     how = bits & FOLLOW_LOOP ? WS_EV_EVENT_LOOP : WS_EV_THREAD;
	__u32 tid = who >> 32, pid = who;
	bool first = bits & FOLLOW_FIRST;

	if (!s || !a || !c)
		return 0;
	c->exchange = exchange_id(s);
	c->id = 0;
	c->evidence = 0;
	if (direction == WS_EGRESS)
		a->writes = 1;
	a->reads_answers = !a->writes && s->request_direction == WS_EGRESS && !s->delivers;
	if (s->request_direction == WS_INGRESS) { /* we serve on this socket */
		if (direction == WS_EGRESS) {
			follow_answer(s, a, c, first, pid);
			return 0;
		}
		if (bits & FOLLOW_SHORT && s->exchange <= 1)
			return 0;
		/* Who asks again has been answered, maybe by somebody else. */
		if (!s->shared && a->cause >> 24 == s->cookie && a->state == ACTS_OWN)
			a->state = ACTS_ANSWERED;
		end_aftermath(a);
		take(a, c->exchange, how);
		return 0;
	}
	if (direction == WS_EGRESS) {
		/* A goroutine knows for whom it acts, or for nobody: another one's request needs no answer between them. */
		if (first || s->shared || (!pid && a->cause != s->cause))
			follow_request(s, a, tid, pid);
	} else if (s->delivers && (!s->cause || s->cause >> 24 == s->cookie)) {
		follow_delivery(s, a, how);
		return 0;
	} else if (s->shared && s->mixed) {
		/* Who reads for all and hands on acts for nobody; who acts itself acts for one of them. */
		if (a->state <= ACTS_ANSWERED && a->cause)
			take(a, 0, WS_EV_INFERRED);
	} else if (!s->cause && (s->evidence == WS_EV_INFERRED || how == WS_EV_EVENT_LOOP)) {
		/* A loop acts now for whom this was sent, and no more for what it read before. */
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
