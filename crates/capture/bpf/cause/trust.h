/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Whether a thread is trusted to act for the request that it read last. Trust is learnt from answers, because each
 * answer names its request:
 *  - A process that answers another request than the rules name puts its work off. Examples: asyncio and HAProxy read
 *    several sockets, then act for one after the other; reactors hand work to any free thread. In such a process a
 *    request has a certain cause only if its sender has read nothing else since it slept, and has sent nothing since.
 *  - A process whose answers came in turn while several requests were open is trusted. Examples: nginx and Node deal
 *    with one event after the other.
 *  - Until one of these is known, an actor that has read several requests without acting in between is not trusted.
 *  - Actors that are no threads do one thing at a time, and are always trusted. Their process is 0 here.
 *
 * The cause that the rules name for an untrusted actor is kept, so that answers can test it. So threads that act at
 * once for what they read (asynchronous .NET) become trusted after a while, whatever went wrong at first.
 */
#ifndef WS_DISTRUST_H
#define WS_DISTRUST_H

#define WS_DISTRUST_NEW 8   /* after so many answers in turn, a process is trusted */
#define WS_DISTRUST_MORE 32 /* distrust that one answer out of turn adds */
#define WS_DISTRUST_MOST 255
#define WS_DISTRUST_FRAMES (1U << 31) /* with a process id: distrust of the rule that it acts for its last frame */
#define WS_DISTRUST_TURNS (1U << 30)  /* with a process id (below 2^22): distrust of the order in node/turns.h */

/* Distrust, by thread group: 0 is full trust; a process that is not here has WS_DISTRUST_NEW. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct ws_trust);
} trust SEC(".maps");

static __always_inline __u32 distrust_of(__u32 pid)
{
	const struct ws_trust *known;

	if (!pid)
		return 0;
	known = bpf_map_lookup_elem(&trust, &pid);
	return known ? known->distrust : WS_DISTRUST_NEW;
}

static __always_inline void out_of_turn(__u32 pid)
{
	struct ws_trust new = { .distrust = distrust_of(pid) + WS_DISTRUST_MORE };

	if (!pid)
		return;
	if (new.distrust > WS_DISTRUST_MOST)
		new.distrust = WS_DISTRUST_MOST;
	bpf_map_update_elem(&trust, &pid, &new, BPF_ANY);
}

static __always_inline void in_turn(__u32 pid)
{
	struct ws_trust new = { .distrust = distrust_of(pid) };

	if (!pid || !new.distrust)
		return;
	new.distrust--;
	bpf_map_update_elem(&trust, &pid, &new, BPF_ANY);
}

/*
 * A process that only takes messages answers nobody, and no answer would ever test it. It is trusted until one does.
 */
static __always_inline void begin_trusted(__u32 pid)
{
	struct ws_trust new = {};

	bpf_map_update_elem(&trust, &pid, &new, BPF_NOEXIST);
}

/*
 * An answer came in turn. If the process gets frames of many streams, an answer on the stream of the last frame shows
 * that it deals with frames one by one.
 */
static __always_inline void answer_in_turn(const struct attribution *c, __u32 pid)
{
	if (pid && c->framed)
		in_turn(pid | WS_DISTRUST_FRAMES);
	if (c->overlap)
		in_turn(pid);
}

/* Forgets what was learnt about the process, or assumed because of its runtime. */
static __always_inline void forget_trust(__u32 pid)
{
	bpf_map_delete_elem(&trust, &pid);
}

/* The cause of the last read, whether the actor is trusted or not. */
static __always_inline __u64 by_rule(const struct attribution *c)
{
	return c->state > ACTS_ANSWERED ? 0 : c->cause ? c->cause : c->untrusted_cause;
}

/* Whether the last read, a hand-over or a task names this request as the actor's cause. */
static __always_inline bool seems_to_act_for(const struct attribution *c, __u64 exchange)
{
	return c->cause == exchange || by_rule(c) == exchange;
}

/* Whether a send may belong to another request than the rules name. */
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
	/* In a process that puts work off, also a thread without a loop may read for one actor and act for another. */
	if (!c->cause || (!c->overlap && !c->acted && c->evidence != WS_EV_THREAD))
		return false;
	distrust = distrust_of(pid);
	return distrust > WS_DISTRUST_NEW || (distrust && c->overlap == MIXED);
}

#endif
