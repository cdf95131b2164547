/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Go's HTTP libraries, where they pass a request between goroutines in a way that the runtime's probes do not show:
 *  - HTTP/2 reads for all streams in one goroutine. The handler of each stream runs in a goroutine of its own, and has
 *    the stream as an argument.
 *  - gRPC's transport starts the handler while it looks at the head of the stream.
 *  - HTTP/1's client hands a request to the goroutine that writes to the connection through a buffered channel, at
 *    which the writer may not wait yet.
 *  - gRPC's client puts requests into a list, from which one goroutine writes them all.
 *
 * Entries are probed, at an instruction that the kernel emulates; src/runtime/go/http.rs has the names. Structures are
 * trusted only where they refer to each other as they should.
 */
#ifndef WS_GO_HTTP_H
#define WS_GO_HTTP_H

/* of http2.serverConn, stream, responseWriterState: the same in x/net 0.26 to 0.61 and Go 1.26 */
#define GO_H2_CONN 16
#define GO_H2_STREAM_ID 8
#define GO_H2_STATE_CONN 16
/* of http2.FrameHeader */
#define GO_FRAME_TYPE 1
#define GO_FRAME_STREAM 8
#define GO_FRAME_HEADERS 1
/* of gRPC's loopyWriter: the same from 1.64 to 1.85; its items for a stream begin with the id of the stream */
#define GO_LOOPY_CONN 80

static __always_inline __u64 go_handled(struct task_struct *task, __u64 conn, __u64 writer)
{
	__u64 state = user_word(writer), stream = user_word(state);

	if (!stream || user_word(stream) != conn || user_word(state + GO_H2_STATE_CONN) != conn)
		return 0;
	return by_stream(go_bottom(task, conn + GO_H2_CONN), user_int(stream + GO_H2_STREAM_ID));
}

/*
 * The stream of a frame of headers, 0 if this is none. (Its first byte says whether its buffer is still that of the
 * frame.)
 */
static __always_inline __u32 go_frame(__u64 meta)
{
	__u64 frame = user_word(meta);
	__u8 begin[2] = {};

	if (!frame || bpf_probe_read_user(begin, sizeof(begin), (void *)frame))
		return 0;
	return begin[0] <= 1 && begin[GO_FRAME_TYPE] == GO_FRAME_HEADERS ? user_int(frame + GO_FRAME_STREAM) : 0;
}

/* The reader of a connection acts for the bytes that it read from it, so that its cause names the socket. */
static __always_inline __u64 go_begun(struct pt_regs *ctx, const struct attribution *reader)
{
	__u32 stream = go_frame(WS_GO_ARG4(ctx));

	if (!stream)
		stream = go_frame(WS_GO_ARG2(ctx));
	return by_stream(socket_of(reader->cause), stream);
}

static __always_inline void go_named(struct attribution *reader, __u64 request)
{
	count(request ? WS_C_STREAMS_NAMED : WS_C_STREAMS_UNKNOWN);
	if (request)
		actor_pass_cause(reader, request, WS_EV_COROUTINE, PASS_OWN);
}

/* A goroutine sends a request on a connection. The object of the request carries its cause. */
static __always_inline void go_asked(struct attribution *asker, const struct carrier_key *object)
{
	struct carried value = {};

	act(asker, USED_SEND);
	value.cause = asker->cause;
	value.evidence = asker->evidence;
	if (asker->cause && (asker->evidence == WS_EV_THREAD || asker->evidence == WS_EV_CHILD))
		value.evidence = WS_EV_COROUTINE;
	actor_carry(object, &value);
}

/* The stream of a request is known, and its head is about to be written, perhaps together with others. */
static __always_inline void go_stream_known(struct task_struct *task, __u64 loopy, struct carrier_key *object)
{
	struct carried *asked = actor_carried(object);
	__u64 name;

	if (!asked)
		return;
	name = by_stream(go_bottom(task, loopy + GO_LOOPY_CONN), user_int(object->object));
	count(name ? WS_C_STREAMS_NAMED : WS_C_STREAMS_UNKNOWN);
	if (name)
		tell_stream(name, asked->cause, asked->evidence);
	actor_drop(object);
}

SEC("uprobe.multi")
int WS_UPROBE(go_http)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct carrier_key conn = { .pid = task->tgid };
	struct carried value = {}, *got;
	struct attribution *running;

	if (!t)
		return 0;
	running = go_running(task, t, WS_GO_G(ctx));
	if (!running)
		return 0;
	conn.object = WS_GO_ARG1(ctx);
	switch (bpf_get_attach_cookie(ctx)) {
	case GO_HANDLER:
		go_named(running, go_handled(task, WS_GO_ARG1(ctx), WS_GO_ARG2(ctx)));
		break;
	case GO_HEADERS:
		go_named(running, go_begun(ctx, running));
		break;
	case GO_DELIVER:
		running->delivers = 1;
		break;
	case GO_ROUND_TRIP:
		go_asked(running, &conn);
		break;
	case GO_RPC:
		/* An item with a condition and without a stream is the head of a request. */
		conn.object = WS_GO_ARG4(ctx);
		if (WS_GO_ARG2(ctx) && conn.object && !user_int(conn.object))
			go_asked(running, &conn);
		break;
	case GO_RPC_STREAM:
		conn.object = WS_GO_ARG3(ctx);
		go_stream_known(task, WS_GO_ARG1(ctx), &conn);
		break;
	case GO_RPC_HEADERS:
		conn.object = WS_GO_ARG2(ctx);
		go_stream_known(task, WS_GO_ARG1(ctx), &conn);
		break;
	case GO_CONN_WRITE:
		got = actor_carried(&conn);
		if (!got)
			break;
		value = *got;
		actor_pass_cause(running, value.cause, value.evidence, PASS_LENT);
		running->in_wait = 0; /* what it was given by its channel is this request, not a connection */
		break;
	}
	return 0;
}

#endif
