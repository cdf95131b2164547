/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What a message says of the request for which it is sent or read (causality ladder, rungs 3 to 5):
 *  - reading a request makes the reader act for it;
 *  - sending a request on another socket happens for what the sender acts for; the first request on a socket that the
 *    same thread connected happens for what it acted for when it connected (an event loop may have moved on);
 *  - reading the response makes the reader act again for what the request was sent for;
 *  - what io_uring received, or a thread that waits for many sockets, may have been received together with other
 *    requests: that is an event loop, not a thread.
 * Who acts, and what else may change it, is the matter of context.h.
 */
#ifndef WS_CAUSE_H
#define WS_CAUSE_H

struct cause {
	__u64 exchange;
	__u64 id;
	__u8 evidence;
};

static __always_inline struct cause follow_cause(struct sock_state *s, struct context *a, __u8 direction,
						 bool first, __u32 tid, __u8 how)
{
	struct cause c = { .exchange = exchange_id(s) };

	if (s->request_direction == WS_INGRESS) { /* we serve on this socket */
		if (direction == WS_INGRESS) {
			take(a, c.exchange, how);
			return c;
		}
		if (a->cause >> 24 == s->cookie)
			c.exchange = a->cause; /* datagram servers answer in any order */
		if (a->cause == c.exchange && a->state == ACTS_OWN)
			a->state = ACTS_ANSWERED;
		return c;
	}
	if (direction == WS_EGRESS) {
		if (first) {
			act(a, USED_SEND);
			s->cause = a->cause;
			s->evidence = a->evidence;
			if (s->exchange == 1 && s->connect_tid == tid && s->connect_cause &&
			    s->connect_cause != a->cause) {
				s->cause = s->connect_cause;
				s->evidence = WS_EV_CONNECT;
			}
		}
	} else if (s->cause && s->cause != a->cause) {
		take(a, s->cause, s->evidence);
	}
	c.id = s->cause;
	c.evidence = s->cause ? s->evidence : WS_EV_NONE;
	return c;
}

#endif
