/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * "For which request does this thread act now?" One answer per task, by these rules (causality ladder, rungs 3 and 5):
 *  - reading a request makes the thread act for it;
 *  - sending a request on another socket happens for what the thread acts for; the first request on a socket that the
 *    same thread connected happens for what it acted for when it connected (an event loop may have moved on);
 *  - reading the response makes the thread act again for what the request was sent for;
 *  - what io_uring received may have been received together with other requests: that is an event loop, not a thread;
 *  - a new task acts for what its creator acted for.
 */
#ifndef WS_CAUSE_H
#define WS_CAUSE_H

struct cause {
	__u64 exchange;
	__u64 id;
	__u8 evidence;
};

static __always_inline struct cause follow_cause(struct sock_state *s, struct task_state *t, __u8 direction,
						 bool first, __u32 tid, __u8 how)
{
	struct cause c = { .exchange = exchange_id(s) };

	if (s->request_direction == WS_INGRESS) { /* we serve on this socket */
		if (direction == WS_INGRESS) {
			t->cause = c.exchange;
			t->evidence = how;
		} else if (t->cause >> 24 == s->cookie) {
			c.exchange = t->cause; /* datagram servers answer in any order */
		}
		return c;
	}
	if (direction == WS_EGRESS) {
		if (first) {
			s->cause = t->cause;
			s->evidence = t->evidence;
			if (s->exchange == 1 && s->connect_tid == tid && s->connect_cause &&
			    s->connect_cause != t->cause) {
				s->cause = s->connect_cause;
				s->evidence = WS_EV_CONNECT;
			}
		}
	} else if (s->cause) {
		t->cause = s->cause;
		t->evidence = s->evidence;
	}
	c.id = s->cause;
	c.evidence = s->cause ? s->evidence : WS_EV_NONE;
	return c;
}

#endif
