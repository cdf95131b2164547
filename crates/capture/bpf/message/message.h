/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Makes one record of one call on one socket. Used by all rungs that see messages. */
#ifndef WS_MESSAGE_H
#define WS_MESSAGE_H

static __always_inline bool would_block(__s64 ret)
{
	return ret == -EAGAIN || ret == -EINTR || ret <= -ERESTARTSYS;
}

/*
 * Emits the bytes of a call behind its first WS_MAX_PAYLOAD as further records. The last record stands for all bytes
 * that are left of `total`. `where` is the address of a vector, or of the buffer itself if `segments` is 0. Returns the
 * number of bytes copied.
 */
__noinline __u32 emit_rest(__u64 where, __u32 segments, __u64 total)
{
	__u32 cpu = bpf_get_smp_processor_id(), skip = WS_MAX_PAYLOAD, copied = 0;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (!r)
		return 0;
	for (int i = 1; i < WS_PARTS; i++) {
		__u32 n = WS_MAX_PAYLOAD;
		__u64 left;

		if (skip >= total)
			break;
		left = total - skip;
		if (left < n)
			n = left;
		barrier_var(n);
		if (segments)
			n = copy_vector(where, segments, skip, n);
		else if (n > WS_MAX_PAYLOAD || bpf_probe_read_user(r->payload, n, (void *)(where + skip)))
			n = 0;
		r->data.flags = (r->data.flags & (WS_F_PART - 1) & ~WS_F_FIRST) | i * WS_F_PART;
		r->data.seq += WS_MAX_PAYLOAD;
		r->data.len = i + 1 < WS_PARTS && left > WS_MAX_PAYLOAD ? WS_MAX_PAYLOAD : left;
		r->data.payload_len = n;
		seal_scratch();
		emit_record(r, n, 0);
		copied += n;
		skip += WS_MAX_PAYLOAD;
	}
	return copied;
}

/*
 * Holds the first call of a request, and appends it to the record of the next call on the socket, which saves a record
 * per exchange. Returns false if the caller must emit the call, because it does not fit.
 */
