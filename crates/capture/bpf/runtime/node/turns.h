/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The order of turns in Node. TLS delivers frames inside another callback, at the end of a write. Promises that wait
 * for such a delivery go on only when that callback has returned. They take turns: first the requests, which are
 * handled before any promise goes on, then the answers, each in the order of delivery. Each turn leads once to a next
 * request or to an answer.
 *
 * So deliveries (`delivered`) and their effects (`made`) are noted. They are compared when the thread does something
 * else. An answer names its request. The deliveries without an answer led to the requests that were made, in this
 * order, if the numbers agree; else nothing is known. Until then, each request has a provisional cause. Whether a
 * process keeps this order is learnt from its answers, as all trust is (cause/trust.h).
 */
#ifndef WS_NODE_TURNS_H
#define WS_NODE_TURNS_H

enum node_turn {
	NODE_AT_ONCE = 0, /* promises go on before the delivering callback returns */
	NODE_INSIDE = 1,  /* the end of a write delivers frames now */
	NODE_AFTER = 2,	  /* that callback has returned: turns may be taken */
	NODE_OVER = 3,	  /* the thread has done something else since */
};

struct node_thread {
	__u8 turn;   /* enum node_turn */
	__u8 frames; /* its frames of HTTP/2 are delivered one by one, and seen */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct node_thread);
} node_threads SEC(".maps");

#define NODE_MOST 64 /* most deliveries and effects of one round */

struct node_made {
	__u64 answered;	   /* an answer: its request; 0: a request */
	__u64 provisional; /* a request of HTTP/2: its provisional cause; else 0 */
	__u64 session;
	__u32 stream;
	__u32 pad;
};

struct node_turns {
	__u64 delivered[NODE_MOST];
	__u64 turns[NODE_MOST]; /* deliveries that led to a request, in the order of turns */
	struct node_made made[NODE_MOST];
	__u64 begun;	/* a bit for each entry of `delivered`: it is a request, not an answer */
	__u64 answered; /* the same: it is a request, and led to its answer */
	__u32 pid;
	__u32 delivered_count;
	__u32 made_count;
	__u32 turn_count;
	__u32 asked;   /* number of requests in `made`; while causes are named, of those before the current one */
	__u32 behind;  /* index in `delivered` of the last request that was answered */
	__u8 requests; /* requests are being put in order now; if 0, answers */
	__u8 lost;     /* there were more deliveries or effects than there is room for */
	__u8 believed;
	__u8 pad[5];
};

/* Rounds by thread (`pid_tgid`). */
WS_TABLE(node_rounds, __u64, struct node_turns);

/* The initial value of a round. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct node_turns);
} node_empty SEC(".maps");

static __always_inline struct node_turns *node_round(void)
{
	__u64 thread = bpf_get_current_pid_tgid();

	return table_find(&node_rounds, &thread);
}

/* Notes an effect: an answer (`answered` is its request), or a request. */
static __always_inline void node_makes(struct node_turns *r, __u64 answered, __u64 provisional, __u64 session,
				       __u32 stream)
{
	__u32 n = r->made_count;

	if (n >= NODE_MOST) {
		r->lost = 1;
		return;
	}
	r->made[n].answered = answered;
	r->made[n].provisional = provisional;
	r->made[n].session = session;
	r->made[n].stream = stream;
	r->made_count = n + 1;
}

/* The current round if several deliveries take turns, so that an effect belongs to one of them; else NULL. */
static __always_inline struct node_turns *node_in_turns(struct node_thread *n)
{
	struct node_turns *r = n->turn == NODE_AFTER ? node_round() : NULL;

	if (r && r->delivered_count > 1)
		return r;
	if (n->turn == NODE_AFTER)
		n->turn = NODE_OVER;
	return NULL;
}

