/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Plaintext of TLS, by uprobes at the entries and exits of a library's functions. User space chooses the instructions
 * (src/uprobe/points.rs) so that arguments or result are in the registers of the calling convention there, and the
 * cookie says which function it is. The probes are in processes of targets only, which is checked again here.
 */
#ifndef WS_TLS_H
#define WS_TLS_H

/* A call begins. Messages that this thread sends and receives from now on belong to the call. */
static __always_inline void tls_begin(struct tls_task *k, const struct tls_key *key, __u8 op)
{
	k->notes[WS_INGRESS].calls = 0;
	k->notes[WS_EGRESS].calls = 0;
	k->first = 0;
	k->written = 0;
	if (op == TLS_WRITE) {
		struct tls_conn *conn = table_find(&tls_conns, key);

		/* Decided at the entry: another thread may read the answer before this call returns. */
		k->first = !conn || conn->run != WS_EGRESS;
		if (conn)
			conn->run = WS_EGRESS;
	}
	k->begins_run = k->first;
}

SEC("uprobe.multi")
int WS_UPROBE(tls_enter)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct tls_key key = {};
	struct tls_task *k;

	if (!t)
		return 0;
	key.ssl = WS_FN_ARG1(ctx);
	key.pid = task->tgid;
	if ((cookie & TLS_COOKIE_OP) == TLS_FREE) {
		table_drop(&tls_conns, &key);
		return 0;
	}
	k = tls_enters(task, t);
	if (!k)
		return 0;
	k->enter_ns = 0;
	k->ssl = key.ssl;
	k->op = cookie & TLS_COOKIE_OP;
	k->buffer = WS_FN_ARG2(ctx);
	k->length = WS_FN_ARG3(ctx);
	k->length_at = cookie & TLS_COOKIE_EX ? WS_FN_ARG4(ctx) : 0;
	tls_begin(k, &key, k->op);
	return 0;
}

static __always_inline struct tls_conn *tls_bound(const struct tls_key *key, const struct tls_note *n)
{
	struct tls_conn *conn = table_find(&tls_conns, key);
	struct tls_conn made = { .run = WS_NO_DIRECTION };

	if (conn) {
		if (conn->note.cookie != n->cookie)
			conn->note = *n;
		return conn;
	}
	made.note = *n;
	table_put(&tls_conns, key, &made, BPF_ANY);
	return table_find(&tls_conns, key);
}

/* Whether this thread has read TLS records since the last TLS call. Such records are fed to a memory BIO. */
static __always_inline bool tls_feeds(const struct tls_note *n)
{
	return n->cookie && n->fresh && n->tls;
}

/*
 * The connection of the call that ends. A message inside the call proves the socket. Without such a message, it is the
 * socket whose records were fed to the memory BIO; else the socket that was found for this connection before. NULL if
 * none is known.
 */
static __always_inline struct tls_conn *tls_bind(struct tls_task *k, const struct tls_key *key, __u8 direction)
{
	const struct tls_note *n = &k->notes[direction & 1];

	if (!n->calls) {
		struct tls_conn *conn = table_find(&tls_conns, key);

		n = &k->notes[WS_INGRESS];
		/* For a read, the records were certainly fed, even if the socket was not recognised as TLS. */
		if (direction == WS_EGRESS ? conn || !tls_feeds(n) : !n->cookie || !n->fresh)
			return conn;
	}
	return tls_bound(key, n);
}

static __always_inline __u32 tls_wanted(const struct tls_conn *conn, bool first)
{
	const struct ws_verdict *v = table_find(&verdicts, &conn->note.cookie);

	if (v && v->flags & WS_V_PLAINTEXT)
		return wanted(v->copy, v->bytes, false, first, false, 0);
	return wanted(WS_COPY_DEFAULT, 0, conn->shown < young_bytes, first, false, 0);
}

struct tls_long {
	struct ws_data data;
	__u8 payload[WS_MAX_RECORD];
};

static __always_inline __u32 tls_unreadable(struct ws_data *d)
{
	d->flags |= WS_F_UNREADABLE;
	count(WS_C_UNREADABLE_PAYLOADS);
	return 0;
}

/*
 * Emits a call if the wanted bytes fit into `payload`. `held`: they are there already.
 * Limits are checked right before their use, behind a barrier: older verifiers would have forgotten an earlier check,
 * or the compiler would have removed it.
 */
static __always_inline bool tls_emit_short(struct tls_task *k, __u32 want, bool held)
{
	__u32 size;

	barrier_var(want);
	if (want > WS_MAX_PLAINTEXT)
		want = WS_MAX_PLAINTEXT;
	if (want && !held && bpf_probe_read_user(k->payload, want, (void *)k->buffer))
		want = tls_unreadable(&k->data);
	k->data.payload_len = want;
	size = sizeof(k->data) + want;
	barrier_var(size); /* without it, the compiler removes the next check */
	if (size > sizeof(k->data) + WS_MAX_PLAINTEXT)
		return false;
	sign_plaintext(k, &k->data, k->payload);
	return !bpf_ringbuf_output(&events, &k->data, size, BPF_RB_NO_WAKEUP);
}

