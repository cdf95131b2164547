/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Node's HTTP/2. One read brings frames of many streams, and one write sends requests of many streams. The library
 * calls back for each frame, and promises go on before that call returns. So Node acts for the stream of the last
 * frame, as an event loop acts for the last socket that it read. A request gets its stream while it is made, and is
 * written later with others. So the stream carries the cause of the request.
 *
 * The names are those of node::http2, which node exports; src/runtime/node.rs.
 */
#ifndef WS_NODE_HTTP2_H
#define WS_NODE_HTTP2_H

#include "contract.h"

/* enum nghttp2_headers_category */
#define H2_OF_REQUEST 0
#define H2_OF_HEADERS 3
/* nghttp2_frame_hd */
#define H2_FRAME_STREAM 8
#define H2_FRAME_FLAGS 13
#define H2_END_STREAM 1

#define NODE_ITSELF 0xffffffff /* in place of a stream's number: the key is the stream's object */

/*
 * A write has ended. The deliveries of several ends in a row wait for the same callback, until the first turn is taken.
 */
static __always_inline void node_written(struct task_struct *task, struct node_thread *n)
{
	struct node_turns *r;
	__u64 thread = bpf_get_current_pid_tgid();
	__u32 cpu = 0;

	r = table_find(&node_rounds, &thread);
	if (r && (n->turn == NODE_OVER || (n->turn == NODE_AFTER && r->made_count)))
		node_settle(n);
	if (!r) {
		r = bpf_map_lookup_elem(&node_empty, &cpu);
		if (r)
			table_put(&node_rounds, &thread, r, BPF_ANY);
		r = table_find(&node_rounds, &thread);
		if (!r)
			return;
	}
	r->pid = task->tgid;
	if (n->turn == NODE_AT_ONCE)
		r->delivered_count = r->made_count = r->lost = 0;
	n->turn = NODE_INSIDE;
}

/*
 * The callback has delivered. A single delivery is the cause of all that follows. If there were several, the order of
 * turns decides.
 */
static __always_inline void node_written_end(struct task_state *t, struct node_thread *n)
{
	struct node_turns *r = node_round();

	if (n->turn != NODE_INSIDE)
		return;
	n->turn = r && r->delivered_count ? NODE_AFTER : NODE_AT_ONCE;
	if (!n->turn)
		return;
	if (r->delivered_count == 1) {
		actor_pass_cause(&t->acts, r->delivered[0], r->delivered[0] ? WS_EV_EVENT_LOOP : WS_EV_INFERRED,
				 PASS_OWN);
		t->acts.framed = r->delivered[0] != 0;
	} else {
		actor_pass_cause(&t->acts, 0, WS_EV_INFERRED, PASS_OWN);
	}
}

static __always_inline void node_stream(struct task_struct *task, struct task_state *t, struct node_thread *n,
					struct carrier_key *key, __u32 stream, __u32 category, __u64 object)
{
	struct carried *session = actor_carried(key), value = {};
	__u64 cookie = session ? session->cause : 0, name = by_stream(cookie, stream);
	struct node_turns *r;
	bool untrusted;

	key->stream = stream;
	if (category == H2_OF_REQUEST) {
		count(name ? WS_C_STREAMS_NAMED : WS_C_STREAMS_UNKNOWN);
		value.cause = name;
		value.evidence = name ? WS_EV_EVENT_LOOP : WS_EV_INFERRED;
		value.by = CARRIED_BY_REQUEST;
		actor_carry(key, &value);
		key->object = object;
		key->stream = NODE_ITSELF;
		actor_carry(key, &value);
		return;
	}
	if (category != H2_OF_HEADERS)
		return;
	r = name ? node_in_turns(n) : NULL;
	if (r && r->made_count < NODE_MOST) {
		value.cause = WS_PROVISIONAL | __sync_fetch_and_add(&next_provisional, 1);
		value.evidence = WS_EV_EVENT_LOOP;
		actor_carry(key, &value);
		node_makes(r, 0, value.cause, key->object, stream);
		count(WS_C_STREAMS_NAMED);
		tell_stream(name, value.cause, value.evidence);
		return;
	}
	if (r)
		r->lost = 1;
	untrusted = is_untrusted(&t->acts, task->tgid);
	act(&t->acts, USED_SEND);
	t->acts.acted = 1;
	/* Requests wait for their connection. Before its first read, any request may have made this stream. */
	if (!name) {
		forget_trust(task->tgid); /* the request will be written in the turn of another one */
		value.evidence = WS_EV_INFERRED;
	} else {
		value.cause = t->acts.cause;
		value.evidence = t->acts.evidence;
	}
	if (untrusted || !value.cause)
		node_acted(n, value.cause);
	/* The stream carries the cause even if it is not trusted, so that the answer can test it. */
	actor_carry(key, &value);
	count(name ? WS_C_STREAMS_NAMED : WS_C_STREAMS_UNKNOWN);
	if (name)
		tell_stream(name, untrusted ? 0 : value.cause, untrusted ? WS_EV_INFERRED : value.evidence);
}

