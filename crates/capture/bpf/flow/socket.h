/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The state of a socket whose flow is followed: found, made, owned, and brought into its bundle. */
#ifndef WS_FLOW_SOCKET_H
#define WS_FLOW_SOCKET_H

static __always_inline __u64 flow_cookie(const struct sock *sk)
{
	return sk->__sk_common.skc_cookie.counter;
}

static __always_inline void flow_fill_owner(struct flow_owner *o, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	o->cgroup_id = task->cgroups->dfl_cgrp->kn->id;
	o->start_ns = leader->start_boottime;
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

static __always_inline void flow_init_key(struct flow_sock *f, struct sock *sk, __u8 role)
{
	__u16 own = sk->__sk_common.skc_num, other = bpf_ntohs(sk->__sk_common.skc_dport);

	flow_addresses(&f->key, sk);
	f->key.netns = sk->__sk_common.skc_net.net->ns.inum;
	f->key.transport = sk->sk_protocol == IPPROTO_UDP ? WS_UDP : WS_TCP;
	f->key.role = role;
	f->key.port = role == WS_CLIENT ? other : own;
	f->client_port = role == WS_CLIENT ? own : other;
}

/* Everything but whose it is. */
static __always_inline void flow_init(struct flow_sock *f, struct sock *sk, __u8 role)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->sk = (__u64)sk;
	flow_init_key(f, sk, role);
}

#define FLOW_PLACES 3
#define FLOW_HOT 256

/*
 * Where a socket may have its place: first in a part of the arrays that stays in the cache, so that short connections
 * do not wander through memory. Neighbours do not share a line of the cache.
 */
static __always_inline __u32 flow_place(__u64 cookie, int way)
{
	__u64 at = way == 2 ? cookie * 0x9e3779b97f4a7c15ULL >> 32 : cookie * 5;

	return at & flow_slot_mask & (way == 0 ? FLOW_HOT - 1 : ~0U);
}

static __always_inline struct flow_sock *flow_listed(__u64 cookie, struct flow_slot **slot)
{
	for (int way = 0; way < FLOW_PLACES; way++) {
		__u32 at = flow_place(cookie, way);
		struct flow_slot *s = bpf_map_lookup_elem(&flow_slots, &at);

		if (s && (s->cookie & ~(FLOW_NEW | FLOW_GOING)) == cookie) {
			*slot = s;
			return bpf_map_lookup_elem(&flow_sockets, &at);
		}
	}
	return NULL;
}

/* State of a socket of TCP; its slot, if it has one. */
static __always_inline struct flow_sock *flow_find(struct sock *sk, struct flow_slot **slot)
{
	__u64 cookie = flow_cookie(sk);
	struct flow_sock *f;

	if (!cookie)
		return NULL;
	f = flow_listed(cookie, slot);
	if (f || !flow_unlisted_tcp)
		return f;
	return bpf_sk_storage_get(&flow_others, sk, 0, 0);
}

/* A free place for a new socket, which is nobody's to see before flow_publish(). */
static __always_inline struct flow_sock *flow_take(__u64 cookie, struct flow_slot **slot)
{
	for (int way = 0; way < FLOW_PLACES; way++) {
		__u32 at = flow_place(cookie, way);
		struct flow_slot *s = bpf_map_lookup_elem(&flow_slots, &at);

		if (s && !s->cookie && !__sync_val_compare_and_swap(&s->cookie, 0, FLOW_TAKEN)) {
			__u32 block = at / FLOW_BLOCK, *used = bpf_map_lookup_elem(&flow_blocks, &block);

			if (used && !*used)
				*used = 1; /* after the place is taken: see flow_sweep_block() */
			s->calls[0] = s->calls[1] = 0;
			*slot = s;
			return bpf_map_lookup_elem(&flow_sockets, &at);
		}
	}
	return NULL;
}

