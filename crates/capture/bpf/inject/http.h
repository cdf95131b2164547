/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Puts `traceparent` into HTTP/1 requests. Sockets of targets that connect enter a map whose program sees their bytes
 * before TCP does, and leave the map as early as possible. A socket in the map behaves differently: on some kernels it
 * answers FIONREAD with 0 while bytes are queued. It has left before the first byte of a response arrives.
 */
#ifndef WS_INJECT_HTTP_H
#define WS_INJECT_HTTP_H

#define WS_INJECT_LONGEST_BODY (1U << 30) /* beyond it, sequence numbers do not tell whether the body has ended */

static __always_inline void leave_map(struct bpf_sock_ops *c, struct inject_sock *i)
{
	__u64 cookie = bpf_get_socket_cookie(c);

	if (!bpf_map_delete_elem(&inject_sockets, &cookie))
		inject_count(WS_I_INJECT_LEFT);
	i->gone = 1;
	bpf_sock_ops_cb_flags_set(c, c->bpf_sock_ops_cb_flags &
					     ~((i->options ? 0 : WS_OPS_WRITE_FLAG) | WS_OPS_PARSE_ALL_FLAG));
}

static __always_inline void enrol(struct bpf_sock_ops *c)
{
	struct bpf_sock *sk = c->sk;
	struct sock_state *s;
	struct inject_sock *i;
	__u64 cookie;

	if (!sk || (!inject_mode && !inject_options))
		return;
	/* A socket has this state only if a target has connected it. */
	s = bpf_sk_storage_get(&socks, sk, 0, 0);
	if (!s || !s->announced || s->tuple.role != WS_CLIENT || s->tuple.transport != WS_TCP)
		return;
	i = bpf_sk_storage_get(&inject_socks, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!i)
		return;
	if (inject_options) {
		i->options = 1;
		bpf_sock_ops_cb_flags_set(c, c->bpf_sock_ops_cb_flags | WS_OPS_WRITE_FLAG);
	}
	if (!inject_mode)
		return;
	cookie = s->cookie;
	if (bpf_sock_hash_update(c, &inject_sockets, &cookie, BPF_NOEXIST)) {
		i->gone = 1;
		inject_count(WS_I_INJECT_REFUSED);
		return;
	}
	inject_count(WS_I_INJECT_ENROLLED);
	bpf_sock_ops_cb_flags_set(c, c->bpf_sock_ops_cb_flags | WS_OPS_WRITE_FLAG |
					     (inject_mode == WS_INJECT_FIRST ? WS_OPS_PARSE_ALL_FLAG : 0));
}

/* Whether the packet that arrives has bytes for the application. */
static __always_inline bool brings_bytes(struct bpf_sock_ops *c)
{
	__u8 *header = c->skb_data, *end = c->skb_data_end;

	return header + 20 > end || c->skb_len > (header[12] >> 4) * 4;
}

SEC("sockops")
int inject_sockops(struct bpf_sock_ops *c)
{
	struct inject_sock *i;
	struct bpf_sock *sk;

	switch (c->op) {
	case WS_OPS_ACTIVE_ESTABLISHED:
		enrol(c);
		break;
	case WS_OPS_PASSIVE_ESTABLISHED:
		expect_option(c);
		break;
	case WS_OPS_PARSE_HDR:
	case WS_OPS_HDR_LEN:
	case WS_OPS_WRITE_HDR:
		sk = c->sk;
		if (!sk)
			break;
		i = bpf_sk_storage_get(&inject_socks, sk, 0, 0);
		if (!i) {
			if (c->op == WS_OPS_PARSE_HDR)
				keep_option(c, sk);
			break;
		}
		if (inject_mode && !i->gone && (i->leave || (c->op == WS_OPS_PARSE_HDR && brings_bytes(c))))
			leave_map(c, i);
		if (i->options)
			send_option(c, sk, i);
		break;
	}
	return 1;
}

static long message_word(__u32 n, struct head_source *s)
{
	struct sk_msg_md *m = s->bytes;
	__u8 *data = m->data, *end = m->data_end;
	__u64 word = ~0ULL;

	data += s->head.at & (WS_INJECT_LONGEST * 2 - 1);
	if (data + 8 <= end)
		return head_word(&s->head, *(__u64 *)data) != 0;
	if (data + 1 > end)
		return 1;
	for (int i = 0; i < 7; i++)
		if (data + i + 1 <= end)
			word ^= (__u64)(__u8)~data[i] << 8 * i;
	return head_word(&s->head, word) != 0;
}

