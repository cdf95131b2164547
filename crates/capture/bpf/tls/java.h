/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Plaintext of Java's own TLS (JSSE), told by the agent of `--attach-java` (agent/java/tls.h): one call for each
 * record. A connection has a number, its identity hash. JSSE works on memory, so the socket must be found:
 *  - A thread that encrypts sends soon after. Its next send of TLS is that of the connection it has named last.
 *  - A thread that decrypts has just received what it decrypts, unless another thread did. That counts only once, and
 *    only if the connection has no socket yet: a connection never changes its socket.
 * The JDK's HTTP client receives and decrypts in different threads. Its connections are found when they send.
 */
#ifndef WS_TLS_JAVA_H
#define WS_TLS_JAVA_H

static __always_inline struct tls_key java_tls_key(const struct task_struct *task, __u32 connection)
{
	return (struct tls_key){ .ssl = connection, .pid = task->tgid, .kind = TLS_BY_HASH };
}

/* The thread has sent what it encrypted last. The socket of a connection is never changed. */
static __always_inline struct tls_conn *java_tls_bind(struct task_struct *task, struct tls_task *k)
{
	struct tls_key key = java_tls_key(task, k->seals);
	struct tls_conn *conn = table_find(&tls_conns, &key);

	k->seals = 0;
	return conn ? conn : tls_bound(&key, &k->notes[WS_EGRESS]);
}

/* This thread does something else before it has sent what it encrypted for a connection whose socket is not known. */
static __always_inline void java_tls_drop(struct tls_task *k)
{
	k->written = 0;
	k->begins_run = 0;
	count(WS_C_PLAINTEXT_WITHOUT_SOCKET);
}

/* Keeps a copy of what the agent shows: `shown` of the bytes of a record. */
static __always_inline void java_tls_copy(struct tls_task *k, __u64 bytes, __u32 shown)
{
	if (shown > WS_MAX_PLAINTEXT)
		shown = WS_MAX_PLAINTEXT;
	k->held = shown;
	barrier_var(shown);
	if (shown > WS_MAX_PLAINTEXT)
		shown = WS_MAX_PLAINTEXT;
	if (bpf_probe_read_user(k->payload, shown, (void *)bytes)) {
		count(WS_C_UNREADABLE_PAYLOADS);
		k->held = 0;
	}
}

/*
 * A record was encrypted. Of a connection whose socket is known it is emitted at once, and user space waits for its
 * ciphertext, whichever thread sends it. Else it is kept until this thread sends.
 */
static __always_inline void java_tls_written(struct task_struct *task, struct tls_task *k, __u32 connection,
					     __u32 shown, __u32 length, __u64 bytes)
{
	struct tls_key key = java_tls_key(task, connection);
	struct tls_conn *conn = table_find(&tls_conns, &key);

	if (k->written && k->seals != connection)
		java_tls_drop(k);
	k->seals = conn ? 0 : connection;
	if (!length)
		return;
	if (k->written) { /* of several records, the first one tells what the message is */
		count(WS_C_PLAINTEXT_WITHOUT_SOCKET);
		return;
	}
	java_tls_copy(k, bytes, shown);
	k->enter_ns = bpf_ktime_get_ns();
	k->notes[WS_EGRESS].calls = 0;
	if (!conn) {
		k->written = length;
		k->begins_run = 1;
		return;
	}
	k->first = conn->run != WS_EGRESS;
	conn->run = WS_EGRESS;
	conn->skips = 0;
	if (k->first)
		socket_begins_run(task, conn->note.cookie);
	tls_emit(task, k, conn, WS_EGRESS, length, true);
}

/* A record was decrypted; of application data if it has a length. */
static __always_inline void java_tls_read(struct task_struct *task, struct tls_task *k, __u32 connection, __u32 shown,
					  __u32 length, __u64 bytes)
{
	struct tls_key key = java_tls_key(task, connection);
	struct tls_conn *conn = table_find(&tls_conns, &key);
	struct tls_note *n = &k->notes[WS_INGRESS];

	if (k->written)
		java_tls_drop(k);
	if (!conn && tls_feeds(n)) {
		conn = tls_bound(&key, n);
		/* Met while a client waits, perhaps for the rest of an answer: that is not the begin of one. */
		if (conn)
			conn->skips = length && n->tuple.role == WS_CLIENT;
	}
	if (length && !(conn && conn->skips)) {
		java_tls_copy(k, bytes, shown);
		k->enter_ns = 0;
		tls_emit(task, k, conn, WS_INGRESS, length, true);
	}
	n->calls = 0;
	n->fresh = 0;
}

SEC("uprobe.multi")
int WS_UPROBE(java_tls)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	__u64 bytes = WS_FN_ARG1(ctx);
	__u32 shown = WS_FN_ARG2(ctx), length = WS_FN_ARG3(ctx), connection = WS_FN_ARG4(ctx);
	struct tls_task *k;

	if (!t)
		return 0;
	k = tls_enters(task, t);
	if (!k)
		return 0;
	switch (bpf_get_attach_cookie(ctx)) {
	case JAVA_SEALS: /* a native method, whose third argument is the number */
		k->sealing = length;
		java_tls_written(task, k, k->sealing, 0, 0, 0);
		break;
	case JAVA_WRITES:
		if (!connection) {
			connection = k->sealing;
			k->sealing = 0;
		}
		if (connection)
			java_tls_written(task, k, connection, shown, length, bytes);
		break;
	case JAVA_READS:
		java_tls_read(task, k, connection, shown, length, bytes);
		break;
	}
	return 0;
}

#endif
