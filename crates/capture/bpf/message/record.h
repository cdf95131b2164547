/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Makes the record of a call: its facts, its cause, and as many of its bytes as are wanted. */
#ifndef WS_RECORD_H
#define WS_RECORD_H

/*
 * Whether all bytes of the connection are copied, because user space has given no verdict yet. The limit counts bytes
 * of records, not calls: a peer that reads byte by byte makes a hundred calls before user space on a busy machine can
 * answer. After a verdict, only the first few calls count as young, so that the first TLS records are copied whole.
 */
static __always_inline bool is_young(const struct sock_state *s)
{
	return s->verdict ? s->calls <= WS_YOUNG_CIPHERTEXT_CALLS : s->shown < young_bytes;
}

/*
 * A run may begin with a call that is too short to tell the protocol: Go's net/http waits with a read of one byte while
 * a handler runs, and gets the first byte of the next request. The call that follows is then copied like a first one.
 */
#define SHORT_CALL 16

static __always_inline bool begins(struct sock_state *s, bool first, __s64 ret)
{
	bool begins = first || s->begun_short;

	s->begun_short = begins && ret < SHORT_CALL;
	return begins;
}

static __always_inline bool is_stream(const struct sock_state *s)
{
	return s->tuple.transport == WS_TCP || s->tuple.transport == WS_UNIX_STREAM;
}

/*
 * Whether a datagram with these first bytes has a long header of QUIC (RFC 8999), as those of handshakes. The second
 * highest bit is set, except where a server refuses a version (0), or both ends agreed not to rely on it (RFC 9287).
 */
static __always_inline bool has_long_header(__u64 bytes)
{
	__u32 version = bpf_ntohl(bytes >> 8);

	return bytes & 0x80 && (bytes & 0x40 || !version || version == 1 || version == 0x6b3343cf);
}

/* Whether the first bytes of this call were found in the memory of its process, and have no such header. */
static __always_inline bool is_short_header(const struct location *where)
{
	__u64 at = where->vector ? user_word(where->vector) : where->buffer.base;

	return !has_long_header(user_word(at));
}

/*
 * Makes the record of a call in the scratch of this processor. Returns 0 if there is one. A global function, so that
 * the verifier does not go through it once for each way in which a cause is found.
 */
__noinline int make_record(struct sock_state *s, struct task_state *t, const struct cause *c,
			   const struct location *where, struct call *call)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id(), want = 0, copied = 0;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);
	bool asks;

	if (!r || !s || !t || !c || !where || !call)
		return 1;
	asks = call->direction == s->request_direction;
	if (call->ret > 0)
		want = wanted(s->copy, s->bytes, is_young(s), begins(s, call->first, call->ret), asks, s->run_shown);
	if (!want && s->tls && call->ret > 0)
		want = WS_CIPHERTEXT_BYTES;
	if (want && s->copy == WS_COPY_LONG_HEADERS && !call->uring && is_short_header(where)) {
		want = 0;
		count(WS_C_SHORT_HEADERS);
	}
	if (want && (where->segments || call->uring)) {
		copied = call->uring ? take_held(task, r->payload, call->ret, want)
				     : copy_payload(r, where, call->ret, want);
		if (!copied) {
			call->flags |= WS_F_UNREADABLE;
			count(WS_C_UNREADABLE_PAYLOADS);
		}
	}
	if (copied && call->uring && s->copy == WS_COPY_LONG_HEADERS && !has_long_header(*(__u64 *)r->payload)) {
		copied = 0;
		count(WS_C_SHORT_HEADERS);
	}
	if (s->copy == WS_COPY_DEFAULT && s->shown < young_bytes)
		s->shown += sizeof(r->data) + copied;
	call->parts = copied == WS_MAX_PAYLOAD && call->ret > WS_MAX_PAYLOAD && is_stream(s) && s->copy != WS_COPY_PAIR;
	s->run_shown = call->first ? copied : s->run_shown + copied;
	r->data.kind = WS_DATA;
	r->data.direction = call->direction;
	r->data.abi = where->abi;
	r->data.evidence = c->evidence;
	r->data.flags = call->flags | (call->first ? WS_F_FIRST : 0);
	r->data.payload_len = copied;
	r->data.error = call->ret < 0 ? -call->ret : 0;
	r->data.seq = call->seq;
	r->data.socket = s->cookie;
	r->data.exit_ns = bpf_ktime_get_ns();
	if (call->ret > 0)
		note_answer(t, s, call->direction, r->data.exit_ns);
	if (sdk_publishes(t))
		sdk_tell(t, s->request_direction == WS_INGRESS ? c->exchange : c->id);
	r->data.enter_ns = call->enter_ns ? call->enter_ns : r->data.exit_ns;
	r->data.len = call->parts ? WS_MAX_PAYLOAD : call->ret > 0 ? call->ret : 0;
	r->data.srtt_us = s->srtt_us;
	r->data.exchange = c->exchange;
	r->data.cause = c->id;
	r->data.tuple = s->tuple;
	if (s->tuple.transport == WS_UDP && !s->tuple.remote_port)
		datagram_peer(&r->data.tuple, t, call->direction, where->name);
	r->data.actor = s->actor;
	if (s->actor.tid != task->pid) {
		r->data.actor.pid = task->tgid;
		r->data.actor.tid = task->pid;
		__builtin_memcpy(r->data.actor.comm, task->comm, WS_COMM_LEN);
	}
	r->data.actor.coroutine = runtime_actor(task, t);
	read_clocks(task, &r->data.clocks, r->data.exit_ns);
	return 0;
}

#endif
