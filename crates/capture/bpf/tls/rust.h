/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Plaintext of rustls. The library works on memory; the program itself sends and receives the ciphertext.
 *  - Reading: rustls asks for ciphertext (RUST_FEED), the thread receives it, and then reads it in clear text, either
 *    as a copy (TLS_READ), or in place (RUST_CHUNK) followed by a second call that consumes it (RUST_CONSUME).
 *  - Writing: rustls takes plaintext (TLS_WRITE). The next ciphertext that the thread sends shows the socket.
 *
 * rustls has no function for the making or the end of a connection that could be probed, and addresses of connections
 * are used again. So a connection is identified by the cookie of its socket. Its address serves only for a call that
 * finds no message of its own.
 *
 * `io::Result<usize>` is returned in two registers. Old compilers (Rust 1.65) return it in memory instead; the address
 * of that memory is then both the first argument and the result. `io::Result<&[u8]>`, the result of RUST_CHUNK, is
 * always returned in memory.
 */
#ifndef WS_TLS_RUST_H
#define WS_TLS_RUST_H

#define RUST_SEGMENTS 4 /* segments of a vector that are looked at; the first one that is not empty is read */

/* The connection of a socket. Notes that the address belongs to it. */
static __always_inline struct tls_conn *rust_bind(struct task_struct *task, __u64 address, const struct tls_note *n)
{
	struct tls_key key = { .ssl = address, .pid = task->tgid };

	tls_bound(&key, n);
	key.ssl = n->cookie;
	key.kind = TLS_BY_SOCKET;
	return tls_bound(&key, n);
}

/*
 * Whether the ciphertext that this thread received last belongs to the connection that it reads now. The buffers of
 * ciphertext and plaintext are parts of the same object, so each of them always occurs with the same other one.
 */
static __always_inline bool rust_is_fed(struct task_struct *task, struct tls_task *k, __u64 address)
{
	struct tls_key key = { .ssl = address, .pid = task->tgid };
	const struct tls_note *n = &k->notes[WS_INGRESS];
	struct tls_conn *at;

	if (!n->fresh || !n->tls)
		return false;
	at = table_find(&tls_conns, &key);
	if (at && at->fed && at->note.cookie != n->cookie)
		return at->fed == k->fed;
	at = tls_bound(&key, n);
	if (at)
		at->fed = k->fed; /* the program may have moved the object since */
	return true;
}

/* The connection that was last found for an address. */
static __always_inline struct tls_conn *rust_known(struct task_struct *task, __u64 address)
{
	struct tls_key key = { .ssl = address, .pid = task->tgid };
	const struct tls_conn *at = table_find(&tls_conns, &key);

	if (!at)
		return NULL;
	key.ssl = at->note.cookie;
	key.kind = TLS_BY_SOCKET;
	return table_find(&tls_conns, &key);
}

static __always_inline void rust_written(struct task_struct *task, struct tls_task *k, struct tls_conn *conn)
{
	__u64 len = k->written;

	k->written = 0;
	k->begins_run = 0;
	k->first = conn && conn->run != WS_EGRESS;
	if (conn)
		conn->run = WS_EGRESS;
	tls_emit(task, k, conn, WS_EGRESS, len, true);
}

static __noinline int tls_sent(struct task_struct *task, struct tls_task *k)
{
	struct tls_conn *conn = k->seals ? java_tls_bind(task, k) : rust_bind(task, k->ssl, &k->notes[WS_EGRESS]);

	if (k->written)
		rust_written(task, k, conn);
	return 0;
}

/*
 * The thread does something else before it has sent what it wrote, because the socket is full. The plaintext is emitted
 * now, and user space keeps it until the ciphertext comes.
 */
static __always_inline void rust_release(struct task_struct *task, struct tls_task *k)
{
	if (k->written)
		rust_written(task, k, rust_known(task, k->ssl));
}

/* The first field of a reader: the address of the plaintext in its connection. */
static __always_inline __u64 rust_received(__u64 reader)
{
	__u64 received = 0;

	bpf_probe_read_user(&received, sizeof(received), (void *)reader);
	return received;
}

