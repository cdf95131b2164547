/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Trace context beside the bytes of a request, for any protocol: an experimental option of TCP (RFC 6994) on the
 * segment that begins the request. The option is bound to the sequence number of that segment. So it cannot reach other
 * bytes, even if segments are split, merged or sent again on the way. A segment that is sent again has no option.
 *
 * The whole option has 28 bytes, which is the room that timestamps leave. Its identifier says whether the trace is
 * sampled.
 */
#ifndef WS_INJECT_OPTION_H
#define WS_INJECT_OPTION_H

#define WS_OPTION_KIND 253
#define WS_OPTION_SAMPLED 'S'
#define WS_OPTION_NOT_SAMPLED 's'
#define WS_OPTIONS_KEPT 4

struct context_option {
	__u8 kind;
	__u8 length;
	__u8 id[2]; /* 'W', and one of the letters above */
	__u8 trace[16];
	__u8 span[8];
};

_Static_assert(sizeof(struct context_option) == 28, "40 bytes of options less 12 of timestamps");

struct option_came {
	struct trace_context context;
	__u32 seq;
	__u32 full;
};

/* Contexts that arrived at a socket before the bytes of their requests were read. */
struct option_sock {
	struct option_came came[WS_OPTIONS_KEPT];
	__u32 next;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct option_sock);
} option_socks SEC(".maps");

/* A new server socket has this state only if its listener belongs to a target: it is a copy of the listener's. */
static __always_inline void expect_option(struct bpf_sock_ops *c)
{
	struct bpf_sock *sk = c->sk;

	if (inject_options && sk && bpf_sk_storage_get(&socks, sk, 0, 0))
		bpf_sock_ops_cb_flags_set(c, c->bpf_sock_ops_cb_flags | WS_OPS_PARSE_UNKNOWN_FLAG);
}

/*
 * The kernel asks for the length of segments before the first byte of a call is queued, and keeps it for the whole
 * call. So segments are made shorter for each call that may begin a request; a full segment would have no room for the
 * option.
 */
static __always_inline void shorten_segments(struct bpf_sock_ops *c, struct bpf_sock *sk, const struct inject_sock *i)
{
	struct sock_state *s = bpf_sk_storage_get(&socks, sk, 0, 0);

	if (i->due || (s && s->run != WS_EGRESS && !s->shared))
		bpf_reserve_hdr_opt(c, sizeof(struct context_option), 0);
}

/* Called before a segment leaves: reserves room for the option, and then writes it. */
static __always_inline void send_option(struct bpf_sock_ops *c, struct bpf_sock *sk, struct inject_sock *i)
{
	struct context_option o = { .kind = WS_OPTION_KIND, .length = sizeof(o), .id = { 'W' } };

	if (c->op == WS_OPS_HDR_LEN) {
		if (c->args[0] == WS_OPS_FOR_MSS) {
			shorten_segments(c, sk, i);
		} else if (i->due && c->skb_len && c->snd_nxt == i->start && bpf_reserve_hdr_opt(c, sizeof(o), 0)) {
			i->due = 0;
			inject_count(WS_I_OPTION_NO_ROOM);
		}
		return;
	}
	if (c->op != WS_OPS_WRITE_HDR || !i->due)
		return;
	o.id[1] = i->sent.flags & 1 ? WS_OPTION_SAMPLED : WS_OPTION_NOT_SAMPLED;
	__builtin_memcpy(o.trace, i->sent.trace, sizeof(o.trace));
	__builtin_memcpy(o.span, i->sent.span, sizeof(o.span));
	i->due = 0;
	inject_count(bpf_store_hdr_opt(c, &o, sizeof(o), 0) ? WS_I_OPTION_NO_ROOM : WS_I_OPTION_SENT);
}

static __always_inline bool load_option(struct bpf_sock_ops *c, struct context_option *o, __u8 letter)
{
	*o = (struct context_option){ .kind = WS_OPTION_KIND, .length = 4, .id = { 'W', letter } };
	return bpf_load_hdr_opt(c, o, sizeof(*o), 0) == sizeof(*o);
}

