/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Called by the message path: which messages belong to calls of TLS libraries, and where runs of plaintext begin. */
#ifndef WS_TLS_MESSAGE_H
#define WS_TLS_MESSAGE_H

/* Whether the thread calls a TLS library; or its process, if that is a Go program or a Java machine with an agent. */
static __always_inline bool uses_tls(const struct task_state *t)
{
	return t->tls || t->process_runtimes & (WS_GO_TLS | WS_JAVA_AGENT);
}

/* Whether this message begins a run for what Go or Java sends on this socket, by whichever thread. */
__noinline int run_begins(__u64 cookie)
{
	struct tls_conn *conn = go_moved(bpf_get_current_task_btf(), cookie, WS_EGRESS);

	if (!conn || !conn->begins_run)
		return 0;
	conn->begins_run = 0;
	return 1;
}

/*
 * Whether this message carries the first plaintext of a run. The runs of the ciphertext cannot show this, as they
 * contain the handshake, too.
 */
static __always_inline bool tls_begins_run(struct task_struct *task, const struct task_state *t,
					   const struct sock_state *s, __u8 direction)
{
	struct tls_key key = { .ssl = s->cookie, .kind = TLS_BY_SOCKET };
	struct tls_conn *conn;
	struct tls_task *k;

	if (direction != WS_EGRESS)
		return false;
	if (t->process_runtimes & (WS_GO_TLS | WS_JAVA_AGENT) && s->tls && run_begins(s->cookie))
		return true;
	k = bpf_task_storage_get(&tls_tasks, task, 0, 0);
	if (!k || !k->begins_run)
		return false;
	k->begins_run = 0;
	if (!k->written)
		return true;
	key.pid = task->tgid;
	conn = table_find(&tls_conns, &key);
	return s->tls && (!conn || conn->run != WS_EGRESS);
}

static __always_inline void tls_note_at(struct tls_note *n, bool tls, const struct ws_data *d)
{
	bool start;

	start = !n->calls || n->cookie != d->socket || (d->direction == WS_INGRESS && d->len == TLS_HEADER);
	n->exit_ns = d->exit_ns;
	n->fresh = 1;
	n->calls++;
	if (!start && d->direction == WS_EGRESS)
		return; /* a long write begins with its first message */
	if (start) {
		n->seq = d->seq;
		n->known = d->flags & (WS_F_HAS_SEQ | WS_F_ARRIVED);
		n->enter_ns = d->enter_ns;
	}
	n->cookie = d->socket;
	n->exchange = d->exchange;
	n->cause = d->cause;
	n->evidence = d->evidence;
	n->netns = d->actor.netns;
	n->tls = tls;
	n->tuple = d->tuple;
}

/* Notes the message in the scratch for the Go call to which it belongs. */
__noinline int go_note(__u32 request)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);
	struct tls_conn *moved;

	if (!r)
		return 0;
	moved = go_moved(bpf_get_current_task_btf(), r->data.socket, r->data.direction);
	if (!moved)
		return 0;
	tls_note_at(&moved->note, true, &r->data);
	moved->note.request = request;
	return 0;
}

/*
 * Recognises a socket that carries records of TLS, whoever reads them: a library is found some milliseconds after its
 * process began, or is loaded later, and its first connections may be there before.
 */
static __always_inline void tls_recognise(struct sock_state *s, const struct scratch *r)
{
	if (!s->tls && r->data.payload_len >= 3 && (__u8)(r->payload[0] - TLS_FIRST_TYPE) < TLS_TYPES &&
	    r->payload[1] == 3 && r->payload[2] <= 4)
		s->tls = 1;
}

/* Notes a message of a thread that calls a TLS library. */
static __always_inline void tls_note(struct task_struct *task, const struct task_state *t, struct sock_state *s,
				     const struct scratch *r)
{
	const struct ws_data *d = &r->data;
	struct tls_task *k;

	if (t->process_runtimes & WS_GO_TLS && s->tls)
		go_note(d->direction == WS_INGRESS && s->request_direction == WS_INGRESS && !s->shared);
	/* Java is told of what it has received afterwards, also by a thread that has called it never before. */
	k = bpf_task_storage_get(&tls_tasks, task, 0,
				 t->process_runtimes & WS_JAVA_AGENT && s->tls ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	if (k)
		tls_note_at(&k->notes[d->direction & 1], s->tls, d);
}

/* Called after the message was emitted. */
static __always_inline void tls_after(struct task_struct *task, const struct sock_state *s, __u8 direction)
{
	struct tls_task *k;

	if (direction != WS_EGRESS || !s->tls)
		return;
	k = bpf_task_storage_get(&tls_tasks, task, 0, 0);
	if (k && (k->written || k->seals))
		tls_sent(task, k);
}

#endif