/* Room for the state of a new socket, where there is some. NULL if there is no memory at all. */
static __always_inline struct flow_sock *flow_room(struct sock *sk, __u64 cookie, struct flow_slot **slot)
{
	struct flow_sock *f = flow_take(cookie, slot);

	if (f)
		return f;
	flow_unlisted_tcp = true;
	count(WS_C_FLOW_UNLISTED);
	f = bpf_sk_storage_get(&flow_others, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!f)
		count(WS_C_LOST_STATE);
	return f;
}

/* The exchange is a barrier: whoever sees the cookie sees the state. */
static __always_inline void flow_publish(struct flow_slot *slot, __u64 cookie)
{
	if (slot)
		__sync_lock_test_and_set(&slot->cookie, cookie);
}

/*
 * True if no sweep reads the state of the closing socket: from here on, the close is alone with it. A sweep first
 * announces that it looks, and then looks whose place it is. A close does both in the opposite order.
 */
static __always_inline bool flow_closes(struct sock *sk, struct flow_slot *slot, struct flow_sock *f)
{
	__sync_lock_test_and_set(&slot->cookie, flow_cookie(sk) | FLOW_GOING);
	return !f->swept_now;
}

/* Frees the place, or leaves that to the sweep that is at it. */
static __always_inline void flow_leave(struct flow_slot *slot, struct flow_sock *f, bool alone)
{
	__sync_lock_test_and_set(&slot->cookie, alone ? 0 : FLOW_ENDED);
	if (!alone && !f->swept_now)
		__sync_val_compare_and_swap(&slot->cookie, FLOW_ENDED, 0);
}

/*
 * A sweep and a close may meet: one of them gets the count, and the other has seen an older one. A close that is alone
 * with the state, which ends with the close, need not pay for the atomic operation.
 */
static __always_inline __u64 due_u64(__u64 now, __u64 *bundled, bool alone)
{
	__u64 old = *bundled;

	return now > old && (alone || __sync_val_compare_and_swap(bundled, old, now) == old) ? now - old : 0;
}

static __always_inline __u32 due_u32(__u32 *bundled, __u32 now, bool alone)
{
	__u32 old = *bundled;

	return now != old && (alone || __sync_val_compare_and_swap(bundled, old, now) == old) ? now - old : 0;
}

static __always_inline __u32 take_u32(__u32 *due, bool alone)
{
	__u32 n = *due;

	return n && !alone ? __sync_lock_test_and_set(due, 0) : n;
}

/* What TCP counts itself. */
struct flow_tcp {
	__u64 bytes[2]; /* given to it and received by it in order; by enum ws_direction */
	__u32 unread;
	__u32 retransmits;
	__u32 out_of_order;
	__u32 srtt_us;
	__u32 window;
	__u32 drops;
};

#define SOCK_DONE 1 /* a FIN came */

/*
 * A FIN has a sequence number, and counts as a byte received, but is none. Bytes that are sent again do not count as
 * sent. In this order, a reader without a lock sees too little rather than too much, and the rest the next time.
 */
