/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The state of a socket whose flow is followed: how it is found, made, owned and freed. */
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

/* Makes the unspecified address all zeros in both families. */
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

/*
 * The client's port if the connection must be a bundle of its own: its translation is known by connection only, as one
 * address may stand for several backends, or for several clients. 0 if it is bundled. A host does not translate what
 * it sends to itself under one address. A function of its own, for the stack of its callers.
 */
static __noinline int flow_apart(const struct ws_flow_key *key, __u16 client_port)
{
	const __u64 *local = (const __u64 *)key->local, *remote = (const __u64 *)key->remote;
	struct ws_flow_plain plain = {};
	void *table = table_in(&flow_plain);

	if (!table || (local[0] == remote[0] && local[1] == remote[1]))
		return 0;
	__builtin_memcpy(plain.remote, key->remote, sizeof(plain.remote));
	plain.netns = key->netns;
	plain.port = key->port;
	plain.transport = key->transport;
	plain.role = key->role;
	return bpf_map_lookup_elem(table, &plain) ? 0 : client_port;
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

/* Fills the state except for the owner. */
static __always_inline void flow_init(struct flow_sock *f, struct sock *sk, __u8 role)
{
	__builtin_memset(f, 0, sizeof(*f));
	f->sk = (__u64)sk;
	flow_init_key(f, sk, role);
}

#define FLOW_PLACES 5
#define FLOW_HOT 256

/*
 * Where a socket may have its place: first in a part of the arrays that stays in the cache, so that short connections
 * do not wander through memory; then by turns among the places that are always there and among all. The same place may
 * come twice, so two of the ways scatter what the first three keep in order. Neighbours do not share a line of the
 * cache.
 */
static __always_inline __u32 flow_place(__u64 cookie, int way)
{
	__u64 at = way < 3 ? cookie * 5 : cookie * 0x9e3779b97f4a7c15ULL >> 32;

	return at & flow_slot_mask & (way == 0 ? FLOW_HOT - 1 : way & 1 ? WS_FLOW_NEAR - 1 : ~0U);
}

/* The state that belongs to a place; NULL if it is one of those that were not made. */
static __always_inline struct flow_sock *flow_state_at(__u32 at)
{
	if (at < WS_FLOW_NEAR)
		return bpf_map_lookup_elem(&flow_sockets, &at);
	at -= WS_FLOW_NEAR;
	return table_find(&flow_far, &at);
}

static __always_inline struct flow_sock *flow_listed(__u64 cookie, struct flow_slot **slot)
{
	for (int way = 0; way < FLOW_PLACES; way++) {
		__u32 at = flow_place(cookie, way);
		struct flow_slot *s = bpf_map_lookup_elem(&flow_slots, &at);

		if (s && (s->cookie & ~(FLOW_NEW | FLOW_GOING)) == cookie) {
			*slot = s;
			return flow_state_at(at);
		}
	}
	return NULL;
}

static const struct flow_sock no_flow_sock;

/* State of a socket of TCP that has no place. */
static __always_inline struct flow_sock *flow_placeless(struct sock *sk, __u64 cookie)
{
	return flows_by_syscalls ? bpf_map_lookup_elem(&flow_by_cookie, &cookie)
				 : bpf_sk_storage_get(&flow_others, sk, 0, 0);
}

static __always_inline struct flow_sock *flow_make_placeless(struct sock *sk, __u64 cookie)
{
	if (!flows_by_syscalls)
		return bpf_sk_storage_get(&flow_others, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	bpf_map_update_elem(&flow_by_cookie, &cookie, &no_flow_sock, BPF_NOEXIST);
	return bpf_map_lookup_elem(&flow_by_cookie, &cookie);
}

static __always_inline void flow_drop_placeless(struct sock *sk, __u64 cookie)
{
	if (flows_by_syscalls)
		bpf_map_delete_elem(&flow_by_cookie, &cookie);
	else
		bpf_sk_storage_delete(&flow_others, sk);
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
	return flow_placeless(sk, cookie);
}

/* Takes a free place for a new socket. Other programs do not see the state before flow_publish(). */
static __always_inline struct flow_sock *flow_take(__u64 cookie, struct flow_slot **slot)
{
	for (int way = 0; way < FLOW_PLACES; way++) {
		__u32 at = flow_place(cookie, way);
		struct flow_slot *s = bpf_map_lookup_elem(&flow_slots, &at);
		struct flow_sock *f = s && !s->cookie ? flow_state_at(at) : NULL;

		if (f && !__sync_val_compare_and_swap(&s->cookie, 0, FLOW_TAKEN)) {
			__u32 block = at / WS_FLOW_BLOCK, *used = bpf_map_lookup_elem(&flow_blocks, &block);

			if (used && !*used)
				*used = 1; /* after the place is taken: see flow_sweep_block() */
			s->calls[0] = s->calls[1] = 0;
			*slot = s;
			return f;
		}
	}
	return NULL;
}

/* Room for the state of a new socket: a place, else memory of its own. NULL if there is none. */
static __always_inline struct flow_sock *flow_room(struct sock *sk, __u64 cookie, struct flow_slot **slot)
{
	struct flow_sock *f = flow_take(cookie, slot);

	if (f)
		return f;
	flow_unlisted_tcp = true;
	if (++flow_beyond > FLOW_PATIENCE)
		flow_far_wanted = true;
	count(WS_C_FLOW_SOCKETS_BEYOND_TABLE);
	f = flow_make_placeless(sk, cookie);
	if (!f)
		count(WS_C_LOST_NO_STATE);
	return f;
}

/* The atomic exchange is a barrier: a program that sees the cookie also sees the state written before. */
static __always_inline void flow_publish(struct flow_slot *slot, __u64 cookie)
{
	if (slot)
		__sync_lock_test_and_set(&slot->cookie, cookie);
}

/*
 * True if no sweep reads the state of the closing socket: from here on, the close is alone with it. A sweep first
 * announces that it looks, and then reads the cookie of the place. A close does both in the opposite order.
 */
static __always_inline bool flow_closes(struct sock *sk, struct flow_slot *slot, struct flow_sock *f)
{
	__sync_lock_test_and_set(&slot->cookie, flow_cookie(sk) | FLOW_GOING);
	return !f->swept_now;
}

/* Frees the place, or leaves that to the sweep that looks at it. */
static __always_inline void flow_leave(struct flow_slot *slot, struct flow_sock *f, bool alone)
{
	__sync_lock_test_and_set(&slot->cookie, alone ? 0 : FLOW_ENDED);
	if (!alone && !f->swept_now)
		__sync_val_compare_and_swap(&slot->cookie, FLOW_ENDED, 0);
}

#endif
