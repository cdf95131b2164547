/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Which request each connection brought last, and which it has answered, in processes whose event loop is followed.
 * There, a task may outlive the request for which it was made, or go on with the next one without being woken for it.
 */
#ifndef WS_EXCHANGES_H
#define WS_EXCHANGES_H

struct progress {
	__u64 read;
	__u64 answered;
};

/* By the socket's cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct progress);
} progress_of SEC(".maps");

static __always_inline struct progress *progress_for(__u64 cause)
{
	__u64 socket = socket_of(cause);

	return socket ? bpf_map_lookup_elem(&progress_of, &socket) : NULL;
}

/* Its request has been answered, by any actor. */
static __always_inline bool is_over(const struct attribution *c)
{
	struct progress *p = progress_for(c->cause);

	return c->state == ACTS_ANSWERED || (p && p->answered >= c->cause);
}

/*
 * An actor that has answered calls on, and its connection has brought a further request: the call may be for either, so
 * that its cause is not known.
 */
static __always_inline void drop_if_superseded(struct attribution *c)
{
	struct progress *p;

	if (!c->cause || c->state != ACTS_ANSWERED)
		return;
	p = progress_for(c->cause);
	if (p && p->read > c->cause)
		take(c, 0, WS_EV_INFERRED);
}

/* Before a message of a connection on which this process serves. Verified on its own. */
__noinline int note_progress(struct sock_state *s, __u32 direction)
{
	struct progress *p, fresh = {};
	__u64 socket;

	if (!s)
		return 0;
	socket = s->cookie; /* before Linux 6.2, a key cannot be read where an argument points */
	p = bpf_map_lookup_elem(&progress_of, &socket);
	if (!p) {
		fresh.read = exchange_id(s);
		fresh.answered = direction == WS_INGRESS ? 0 : fresh.read;
		remember(&progress_of, &socket, &fresh);
	} else if (direction == WS_INGRESS) {
		p->read = exchange_id(s);
	} else {
		p->answered = exchange_id(s);
	}
	return 0;
}

#endif
