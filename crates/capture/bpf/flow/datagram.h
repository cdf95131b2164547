/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* UDP: each datagram goes straight into the bundle of its two ends. */
#ifndef WS_FLOW_DATAGRAM_H
#define WS_FLOW_DATAGRAM_H

#define SOCK_BINDPORT_LOCK 8
#define ECONNREFUSED 111
#define FIRST_EPHEMERAL_PORT 32768

/* User address of the other end's name, from the registers of the call. */
static __always_inline __u64 flow_name(struct task_struct *task, struct task_state *t, int ret)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 name = 0, index, second, third, fifth;
	struct user_msghdr64 *h;

	if (!regs || WS_COMPAT_TASK(task))
		return 0;
	/* Read before the branches, because the verifier wants each load to use one kind of pointer. */
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
		/* The hook runs once per message. The index is counted as in locate_mmsg(). */
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

/* Makes the state of a UDP socket at its first datagram. Returns whether there is a state now. */
static __noinline int flow_new_datagrams(struct sock *sk, struct task_struct *task, __u8 direction, __u32 remote_port)
{
	struct flow_sock *f = bpf_sk_storage_get(&flow_others, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!f) {
		count(WS_C_LOST_NO_STATE);
		return 0;
	}
	/* Filled in place, as it is too large for the stack. Other programs ignore it until `sk` is set. */
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
		/* The name in user memory is not used: the kernel writes it only after this hook. */
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
		/* A reader that does not ask for the sender's address has usually sent to one peer: the last one. */
		if (other.remote_port) {
			__builtin_memcpy(f->key.remote, other.remote, sizeof(other.remote));
			f->key.port = other.remote_port;
		} else {
			__builtin_memcpy(other.remote, f->key.remote, sizeof(other.remote));
			other.remote_port = f->key.port;
		}
	}
	o = f->owner;
	/* A child may use the socket of its parent. */
	if (task->tgid != key.pid) {
		flow_fill_owner(&o, task);
		key.pid = o.pid;
		key.start_ns = o.start_ns;
	}
	/* The socket may have been bound to an address, or connected, since. */
	flow_addresses(&key, sk);
	if (!sk->__sk_common.skc_dport)
		__builtin_memcpy(key.remote, other.remote, 16);
	if (key.role != WS_CLIENT && other.remote_port == own)
		key.role = WS_ROLE_UNKNOWN;
	key.port = key.role == WS_CLIENT ? other.remote_port : own;
	d.client_port = key.role == WS_CLIENT ? own : other.remote_port;
	key.client_port = flow_apart(&key, d.client_port);
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

#endif