/* Emits a call of which more bytes are wanted. */
static __always_inline bool tls_emit_long(const struct tls_task *k, __u32 want)
{
	struct tls_long *r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);

	if (!r)
		return false;
	r->data = k->data;
	barrier_var(want);
	if (want > WS_MAX_RECORD)
		want = WS_MAX_RECORD;
	if (bpf_probe_read_user(r->payload, want, (void *)k->buffer))
		want = tls_unreadable(&r->data);
	r->data.payload_len = want;
	sign_plaintext(k, &r->data, r->payload);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return true;
}

/* Emits a call. `held`: its bytes are in `payload` already. */
static __always_inline void tls_emit(struct task_struct *task, struct tls_task *k, struct tls_conn *conn,
				     __u8 direction, __u64 len, bool held)
{
	const struct tls_note *n = &k->notes[direction & 1];
	struct tls_task *place = held ? k : plaintext_place(k);
	struct ws_data *d = &place->data;
	bool first, emitted;
	__u32 want;

	if (!conn) {
		count(WS_C_PLAINTEXT_WITHOUT_SOCKET);
		return;
	}
	first = direction == WS_EGRESS ? k->first : conn->run != WS_INGRESS;
	/* Go's servers read one byte ahead. The bytes that follow it are still the start of the run. */
	if (direction == WS_INGRESS && len > 1)
		conn->run = WS_INGRESS;
	else if (direction == WS_EGRESS && conn->run == WS_NO_DIRECTION)
		conn->run = WS_EGRESS;
	want = tls_wanted(conn, first);
	if (want > len)
		want = len;
	if (want > WS_MAX_RECORD)
		want = WS_MAX_RECORD;
	if (held && want > k->held)
		want = k->held;
	if (conn->shown < young_bytes)
		conn->shown += sizeof(*d) + want;
	take_plaintext(place);
	d->flags = WS_F_PLAINTEXT | (first ? WS_F_FIRST : 0);
	d->kind = WS_DATA;
	d->direction = direction;
	d->abi = WS_ABI_OTHER;
	d->error = 0;
	d->socket = conn->note.cookie;
	d->len = len;
	d->tuple = conn->note.tuple;
	if (n->cookie == conn->note.cookie && (n->calls || direction == WS_INGRESS)) {
		d->flags |= WS_F_ENTER | n->known;
		d->seq = n->seq;
		d->enter_ns = n->enter_ns;
		d->exit_ns = n->exit_ns;
		d->exchange = n->exchange;
		d->cause = n->cause;
		d->evidence = n->evidence;
	} else { /* its message comes later: user space keeps the plaintext until then */
		d->seq = 0;
		d->exit_ns = bpf_ktime_get_ns();
		d->enter_ns = k->enter_ns ? k->enter_ns : d->exit_ns;
		d->exchange = 0;
		d->cause = 0;
		d->evidence = WS_EV_NONE;
	}
	fill_actor(&d->actor, task);
	d->actor.netns = conn->note.netns;
	emitted = held || want <= WS_MAX_PLAINTEXT ? tls_emit_short(place, want, held) : tls_emit_long(place, want);
	release_plaintext(place);
	count(emitted ? WS_C_PLAINTEXT_RECORDS : WS_C_LOST_RING_FULL);
}

static __always_inline void tls_end(struct tls_task *k)
{
	k->notes[WS_INGRESS].calls = 0;
	k->notes[WS_EGRESS].calls = 0;
	k->notes[WS_INGRESS].fresh = 0;
	k->begins_run = 0;
}

SEC("uprobe.multi")
int WS_UPROBE(tls_exit)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct tls_task *k = bpf_task_storage_get(&tls_tasks, task, 0, 0);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__s64 ret = (__s32)WS_FN_RESULT(ctx);
	struct tls_key key = {};
	struct tls_conn *conn;
	__u8 op, direction;

	if (!k || !target_task(task) || k->op != (cookie & TLS_COOKIE_OP))
		return 0;
	op = k->op;
	k->op = TLS_NONE;
	key.ssl = k->ssl;
	key.pid = task->tgid;
	if (ret <= 0) { /* a memory BIO needs more records: the last message stays noted */
		conn = table_find(&tls_conns, &key);
		/*
		 * The records of the handshake show the socket. Noted now, because before the first write the thread
		 * may read another socket.
		 */
		if (!conn && op != TLS_WRITE && tls_feeds(&k->notes[WS_INGRESS]))
			tls_bound(&key, &k->notes[WS_INGRESS]);
		if (op != TLS_WRITE)
			k->notes[WS_INGRESS].fresh = 0; /* this call has taken the records, and needs more of them */
		if (conn && k->first)
			conn->run = WS_NO_DIRECTION; /* the program will repeat the write */
		return 0;
	}
	if (cookie & TLS_COOKIE_EX && bpf_probe_read_user(&ret, sizeof(ret), (void *)k->length_at))
		return 0;
	direction = op == TLS_WRITE ? WS_EGRESS : WS_INGRESS;
	conn = tls_bind(k, &key, direction);
	if (op != TLS_HANDSHAKE && ret > 0)
		tls_emit(task, k, conn, direction, ret, false);
	tls_end(k);
	return 0;
}

#endif