static __always_inline void rust_read(struct task_struct *task, struct tls_task *k, __u64 received, __u64 buffer,
				      __u64 len)
{
	struct tls_note *n = &k->notes[WS_INGRESS];
	struct tls_conn *conn;

	if (rust_is_fed(task, k, received)) {
		conn = rust_bind(task, received, n);
		n->fresh = 0;
	} else {
		conn = rust_known(task, received);
	}
	k->buffer = buffer;
	tls_emit(task, k, conn, WS_INGRESS, len, false);
}

/*
 * Copies the bytes now, because they may be gone when their ciphertext is sent. How many of them are wanted is known
 * only then, together with the socket.
 */
static __always_inline void rust_wrote(struct task_struct *task, struct tls_task *k, __u64 len, bool vector)
{
	__u32 want = WS_MAX_PLAINTEXT;
	struct user_iovec at = { .base = k->buffer, .len = len };

	for (int i = 0; vector && i < RUST_SEGMENTS; i++) {
		if (bpf_probe_read_user(&at, sizeof(at), (void *)(k->buffer + i * sizeof(at))))
			at.len = 0;
		if (at.len)
			break;
	}
	if (want > len)
		want = len;
	if (want > at.len)
		want = at.len;
	if (want > WS_MAX_PLAINTEXT)
		want = WS_MAX_PLAINTEXT;
	if (want && bpf_probe_read_user(k->payload, want, (void *)at.base)) {
		count(WS_C_UNREADABLE_PAYLOADS);
		want = 0;
	}
	k->held = want;
	k->written = len;
	k->begins_run = 1;
	k->notes[WS_EGRESS].calls = 0;
}

/* The program consumes the plaintext that was shown in place, or a part of it. */
static __always_inline void rust_consume(struct task_struct *task, struct tls_task *k, __u64 reader, __u64 taken)
{
	__u64 received = rust_received(reader);

	if (!taken || taken > k->chunk_length || !received || received != k->chunk_of)
		return;
	rust_read(task, k, received, k->chunk, taken);
	k->chunk += taken;
	k->chunk_length -= taken;
}

SEC("uprobe.multi")
int WS_UPROBE(tls_rust_enter)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	__u8 op = bpf_get_attach_cookie(ctx) & TLS_COOKIE_OP;
	struct tls_task *k;

	if (!t)
		return 0;
	k = tls_enters(task, t);
	if (!k)
		return 0;
	if (op == RUST_FEED) {
		k->notes[WS_INGRESS].calls = 0;
		k->fed = WS_FN_ARG1(ctx);
		return 0;
	}
	rust_release(task, k);
	k->enter_ns = 0;
	if (op == RUST_CONSUME) {
		rust_consume(task, k, WS_FN_ARG1(ctx), WS_FN_ARG2(ctx));
		return 0;
	}
	k->op = op;
	k->ssl = WS_FN_ARG1(ctx);
	k->buffer = WS_FN_ARG2(ctx);
	k->length = WS_FN_ARG3(ctx);
	if (op == RUST_CHUNK) { /* the reader is passed by value, so it may be gone when the function returns */
		k->chunk_length = 0;
		k->chunk_of = rust_received(k->buffer);
	}
	return 0;
}

SEC("uprobe.multi")
int WS_UPROBE(tls_rust_exit)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct tls_task *k = bpf_task_storage_get(&tls_tasks, task, 0, 0);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 result[2] = { WS_FN_RESULT(ctx), WS_FN_RESULT2(ctx) };
	__u8 op = cookie & TLS_COOKIE_OP;
	bool moved;

	if (!k || !target_task(task) || k->op != op)
		return 0;
	k->op = TLS_NONE;
	moved = result[0] == k->ssl;
	if (moved) {
		if (bpf_probe_read_user(result, sizeof(result), (void *)k->ssl))
			return 0;
		k->ssl = k->buffer;
		k->buffer = k->length;
	}
	if (op == RUST_CHUNK) {
		k->chunk = result[0];
		k->chunk_length = moved && result[0] ? result[1] : 0;
	} else if (!result[0] && (__s64)result[1] > 0) {
		if (op == TLS_READ)
			rust_read(task, k, rust_received(k->ssl), k->buffer, result[1]);
		else
			rust_wrote(task, k, result[1], cookie & RUST_COOKIE_VECTOR);
	}
	return 0;
}

#endif