static __always_inline void node_answer(struct node_thread *n, struct carrier_key *key)
{
	struct node_turns *r = node_in_turns(n);
	struct carried *of;

	key->stream = NODE_ITSELF;
	of = actor_carried(key);
	if (of && of->cause && r)
		node_makes(r, of->cause, 0, 0, 0);
	else if (of && of->cause)
		node_acted(n, of->cause);
}

/* A part of this stream is delivered to the program, which acts for it from now on. `whole`: its end is, too. */
static __always_inline void node_deliver(struct task_state *t, struct node_thread *n, const struct carrier_key *key,
					 bool whole)
{
	struct carried *of = actor_carried(key), value = { .evidence = WS_EV_INFERRED };
	struct node_turns *r;
	__u32 at;

	if (of)
		value = *of;
	actor_pass_cause(&t->acts, value.cause, value.evidence, PASS_OWN);
	t->acts.framed = value.cause != 0;
	if (!whole || n->turn != NODE_INSIDE)
		return;
	r = node_round();
	if (!r)
		return;
	at = r->delivered_count;
	if (at >= NODE_MOST) {
		r->lost = 1;
		return;
	}
	r->delivered[at] = value.cause;
	r->begun &= ~(1ULL << at);
	r->begun |= (__u64)(value.by == CARRIED_BY_REQUEST) << at;
	r->delivered_count = at + 1;
}

SEC("uprobe.multi")
int WS_UPROBE(node_http2)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct node_thread *n;
	struct carrier_key key = {};
	struct carried read = {};
	__u64 point = bpf_get_attach_cookie(ctx);
	__u8 flags = 0;

	if (!t)
		return 0;
	n = bpf_task_storage_get(&node_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!n)
		return 0;
	t->thread_runtimes |= 1U << WS_NODE_EVENT;
	key.pid = task->tgid;
	if (n->turn == NODE_OVER || (n->turn && point == NODE_READ))
		node_settle(n);
	switch (point) {
	case NODE_READ:
		key.object = WS_FN_ARG1(ctx);
		read.cause = t->received_from;
		if (read.cause && (__s64)WS_FN_ARG2(ctx) > 0)
			actor_carry(&key, &read);
		if (!n->frames)
			forget_trust(task->tgid);
		n->frames = 1;
		break;
	case NODE_WRITTEN:
		node_written(task, n);
		break;
	case NODE_WRITTEN_END:
		node_written_end(t, n);
		break;
	case NODE_STREAM:
		key.object = WS_FN_ARG2(ctx);
		node_stream(task, t, n, &key, WS_FN_ARG4(ctx), WS_FN_ARG5(ctx), WS_FN_ARG1(ctx));
		break;
	case NODE_ANSWER:
		key.object = WS_FN_ARG1(ctx);
		node_answer(n, &key);
		break;
	case NODE_FRAME:
		key.object = WS_FN_ARG3(ctx);
		bpf_probe_read_user(&key.stream, sizeof(key.stream), (void *)(WS_FN_ARG2(ctx) + H2_FRAME_STREAM));
		bpf_probe_read_user(&flags, sizeof(flags), (void *)(WS_FN_ARG2(ctx) + H2_FRAME_FLAGS));
		if (key.stream)
			node_deliver(t, n, &key, flags & H2_END_STREAM);
		break;
	case NODE_DATA:
		key.object = WS_FN_ARG6(ctx);
		key.stream = WS_FN_ARG3(ctx);
		node_deliver(t, n, &key, false);
		break;
	case NODE_CLOSE:
		key.object = WS_FN_ARG4(ctx);
		key.stream = WS_FN_ARG2(ctx);
		/*
		 * A write may close a stream, too, in the turn of another request. A stream that closes with an error
		 * was not delivered before.
		 */
		if (n->turn != NODE_AFTER)
			node_deliver(t, n, &key, WS_FN_ARG3(ctx) != 0);
		actor_drop(&key);
		break;
	}
	return 0;
}

#endif
