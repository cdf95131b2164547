/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The last request that each connection brought, and the last one that was answered on it, in processes whose event
 * loop is followed. There, a task may outlive the request for which it was made, or go on with the next request without
 * being woken for it.
 */
#ifndef WS_EXCHANGES_H
#define WS_EXCHANGES_H

struct progress {
	__u64 read;
	__u64 answered;
};

/* The progress of each connection, by the cookie of its socket. */
WS_TABLE(progress_of, __u64, struct progress);

static __always_inline struct progress *progress_for(__u64 cause)
{
	__u64 socket = socket_of(cause);

	return socket ? table_find(&progress_of, &socket) : NULL;
}

/* Whether the request of this actor has been answered, by any actor. */
static __always_inline bool is_over(const struct attribution *c)
{
	struct progress *p = progress_for(c->cause);

	return c->state == ACTS_ANSWERED || (p && p->answered >= c->cause);
}

/*
 * An actor that has answered its request makes a further call. If its connection has brought another request meanwhile,
 * the call may be for either request, so its cause is not known. The same holds if another actor has answered. An actor
 * that was made for one request never serves another.
 */
static __always_inline void drop_if_superseded(struct attribution *c)
{
	struct progress *p;

	if (!c->cause || c->state > ACTS_ANSWERED || c->bound)
		return;
	p = progress_for(c->cause);
	if (p && p->read > c->cause && (c->state == ACTS_ANSWERED || p->answered >= c->cause))
		take(c, 0, WS_EV_INFERRED);
}

/* Called before a message of a connection on which this process serves. A global function, to be verified once. */
__noinline int note_progress(struct sock_state *s, __u32 direction)
{
	struct progress *p, fresh = {};
	__u64 socket;

	if (!s)
		return 0;
	socket = s->cookie; /* before Linux 6.2, a map key cannot be in memory that an argument points to */
	p = table_find(&progress_of, &socket);
	if (!p) {
		fresh.read = exchange_id(s);
		fresh.answered = direction == WS_INGRESS ? 0 : fresh.read;
		table_remember(&progress_of, &socket, &fresh);
	} else if (direction == WS_INGRESS) {
		p->read = exchange_id(s);
	} else {
		p->answered = exchange_id(s);
	}
	return 0;
}

#endif