#define FLOW_BYTES(now, READ)                                                                  \
	do {                                                                                   \
		__u64 sent = READ(tp, bytes_sent), received = READ(tp, bytes_received), again; \
		__u32 fin;                                                                     \
		barrier();                                                                     \
		again = READ(tp, bytes_retrans);                                               \
		fin = READ(sk, __sk_common.skc_flags) >> SOCK_DONE & 1;                        \
		(now)->bytes[WS_EGRESS] = sent > again ? sent - again : 0;                     \
		(now)->bytes[WS_INGRESS] = received > fin ? received - fin : 0;                \
		(now)->unread = READ(tp, rcv_nxt) - fin - READ(tp, copied_seq);                \
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

/* What became of the socket; and whether who settles it is alone with its state, see flow_closes(). */
#define FLOW_LIVES 0
#define FLOW_CLOSED 1
#define FLOW_FAILED 2
#define FLOW_ALONE 4

/* Brings what is due into the bundle. `now` is NULL if the socket cannot be asked, `slot` if it has none. */
__noinline int flow_settle(struct flow_sock *f, const struct flow_tcp *now, struct flow_slot *slot, __u32 how)
{
	struct flow_due d = {};
	__u32 end = how & ~FLOW_ALONE;
	bool alone = how & FLOW_ALONE;
	__u64 moved = 0;

	if (!f)
		return 0;
	for (int i = 0; i < 2; i++) {
		if (now && f->based)
			d.bytes[i] = due_u64(now->bytes[i], &f->bytes[i], alone);
		d.messages[i] = take_u32(slot ? &slot->calls[i] : &f->calls[i], alone);
		moved |= d.messages[i] | d.bytes[i];
	}
	d.opened = take_u32(&f->opened, alone);
	d.adopted = take_u32(&f->adopted, alone);
	d.resets_sent = take_u32(&f->resets_sent, alone);
	d.resets_received = take_u32(&f->resets_received, alone);
	d.handshake_us = take_u32(&f->handshake_us, alone);
	d.closed = end == FLOW_CLOSED && !f->listens;
	d.failed = end == FLOW_FAILED;
	if (now && f->listens) {
		d.listen_overflows = due_u32(&f->drops, now->drops, alone);
	} else if (now) {
		d.retransmits = due_u32(&f->retransmits, now->retransmits, alone);
		d.out_of_order = due_u32(&f->out_of_order, now->out_of_order, alone);
		d.zero_windows = end == FLOW_LIVES && f->based && now->bytes[WS_EGRESS] && !now->window;
		if (moved || d.opened)
			d.srtt_us = now->srtt_us;
	}
	if (!(moved | d.opened | d.adopted | d.resets_sent | d.resets_received | d.closed | d.failed |
	      d.listen_overflows | d.retransmits | d.out_of_order | d.zero_windows))
		return 0;
	d.client_port = f->client_port;
	f->bundled = 1;
	flow_bundle(&f->key, &f->owner, &d);
	return 0;
}

/*
 * The first call on a socket tells which process uses it. Before that, only the listening process of an accepted socket
 * is known, and that may be a parent that handed the listening socket down.
 */
static __noinline int flow_own(struct flow_sock *f, struct sock *sk, struct task_struct *task)
{
	struct flow_owner o;

	if (!f)
		return 0;
	if (f->key.pid == task->tgid && f->key.start_ns == task->group_leader->start_boottime) {
		f->owned = 1; /* who listens is a target */
		return 0;
	}
	if (!target_task(task))
		return 0;
	f->owned = 1;
	flow_fill_owner(&o, task);
	if (f->bundled) {
		struct flow_due d = { .moved = 1 };

		flow_bundle(&f->key, &f->owner, &d);
		f->adopted = 1;
	}
	flow_set_owner(f, &o);
	return 0;
}

/* What was exchanged before is not ours: all but the call that is just over, and what waits to be read. */
static __always_inline void flow_base_at(struct flow_sock *f, struct sock *sk, const struct flow_tcp *now,
					 __u8 direction, int ret)
{
	f->sk = (__u64)sk;
	f->retransmits = now->retransmits;
	f->out_of_order = now->out_of_order;
	f->bytes[WS_EGRESS] = now->bytes[WS_EGRESS] - (direction == WS_EGRESS && ret > 0 ? ret : 0);
	f->bytes[WS_INGRESS] = now->bytes[WS_INGRESS] - now->unread - (direction == WS_INGRESS && ret > 0 ? ret : 0);
	f->based = 1;
}

static __always_inline void flow_base(struct flow_sock *f, struct sock *sk, struct tcp_sock *tp, __u8 direction,
				      int ret)
{
	struct flow_tcp now = {};

	flow_look(&now, sk, tp);
	flow_base_at(f, sk, &now, direction, ret);
}

#endif
