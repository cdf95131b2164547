/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Which thread is woken by which answer. On a connection that many threads share, an event loop reads the answers and
 * wakes one waiting thread after the other, in the order of the answers. The kernel cannot tell how many answers one
 * read has brought, because it does not know the protocol. So it reports each such wake-up with the read before it, and
 * user space matches them with the decoded answers.
 */
#ifndef WS_ANSWER_H
#define WS_ANSWER_H

/* A message was recorded at this time. Notes when the thread has read an answer, and whether it reads requests. */
static __always_inline void note_answer(struct task_state *t, const struct sock_state *s, __u8 direction, __u64 now)
{
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

/*
 * A thread that reads for others wakes one that acts for the cause of `c`. The cause of a worker that has sent nothing
 * yet is a guess, which says nothing here: in Node and in Jetty, 117 of 155 such wake-ups named a wrong request.
 */
static __always_inline void tell_woken(const struct task_state *t, __u32 pid, const struct attribution *c)
{
	struct ws_wake e = { .kind = WS_WAKE, .pid = pid };

	if (!c || !c->cause || c->state == ACTS_RETURNED)
		return;
	e.cause = c->cause;
	e.socket = t->received_from;
	e.read_ns = t->answer_ns;
	e.time_ns = bpf_ktime_get_ns();
	if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_RING_FULL);
}

#endif
