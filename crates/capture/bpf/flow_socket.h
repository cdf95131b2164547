/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The state of a socket whose flow is followed: found, made, owned, and brought into its bundle. */
#ifndef WS_FLOW_SOCKET_H
#define WS_FLOW_SOCKET_H

static __always_inline __u64 flow_cookie(const struct sock *sk)
{
	return sk->__sk_common.skc_cookie.counter;
}

#define NS_PER_TICK 10000000 /* /proc/PID/stat tells the start in hundredths of a second: the same here, to be the same process */

static __always_inline void flow_fill_owner(struct flow_owner *o, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	o->cgroup_id = task->cgroups->dfl_cgrp->kn->id;
	o->start_ns = leader->start_boottime / NS_PER_TICK * NS_PER_TICK;
	o->pid = task->tgid;
	o->pad = 0;
	__builtin_memcpy(o->comm, leader->comm, WS_COMM_LEN);
}

static __always_inline void flow_set_owner(struct flow_sock *f, const struct flow_owner *o)
{
	f->owner = *o;
	f->key.pid = o->pid;
	f->key.start_ns = o->start_ns;
}

/* Zeros stand for any address, in both families. */
static __always_inline void flow_any(__u8 *address)
{
	__u32 *a = (__u32 *)address;

	if (!a[0] && !a[1] && a[2] == bpf_htonl(0xffff) && !a[3])
		a[2] = 0;
}

