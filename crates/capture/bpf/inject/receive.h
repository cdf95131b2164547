/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Reads the context of requests that targets receive, so that the requests which they cause continue the trace.
 * Runs behind the program that follows exchanges, on the same tracepoint.
 */
#ifndef WS_INJECT_RECEIVE_H
#define WS_INJECT_RECEIVE_H

#define WS_RECEIVED_HEAD 2048

static long received_word(__u32 n, struct head_source *s)
{
	__u8 *bytes = s->bytes;
	__u32 at = s->head.at;
	__u64 word;

	if (at >= s->size || at >= WS_RECEIVED_HEAD)
		return 1;
	word = *(__u64 *)(bytes + at);
	if (s->size - at < 8)
		word |= ~0ULL << 8 * (s->size - at);
	return head_word(&s->head, word) != 0;
}

/*
 * Reads the head at the start of the scratch buffer, and remembers the context of this exchange if it has one. A global
 * function: the verifier follows it once, and not for each way in which the bytes may have been copied.
 */
__noinline int remember_context(__u32 copied, __u64 exchange)
{
	struct head_source source = { .size = copied };
	struct head *h = &source.head;
	struct trace_context came = {};
	__u32 cpu = bpf_get_smp_processor_id(), at;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	if (!r || !is_http1_method(*(__u32 *)r->payload))
		return 0;
	source.bytes = r->payload;
	bpf_loop(WS_RECEIVED_HEAD, received_word, &source, 0);
	if (h->foreign || (h->end && !h->own))
		return 0;
	at = h->own & (WS_RECEIVED_HEAD - 1);
	if (r->payload[at] == ' ')
		at++;
	if (!h->own || at + 55 > copied)
		came.unknown = 1;
	else if (!read_traceparent(&came, r->payload + at))
		return 0; /* a malformed context is ignored, as W3C Trace Context asks */
	else
		inject_count(WS_I_RECEIVED_CONTEXTS);
	remember(&contexts, &exchange, &came);
	return 0;
}

/* Servers that take shorter lists of fields get no field more (SETTINGS_MAX_HEADER_LIST_SIZE, RFC 9113, 6.5.2). */
#define WS_H2_LEAST_LIST 16384
#define WS_H2_SETTINGS 16 /* that are looked at */

/* Whether the settings at the start of the scratch buffer limit the fields of a request to less than that. */
__noinline int limits_fields(__u32 copied)
{
	__u32 cpu = bpf_get_smp_processor_id(), length;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);
	int limited = 0;

	if (!r || copied < WS_H2_HEAD || r->payload[3] != 4)
		return 0;
	length = r->payload[0] << 16 | r->payload[1] << 8 | r->payload[2];
	for (__u32 i = 0; i < WS_H2_SETTINGS; i++) {
		__u8 *one = r->payload + WS_H2_HEAD + 6 * i;
		__u32 value = (__u32)one[2] << 24 | one[3] << 16 | one[4] << 8 | one[5];

		if (6 * (i + 1) <= length && WS_H2_HEAD + 6 * (i + 1) <= copied && !one[0] && one[1] == 6)
			limited = value < WS_H2_LEAST_LIST;
	}
	return limited;
}

/* Copies the begin of what was received into the scratch. Returns the number of bytes. */
static __always_inline __u32 copy_received(const struct location *where, int ret)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	return r && where->segments ? copy_payload(r, where, ret, WS_RECEIVED_HEAD) : 0;
}

/* Whether the scratch begins with the preface of HTTP/2. */
static __always_inline bool came_preface(__u32 copied)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);

	return r && copied >= 8 && *(__u64 *)r->payload == WS_TEXT('P', 'R', 'I', ' ', '*', ' ', 'H', 'T');
}

/* Looks at what a server has read. */
static __always_inline void request_received(struct sock *sk, struct sock_state *s, struct h2_reading *r, int ret)
{
	struct trace_context unknown = { .unknown = 1 };
	const struct tcp_sock *tp = tcp_of(sk);
	__u64 exchange = exchange_id(s);
	__u32 copied, seq;

	if (!tp)
		return;
	seq = read_up_to(sk->__sk_common.skc_state, sk->sk_err, tp->copied_seq, tp->rcv_nxt) - ret;
	r->came = bpf_sk_storage_get(&h2_cames, sk, 0, 0);
	if (!r->came && s->shared) {
		remember(&contexts, &exchange, &unknown);
		return;
	}
	if (!r->came) {
		copied = copy_received(&r->where, ret);
		if (!came_preface(copied)) {
			if (copied >= 4)
				remember_context(copied, exchange);
			return;
		}
		r->came = bpf_sk_storage_get(&h2_cames, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (r->came) {
			r->came->next = seq;
			r->came->left = WS_H2_PREFACE;
		}
	}
	/* A read may bring several requests, so the exchange does not tell which context is meant. */
	remember(&contexts, &exchange, &unknown);
	r->cookie = s->cookie;
	r->size = ret;
	if (r->came)
		h2_came_read(r, seq);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(inject_received, struct sock *sk, int ret, int msg_flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct h2_reading reading = {};
	struct h2_sock *h = NULL;
	struct sock_state *s;

	if (!inject_mode || !t || ret <= 0 || msg_flags & MSG_PEEK)
		return 0;
	s = bpf_sk_storage_get(&socks, sk, 0, 0);
	if (!s)
		return 0;
	if (s->request_direction == WS_INGRESS || s->delivers)
		note_serving(task->tgid);
	if (s->tuple.transport != WS_TCP || uses_io_uring(task))
		return 0;
	if (s->request_direction != WS_INGRESS) {
		h = bpf_sk_storage_get(&h2_socks, sk, 0, 0);
		if (!h || h->settings || ret < WS_H2_HEAD)
			return 0;
		h->settings = 1;
	}
	hold_processor();
	locate(&reading.where, t, ret);
	if (h)
		h->limited = limits_fields(copy_received(&reading.where, ret));
	else
		request_received(sk, s, &reading, ret);
	leave_processor();
	return 0;
}

#endif
