/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Which request each connection brought last, and which it has answered, in processes whose event loop is looked into (asyncio.h, tokio.h):
 * there a task may outlive the request for which it was made, or go on with the next one without having been woken for it.
 */
#ifndef WS_SERVED_H
#define WS_SERVED_H

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

/* Tasks that were made for a new connection, by its socket: the first request may be there before they wait for it (asyncio.h). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} first_tasks SEC(".maps");

static __always_inline struct progress *progress_for(__u64 cause)
{
	__u64 socket = socket_of(cause);

	return socket ? bpf_map_lookup_elem(&progress_of, &socket) : NULL;
}

/* Its request has been answered, by whomever. */
static __always_inline bool is_over(const struct attribution *c)
{
	struct progress *v = progress_for(c->cause);

	return c->state == ACTS_ANSWERED || (v && v->answered >= c->cause);
}

/* What is called now may be for the next request of the connection that brought the last, or for that one, which was answered. */
static __always_inline void drop_if_superseded(struct attribution *c)
{
	struct progress *v;

	if (!c->cause || c->state != ACTS_ANSWERED)
		return;
	v = progress_for(c->cause);
	if (v && v->read > c->cause)
		take(c, 0, WS_EV_INFERRED);
}

static __always_inline void give_first(__u64 sk, __u64 request, __u32 pid)
{
	struct actor_key key = { .pid = pid };
	__u64 *id = bpf_map_lookup_elem(&first_tasks, &sk);
	struct attribution *c;

	if (!id)
		return;
	key.id = *id;
	bpf_map_delete_elem(&first_tasks, &sk);
	c = bpf_map_lookup_elem(&actors, &key);
	if (c && !c->cause)
		take(c, request, WS_EV_COROUTINE);
}

#define NOTE_TOKIO 256	     /* with the direction: the actor is a task of tokio */
#define NOTE_TOKIO_WAKES 512 /* …and it is not seen what channels it is sent something by, only who wakes it */

#define TOKIO_SEVERAL (~0ULL) /* of `woken_by` */
#define TOKIO_UNRECEIVED 1 /* `stream` of a carrier: what was sent for a request to channels that had no receiver yet */

/*
 * What a task of tokio sends may be for others than the request for which it was made, if many use the connection, or if others have
 * handed it over to the task: that it was woken for them is not always seen. So it is if the task has asked before on this
 * connection, and slept after it had read; or if somebody else has connected, and nothing was sent to a new task for the request.
 * Who was sent something asks once for it: more may have been sent while it did not sleep.
 *
 * Where no channel is seen, who goes on on a connection of its own works for who woke it, if that was one.
 */
static __always_inline void doubt_tokio(struct sock_state *s, struct attribution *a, __u64 who, bool channels)
{
	struct carrier_key key = { .object = a->cause, .pid = who, .stream = TOKIO_UNRECEIVED };
	bool again, fresh = false, untrusted = s->shared;
	__u32 sender = who >> 32;
	struct carried *sent;
	__u64 woken;

	again = s->sender == sender && a->writes; /* addresses are used again */
	if (again && a->acted && !untrusted)	  /* more of the same request */
		return;
	if (a->cause && a->state == ACTS_LENT) {
		if (a->place) {
			untrusted = untrusted || (again && a->used & USED_SEND);
		} else if (s->exchange > 1) {
			untrusted = untrusted || (again && a->slept);
		} else if (s->connect_tid != sender && !again) {
			fresh = true;
			sent = bpf_map_lookup_elem(&carriers, &key);
			if (sent && sent->cause)
				sent->cause--;
			else
				untrusted = untrusted || channels;
		}
	}
	woken = !s->shared && a->slept && (fresh || (again && (untrusted || !a->cause))) ? a->woken_by : 0;
	s->sender = sender;
	if (woken && woken != TOKIO_SEVERAL) {
		take(a, woken, WS_EV_COROUTINE);
		a->state = ACTS_LENT;
	} else if (untrusted) {
		take(a, 0, WS_EV_INFERRED);
	}
}

/* Before a message that is read or sent in such a process; `who` as for follow_cause(). Verified on its own. */
__noinline int note_progress(struct sock_state *s, struct attribution *a, __u32 bits, __u64 sk, __u64 who)
{
	struct progress *v, fresh = {};
	__u8 direction = bits;
	__u64 socket;

	if (!s || !a)
		return 0;
	socket = s->cookie; /* before Linux 6.2 no key is read where an argument points */
	if (s->request_direction == WS_INGRESS) {
		if (direction == WS_INGRESS && s->exchange <= 1)
			give_first(sk, exchange_id(s), who);
		v = bpf_map_lookup_elem(&progress_of, &socket);
		if (!v) {
			fresh.read = exchange_id(s);
			fresh.answered = direction == WS_INGRESS ? 0 : fresh.read;
			remember(&progress_of, &socket, &fresh);
		} else if (direction == WS_INGRESS) {
			v->read = exchange_id(s);
		} else {
			v->answered = exchange_id(s);
		}
		return 0;
	}
	if (direction == WS_EGRESS && bits & NOTE_TOKIO)
		doubt_tokio(s, a, who, !(bits & NOTE_TOKIO_WAKES));
	else if (direction == WS_EGRESS)
		drop_if_superseded(a);
	return 0;
}

#endif
