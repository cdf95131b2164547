/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Calls on a TCP connection that need special care: the first one, one without a state, one after the end. */
#ifndef WS_FLOW_CONNECTION_H
#define WS_FLOW_CONNECTION_H

/*
 * Results of the next three functions: the work that the caller must still do. They return it instead of calling each
 * other, because before Linux 6.13 all nested functions share 512 bytes of stack.
 */
#define FLOW_TOLD 0
#define FLOW_IS_UNLISTED 1
#define FLOW_IS_UNKNOWN 2
#define FLOW_HAS_ENDED 3

/*
 * A read, after the connection was closed, of bytes that arrived before. The bytes are counted already. The close may
 * have released the port.
 */
static __noinline int flow_after_the_end(struct sock *sk, struct task_struct *task, __u8 direction)
{
	struct flow_sock f;
	__u16 own = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport)); /* also after it was released */

	flow_init(&f, sk, sk->sk_max_ack_backlog ? WS_SERVER : WS_CLIENT); /* see tcp_role() */
	if (f.key.role == WS_SERVER && !f.key.port)
		f.key.port = own;
	f.key.client_port = flow_apart(&f.key, f.client_port ?: own);
	flow_fill_owner(&f.owner, task);
	f.key.pid = f.owner.pid;
	f.key.start_ns = f.owner.start_ns;
	/*
	 * Not by index: the compiler would compute the stack address with a bitwise operator, which the verifier
	 * refuses.
	 */
	if (direction == WS_EGRESS)
		f.calls[WS_EGRESS] = 1;
	else
		f.calls[WS_INGRESS] = 1;
	flow_settle(&f, NULL, NULL, FLOW_LIVES);
	return 0;
}

/* A call on a connection that is not known; mostly the connection is older than the tracing. */
static __noinline int flow_unknown(struct sock *sk, struct task_struct *task, __u8 direction, int ret)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct flow_slot *slot = NULL;
	struct flow_sock *f;
	struct flow_owner o;
	__u64 cookie;

	if (!tp)
		return 0;
	if (sk->__sk_common.skc_state == TCP_CLOSE)
		return ret > 0 ? FLOW_HAS_ENDED : FLOW_TOLD;
	cookie = bpf_get_socket_cookie(sk);
	f = flow_room(sk, cookie, &slot);
	if (!f)
		return 0;
	flow_init(f, sk, sk->sk_max_ack_backlog ? WS_SERVER : WS_CLIENT);
	f->key.client_port = flow_apart(&f->key, f->client_port);
	flow_fill_owner(&o, task);
	flow_set_owner(f, &o);
	f->owned = 1;
	f->adopted = 1;
	flow_base(f, sk, tp, direction, ret);
	if (ret > 0 && slot)
		slot->calls[direction & 1] = 1;
	else if (ret > 0)
		f->calls[direction & 1] = 1;
	flow_publish(slot, cookie);
	return 0;
}

/*
 * A call on a connection without a slot. No sweep passes it, so each message goes into the bundle at once. Or the
 * connection belongs to no target.
 */
static __noinline int flow_unlisted(struct sock *sk, struct task_struct *task, __u8 direction, int ret)
{
	struct flow_tcp now = {};
	struct flow_sock *f;

	if (!target_task(task))
		return 0;
	f = flow_unlisted_tcp ? flow_placeless(sk, flow_cookie(sk)) : NULL;
	if (!f)
		return FLOW_IS_UNKNOWN;
	if (!f->owned)
		flow_own(f, sk, task);
	if (ret > 0) {
		__sync_fetch_and_add(&f->calls[direction & 1], 1);
		flow_read_tcp(&now, sk, false);
		flow_settle(f, &now, NULL, FLOW_LIVES);
	}
	return 0;
}

/* A call on a connection whose owner or counts are not known yet, or that has no slot. */
static __noinline int flow_first_call(struct sock *sk, __u8 direction, int ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = flow_cookie(sk);
	struct flow_slot *s = NULL;
	struct flow_sock *f = cookie ? flow_listed(cookie, &s) : NULL;
	struct tcp_sock *tp;

	if (!f)
		return FLOW_IS_UNLISTED;
	if (s->cookie & FLOW_GOING)
		return ret > 0 && target_task(task) ? FLOW_HAS_ENDED : FLOW_TOLD;
	if (ret > 0)
		__sync_fetch_and_add(&s->calls[direction & 1], 1);
	if (!(s->cookie & FLOW_NEW))
		return 0;
	if (!f->owned)
		flow_own(f, sk, task);
	if (!f->based) {
		tp = bpf_skc_to_tcp_sock(sk);
		if (tp)
			flow_base(f, sk, tp, direction, ret);
	}
	if (f->owned && f->based)
		__sync_val_compare_and_swap(&s->cookie, cookie | FLOW_NEW, cookie);
	return 0;
}

static __always_inline bool flow_call(__u64 cookie, int way, __u8 direction, int ret)
{
	__u32 at = flow_place(cookie, way);
	struct flow_slot *s = bpf_map_lookup_elem(&flow_slots, &at);

	if (!s || s->cookie != cookie)
		return false;
	if (ret > 0)
		__sync_fetch_and_add(&s->calls[direction & 1], 1);
	return true;
}

#endif
