/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Connections of targets that begin, are established, accepted or closed. Runs in softirq, too. */
#ifndef WS_FLOW_STATE_H
#define WS_FLOW_STATE_H

/*
 * Makes the state of a socket that the calling task begins to use, if the task is a target. Other programs do not see
 * the state before flow_publish().
 */
static __always_inline struct flow_sock *flow_begin(struct sock *sk, __u8 role, __u64 *cookie, struct flow_slot **slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct flow_sock *f;

	if (!target_task(task))
		return NULL;
	*cookie = bpf_get_socket_cookie(sk);
	f = flow_room(sk, *cookie, slot);
	if (!f)
		return NULL;
	flow_init(f, sk, role);
	flow_fill_owner(&f->owner, task);
	f->key.pid = f->owner.pid;
	f->key.start_ns = f->owner.start_ns;
	f->owned = 1;
	return f;
}

static __always_inline void flow_connecting(struct sock *sk)
{
	struct flow_slot *slot = NULL;
	struct flow_sock *f;
	__u64 cookie = 0;

	f = flow_begin(sk, WS_CLIENT, &cookie, &slot);
	if (!f)
		return;
	f->based = 1;
	f->connect_jiffies = bpf_jiffies64();
	flow_publish(slot, cookie);
}

static __always_inline void flow_listener_key(struct flow_listener_key *key, const struct ws_flow_key *of)
{
	__builtin_memcpy(key->local, of->local, 16);
	key->netns = of->netns;
	key->port = of->port;
	key->pad = 0;
}

static __always_inline bool flow_is_bound(const struct flow_listener_key *key)
{
	const __u64 *local = (const __u64 *)key->local;

	return local[0] | local[1];
}

static __always_inline void flow_listens(struct flow_sock *f)
{
	struct flow_listener_key key;
	struct flow_listener *l, new = { .sockets = 1 };

	flow_listener_key(&key, &f->key);
	if (flow_is_bound(&key))
		__sync_fetch_and_add(&flow_bound_listeners, 1);
	l = bpf_map_lookup_elem(&flow_listeners, &key);
	if (l) {
		__sync_fetch_and_add(&l->sockets, 1);
		return;
	}
	new.owner = f->owner;
	if (bpf_map_update_elem(&flow_listeners, &key, &new, BPF_ANY))
		count(WS_C_LOST_NO_STATE);
}

static __always_inline void flow_listens_no_more(struct flow_sock *f)
{
	struct flow_listener_key key;
	struct flow_listener *l;

	flow_listener_key(&key, &f->key);
	if (flow_is_bound(&key))
		__sync_fetch_and_add(&flow_bound_listeners, -1);
	l = bpf_map_lookup_elem(&flow_listeners, &key);
	/* SO_REUSEPORT: several sockets at one address. */
	if (l && __sync_fetch_and_sub(&l->sockets, 1) <= 1)
		bpf_map_delete_elem(&flow_listeners, &key);
}

static __always_inline void flow_listening(struct sock *sk)
{
	struct flow_slot *slot = NULL;
	struct flow_sock *f;
	__u64 cookie = 0;

	f = flow_begin(sk, WS_SERVER, &cookie, &slot);
	if (!f)
		return;
	f->listens = 1;
	f->drops = BPF_CORE_READ(sk, sk_drops.counter);
	flow_listens(f);
	flow_publish(slot, cookie);
}

static __always_inline void flow_connected(struct sock *sk, struct flow_sock *f)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	__u64 us = 0;

	/* TCP's first RTT is the duration of the handshake. If the handshake was retried, ticks measure it. */
	if (tp && !tp->total_retrans)
		us = tp->srtt_us >> 3;
	if (!us)
		us = (bpf_jiffies64() - f->connect_jiffies) * tick_ns / 1000;
	f->handshake_us = us > 0xffffffff ? 0xffffffff : us ?: 1;
	f->opened = 1;
	f->client_port = sk->__sk_common.skc_num;
	flow_addresses(&f->key, sk); /* the local address is known only now */
	f->key.client_port = flow_apart(&f->key, f->client_port);
}

static __always_inline struct flow_listener *flow_listener_of(const struct ws_flow_key *of)
{
	struct flow_listener_key key;
	struct flow_listener *l = NULL;

	flow_listener_key(&key, of);
	if (flow_bound_listeners)
		l = bpf_map_lookup_elem(&flow_listeners, &key);
	if (l)
		return l;
	__builtin_memset(key.local, 0, sizeof(key.local));
	return bpf_map_lookup_elem(&flow_listeners, &key);
}

/* A connection that no process has accepted yet. */
static __always_inline void flow_served(struct sock *sk)
{
	struct flow_slot *slot = NULL;
	struct ws_flow_key key;
	struct flow_listener *l;
	struct flow_sock *f;
	__u64 cookie;

	flow_addresses(&key, sk);
	key.netns = sk->__sk_common.skc_net.net->ns.inum;
	key.port = sk->__sk_common.skc_num;
	l = flow_listener_of(&key);
	if (!l)
		return;
	cookie = bpf_get_socket_cookie(sk);
	f = flow_room(sk, cookie, &slot);
	if (!f)
		return;
	flow_init(f, sk, WS_SERVER);
	f->key.client_port = flow_apart(&f->key, f->client_port);
	flow_set_owner(f, &l->owner);
	f->opened = 1;
	f->based = 1;
	flow_publish(slot, cookie | FLOW_NEW);
}

static __always_inline void flow_closed(struct sock *sk, int old)
{
	struct flow_slot *slot = NULL;
	struct flow_sock *f = flow_find(sk, &slot);
	struct flow_tcp now = {};
	struct tcp_sock *tp;
	bool alone;

	if (!f)
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return;
	if (f->listens)
		now.drops = BPF_CORE_READ(sk, sk_drops.counter);
	else
		flow_look(&now, sk, tp);
	if (old == TCP_SYN_SENT) {
		flow_addresses(&f->key, sk);
		f->client_port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
		f->key.client_port = flow_apart(&f->key, f->client_port);
	}
	alone = slot && flow_closes(sk, slot, f);
	flow_settle(f, &now, slot, (old == TCP_SYN_SENT ? FLOW_FAILED : FLOW_CLOSED) | (alone ? FLOW_ALONE : 0));
	if (f->listens)
		flow_listens_no_more(f);
	if (slot)
		flow_leave(slot, f, alone);
	else
		flow_drop_placeless(sk, flow_cookie(sk));
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(flow_state, struct sock *sk, int old, int new)
{
	struct flow_slot *slot = NULL;
	struct flow_sock *f;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	switch (new) {
	case TCP_SYN_SENT:
		flow_connecting(sk);
		break;
	case TCP_LISTEN:
		flow_listening(sk);
		break;
	case TCP_ESTABLISHED:
		if (old == TCP_SYN_RECV) {
			flow_served(sk);
			break;
		}
		f = flow_find(sk, &slot);
		if (f)
			flow_connected(sk, f);
		break;
	case TCP_CLOSE:
		flow_closed(sk, old);
		break;
	}
	return 0;
}

#endif
