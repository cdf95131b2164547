/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What targets send and receive: calls on connections of TCP; of UDP all, straight into the bundle of the other end. */
#ifndef WS_FLOW_MESSAGE_H
#define WS_FLOW_MESSAGE_H

#define MSG_ERRQUEUE 0x2000
#define SOCK_BINDPORT_LOCK 8
#define ECONNREFUSED 111
#define FIRST_EPHEMERAL_PORT 32768

/*
 * What the next three functions leave to the function called after them. They return it instead of calling each other:
 * before Linux 6.13, all nested functions share 512 bytes of stack.
 */
#define FLOW_TOLD 0
#define FLOW_IS_UNLISTED 1
#define FLOW_IS_UNKNOWN 2
#define FLOW_HAS_ENDED 3

/*
 * A read of bytes that came before the connection was closed. The close may have given the port back, and the bytes
 * have been told.
 */
static __noinline int flow_after_the_end(struct sock *sk, struct task_struct *task, __u8 direction)
{
	struct flow_sock f;

	flow_init(&f, sk, sk->sk_max_ack_backlog ? WS_SERVER : WS_CLIENT); /* see tcp_role() */
	if (f.key.role == WS_SERVER && !f.key.port)
		f.key.port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	flow_fill_owner(&f.owner, task);
	f.key.pid = f.owner.pid;
	f.key.start_ns = f.owner.start_ns;
	/* Not by index: an address on the stack would be made with a bitwise operator, which the verifier refuses. */
	if (direction == WS_EGRESS)
		f.calls[WS_EGRESS] = 1;
	else
		f.calls[WS_INGRESS] = 1;
	flow_settle(&f, NULL, NULL, FLOW_LIVES);
	return 0;
}

/* A connection that is not known, mostly of before our time. */
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
 * A connection without a slot: nothing sweeps it, so each message goes into the bundle. Or a connection of no chosen
 * process.
 */
static __noinline int flow_unlisted(struct sock *sk, struct task_struct *task, __u8 direction, int ret)
{
	struct flow_tcp now = {};
	struct flow_sock *f;

	if (!target_task(task))
		return 0;
	f = flow_unlisted_tcp ? bpf_sk_storage_get(&flow_others, sk, 0, 0) : NULL;
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

/* A connection of which something is not known yet, or that has its last place. */
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

/* User address of the other end's name, from the registers of the call. */
static __always_inline __u64 flow_name(struct task_struct *task, struct task_state *t, int ret)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 name = 0, index, second, third, fifth;
	struct user_msghdr64 *h;

	if (!regs || WS_COMPAT_TASK(task))
		return 0;
	/* Read before the branches: the verifier wants one load to have one kind of pointer. */
	second = WS_ARG2(regs);
	third = WS_ARG3(regs);
	fifth = WS_ARG5(regs);
	barrier();
	switch (WS_NR(regs)) {
	case NR_RECVFROM:
	case NR_SENDTO:
		return fifth;
	case NR_RECVMSG:
	case NR_SENDMSG:
		h = (struct user_msghdr64 *)second;
		break;
	case NR_RECVMMSG:
	case NR_SENDMMSG:
		/* One hook per message; the index as in locate_mmsg(). */
		index = t->flow_vector == second && t->flow_next < third ? t->flow_next : 0;
		t->flow_vector = second;
		t->flow_next = ret < 0 || index + 1 >= third ? 0 : index + 1;
		h = (struct user_msghdr64 *)(second + index * sizeof(struct user_mmsghdr64));
		break;
	default:
		return 0;
	}
	return bpf_probe_read_user(&name, sizeof(name), &h->name) ? 0 : name;
}

/*
 * A datagram does not name the client and the server. A socket that did not choose its port is a client. A socket that
 * chose its port is a server, unless it spoke first and not to an ephemeral port. Two sockets with the same port are
 * peers.
 */
static __always_inline __u8 flow_datagram_role(struct sock *sk, __u8 direction, __u16 local, __u16 remote)
{
	if (!(sk->sk_userlocks & SOCK_BINDPORT_LOCK))
		return WS_CLIENT;
	if (direction == WS_INGRESS || (remote >= FIRST_EPHEMERAL_PORT && local < FIRST_EPHEMERAL_PORT))
		return WS_SERVER;
	return WS_CLIENT;
}

/* State of a socket of UDP at its first datagram; returns whether it is there now. */
static __noinline int flow_new_datagrams(struct sock *sk, struct task_struct *task, __u8 direction, __u32 remote_port)
{
	struct flow_sock *f = bpf_sk_storage_get(&flow_others, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!f) {
		count(WS_C_LOST_STATE);
		return 0;
	}
	/* In its place, since it is too large for the stack; nobody else looks at it before it has `sk`. */
	flow_init_key(f, sk, flow_datagram_role(sk, direction, sk->__sk_common.skc_num, remote_port));
	flow_fill_owner(&f->owner, task);
	f->key.pid = f->owner.pid;
	f->key.start_ns = f->owner.start_ns;
	f->opened = f->key.role == WS_CLIENT;
	barrier();
	f->sk = (__u64)sk;
	return 1;
}

