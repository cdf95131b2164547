/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Trace context in requests of targets (`--propagate`): state, choice of ids, and the record about an injected context.
 *
 * The programs are loaded only if asked for, and do nothing until user space, after its self-test, sets `inject_mode`.
 */
#ifndef WS_INJECT_H
#define WS_INJECT_H

#define WS_INJECT_FAILURES 16 /* after so many failures of the kernel, nothing is injected any more */
#define WS_INJECT_TEXT 70     /* "traceparent: 00-" 32 "-" 16 "-" 2 "\r\n" */

const volatile __u64 inject_salt[2];
__u32 inject_mode;
__u32 inject_failures;
__u32 inject_options; /* not 0: contexts go into an option of TCP, too */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WS_I_MAX);
	__type(key, __u32);
	__type(value, __u64);
} inject_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 16384);
	__type(key, __u64); /* cookie */
	__type(value, __u32);
} inject_sockets SEC(".maps");

struct trace_context {
	__u8 trace[16];
	__u8 span[8];
	__u8 flags;
	__u8 unknown; /* the request may have had a context, but it could not be read */
	__u8 none;    /* the request was read, and has no context */
	__u8 pad[5];
};

/* A client socket. */
struct inject_sock {
	struct trace_context sent;
	__u32 start;	/* sequence number of the first byte of the request */
	__u32 looked;	/* 1 + number of calls when the program looked at the socket */
	__u32 optioned; /* 1 + number of calls when a context was last chosen for an option */
	__u32 next;	/* sequence number at which the next request begins, if `certain` */
	__u8 leave;	/* the socket leaves the map at its next packet */
	__u8 gone;
	__u8 options;  /* segments may carry contexts in options */
	__u8 due;      /* `sent` goes out in an option of the segment that begins at `start` */
	__u8 carried;  /* the last call that was looked at has a context in its bytes */
	__u8 certain;  /* the end of the last request is known */
	__u8 http2;    /* the connection began with the preface of HTTP/2 */
	__u8 text[72]; /* what is put into the request; the stack has no room for it */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct inject_sock);
} inject_socks SEC(".maps");

/*
 * Contexts that came with requests, by exchange or by stream. An exchange that is not here came without a context; a
 * stream without one has an entry that says so.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct trace_context);
} contexts SEC(".maps");

/* Processes that act for requests of others, or have done so. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32); /* pid */
	__type(value, __u8);
} serving SEC(".maps");

static __always_inline void note_serving(__u32 pid)
{
	__u8 yes = 1;

	if (!bpf_map_lookup_elem(&serving, &pid))
		remember(&serving, &pid, &yes);
}

static __always_inline void inject_count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&inject_counters, &which);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* The kernel gave no memory. */
static __always_inline void inject_fail(void)
{
	inject_count(WS_I_INJECT_FAILED);
	__sync_fetch_and_add(&inject_failures, 1);
}

static __always_inline __u64 mix(__u64 x, __u64 y)
{
	x = (x ^ y) * 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 29;
	x *= 0x94d049bb133111ebULL;
	return x ^ x >> 32;
}

/* Trace id for a request that came without context. All requests that it causes get the same id. */
static __always_inline void own_trace(struct trace_context *c, __u64 exchange)
{
	__u64 high = mix(inject_salt[0], exchange), low = mix(inject_salt[1], exchange) | 1;

	__builtin_memcpy(c->trace, &high, 8);
	__builtin_memcpy(c->trace + 8, &low, 8);
	c->flags = 1;
}

static __always_inline void new_span(struct trace_context *c, __u64 exchange, __u32 seq)
{
	__u64 id = mix(mix(inject_salt[0] ^ inject_salt[1], exchange), seq) | 1;

	__builtin_memcpy(c->span, &id, 8);
}

/*
 * Predicts the cause of the request that is about to be sent on this socket; 0: it has none; WS_PROVISIONAL: not known,
 * so that no context is injected. follow_cause() decides only when the call has ended, which is too late for injection.
 *
 * The rules are those of follow_request(), in this order: the first request of a connection has the cause of the
 * connect; a request for deliveries has no cause; an untrusted actor has no known cause; any other actor has the cause
 * in its attribution. A worker without a cause of its own gets a provisional one in act(), which is named later. Here
 * it gets the cause of its waker instead, if it was woken where it waits for work; a weaker guess is not used. A new
 * thread that has told its creator that it runs, and then connects, is such a worker, too. On a connection that it has
 * opened it keeps that cause, whoever wakes it until it sends: that may be an interpreter's lock, not yet known as one.
 *
 * In these cases follow_request() may decide otherwise: is_stale(), goes_on(), a worker that was woken by a worker, a
 * thread that was untrusted when it connected or has since got a job from its runtime, and a first request that asks
 * for deliveries.
 */
