/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Requests that another actor has answered than the one that read them. */
#ifndef WS_OTHERS_H
#define WS_OTHERS_H

/*
 * By socket: the last request that was not answered by the actor that had read it. The answering actor had another
 * cause, or its runtime had handed the work to it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} answered_by_others SEC(".maps");

__u32 has_others; /* not 0 if the map has an entry; otherwise look-ups are skipped */

/* Whether the runtime itself says for which other actor this one works now. */
static __always_inline bool is_job(const struct attribution *a)
{
	return a->authoritative && a->state == ACTS_LENT;
}

static __always_inline void answer_for_another(const struct sock_state *s, const struct attribution *a, __u64 exchange)
{
	__u64 cookie = s->cookie;

	if (s->exchange && (!seems_to_act_for(a, exchange) || is_job(a))) {
		has_others = 1;
		remember(&answered_by_others, &cookie, &exchange);
	}
}

/* Whether another actor has answered the request that this actor has read. Asked when the actor calls. */
static __always_inline bool is_stale(const struct attribution *a)
{
	__u64 cookie = socket_of(a->cause), *answered;

	if (!has_others || a->authoritative || a->state != ACTS_OWN || a->evidence != WS_EV_THREAD || !a->cause ||
	    is_by_stream(a->cause))
		return false;
	answered = bpf_map_lookup_elem(&answered_by_others, &cookie);
	return answered && *answered >= a->cause;
}

#endif
