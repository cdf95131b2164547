/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Which request each connection brought last, and which it has answered, in processes whose event loop is looked into (asyncio.h):
 * there a task may outlive the request for which it was made, or go on with the next one without having been woken for it.
 */
#ifndef WS_SERVED_H
#define WS_SERVED_H

struct served {
	__u64 read;
	__u64 answered;
};

/* By the socket's cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct served);
} served_by SEC(".maps");

/* Tasks that were made for a new connection, by its socket: the first request may be there before they wait for it (asyncio.h). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} first_tasks SEC(".maps");

static __always_inline struct served *served_for(__u64 cause)
{
	__u64 socket = socket_of(cause);

	return socket ? bpf_map_lookup_elem(&served_by, &socket) : NULL;
}

/* Its request has been answered, by whomever. */
static __always_inline bool is_over(const struct context *c)
{
	struct served *v = served_for(c->cause);

	return c->state == ACTS_ANSWERED || (v && v->answered >= c->cause);
}

/* What is called now may be for the next request of the connection that brought the last, or for that one, which was answered. */
static __always_inline void doubt_next(struct context *c)
{
	struct served *v;

	if (!c->cause || c->state != ACTS_ANSWERED)
		return;
	v = served_for(c->cause);
	if (v && v->read > c->cause)
		take(c, 0, WS_EV_INFERRED);
}

static __always_inline void give_first(__u64 sk, __u64 request, __u32 pid)
{
	struct goroutine_key key = { .pid = pid };
	__u64 *id = bpf_map_lookup_elem(&first_tasks, &sk);
	struct context *c;

	if (!id)
		return;
	key.id = *id;
	bpf_map_delete_elem(&first_tasks, &sk);
	c = bpf_map_lookup_elem(&goroutines, &key);
	if (c && !c->cause)
		take(c, request, WS_EV_COROUTINE);
}

/* Before a message that is read or sent in such a process. Verified on its own. */
__noinline int note_served(struct sock_state *s, struct context *a, __u32 direction, __u64 sk, __u32 pid)
{
	struct served *v, fresh = {};

	if (!s || !a)
		return 0;
	if (s->request_direction == WS_INGRESS) {
		if (direction == WS_INGRESS && s->exchange <= 1)
			give_first(sk, exchange_id(s), pid);
		v = bpf_map_lookup_elem(&served_by, &s->cookie);
		if (!v) {
			fresh.read = exchange_id(s);
			fresh.answered = direction == WS_INGRESS ? 0 : fresh.read;
			bpf_map_update_elem(&served_by, &s->cookie, &fresh, BPF_ANY);
		} else if (direction == WS_INGRESS) {
			v->read = exchange_id(s);
		} else {
			v->answered = exchange_id(s);
		}
		return 0;
	}
	if (direction == WS_EGRESS)
		doubt_next(a);
	return 0;
}

#endif