/* Puts the header behind the request line. False if the kernel refuses; the message is then unchanged. */
static __always_inline bool put(struct sk_msg_md *m, struct inject_sock *i, __u32 at)
{
	__u8 *data, *end;

	write_traceparent(i->text, &i->sent);
	if (bpf_msg_push_data(m, at, WS_INJECT_TEXT, 0))
		return false;
	/* The new bytes are a piece of their own, so this only moves the window, and needs no memory. */
	if (!bpf_msg_pull_data(m, at, at + WS_INJECT_TEXT, 0)) {
		data = m->data;
		end = m->data_end;
		if (data + WS_INJECT_TEXT <= end) {
			__builtin_memcpy(data, i->text, WS_INJECT_TEXT);
			/* Joined into one piece, the bytes leave in one packet; without memory for that, in three. */
			bpf_msg_pull_data(m, 0, m->size < WS_INJECT_LONGEST ? m->size : WS_INJECT_LONGEST, 0);
			return true;
		}
	}
	bpf_msg_pop_data(m, at, WS_INJECT_TEXT, 0);
	return false;
}

/*
 * Looks at a call that may begin a request, and injects a context if it can. Returns the counter of the outcome. If the
 * head says where the request ends, the socket's state knows it, too.
 */
static __noinline __u32 look(struct sk_msg_md *m, struct inject_sock *i, struct sock_state *s, struct task_state *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct head_source source = { .bytes = m };
	struct head *h = &source.head;
	struct attribution *a;
	__u8 *data = m->data, *end = m->data_end;
	struct bpf_sock *sk = m->sk;
	__u32 size = m->size;

	if (!sk || !i || !s || !t)
		return WS_I_INJECT_FAILED;
	i->certain = 0;
	if (data + 4 > end || !is_http1_method(*(__u32 *)data))
		return WS_I_INJECT_NOT_HTTP;
	if (bpf_msg_pull_data(m, 0, size < WS_INJECT_LONGEST ? size : WS_INJECT_LONGEST, 0))
		return WS_I_INJECT_FAILED;
	bpf_loop(WS_INJECT_LONGEST, message_word, &source, 0);
	if (!h->first_end)
		return WS_I_INJECT_NOT_HTTP;
	if (!h->end || h->end > size)
		return WS_I_INJECT_PARTIAL_HEAD;
	i->certain = !h->open_end && h->lengths <= 1 && h->length < WS_INJECT_LONGEST_BODY;
	i->next = i->start + h->end + h->length;
	if (h->own)
		return WS_I_INJECT_OWN_CONTEXT;
	if (h->first_end + WS_INJECT_TEXT > certainly_taken(m))
		return WS_I_INJECT_BUSY;
	a = acting(task, t);
	if (!choose_context(&i->sent, s, a, task->pid, thread_group(task, t), i->start))
		return WS_I_INJECT_UNKNOWN_CONTEXT;
	if (!put(m, i, h->first_end))
		return WS_I_INJECT_FAILED;
	i->next += WS_INJECT_TEXT;
	tell_injected(&i->sent, s->cookie, i->start, h->first_end, WS_INJECT_TEXT, 0);
	return WS_I_INJECTED;
}

/*
 * Whether a request may begin with this call: behind an answer; or where the last request ended, if that is known. What
 * comes before that place is the rest of a body. Bytes are counted as TCP has taken them, so a call of which TCP takes
 * only a part, or nothing, moves nothing.
 */
static __always_inline bool may_begin(struct inject_sock *i, const struct sock_state *s, __u32 seq)
{
	__s32 ahead = seq - i->next;

	if (!i->certain)
		return s->run != WS_EGRESS;
	if (ahead > 0)
		i->leave = 1;
	return ahead == 0;
}

SEC("sk_msg")
int inject_message(struct sk_msg_md *m)
{
	struct task_state *t = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0);
	struct bpf_sock *sk = m->sk;
	struct tcp_sock *tp;
	struct inject_sock *i;
	struct sock_state *s;
	__u32 what, seq;

	if (!sk)
		return SK_PASS;
	i = bpf_sk_storage_get(&inject_socks, sk, 0, 0);
	s = bpf_sk_storage_get(&socks, sk, 0, 0);
	tp = bpf_skc_to_tcp_sock(sk);
	if (!i || !s || !tp)
		return SK_PASS;
	seq = tp->write_seq;
	if (t && t->target)
		note_call(t, (__u64)sk, seq);
	if (i->leave)
		return SK_PASS;
	if (inject_mode == WS_INJECT_EVERY && !i->looked && !i->http2 && is_preface(m))
		h2_begin(sk, i, seq);
	if (i->http2 && t && t->target && inject_failures < WS_INJECT_FAILURES)
		return h2_message(m, i, s, t, seq);
	if (i->looked == s->calls + 1)
		return SK_PASS;
	if (!may_begin(i, s, seq))
		return SK_PASS;
	i->start = seq;
	i->looked = s->calls + 1;
	if (!t || !t->target || !inject_mode || inject_failures >= WS_INJECT_FAILURES) {
		i->leave = 1;
		return SK_PASS;
	}
	what = look(m, i, s, t);
	i->carried = what == WS_I_INJECTED || what == WS_I_INJECT_OWN_CONTEXT;
	if (what == WS_I_INJECT_FAILED)
		inject_fail();
	else
		inject_count(what);
	if (inject_mode == WS_INJECT_FIRST || !i->certain || what == WS_I_INJECT_FAILED)
		i->leave = 1;
	return SK_PASS;
}

#endif