/* Keeps the context of a segment that has arrived. If the segment was split on the way, each piece has the option. */
static __always_inline void keep_option(struct bpf_sock_ops *c, struct bpf_sock *sk)
{
	struct context_option o;
	__u8 *header = c->skb_data, *end = c->skb_data_end;
	struct option_sock *kept;
	struct option_came *last, *came;
	__u64 known, span;
	bool sampled;

	if (!inject_options || header + 8 > end)
		return;
	sampled = load_option(c, &o, WS_OPTION_SAMPLED);
	if (!sampled && !load_option(c, &o, WS_OPTION_NOT_SAMPLED))
		return;
	kept = bpf_sk_storage_get(&option_socks, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!kept)
		return;
	last = &kept->came[(kept->next - 1) % WS_OPTIONS_KEPT];
	__builtin_memcpy(&known, last->context.span, sizeof(known));
	__builtin_memcpy(&span, o.span, sizeof(span));
	if (known == span)
		return;
	came = &kept->came[kept->next % WS_OPTIONS_KEPT];
	__builtin_memcpy(came->context.trace, o.trace, sizeof(o.trace));
	__builtin_memcpy(came->context.span, o.span, sizeof(o.span));
	came->context.flags = sampled;
	came->seq = bpf_ntohl(*(__u32 *)(header + 4));
	came->full = 1;
	kept->next++;
}

static __always_inline void tell_option(const struct trace_context *c, __u64 cookie, __u8 direction, __u32 seq)
{
	struct ws_context e = { .kind = WS_CONTEXT, .direction = direction, .flags = c->flags };

	e.seq = seq;
	e.socket = cookie;
	e.time_ns = bpf_ktime_get_ns();
	__builtin_memcpy(e.trace, c->trace, sizeof(e.trace));
	__builtin_memcpy(e.span, c->span, sizeof(e.span));
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
}

/* Chooses the context of a request before its first byte is queued. */
SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(option_send, struct sock *sk, const struct msghdr *msg)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = bpf_task_storage_get(&tasks, task, 0, 0);
	const struct tcp_sock *tp;
	struct inject_sock *i;
	struct sock_state *s;
	struct trace_context chosen;

	if (!inject_options || !t || !t->target || !msg->msg_iter.count)
		return 0;
	i = bpf_sk_storage_get(&inject_socks, sk, 0, 0);
	s = bpf_sk_storage_get(&socks, sk, 0, 0);
	tp = tcp_of(sk);
	/* A segment of a shared connection carries many requests, so it gets no context. */
	if (!i || !s || !tp || !i->options || s->run == WS_EGRESS || s->shared || i->optioned == s->calls + 1)
		return 0;
	i->optioned = s->calls + 1;
	if (i->looked == s->calls + 1 && i->carried)
		return 0;
	if (!choose_context(&chosen, s, acting(task, t), task->pid, thread_group(task, t), tp->write_seq)) {
		inject_count(WS_I_INJECT_UNKNOWN_CONTEXT);
		return 0;
	}
	i->sent = chosen;
	i->start = tp->write_seq;
	i->due = 1;
	tell_option(&i->sent, s->cookie, WS_EGRESS, i->start);
	return 0;
}

/* Runs before the program that follows exchanges, so that user space gets the context before the bytes. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(option_received, struct sock *sk, int ret, int msg_flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct option_sock *kept;
	const struct tcp_sock *tp;
	struct sock_state *s;
	__u64 exchange;
	__u32 from;

	if (!inject_options || ret <= 0 || msg_flags & MSG_PEEK)
		return 0;
	kept = bpf_sk_storage_get(&option_socks, sk, 0, 0);
	if (!kept || !target_task(task))
		return 0;
	s = use_sock(sk, task);
	tp = tcp_of(sk);
	if (!s || !tp)
		return 0;
	from = read_up_to(sk->__sk_common.skc_state, sk->sk_err, tp->copied_seq, tp->rcv_nxt) - ret;
	exchange = exchange_of(s->cookie, s->exchange + (s->run != WS_INGRESS));
	for (int n = 0; n < WS_OPTIONS_KEPT; n++) {
		struct option_came *came = &kept->came[n];

		if (!came->full || came->seq - from >= (__u32)ret)
			continue;
		came->full = 0;
		inject_count(WS_I_OPTION_RECEIVED);
		remember(&contexts, &exchange, &came->context);
		tell_option(&came->context, s->cookie, WS_INGRESS, came->seq);
	}
	return 0;
}

#endif
