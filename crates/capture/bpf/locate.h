/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Where the bytes of the current system call lie in user memory, from its registers: after the call has moved them
 * they are certainly resident, and neither an enter hook nor a map is needed.
 */
#ifndef WS_LOCATE_H
#define WS_LOCATE_H

#define WS_SEGMENTS 6

struct location {
	__u8 abi;
	__u8 segments;
	__u64 name;	/* user address of a sockaddr, 0 if none */
	struct user_iovec seg[WS_SEGMENTS];
};

static __always_inline void locate_iovec(struct location *l, __u64 iov, __u64 n)
{
	if (n > WS_SEGMENTS)
		n = WS_SEGMENTS;
	if (n && !bpf_probe_read_user(l->seg, n * sizeof(l->seg[0]), (void *)iov))
		l->segments = n;
}

static __always_inline void locate_msghdr(struct location *l, __u64 addr)
{
	struct user_msghdr64 h;

	if (bpf_probe_read_user(&h, sizeof(h), (void *)addr))
		return;
	l->name = h.name;
	locate_iovec(l, h.iov, h.iovlen);
}

/*
 * sendmmsg and recvmmsg run the socket hook once per message. The index is ours to keep: it starts at 0 with a new
 * vector, after an error, and after the last entry; those are the ways in which such a call ends.
 */
static __always_inline void locate_mmsg(struct location *l, struct task_state *t, __u64 vector, __u64 vlen, __s64 ret)
{
	if (t->mmsg_vector != vector || t->mmsg_next >= vlen)
		t->mmsg_next = 0;
	t->mmsg_vector = vector;
	locate_msghdr(l, vector + t->mmsg_next * sizeof(struct user_mmsghdr64));
	t->mmsg_next = ret < 0 || t->mmsg_next + 1 >= vlen ? 0 : t->mmsg_next + 1;
}

static __always_inline void locate_buffer(struct location *l, __u64 base, __u64 len)
{
	l->seg[0].base = base;
	l->seg[0].len = len;
	l->segments = 1;
}

static __always_inline void locate(struct location *l, struct task_struct *task, struct task_state *t, __s64 ret)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	l->abi = WS_ABI_OTHER;
	l->segments = 0;
	l->name = 0;
	if (!regs || WS_COMPAT_TASK(task))
		return;
	switch (WS_NR(regs)) {
	case NR_READ:
		l->abi = WS_ABI_READ;
		locate_buffer(l, WS_ARG2(regs), WS_ARG3(regs));
		break;
	case NR_WRITE:
		l->abi = WS_ABI_WRITE;
		locate_buffer(l, WS_ARG2(regs), WS_ARG3(regs));
		break;
	case NR_RECVFROM:
		l->abi = WS_ABI_RECVFROM;
		l->name = WS_ARG5(regs);
		locate_buffer(l, WS_ARG2(regs), WS_ARG3(regs));
		break;
	case NR_SENDTO:
		l->abi = WS_ABI_SENDTO;
		l->name = WS_ARG5(regs);
		locate_buffer(l, WS_ARG2(regs), WS_ARG3(regs));
		break;
	case NR_READV:
		l->abi = WS_ABI_READV;
		locate_iovec(l, WS_ARG2(regs), WS_ARG3(regs));
		break;
	case NR_WRITEV:
		l->abi = WS_ABI_WRITEV;
		locate_iovec(l, WS_ARG2(regs), WS_ARG3(regs));
		break;
	case NR_RECVMSG:
		l->abi = WS_ABI_RECVMSG;
		locate_msghdr(l, WS_ARG2(regs));
		break;
	case NR_SENDMSG:
		l->abi = WS_ABI_SENDMSG;
		locate_msghdr(l, WS_ARG2(regs));
		break;
	case NR_RECVMMSG:
		l->abi = WS_ABI_RECVMMSG;
		locate_mmsg(l, t, WS_ARG2(regs), WS_ARG3(regs), ret);
		break;
	case NR_SENDMMSG:
		l->abi = WS_ABI_SENDMMSG;
		locate_mmsg(l, t, WS_ARG2(regs), WS_ARG3(regs), ret);
		break;
	case NR_SENDFILE:
		l->abi = WS_ABI_SENDFILE; /* the bytes are pages of a file: lengths only */
		break;
	case NR_SPLICE:
		l->abi = WS_ABI_SPLICE;
		break;
	case NR_IO_URING_ENTER:
		l->abi = WS_ABI_IO_URING;
		break;
	}
}

/* Copies up to `want` bytes of the first `ret` bytes of the call; returns the number copied. */
static __always_inline __u32 copy_payload(__u8 *to, const struct location *l, __u64 ret, __u32 want)
{
	__u32 off = 0;

	if (want > ret)
		want = ret;
	for (int i = 0; i < WS_SEGMENTS; i++) {
		__u32 len;

		if (i >= l->segments || off >= want)
			break;
		len = want - off;
		if (l->seg[i].len < len)
			len = l->seg[i].len;
		if (off >= WS_MAX_PAYLOAD || len > WS_MAX_PAYLOAD)
			break;
		if (len && bpf_probe_read_user(to + off, len, (void *)l->seg[i].base))
			break;
		off += len;
	}
	return off;
}

/* The other end of a datagram on an unconnected socket. */
static __always_inline void read_name(struct ws_tuple *t, __u64 name)
{
	struct {
		__u16 family;
		__be16 port;
		union {
			__be32 v4;
			struct {
				__u32 flow;
				__u8 v6[16];
			};
		};
	} a;

	if (!name || bpf_probe_read_user(&a, 8, (void *)name))
		return;
	if (a.family == AF_INET) {
		t->remote_port = bpf_ntohs(a.port);
		put_v4(t->remote, a.v4);
	} else if (a.family == AF_INET6 && !bpf_probe_read_user(&a, sizeof(a), (void *)name)) {
		t->remote_port = bpf_ntohs(a.port);
		__builtin_memcpy(t->remote, a.v6, 16);
	}
}

#endif
