/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Connections of targets: begun, made, accepted, closed. Runs in softirq, too. */
#ifndef WS_FLOW_STATE_H
#define WS_FLOW_STATE_H

static __always_inline void flow_connecting(struct sock *sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct flow_owner o;
	struct flow_sock f;

	if (!target_task(task))
		return;
	flow_init(&f, sk, WS_CLIENT);
	flow_fill_owner(&o, task);
	flow_set_owner(&f, &o);
	f.owned = 1;
	f.based = 1;
	f.connect_ns = bpf_ktime_get_ns();
	flow_keep(sk, &f);
}

static __always_inline void flow_listener_key(struct flow_listener_key *key, const struct ws_flow_key *of)
{
	__builtin_memcpy(key->local, of->local, 16);
	key->netns = of->netns;
	key->port = of->port;
	key->pad = 0;
}

static __always_inline void flow_listens(struct flow_sock *f)
{
	struct flow_listener_key key;
	struct flow_listener *l, new = { .sockets = 1 };

	flow_listener_key(&key, &f->key);
	l = bpf_map_lookup_elem(&flow_listeners, &key);
	if (l) {
		__sync_fetch_and_add(&l->sockets, 1);
		return;
	}
	new.owner = f->owner;
	if (bpf_map_update_elem(&flow_listeners, &key, &new, BPF_ANY))
		count(WS_C_LOST_STATE);
}

static __always_inline void flow_listens_no_more(struct flow_sock *f)
{
	struct flow_listener_key key;
	struct flow_listener *l;

	flow_listener_key(&key, &f->key);
	l = bpf_map_lookup_elem(&flow_listeners, &key);
	/* SO_REUSEPORT: several sockets at one address. */
	if (l && __sync_fetch_and_sub(&l->sockets, 1) <= 1)
		bpf_map_delete_elem(&flow_listeners, &key);
}

static __always_inline void flow_listening(struct sock *sk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct flow_owner o;
	struct flow_sock f;

	if (!target_task(task))
		return;
	flow_init(&f, sk, WS_SERVER);
	flow_fill_owner(&o, task);
	flow_set_owner(&f, &o);
	f.owned = 1;
	f.listens = 1;
	f.drops = BPF_CORE_READ(sk, sk_drops.counter);
	flow_keep(sk, &f);
	flow_listens(&f);
}

static __always_inline void flow_established(struct sock *sk, int old)
{
	struct flow_listener_key key;
	struct flow_listener *l;
	struct flow_sock *known, f;
	__u64 us;

	known = flow_find(sk);
	if (known) {
		us = (bpf_ktime_get_ns() - known->connect_ns) / 1000;
		known->handshake_us = us > 0xffffffff ? 0xffffffff : us ?: 1;
		known->opened = 1;
		known->client_port = sk->__sk_common.skc_num;
		flow_addresses(&known->key, sk); /* the local address is known only now */
		return;
	}
	if (old != TCP_SYN_RECV)
		return;
	flow_init(&f, sk, WS_SERVER);
	flow_listener_key(&key, &f.key);
	l = bpf_map_lookup_elem(&flow_listeners, &key);
	if (!l) {
		__builtin_memset(key.local, 0, sizeof(key.local));
		l = bpf_map_lookup_elem(&flow_listeners, &key);
	}
	if (!l)
		return;
	flow_set_owner(&f, &l->owner);
	f.opened = 1;
	f.based = 1;
	flow_keep(sk, &f);
}

static __always_inline void flow_closed(struct sock *sk, int old)
{
	__u64 cookie = flow_cookie(sk);
	struct flow_sock *f = flow_find(sk);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct flow_tcp now = {};

	if (!f || !tp)
		return;
	if (f->listens)
		now.drops = BPF_CORE_READ(sk, sk_drops.counter);
	else
		flow_look(&now, sk, tp);
	flow_leave_slot(f, cookie);
	if (old == TCP_SYN_SENT)
		flow_addresses(&f->key, sk);
	flow_settle(f, &now, NULL, old == TCP_SYN_SENT ? FLOW_FAILED : FLOW_CLOSED);
	if (f->listens)
		flow_listens_no_more(f);
	bpf_map_delete_elem(&flow_sockets, &cookie);
	bpf_sk_storage_delete(&flow_others, sk);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(flow_state, struct sock *sk, int old, int new)
{
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
		flow_established(sk, old);
		break;
	case TCP_CLOSE:
		flow_closed(sk, old);
		break;
	}
	return 0;
}

#endif
