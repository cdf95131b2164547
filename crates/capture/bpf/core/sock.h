/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Properties of a socket: addresses, transport, role; and the exchange to which its bytes belong. */
#ifndef WS_SOCK_H
#define WS_SOCK_H

/* A cast that the verifier checks and that costs nothing, where bpf_skc_to_tcp_sock() is a call. */
extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __weak __ksym;

static __always_inline const struct tcp_sock *tcp_of(struct sock *sk)
{
	__u16 family = sk->__sk_common.skc_family;

	if (sk->sk_protocol != IPPROTO_TCP || sk->sk_type != SOCK_STREAM || (family != AF_INET && family != AF_INET6))
		return NULL;
	return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
}

/* Not atomic: if a bit is lost, the next call with the same need sets it again. */
static __always_inline void want_hooks(__u32 hooks)
{
	if ((hooks_wanted & hooks) != hooks)
		hooks_wanted |= hooks;
}

static __always_inline void put_v4(__u8 *to, __be32 addr)
{
	__builtin_memset(to, 0, 10);
	to[10] = to[11] = 0xff;
	__builtin_memcpy(to + 12, &addr, 4);
}

/*
 * Whether a socket listens or calls. A socket made by accept() is a clone of its listener and keeps the listener's
 * backlog (sk_clone_lock copies sk_max_ack_backlog), which is 0 in a socket that connected. So the role of a socket
 * that existed before us is known without having seen its birth. listen(fd, 0) reads as a client until its first bytes.
 */
static __always_inline __u8 tcp_role(struct sock *sk)
{
	return BPF_CORE_READ(sk, sk_max_ack_backlog) ? WS_SERVER : WS_CLIENT;
}

/* Fills the tuple; false if the socket is of no interest (netlink, raw, …). */
static __always_inline bool read_tuple(struct ws_tuple *t, struct sock *sk)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	__u16 type = BPF_CORE_READ(sk, sk_type);
	__u16 protocol = BPF_CORE_READ(sk, sk_protocol);

	__builtin_memset(t, 0, sizeof(*t));
	if (family == AF_UNIX) {
		struct unix_sock *u = (struct unix_sock *)sk;

		t->transport = type == SOCK_DGRAM ? WS_UNIX_DGRAM : WS_UNIX_STREAM;
		/* An accepted unix socket shares its listener's address; a connecting one rarely has any. */
		t->role = BPF_CORE_READ(u, addr) ? WS_SERVER : WS_CLIENT;
		return true;
	}
	if (protocol == IPPROTO_TCP && type == SOCK_STREAM) {
		t->transport = WS_TCP;
		t->role = tcp_role(sk);
	} else if (protocol == IPPROTO_UDP && type == SOCK_DGRAM) {
		t->transport = WS_UDP;
	} else {
		return false;
	}
	t->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	t->remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (family == AF_INET) {
		put_v4(t->local, BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr));
		put_v4(t->remote, BPF_CORE_READ(sk, __sk_common.skc_daddr));
		return true;
	}
	if (family == AF_INET6) {
		BPF_CORE_READ_INTO(&t->local, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&t->remote, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
		return true;
	}
	return false;
}

/*
 * Sequence number behind the last byte that was read. A read that reaches the peer's FIN steps over it, too, and the
 * FIN takes a number of its own.
 */
static __always_inline __u32 read_up_to(__u8 state, int sk_err, __u32 copied_seq, __u32 rcv_nxt)
{
	bool fin = state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING ||
		   (state == TCP_CLOSE && !sk_err);

	return copied_seq - (fin && copied_seq == rcv_nxt);
}

static __always_inline void init_sock_state(struct sock_state *s, __u64 cookie)
{
	__builtin_memset(s, 0, sizeof(*s));
	s->cookie = cookie;
	s->run = WS_NO_DIRECTION;
	s->request_direction = WS_NO_DIRECTION;
	s->evidence = WS_EV_NONE;
}

/* State of a socket that a target uses; made at the first use. NULL if not of interest or out of memory. */
static __always_inline struct sock_state *use_sock(struct sock *sk, struct task_struct *task)
{
	struct sock_state *s = bpf_sk_storage_get(&socks, sk, 0, 0);
	__u64 cookie;

	if (s && s->announced)
		return s;
	cookie = bpf_get_socket_cookie(sk);
	if (!s) {
		s = bpf_sk_storage_get(&socks, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!s) {
			count(WS_C_LOST_NO_STATE);
			return NULL;
		}
		init_sock_state(s, cookie);
	} else if (s->cookie != cookie) { /* still a copy of its listener's state */
		init_sock_state(s, cookie);
	}
	if (!read_tuple(&s->tuple, sk))
		return NULL;
	fill_actor(&s->actor, task);
	s->actor.netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	s->announced = 1;
	return s;
}

