/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Finds the bytes of the current system call in user memory, by the registers of the call. This is done after the call
 * has sent or received the bytes: then they are certainly resident, and neither an enter hook nor a map is needed.
 */
#ifndef WS_LOCATE_H
#define WS_LOCATE_H

#define WS_SEGMENTS \
	512 /* Node has one segment for each of many frames, gRPC's core one for each field of a header block */

static __always_inline void locate_iovec(struct location *l, __u64 iov, __u64 n)
{
	l->vector = iov;
	l->segments = n > WS_SEGMENTS ? WS_SEGMENTS : n;
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
 * sendmmsg and recvmmsg run the socket hook once per message, without the index of the message. So the index is counted
 * here. It starts again at 0 when the call ends: with a new vector, after an error, and after the last entry.
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
	l->buffer.base = base;
	l->buffer.len = len;
	l->segments = 1;
}

/*
 * Finds the bytes of the current call. A global function, as copy_vector(), so that it is verified on its own:
 * otherwise older kernels would verify all code behind it once for each kind of call.
 */
__noinline int locate(struct location *l, struct task_state *t, __s64 ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);

	if (!l || !t)
		return 0;
	l->abi = WS_ABI_OTHER;
	l->segments = 0;
	l->buffer = (struct user_iovec){ 0 }; /* stays 0 for a vector, even if its own address is 0 */
	l->name = 0;
	l->vector = 0;
	if (!regs || WS_COMPAT_TASK(task))
		return 0;
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
		l->abi = WS_ABI_SENDFILE; /* the bytes are pages of a file, so only the length is recorded */
		break;
	case NR_SPLICE:
		l->abi = WS_ABI_SPLICE;
		break;
	case NR_IO_URING_ENTER:
		l->abi = WS_ABI_IO_URING;
		break;
	}
	return 0;
}

#define NOTHING_COPIED (~0ULL)

/*
 * Copies one buffer of a vector, from offset `skip` on, behind the `off` bytes that the record has. Returns the new
 * values of both, `skip` in the upper half. A function of its own, so that the verifier knows as little of each round
 * of the loop as of the first one.
 */
__noinline __u64 copy_segment(__u64 segment, __u32 skip, __u32 off, __u32 want)
{
	__u32 cpu = bpf_get_smp_processor_id(), len = want - off;
	struct scratch *r = bpf_map_lookup_elem(&scratches, &cpu);
	struct user_iovec at;

	if (!r || bpf_probe_read_user(&at, sizeof(at), (void *)segment))
		return NOTHING_COPIED;
	if (skip >= at.len)
		return (__u64)(skip - (__u32)at.len) << 32 | off;
	if (at.len - skip < len)
		len = at.len - skip;
	barrier_var(off);
	barrier_var(len); /* otherwise the compiler checks copies of both */
	if (off >= WS_MAX_PAYLOAD || len > WS_MAX_PAYLOAD)
		return NOTHING_COPIED;
	if (bpf_probe_read_user(r->payload + off, len, (void *)(at.base + skip)))
		return NOTHING_COPIED;
	return off + len;
}

/*
 * Copies `want` bytes of a vector of buffers, from offset `skip` on, into the record under construction. Returns the
 * number of bytes copied. A global function, so that the verifier does not follow each of its exits through its
 * callers.
 */
__noinline __u32 copy_vector(__u64 vector, __u32 segments, __u32 skip, __u32 want)
{
	__u32 off = 0;

	for (__u32 i = 0; i < WS_SEGMENTS && i < segments && off < want; i++) {
		__u64 now = copy_segment(vector + i * sizeof(struct user_iovec), skip, off, want);

		if (now == NOTHING_COPIED)
			break;
		skip = now >> 32;
		off = now;
	}
	return off;
}

/* Copies up to `want` of the `ret` bytes of the call into the record; returns the number copied. */
static __always_inline __u32 copy_payload(struct scratch *r, const struct location *l, __u64 ret, __u32 want)
{
	__u32 n = want;

	if (n > ret)
		n = ret;
	if (l->vector) {
		n = copy_vector(l->vector, l->segments, 0, n);
		return n > WS_MAX_PAYLOAD ? 0 : n;
	}
	if (n > l->buffer.len)
		n = l->buffer.len;
	barrier_var(n); /* Linux 6.1 knows the bound only for the register that was checked, not for its copies */
	if (n > WS_MAX_PAYLOAD || bpf_probe_read_user(r->payload, n, (void *)l->buffer.base))
		return 0;
	return n;
}

/* Reads the other end of a datagram on an unconnected socket. */
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