static __noinline int flow_datagram(struct sock *sk, struct task_struct *task, __u8 direction, int ret)
{
	struct task_state *t = target_task(task);
	struct flow_sock *f;
	__u16 own = sk->__sk_common.skc_num;
	struct ws_tuple other = {};
	struct ws_flow_key key;
	struct flow_due d = {};
	struct flow_owner o;

	if (!t || (ret < 0 && ret != -ECONNREFUSED))
		return 0;
	f = bpf_sk_storage_get(&flow_others, sk, 0, 0);
	other.remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	if (!other.remote_port && direction == WS_EGRESS) {
		read_name(&other, flow_name(task, t, ret));
	} else if (!other.remote_port && t->flow_from_port) {
		/* Not from the caller's memory, into which the name is written after this hook. */
		other.remote_port = t->flow_from_port;
		__builtin_memcpy(other.remote, t->from, sizeof(other.remote));
		t->flow_from_port = 0;
	}
	if (!f || !f->sk) {
		if (!flow_new_datagrams(sk, task, direction, other.remote_port))
			return 0;
		f = bpf_sk_storage_get(&flow_others, sk, 0, 0);
		if (!f)
			return 0;
	}
	key = f->key;
	if (!sk->__sk_common.skc_dport && key.role == WS_CLIENT) {
		/* Who reads an answer without asking from whom has asked one peer, mostly: the last. */
		if (other.remote_port) {
			__builtin_memcpy(f->key.remote, other.remote, sizeof(other.remote));
			f->key.port = other.remote_port;
		} else {
			__builtin_memcpy(other.remote, f->key.remote, sizeof(other.remote));
			other.remote_port = f->key.port;
		}
	}
	o = f->owner;
	/* Also a child may use the socket of its parent. */
	if (task->tgid != key.pid) {
		flow_fill_owner(&o, task);
		key.pid = o.pid;
		key.start_ns = o.start_ns;
	}
	/* May have been bound to an address, or connected, since. */
	flow_addresses(&key, sk);
	if (!sk->__sk_common.skc_dport)
		__builtin_memcpy(key.remote, other.remote, 16);
	if (key.role != WS_CLIENT && other.remote_port == own)
		key.role = WS_ROLE_UNKNOWN;
	key.port = key.role == WS_CLIENT ? other.remote_port : own;
	d.client_port = key.role == WS_CLIENT ? own : other.remote_port;
	d.opened = take_u32(&f->opened, false);
	if (ret >= 0) {
		d.bytes[direction & 1] = ret;
		d.messages[direction & 1] = 1;
	} else {
		d.failed = 1;
	}
	flow_bundle(&key, &o, &d);
	return 0;
}

static __always_inline int flow_connection(struct sock *sk, __u8 direction, int ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	int next = flow_first_call(sk, direction, ret);

	if (next == FLOW_IS_UNLISTED)
		next = flow_unlisted(sk, task, direction, ret);
	if (next == FLOW_IS_UNKNOWN)
		next = flow_unknown(sk, task, direction, ret);
	return next == FLOW_HAS_ENDED ? flow_after_the_end(sk, task, direction) : 0;
}

static __noinline int flow_other_message(struct sock *sk, __u8 direction, int ret)
{
	__u16 family = sk->__sk_common.skc_family;

	if (family != AF_INET && family != AF_INET6)
		return 0;
	if (sk->sk_protocol == IPPROTO_TCP)
		return flow_connection(sk, direction, ret);
	if (sk->sk_protocol == IPPROTO_UDP)
		return flow_datagram(sk, bpf_get_current_task_btf(), direction, ret);
	return 0;
}

/* What has a slot is a connection: nothing else of the socket is looked at. */
static __always_inline void flow_message(struct sock *sk, __u8 direction, int ret)
{
	__u64 cookie = flow_cookie(sk);

	if (!cookie || (!flow_call(cookie, 0, direction, ret) && !flow_call(cookie, 1, direction, ret)))
		flow_other_message(sk, direction, ret);
}

/* Where messages are seen on the same tracepoints, their programs do this: a hook costs more than what it does. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(flow_send, struct sock *sk, int ret, int msg_flags)
{
	flow_message(sk, WS_EGRESS, ret);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(flow_receive, struct sock *sk, int ret, int msg_flags)
{
	if (!(msg_flags & (MSG_PEEK | MSG_ERRQUEUE)))
		flow_message(sk, WS_INGRESS, ret);
	return 0;
}

#endif
