/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Which thread is woken by which answer. On a connection that many threads share, an event loop reads the answers and
 * wakes one waiting thread after the other, in the order of the answers. The kernel cannot tell how many answers one
 * read has brought, because it does not know the protocol. So it reports each such wake-up with the read before it, and
 * user space matches them with the decoded answers.
 */
#ifndef WS_ANSWER_H
#define WS_ANSWER_H

/*
 * A message was recorded at this time. Notes when the thread has read an answer, and whether it reads requests. What a
 * producer has sent may never be answered, and then who waits for it is woken after the send.
 */
static __always_inline void note_answer(struct task_state *t, const struct sock_state *s, __u8 direction, __u64 now)
{
	t->brings_ns = 0;
	t->moved_on = s->cookie;
	t->moved_ns = requests_share(s, t) && (direction == WS_INGRESS || s->gathers) ? now : 0;
	if (direction != WS_INGRESS)
		return;
	t->answer_ns = s->request_direction == WS_EGRESS ? now : 0;
	t->serves |= s->request_direction == WS_INGRESS;
}

/* Whether this thread reads answers for others: an event loop that reads no requests, and has read an answer last. */
static __always_inline bool reads_for_others(const struct task_state *t)
{
	return t->loop && t->answer_ns && !t->serves;
}

#define WS_BRINGS_NS 5000000 /* longest time for which an answer is on its way from thread to thread */

/*
 * A thread wakes another one, which acts for the cause of `c`. If it has read an answer, that was probably what the
 * other waits for. A loop may as well give the answer to a worker, which understands it and then wakes who waits
 * for it (the JDK's HTTP client): so what a loop has read goes with whom it wakes, until that one waits for it in a
 * known task, or sends or reads something itself. A thread that has read its request itself may have left it to
 * others (an asynchronous servlet) and be woken for another one. The cause of a worker that has sent nothing yet is
 * a guess, which says nothing here: in Node and in Jetty, 117 of 155 such wake-ups named a wrong request.
 */
static __always_inline void pass_answer(struct task_state *t, struct task_state *w, const struct task_struct *wakee,
					const struct attribution *c)
{
	struct ws_wake e = { .kind = WS_WAKE, .pid = wakee->tgid, .tid = wakee->pid };
	bool reads = reads_for_others(t);

	if (c && (!c->cause || c->state == ACTS_RETURNED || w->loop))
		c = NULL;
	e.unsure = c && c->state != ACTS_OWN && !(c->state == ACTS_LENT && c->authoritative);
	e.socket = reads ? t->received_from : t->brings_from;
	e.read_ns = reads ? t->answer_ns : t->brings_ns;
	e.time_ns = bpf_ktime_get_ns();
	if (!reads && e.time_ns - e.read_ns > WS_BRINGS_NS)
		e.read_ns = 0;
	w->brings_from = e.socket;
	w->brings_ns = c && !e.unsure ? 0 : e.read_ns;
	if (!c || !e.read_ns || (!reads && (e.unsure || c->state == ACTS_OWN)))
		return;
	t->brings_ns = 0;
	e.cause = c->cause;
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
}

/*
 * The same of actors that are no threads (goroutines, tasks of asyncio), where requests share a connection. Whoever
 * reads it wakes another actor, and so on, until one is woken that acts for a request of its own. So the answer goes
 * with whom its bringer wakes. Where nothing is answered, the send of a producer counts for the answer.
 */
struct answer {
	__u64 socket;
	__u64 read_ns;
};

/* The answer that an actor brings, or an object by which it wakes another one. */
WS_TABLE(answers, struct actor_key, struct answer);

/* Numbers of threads are smaller than this bit, which tells those of other actors apart. */
#define WS_NO_THREAD (1U << 31)

/* What the running actor with this key brings: what it has moved itself, or what it was brought. False: nothing. */
static __always_inline bool answer_of(const struct task_state *t, const struct actor_key *key, bool moved,
				      struct answer *brings)
{
	struct answer *brought;

	if (moved && t->moved_ns) {
		brings->socket = t->moved_on;
		brings->read_ns = t->moved_ns;
		return true;
	}
	brought = table_find(&answers, key);
	if (!brought || bpf_ktime_get_ns() - brought->read_ns >= WS_BRINGS_NS)
		return false;
	*brings = *brought;
	return true;
}

enum brought_to {
	BROUGHT_TO_READER = 1, /* it reads for others, whatever cause it has */
	BROUGHT_TO_CHILD = 2,  /* a cause that it has from its maker is its own */
};

/* An actor is woken with this answer. `to`: enum brought_to, or 0. Before Linux 6.2 no table reads an argument. */
__noinline int bring_answer(const struct actor_key *to_whom, const struct answer *brought, __u32 to)
{
	struct ws_wake e = { .kind = WS_WAKE };
	const struct attribution *c;
	struct actor_key key;
	struct answer brings;

	if (!to_whom || !brought)
		return 0;
	key = *to_whom;
	brings = *brought;
	c = actor_find(&key);
	e.unsure = to & BROUGHT_TO_READER || (c && c->state != ACTS_OWN && !(to & BROUGHT_TO_CHILD));
	if (!c || !c->cause || e.unsure) /* it may have to wake another one, who waits for it */
		table_put(&answers, &key, &brings, BPF_ANY);
	if (!c || !c->cause || c->state == ACTS_RETURNED)
		return 0;
	e.pid = key.pid;
	e.tid = (__u32)key.id | WS_NO_THREAD;
	e.socket = brings.socket;
	e.read_ns = brings.read_ns;
	e.cause = c->cause;
	e.time_ns = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
	return 0;
}

#endif