static __always_inline struct sock_state *use_sock_by_address(struct sock *sk, __u64 inode, struct task_struct *task)
{
	static const struct addressed_sock empty;
	__u64 key = (__u64)sk, cookie;
	struct addressed_sock *a = bpf_map_lookup_elem(&socks_by_address, &key);

	if (a && a->inode == inode) {
		/* The state was made in connect(), before the local port was chosen. */
		if (a->state.tuple.transport == WS_TCP && !a->state.tuple.local_port)
			read_tuple(&a->state.tuple, sk);
		return &a->state;
	}
	if (bpf_map_update_elem(&socks_by_address, &key, &empty, BPF_ANY)) {
		count(WS_C_LOST_NO_STATE);
		return NULL;
	}
	a = bpf_map_lookup_elem(&socks_by_address, &key);
	if (!a)
		return NULL;
	/*
	 * The kernel makes a cookie when a program first asks for it, which this kind of program cannot do. So the
	 * socket gets a number of our own.
	 */
	cookie = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
	if (!cookie)
		cookie = 1ULL << (WS_SOCKET_BITS + 1) | __sync_fetch_and_add(&next_socket_id, 1);
	init_sock_state(&a->state, cookie);
	if (!read_tuple(&a->state.tuple, sk))
		return NULL; /* `inode` stays 0, so the next call tries again */
	fill_actor(&a->state.actor, task);
	a->state.actor.netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	a->inode = inode;
	return &a->state;
}

static __always_inline void take_verdict(struct sock_state *s)
{
	__u32 epoch = verdict_epoch;
	struct ws_verdict *v;

	if (s->verdict_epoch == epoch)
		return;
	s->verdict_epoch = epoch;
	v = table_find(&verdicts, &s->cookie);
	if (v) {
		s->verdict = 1;
		/* The first records of ciphertext are copied whole, as session tickets precede the first answer. */
		s->copy = v->flags & WS_V_PLAINTEXT ? WS_COPY_DEFAULT : v->copy;
		s->bytes = v->flags & WS_V_PLAINTEXT ? WS_CIPHERTEXT_BYTES : v->bytes;
		s->shared = !!(v->flags & WS_V_SHARED);
		s->delivers = !!(v->flags & WS_V_DELIVERS);
		s->pulls = !!(v->flags & WS_V_PULLS);
		/* The command that told user space this may still wait for its reply. */
		if (v->flags & WS_V_TAKES && !s->takes)
			s->asking = s->run == WS_EGRESS;
		s->takes = !!(v->flags & WS_V_TAKES);
		s->one_way = !!(v->flags & WS_V_ONE_WAY);
		s->pipelined = !!(v->flags & WS_V_PIPELINED);
		s->gathers = !!(v->flags & WS_V_GATHERS);
	}
}

static __always_inline __u64 exchange_id(const struct sock_state *s)
{
	return exchange_of(s->cookie, s->exchange);
}

/* Whether the last request on this socket asks for deliveries, and whether what is read next is one. */
static __always_inline bool asks_for_deliveries(const struct sock_state *s)
{
	return s->pulls && (!s->takes || s->asking);
}

static __always_inline bool brings_delivery(const struct sock_state *s)
{
	return s->delivers && (s->takes ? s->asking : (!s->cause || s->cause >> WS_NUMBER_BITS == s->cookie));
}

/*
 * Follows direction runs and exchanges: an exchange begins where the direction turns to that of requests, with each
 * datagram of a UDP server, and with each call that may bring a further request of many. Returns true for the first
 * call of a run.
 */
static __always_inline bool turn(struct sock_state *s, __u8 direction)
{
	bool first = s->run != direction;

	if (s->request_direction == WS_NO_DIRECTION) {
		if (s->tuple.role == WS_SERVER)
			s->request_direction = WS_INGRESS;
		else if (s->tuple.role == WS_CLIENT)
			s->request_direction = WS_EGRESS;
		else
			s->request_direction = direction;
	}
	if (direction == s->request_direction && (first || s->shared || s->tuple.transport == WS_UDP))
		s->exchange++;
	s->run = direction;
	return first || s->tuple.transport == WS_UDP || s->tuple.transport == WS_UNIX_DGRAM;
}

#endif
