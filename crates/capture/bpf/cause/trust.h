/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Whether a thread may be believed to act for what it read last, learnt from its answers, each of which says for whom it is:
 * a process that answers another request than the one it is believed to act for puts its work off (asyncio and HAProxy read
 * what several sockets have, then act for one after the other; reactors hand work to whoever is free). There a request is
 * sent for a certain cause only by who has read nothing else since it slept, and has sent nothing since. A process whose
 * answers were in turn, though several requests were being served, is believed (nginx and Node deal with one event after
 * the other). Before either is known, who has read one request after the other without acting in between is not believed.
 * Goroutines do one thing at a time, and are always believed: their process is 0 here.
 *
 * What is not believed is kept beside the cause, through the calls, so that answers test it still: threads that each deal at
 * once with what they read (asynchronous .NET) are believed after a while, whatever went wrong at first.
 */
#ifndef WS_DISTRUST_H
#define WS_DISTRUST_H

#define WS_DISTRUST_NEW 8   /* so many answers in turn, and it is believed */
#define WS_DISTRUST_MORE 32 /* what an answer out of turn adds */
#define WS_DISTRUST_MOST 255
#define WS_DISTRUST_FRAMES (1U << 31) /* with a process id: of what it does for the frame that it was given last */
#define WS_DISTRUST_TURNS (1U << 30) /* …of the order in which it takes turns (turns.h); process ids are below 2^22 */

/* By thread group; one that is not here has WS_DISTRUST_NEW. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u32);
} trust SEC(".maps");

static __always_inline __u32 distrust_of(__u32 pid)
{
	__u32 *distrust;

	if (!pid)
		return 0;
	distrust = bpf_map_lookup_elem(&trust, &pid);
	return distrust ? *distrust : WS_DISTRUST_NEW;
}

static __always_inline void out_of_turn(__u32 pid)
{
	__u32 distrust = distrust_of(pid) + WS_DISTRUST_MORE;

	if (!pid)
		return;
	if (distrust > WS_DISTRUST_MOST)
		distrust = WS_DISTRUST_MOST;
	bpf_map_update_elem(&trust, &pid, &distrust, BPF_ANY);
}

static __always_inline void in_turn(__u32 pid)
{
	__u32 distrust = distrust_of(pid);

	if (!pid || !distrust)
		return;
	distrust--;
	bpf_map_update_elem(&trust, &pid, &distrust, BPF_ANY);
}

/* Frames come for many streams: each answer to whom the last one was for says that they are dealt with one by one. */
static __always_inline void answer_in_turn(const struct attribution *c, __u32 pid)
{
	if (pid && c->framed)
		in_turn(pid | WS_DISTRUST_FRAMES);
	if (c->overlap)
		in_turn(pid);
}

/* What was learnt, or believed of its runtime, says nothing of what it does now. */
static __always_inline void forget_trust(__u32 pid)
{
	bpf_map_delete_elem(&trust, &pid);
}

/* For whom it acts by this rule, whether that is believed or not. */
static __always_inline __u64 by_rule(const struct attribution *c)
{
	return c->state > ACTS_ANSWERED ? 0 : c->cause ? c->cause : c->untrusted_cause;
}

/* …or by whatever else it is known: a hand-over, a task. */
static __always_inline bool seems_to_act_for(const struct attribution *c, __u64 exchange)
{
	return c->cause == exchange || by_rule(c) == exchange;
}

/* Whether what is sent now may be for another request than that for which the sender is believed to act. */
static __always_inline bool is_untrusted(const struct attribution *c, __u32 pid)
{
	__u32 distrust;

	if (!c->cause && c->evidence == WS_EV_INFERRED)
		return true;
	if (c->authoritative)
		return false;
	if (c->framed)
		return distrust_of(pid | WS_DISTRUST_FRAMES) > WS_DISTRUST_NEW;
	if (c->state > ACTS_ANSWERED)
		return distrust_of(pid) > WS_DISTRUST_NEW;
	/* Where work is put off, a thread of no loop may have read for another who acts, and act for another. */
	if (!c->cause || (!c->overlap && !c->acted && c->evidence != WS_EV_THREAD))
		return false;
	distrust = distrust_of(pid);
	return distrust > WS_DISTRUST_NEW || (distrust && c->overlap == MIXED);
}

/* After a message, or when it connects: for whom it goes on; tell_allocations() says so where there is more stack. */
static __always_inline void note_allocations(struct task_struct *task, struct task_state *t,
					     const struct attribution *c)
{
	bool own;

	if (!t->facts.java.thread || !(t->java_serves || t->java_mounts || t->loop))
		return;
	if (c && (c->state == ACTS_RETURNED || is_provisional(c->cause)))
		c = NULL;
	/* Who has work of others may have the next before it says anything. */
	own = c && c == &t->acts && (t->java_serves || t->loop) && !t->java_mounts && c->state <= ACTS_ANSWERED &&
	      (t->loop ? !c->acted || c->authoritative : !is_untrusted(c, task->tgid));
	t->allocates_for = c ? c->cause : 0;
	t->allocates = ALLOCATES | (own ? ALLOCATES_OWN : 0);
}

static __always_inline void tell_allocations(struct task_state *t)
{
	if (t->allocates)
		allocates_for(t, t->allocates_for, (t->allocates & ALLOCATES_OWN) != 0);
	t->allocates = 0;
}

#endif