/* A delivery has led to a message at once, so it gets no turn later. */
static __always_inline void node_acted(const struct node_thread *n, __u64 cause)
{
	struct node_turns *r = n->turn == NODE_INSIDE ? node_round() : NULL;
	__u32 last;

	if (!r)
		return;
	last = r->delivered_count - 1;
	if (last < NODE_MOST && r->delivered[last] == cause)
		r->delivered_count = last;
}

/* A message outside of HTTP/2. A read ends the round. A send is an effect in the round: a request, or an answer. */
static __noinline void node_message(struct node_thread *n, struct sock_state *s, __u64 exchange, bool sends)
{
	struct node_turns *r;
	__u64 answered = s->request_direction == WS_INGRESS ? exchange : 0;

	if (n->turn == NODE_INSIDE) {
		if (sends && answered)
			node_acted(n, answered);
	} else if (!sends) {
		n->turn = NODE_OVER;
	} else if (!s->shared) {
		r = node_in_turns(n);
		if (r)
			node_makes(r, answered, 0, 0, 0);
	}
}

/* A request that was answered leads to no further request. */
static long node_answered(__u32 n, struct node_turns **round)
{
	struct node_turns *r = *round;
	__u64 answered;
	__u32 i;

	if (n >= NODE_MOST)
		return 1;
	answered = r->made[n].answered;
	r->asked += !answered;
	if (!answered)
		return 0;
	for (i = 0; i < NODE_MOST; i++) {
		if (i >= r->delivered_count)
			return 0;
		if (r->delivered[i] == answered)
			break;
	}
	if (i >= NODE_MOST)
		return 0;
	r->answered |= 1ULL << i;
	if (r->begun >> i & 1)
		return 0;
	if (i < r->behind)
		out_of_turn(r->pid | WS_DISTRUST_TURNS);
	else
		in_turn(r->pid | WS_DISTRUST_TURNS);
	r->behind = i;
	return 0;
}

static long node_order(__u32 n, struct node_turns **round)
{
	struct node_turns *r = *round;
	__u32 to = r->turn_count;

	if (n >= NODE_MOST || to >= NODE_MOST)
		return 1;
	if ((r->begun >> n & 1) != r->requests || r->answered >> n & 1)
		return 0;
	r->turns[to] = r->delivered[n];
	r->turn_count = to + 1;
	return 0;
}

static long node_tell(__u32 n, struct node_turns **round)
{
	struct node_turns *r = *round;
	struct carrier_key key = {};
	struct carried *of;
	struct node_made *m;
	__u64 cause;
	__u32 at = r->asked;

	if (n >= NODE_MOST || at >= NODE_MOST)
		return 1;
	m = &r->made[n];
	if (m->answered)
		return 0;
	r->asked = at + 1;
	if (!m->provisional)
		return 0;
	cause = r->believed ? r->turns[at] : 0;
	tell_alias(m->provisional, cause, WS_ALIAS_NAME);
	key.object = m->session;
	key.pid = r->pid;
	key.stream = m->stream;
	of = actor_carried(&key);
	if (of && of->cause == m->provisional) {
		of->cause = cause;
		of->evidence = cause ? WS_EV_EVENT_LOOP : WS_EV_INFERRED;
	}
	return 0;
}

/* The round is over: names the causes of its requests. */
static __always_inline void node_settle(struct node_thread *n)
{
	struct node_turns *r = node_round();

	n->turn = NODE_AT_ONCE;
	if (!r || !r->made_count)
		return;
	r->answered = 0;
	r->asked = r->behind = r->turn_count = 0;
	bpf_loop(r->made_count, node_answered, &r, 0);
	r->requests = 1;
	bpf_loop(r->delivered_count, node_order, &r, 0);
	r->requests = 0;
	bpf_loop(r->delivered_count, node_order, &r, 0);
	r->believed =
		!r->lost && r->asked == r->turn_count && distrust_of(r->pid | WS_DISTRUST_TURNS) <= WS_DISTRUST_NEW;
	r->asked = 0;
	bpf_loop(r->made_count, node_tell, &r, 0);
}

#endif
