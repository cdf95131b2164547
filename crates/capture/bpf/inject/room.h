/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * How many bytes of a call TCP certainly takes at once. The kernel reports a call that TCP takes only in part with the
 * added bytes subtracted. So all added bytes must be among those that it takes; behind them a call may be cut.
 */
#ifndef WS_INJECT_ROOM_H
#define WS_INJECT_ROOM_H

/* If nothing else is queued, TCP takes so many bytes even when memory is short. */
#define WS_INJECT_LONGEST 4096
#define WS_INJECT_ROOM 16384 /* bytes that must be free in the send buffer */
/* Pages that must be free of each limit on memory: processors and other sockets take some at the same time. */
#define WS_INJECT_SPARE_PAGES 2048
#define WS_INJECT_LEVELS 8 /* of memory cgroups; in a deeper one memory counts as short */

static __always_inline bool has_spare(const struct page_counter *counter)
{
	for (int level = 0; counter; level++) {
		long used = BPF_CORE_READ(counter, usage.counter);

		if (level == WS_INJECT_LEVELS || used + WS_INJECT_SPARE_PAGES > BPF_CORE_READ(counter, max))
			return false;
		counter = BPF_CORE_READ(counter, parent);
	}
	return true;
}

/* Whether memory for the buffers of TCP is far from each of its limits: of the host, of the memory cgroup. */
static __always_inline bool memory_is_plenty(const struct sock *sk)
{
	struct proto *proto = BPF_CORE_READ(sk, __sk_common.skc_prot);
	atomic_long_t *allocated = BPF_CORE_READ(proto, memory_allocated);
	unsigned long *pressure = BPF_CORE_READ(proto, memory_pressure), pressed = 1;
	long *limits = BPF_CORE_READ(proto, sysctl_mem), limit = 0, used = 0;
	struct mem_cgroup *group;

	if (bpf_probe_read_kernel(&pressed, sizeof(pressed), pressure) || pressed ||
	    bpf_probe_read_kernel(&limit, sizeof(limit), limits) ||
	    bpf_probe_read_kernel(&used, sizeof(used), allocated) || used + WS_INJECT_SPARE_PAGES > limit)
		return false;
	if (!bpf_core_field_exists(sk->sk_memcg))
		return true;
	group = BPF_CORE_READ(sk, sk_memcg);
	if (!group)
		return true;
	if (bpf_core_field_exists(group->tcpmem) && !has_spare(&group->tcpmem))
		return false;
	return has_spare(&group->memory);
}

/* Whether the program has asked to be held up while few bytes wait to be sent (TCP_NOTSENT_LOWAT). */
static __always_inline bool is_held_up(const struct tcp_sock *tp, const struct sock *sk)
{
	struct net *net = BPF_CORE_READ(sk, __sk_common.skc_net.net);
	__u32 most = tp->notsent_lowat ?: BPF_CORE_READ(net, ipv4.sysctl_tcp_notsent_lowat);

	return most - 1 < 1U << 20;
}

/*
 * Bytes at the start of a call that TCP certainly takes; 0 if that is not certain of any. A global function, so that
 * the verifier follows it once.
 */
__noinline __u32 certainly_taken(struct sk_msg_md *m)
{
	struct bpf_sock *sk = m->sk;
	struct tcp_sock *tp;
	struct sock *full;
	int room;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	full = (struct sock *)tp;
	room = BPF_CORE_READ(full, sk_sndbuf) - BPF_CORE_READ(full, sk_wmem_queued);
	if (room < WS_INJECT_ROOM || is_held_up(tp, full))
		return 0;
	if (memory_is_plenty(full))
		return (__u32)room / 4;
	return tp->snd_una == tp->write_seq ? WS_INJECT_LONGEST : 0;
}

#endif