static __always_inline __u64 cause_of_next(const struct sock_state *s, const struct attribution *a, __u32 tid,
					   __u32 pid)
{
	bool by_another = s->exchange == 0 && is_opened_by_another(s, a, tid, pid);
	__u64 opener = by_another ? opened_for(s, a) : s->exchange == 0 && s->connect_tid == tid ? s->connect_cause : 0;
	bool connected = opener != 0;
	__u64 cause = connected ? opener : s->pulls ? 0 : a->cause;
	bool untrusted = !connected && (by_another || is_untrusted(a, pid));
	bool known = connected || (a->state != ACTS_RETURNED && (a->cause || a->state != ACTS_LENT));

	if (s->pulls)
		return cause;
	if (untrusted)
		return WS_PROVISIONAL;
	if (known && !is_provisional(cause))
		return cause;
	if (connected && s->connect_guess)
		return s->connect_guess;
	if (!a->guess)
		return WS_PROVISIONAL;
	return a->woken || (a->by_waker && cause == a->cause && !a->pending) ? a->guess : WS_PROVISIONAL;
}

/*
 * The context for a request with this cause. False if the request must not get one. `number` tells this request from
 * others of the exchange.
 */
static __always_inline bool context_of(struct trace_context *c, __u64 cause, __u64 exchange, __u32 number)
{
	struct trace_context *came = cause ? bpf_map_lookup_elem(&contexts, &cause) : NULL;

	__builtin_memset(c, 0, sizeof(*c));
	/* A request that came on a stream and is not in the map may have had a context: it could not be read. */
	if (came ? came->unknown : is_provisional(cause) || is_by_stream(cause))
		return false;
	if (came && !came->none) {
		__builtin_memcpy(c->trace, came->trace, sizeof(c->trace));
		c->flags = came->flags;
	} else {
		own_trace(c, cause ? cause : exchange);
	}
	new_span(c, exchange, number);
	return true;
}

/*
 * Chooses the context for the next request of this socket. A request that is sent before the last one is answered
 * belongs to the same exchange, and so has the same cause.
 */
static __always_inline bool choose_context(struct trace_context *c, const struct sock_state *s,
					   const struct attribution *a, __u32 tid, __u32 pid, __u32 seq)
{
	bool goes_on = s->run == WS_EGRESS;
	__u64 exchange = exchange_of(s->cookie, s->exchange + !goes_on);

	return context_of(c, goes_on ? s->cause : cause_of_next(s, a, tid, pid), exchange, seq);
}

/*
 * Notes where a call on a socket of the map begins, before TCP has taken any byte of it, as is done for a call that is
 * timed from its entry (message/tracepoints.h). When the call ends, the socket has counted the added bytes, too. And
 * TCP gets a long call in pieces, so that the tracepoint does not see its start.
 */
static __always_inline void note_call(struct task_state *t, __u64 sk, __u32 seq)
{
	if (t->enter_sk == sk)
		return;
	t->enter_sk = sk;
	t->enter_ns = bpf_ktime_get_ns();
	t->enter_seq = seq;
}

/* Reports the bytes that were added to a request, `at` bytes behind its first one, which has this sequence number. */
static __always_inline void tell_injected(const struct trace_context *sent, __u64 cookie, __u32 seq, __u16 at,
					  __u16 added, __u32 stream)
{
	struct ws_context *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		count(WS_C_LOST_RING_FULL);
		return;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->kind = WS_CONTEXT;
	e->direction = WS_EGRESS;
	e->flags = sent->flags;
	e->at = at;
	e->added = added;
	e->seq = seq;
	e->stream = stream;
	e->socket = cookie;
	e->time_ns = bpf_ktime_get_ns();
	__builtin_memcpy(e->trace, sent->trace, sizeof(e->trace));
	__builtin_memcpy(e->span, sent->span, sizeof(e->span));
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

#endif
