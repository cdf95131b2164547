/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Node's HTTP/2: one read brings frames of many streams, and one write takes requests of many. Which stream a frame is of is
 * told where the library calls back, one frame after the other, and promises go on before that call returns. So the frame
 * that was delivered last is to streams what the socket that was read last is to an event loop. A request is given its stream
 * while it is made, and written later with others: for whom it was made is told by its stream.
 *
 * Names are those of node::http2, which node exports; src/tls/node.rs.
 */
#ifndef WS_NODE_HTTP2_H
#define WS_NODE_HTTP2_H

enum node_point {
	NODE_READ = 1,	 /* Http2Session::OnStreamRead(this, length, …): of the socket that was read last */
	NODE_STREAM = 2, /* Http2Stream::Http2Stream(this, session, object, id, category, …) */
	NODE_FRAME = 3,	 /* OnFrameReceive(handle, frame, session) */
	NODE_DATA = 4,	 /* OnDataChunkReceived(handle, flags, id, data, length, session) */
	NODE_CLOSE = 5,	 /* OnStreamClose(handle, id, code, session) */
	NODE_WRITTEN = 6, /* Http2Session::OnStreamAfterWrite(this, …): goes on with what came while it wrote */
};

/*
 * What is delivered at the end of a write, as TLS makes it, is delivered inside of another callback: promises go on when all of
 * it has been. One stream alone is still known; of several, the order of their turns is all that tells.
 */
enum node_deferred { NODE_AT_ONCE = 0, NODE_AFTER_WRITE = 1, NODE_DEFERRED = 2 };

/* enum nghttp2_headers_category */
#define H2_OF_REQUEST 0
#define H2_OF_HEADERS 3
#define H2_FRAME_STREAM 8 /* of nghttp2_frame_hd */

static __always_inline void node_stream(struct task_struct *task, struct task_state *t, struct carrier_key *key, __u32 stream,
					__u32 category)
{
	struct carried *session = bpf_map_lookup_elem(&carriers, key), given = {};
	__u64 cookie = session ? session->cause : 0, name = by_stream(cookie, stream);
	bool doubtful;

	key->stream = stream;
	if (category == H2_OF_REQUEST) {
		count(name ? WS_C_STREAMS : WS_C_STREAMS_UNKNOWN);
		given.cause = name;
		given.evidence = name ? WS_EV_EVENT_LOOP : WS_EV_INFERRED;
		bpf_map_update_elem(&carriers, key, &given, BPF_ANY);
		return;
	}
	if (category != H2_OF_HEADERS)
		return;
	doubtful = is_doubtful(&t->acts, task->tgid);
	act(&t->acts, USED_SEND);
	t->acts.acted = 1;
	/* Requests wait for their connection: before anything was read from it, others may have made this one. */
	if (!name) {
		given.evidence = WS_EV_INFERRED;
	} else {
		given.cause = t->acts.cause;
		given.evidence = t->acts.evidence;
	}
	/* Also when it is in doubt: what comes of it says whether the doubt was right. */
	bpf_map_update_elem(&carriers, key, &given, BPF_ANY);
	count(name ? WS_C_STREAMS : WS_C_STREAMS_UNKNOWN);
	if (name)
		tell_alias_by(name, doubtful ? 0 : given.cause, WS_ALIAS_STREAM, doubtful ? WS_EV_INFERRED : given.evidence);
}

/* Something of this stream is given to the program, which acts for it from now on. */
static __always_inline void node_given(struct task_state *t, const struct carrier_key *key)
{
	struct carried *of = bpf_map_lookup_elem(&carriers, key), given = { .evidence = WS_EV_INFERRED };

	if (of)
		given = *of;
	if (t->deferred == NODE_AFTER_WRITE) {
		take(&t->acts, 0, WS_EV_NONE);
		t->deferred = NODE_DEFERRED;
	}
	if (t->deferred && t->acts.cause == given.cause && t->acts.evidence == given.evidence)
		return;
	take(&t->acts, given.cause, given.evidence);
	t->acts.framed = given.cause && !t->deferred;
}

SEC("uprobe.multi")
int node_http2(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct carrier_key key = {};
	struct carried read = {};

	if (!t)
		return 0;
	key.pid = task->tgid;
	switch (bpf_get_attach_cookie(ctx)) {
	case NODE_READ:
		key.object = WS_FN_ARG1(ctx);
		read.cause = t->received_from;
		if (read.cause && (__s64)WS_FN_ARG2(ctx) > 0)
			bpf_map_update_elem(&carriers, &key, &read, BPF_ANY);
		if (!t->frames)
			forget_doubt(task->tgid);
		t->frames = 1;
		t->deferred = NODE_AT_ONCE;
		break;
	case NODE_WRITTEN:
		t->deferred = NODE_AFTER_WRITE;
		break;
	case NODE_STREAM:
		key.object = WS_FN_ARG2(ctx);
		node_stream(task, t, &key, WS_FN_ARG4(ctx), WS_FN_ARG5(ctx));
		break;
	case NODE_FRAME:
		key.object = WS_FN_ARG3(ctx);
		bpf_probe_read_user(&key.stream, sizeof(key.stream), (void *)(WS_FN_ARG2(ctx) + H2_FRAME_STREAM));
		if (key.stream)
			node_given(t, &key);
		break;
	case NODE_DATA:
		key.object = WS_FN_ARG6(ctx);
		key.stream = WS_FN_ARG3(ctx);
		node_given(t, &key);
		break;
	case NODE_CLOSE:
		key.object = WS_FN_ARG4(ctx);
		key.stream = WS_FN_ARG2(ctx);
		node_given(t, &key);
		bpf_map_delete_elem(&carriers, &key);
		break;
	}
	return 0;
}

#endif