static __always_inline bool pair(struct sock *sk, const struct sock_state *s, struct scratch *r, bool first)
{
	struct held *h = bpf_sk_storage_get(&helds, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u32 payload = r->data.payload_len, length;

	if (!h)
		return false;
	if (h->data.kind) {
		length = h->data.payload_len;
		if (length > WS_HELD_PAYLOAD || payload > WS_MAX_PAYLOAD)
			return false;
		bpf_probe_read_kernel(r->payload + payload, sizeof(h->data) + length, h);
		h->data.kind = 0;
		emit_record(r, payload, sizeof(h->data) + length);
		count(WS_C_PAIRED);
		return true;
	}
	if (first && r->data.direction == s->request_direction && payload <= WS_HELD_PAYLOAD) {
		sign_scratch();
		h->data = r->data;
		bpf_probe_read_kernel(h->payload, payload, r->payload);
		return true;
	}
	return false;
}

/* The connection ends. Emits a request that was held for its response. */
static __always_inline void release_held(struct sock *sk)
{
	struct held *h = bpf_sk_storage_get(&helds, sk, 0, 0);
	__u32 length;

	if (!h || !h->data.kind)
		return;
	length = h->data.payload_len;
	if (length > WS_HELD_PAYLOAD)
		return;
	if (bpf_ringbuf_output(&events, h, sizeof(h->data) + length, BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
	h->data.kind = 0;
}

/*
 * Decides the cause of a message, and updates the attribution of its actor. `at` is the address of its first bytes,
 * `bits` are of enum message_bits. Global, so that the verifier does not follow each exit through the caller.
 */
__noinline int follow_message(struct sock_state *s, struct cause *c, __u64 at, __u32 bits)
{
	struct task_struct *task = bpf_get_current_task_btf();
	/* Before Linux 6.2 no key is read where an argument points, so the state is looked up. */
	struct task_state *t = bpf_task_storage_get(&tasks, task, 0, 0);
	__u8 direction = bits & MESSAGE_SENT ? WS_EGRESS : WS_INGRESS;
	struct runtime_states runtimes;
	struct attribution *a;
	__u32 id;

	if (!s || !c || !t)
		return 0;
	a = acting_with(task, t, &runtimes);
	if (s->takes && (bits & (MESSAGE_SENT | MESSAGE_FIRST)) == (MESSAGE_SENT | MESSAGE_FIRST))
		s->asking = !!redis_asks(at);
	runtime_before_message(task, t, s, a, bits, at);
	id = bits & MESSAGE_BY_OPENER ? s->connect_tid : actor_id(task, t);
	follow_cause(s, a, c, (__u64)id << 32 | thread_group(task, t),
		     bits | (uses_tls(t) && tls_begins_run(task, t, s, direction) ? MESSAGE_FIRST : 0) |
			     (runtime_names_jobs(t) ? MESSAGE_JOBS : 0) |
			     (t->loop && !t->runs && !t->actor ? MESSAGE_LOOP : 0));
	runtime_after_message(task, t, s, a, c, bits, &runtimes);
	if (s->delivers && bits & MESSAGE_FIRST)
		note_taker();
	if (requests_share(s, t))
		note_sharer(t);
	if (direction == WS_INGRESS)
		t->received_from = s->cookie;
	return 0;
}

#define O_NONBLOCK 04000

/*
 * Notes whether the thread reads requests from a blocking socket. An event loop never does. If such a thread waits for
 * events before it has answered, the wait is part of a library call within the request.
 */
static __always_inline void note_blocks(struct sock *sk, const struct sock_state *s, struct task_state *t,
					__u8 direction)
{
	if (sk && direction == WS_INGRESS && s->request_direction == WS_INGRESS)
		t->blocks = !(sk->sk_socket->file->f_flags & O_NONBLOCK);
}

/* MESSAGE_REST if this socket, on which requests come, was shut down for sending. */
static __always_inline __u32 rest_of_request(struct sock *sk, const struct sock_state *s, __u8 direction)
{
	if (!sk || direction != WS_INGRESS || s->request_direction != WS_INGRESS)
		return 0;
	return sk->sk_shutdown & SEND_SHUTDOWN ? MESSAGE_REST : 0;
}

/*
 * Makes the record of a call. `sk` is NULL on the rung that has no pointer trusted by the verifier; then calls are not
 * paired. `seq` is the sequence number of the first byte if `flags` has WS_F_HAS_SEQ. `enter_ns` is 0 if it was not
 * measured. Runs in process context with preemption off, see hold_processor().
 */
static __always_inline void message(struct sock *sk, struct sock_state *s, struct task_struct *task,
				    struct task_state *t, __u8 direction, __s64 ret, __u32 seq, __u16 flags,
				    __u64 enter_ns)
{
	struct message *m = &t->message;
	__u32 cpu = bpf_get_smp_processor_id(), copied;
	struct scratch *r;
	bool paired;

	if (!s)
		return;
	*m = (struct message){ .call = { .ret = ret, .enter_ns = enter_ns, .seq = seq, .direction = direction } };
	m->call.uring = sk && uses_io_uring(task) && !called_directly(task, sk);
	if (m->call.uring)
		m->where.abi = WS_ABI_IO_URING;
	else
		locate(&m->where, t, ret);
	if (ret <= 0) {
		if (would_block(ret)) {
			count(WS_C_WOULD_BLOCK);
			runtime_finish_message(t, true);
		}
		if (ret == 0 || would_block(ret))
			return;
	}
	paired = s->copy == WS_COPY_PAIR;
	take_verdict(s);
	if (sk && paired && s->copy != WS_COPY_PAIR)
		release_held(sk);
	m->cause = (struct cause){ .exchange = exchange_id(s), .id = s->cause, .evidence = s->evidence };
	if (ret > 0) {
		__u32 bits = direction == WS_EGRESS ? MESSAGE_SENT | next_send(s) : 0;

		m->call.first = turn(s, direction); /* before the actor is found: another thread may read the answer */
		bits |= runtime_find_task(task, t, s, bits) | (m->call.first ? MESSAGE_FIRST : 0) |
			(m->call.uring ? MESSAGE_LOOP : 0) | (ret < SHORTEST_REQUEST ? MESSAGE_SHORT : 0) |
			rest_of_request(sk, s, direction);
		note_blocks(sk, s, t, direction);
		*(volatile __u64 *)&t->socket = (__u64)sk; /* a number: global functions take no such pointer */
		follow_message(s, &m->cause,
			       !runtime_reads_bytes(t) && !s->takes ? 0
			       : m->where.vector		    ? user_word(m->where.vector)
								    : m->where.buffer.base,
			       bits);
		runtime_finish_message(t, false);
		if (s->calls < 0xffffffff)
			s->calls++;
	}
	if (waits_on && ret > 0)
		wait_message(s, t, direction, enter_ns);
	if (s->copy == WS_COPY_IGNORE) {
		count(WS_C_IGNORED_CALLS);
		return;
	}
	m->call.flags = flags;
	if (make_record(s, t, &m->cause, &m->where, &m->call))
		return;
	r = bpf_map_lookup_elem(&scratches, &cpu);
	if (!r)
		return;
	seal_scratch();
	if (ret > 0)
		tls_recognise(s, r);
	if (uses_tls(t) && ret > 0)
		tls_note(task, t, s, r);
	if (sk && s->copy == WS_COPY_PAIR && !(flags & WS_F_OVERTAKEN) && pair(sk, s, r, m->call.first))
		return;
	if (s->tls && ret > 0 && m->where.buffer.base && !m->where.vector)
		tls_emit_records(&s->halves[direction & 1], m->where.buffer.base, ret,
				 m->call.parts ? ret : r->data.payload_len);
	else
		emit_record(r, r->data.payload_len, 0);
	if (m->call.parts) {
		copied = emit_rest(m->where.vector ? m->where.vector : m->where.buffer.base,
				   m->where.vector ? m->where.segments : 0, ret);
		s->run_shown += copied;
		s->shown += copied;
	}
	if (t->tls && ret > 0)
		tls_after(task, s, direction);
}

#endif