static __always_inline void flow_addresses(struct ws_flow_key *key, const struct sock *sk)
{
	if (sk->__sk_common.skc_family == AF_INET6) {
		BPF_CORE_READ_INTO(&key->local, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&key->remote, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
	} else {
		put_v4(key->local, sk->__sk_common.skc_rcv_saddr);
		put_v4(key->remote, sk->__sk_common.skc_daddr);
	}
	flow_any(key->local);
	flow_any(key->remote);
}

/* Everything but whose it is. */
static __always_inline void flow_init(struct flow_sock *f, struct sock *sk, __u8 role)
{
	__u16 own = sk->__sk_common.skc_num, other = bpf_ntohs(sk->__sk_common.skc_dport);

	__builtin_memset(f, 0, sizeof(*f));
	f->sk = (__u64)sk;
	flow_addresses(&f->key, sk);
	f->key.netns = sk->__sk_common.skc_net.net->ns.inum;
	f->key.transport = sk->sk_protocol == IPPROTO_UDP ? WS_UDP : WS_TCP;
	f->key.role = role;
	f->key.port = role == WS_CLIENT ? other : own;
	f->client_port = role == WS_CLIENT ? own : other;
}

static __always_inline struct flow_sock *flow_find(struct sock *sk)
{
	__u64 cookie = flow_cookie(sk);
	struct flow_sock *f = cookie ? bpf_map_lookup_elem(&flow_sockets, &cookie) : NULL;

	return f ?: bpf_sk_storage_get(&flow_others, sk, 0, 0);
}

/* Keeps a new state; where there is room. NULL if there is no memory at all. */
static __always_inline struct flow_sock *flow_keep(struct sock *sk, const struct flow_sock *f)
{
	__u64 cookie = bpf_get_socket_cookie(sk);
	struct flow_sock *kept;

	if (!bpf_map_update_elem(&flow_sockets, &cookie, f, BPF_ANY))
		return bpf_map_lookup_elem(&flow_sockets, &cookie);
	count(WS_C_FLOW_UNLISTED);
	kept = bpf_sk_storage_get(&flow_others, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (kept)
		*kept = *f;
	else
		count(WS_C_LOST_STATE);
	return kept;
}

static __always_inline __u64 due_u64(__u64 now, __u64 *bundled)
{
	__u64 old = *bundled;

	/* A sweep and a close may meet: one of them gets it, and what the other has seen is older. */
	return now > old && __sync_val_compare_and_swap(bundled, old, now) == old ? now - old : 0;
}

static __always_inline __u32 due_u32(__u32 *bundled, __u32 now)
{
	__u32 old = *bundled;

	return now != old && __sync_val_compare_and_swap(bundled, old, now) == old ? now - old : 0;
}

static __always_inline __u32 take_u32(__u32 *due)
{
	return *due ? __sync_lock_test_and_set(due, 0) : 0;
}

static __always_inline struct flow_slot *flow_slot(__u64 cookie)
{
	__u32 at = cookie & flow_slot_mask;

	return cookie ? bpf_map_lookup_elem(&flow_slots, &at) : NULL;
}

/* Calls go into the slot from now on, if it is free. */
static __always_inline void flow_take_slot(__u64 cookie)
{
	struct flow_slot *s = flow_slot(cookie);

	if (s && !s->cookie)
		__sync_val_compare_and_swap(&s->cookie, 0, cookie);
}

static __always_inline void flow_leave_slot(struct flow_sock *f, __u64 cookie)
{
	struct flow_slot *s = flow_slot(cookie);

	if (!s || s->cookie != cookie)
		return;
	for (int i = 0; i < 2; i++) {
		f->messages[i] += s->calls[i];
		s->calls[i] = 0;
	}
	s->cookie = 0;
}

/* What TCP counts itself. */
struct flow_tcp {
	__u64 bytes[2];		/* given to it and received by it in order; by enum ws_direction */
	__u32 unread;
	__u32 retransmits;
	__u32 out_of_order;
	__u32 srtt_us;
	__u32 window;
	__u32 drops;
};

#define SOCK_DONE 1 /* a FIN came */

/*
 * A FIN has a sequence number, and counts as a byte received, but is none. What is sent again is not sent. In this order,
 * whoever looks without a lock sees too little rather than too much, and the rest the next time.
 */
#define FLOW_BYTES(now, READ)                                                                                      \
	do {                                                                                                       \
		__u64 sent = READ(tp, bytes_sent), received = READ(tp, bytes_received), again;                     \
		__u32 fin;                                                                                         \
		barrier();                                                                                         \
		again = READ(tp, bytes_retrans);                                                                   \
		fin = READ(sk, __sk_common.skc_flags) >> SOCK_DONE & 1;                                            \
		(now)->bytes[WS_EGRESS] = sent > again ? sent - again : 0;                                         \
		(now)->bytes[WS_INGRESS] = received > fin ? received - fin : 0;                                    \
		(now)->unread = READ(tp, rcv_nxt) - fin - READ(tp, copied_seq);                                    \
	} while (0)

#define FLOW_FIELD(p, field) ((p)->field)
#define FLOW_PROBE(p, field) BPF_CORE_READ(p, field)

#define SEND_SHUTDOWN 2

/* Of a socket that the verifier knows, where TCP holds its lock or rests: what was given to TCP, sent or not. */
static __always_inline void flow_look(struct flow_tcp *now, struct sock *sk, struct tcp_sock *tp)
{
	__u32 unsent = tp->write_seq - tp->snd_nxt;

	FLOW_BYTES(now, FLOW_FIELD);
	if (unsent && sk->sk_shutdown & SEND_SHUTDOWN)
		unsent--; /* the FIN */
	now->bytes[WS_EGRESS] += unsent;
	now->retransmits = tp->total_retrans;
	now->out_of_order = tp->rcv_ooopack;
	now->srtt_us = tp->srtt_us >> 3;
	now->window = tp->snd_wnd;
}

/* Of a socket that others may be using: what waits to be sent is left for later. */
static __always_inline void flow_read_tcp(struct flow_tcp *now, struct sock *sk, bool listens)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (listens) {
		now->drops = BPF_CORE_READ(sk, sk_drops.counter);
		return;
	}
	FLOW_BYTES(now, FLOW_PROBE);
	now->retransmits = BPF_CORE_READ(tp, total_retrans);
	now->out_of_order = BPF_CORE_READ(tp, rcv_ooopack);
	now->srtt_us = BPF_CORE_READ(tp, srtt_us) >> 3;
	now->window = BPF_CORE_READ(tp, snd_wnd);
}

enum flow_end { FLOW_LIVES, FLOW_CLOSED, FLOW_FAILED };

/* Brings what is due into the bundle. `now` is NULL if the socket cannot be asked, `slot` if it has none. */
__noinline int flow_settle(struct flow_sock *f, const struct flow_tcp *now, const struct flow_slot *slot, enum flow_end end)
{
	struct flow_due d = {};
	__u64 moved = 0;

	if (!f)
		return 0;
	for (int i = 0; i < 2; i++) {
		if (now && f->based)
			d.bytes[i] = due_u64(now->bytes[i], &f->bytes[i]);
		d.messages[i] = due_u64(f->messages[i] + (slot ? slot->calls[i] : 0), &f->messages_bundled[i]);
		moved |= d.messages[i] | d.bytes[i];
	}
	d.opened = take_u32(&f->opened);
	d.adopted = take_u32(&f->adopted);
	d.resets_sent = take_u32(&f->resets_sent);
	d.resets_received = take_u32(&f->resets_received);
	d.handshake_us = take_u32(&f->handshake_us);
	d.closed = end == FLOW_CLOSED && !f->listens;
	d.failed = end == FLOW_FAILED;
	if (now && f->listens) {
		d.listen_overflows = due_u32(&f->drops, now->drops);
	} else if (now) {
		d.retransmits = due_u32(&f->retransmits, now->retransmits);
		d.out_of_order = due_u32(&f->out_of_order, now->out_of_order);
		d.zero_windows = end == FLOW_LIVES && f->based && now->bytes[WS_EGRESS] && !now->window;
		if (moved || d.opened)
			d.srtt_us = now->srtt_us;
	}
	if (!(moved | d.opened | d.adopted | d.resets_sent | d.resets_received | d.closed |
	      d.failed | d.listen_overflows | d.retransmits | d.out_of_order | d.zero_windows))
		return 0;
	d.client_port = f->client_port;
	f->bundled = 1;
	flow_bundle(&f->key, &f->owner, &d);
	return 0;
}

/*
 * The first call on a socket tells which process uses it: of an accepted one only who listens is known before, which may be
 * a parent that handed the listening socket down.
 */
static __noinline int flow_own(struct flow_sock *f, struct sock *sk, struct task_struct *task)
{
	struct flow_owner o;

	if (!f || !target_task(task))
		return 0;
	flow_fill_owner(&o, task);
	if (f->key.pid != o.pid || f->key.start_ns != o.start_ns) {
		if (f->bundled) {
			struct flow_due d = { .moved = 1 };

			flow_bundle(&f->key, &f->owner, &d);
			f->adopted = 1;
		}
		flow_set_owner(f, &o);
	}
	f->owned = 1;
	return 0;
}

/* What was exchanged before is not ours: all but the call that is just over, and what waits to be read. */
static __always_inline void flow_base(struct flow_sock *f, struct sock *sk, struct tcp_sock *tp, __u8 direction, int ret)
{
	struct flow_tcp now = {};

	flow_look(&now, sk, tp);
	f->sk = (__u64)sk;
	f->retransmits = now.retransmits;
	f->out_of_order = now.out_of_order;
	f->bytes[WS_EGRESS] = now.bytes[WS_EGRESS] - (direction == WS_EGRESS && ret > 0 ? ret : 0);
	f->bytes[WS_INGRESS] = now.bytes[WS_INGRESS] - now.unread - (direction == WS_INGRESS && ret > 0 ? ret : 0);
	f->based = 1;
}

#endif
