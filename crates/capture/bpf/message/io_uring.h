/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Messages through io_uring. They pass the same socket tracepoints, but in the submitter's task work, in a worker, or
 * in the submission thread. So the registers of the task do not describe them. The bytes are copied where the kernel
 * itself copies them: from the iterator of a send, from the buffers of a receive.
 */
#ifndef WS_IO_URING_H
#define WS_IO_URING_H

#define WS_SEND_SEGMENTS 4

extern int bpf_dynptr_from_skb(struct sk_buff *skb, __u64 flags, struct bpf_dynptr *ptr) __weak __ksym;

/* Whether this task may send or receive for io_uring. Nearly no task does. */
static __always_inline bool uses_io_uring(struct task_struct *task)
{
	if (task->flags & PF_IO_WORKER)
		return true;
	return bpf_core_field_exists(task->io_uring) && task->io_uring;
}

/* Whether the task's current system call works on this socket. If not, io_uring does. */
static __always_inline bool called_directly(struct task_struct *task, struct sock *sk)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 inode;

	if (task->flags & PF_IO_WORKER || syscall_direction(WS_NR(regs)) == WS_NOT_A_MESSAGE)
		return false;
	return sock_of_fd(task, WS_ARG1(regs), &inode) == sk;
}

static __always_inline void hold_bytes(struct held_bytes *h, const void *from, __u64 len)
{
	__u32 at = h->length, n = len > WS_HELD_PAYLOAD ? WS_HELD_PAYLOAD : len;

	barrier_var(n); /* without it, the compiler checks `len` instead, and the verifier knows no limit of `n` */
	if (at >= WS_HELD_PAYLOAD || !n || n > WS_HELD_PAYLOAD)
		return;
	if (bpf_probe_read_user(h->bytes + at, n, from))
		return;
	h->length = at + n;
}

/*
 * The user address of a registered buffer. It is found from the vector of the buffer's pages, which is the last field
 * of io_uring's own structure. 0 if this is not the whole vector of such a buffer.
 */
static __always_inline __u64 registered_buffer(const struct bio_vec *v)
{
	const struct io_mapped_ubuf *buffer = NULL;
	__u64 address;

	if (!bpf_core_field_exists(buffer->bvec))
		return 0;
	buffer = (void *)v - bpf_core_field_offset(buffer->bvec);
	address = BPF_CORE_READ(buffer, ubuf);
	if ((address & 4095) != (BPF_CORE_READ(v, bv_offset) & 4095) || BPF_CORE_READ(buffer, nr_bvecs) > 16384)
		return 0;
	return address;
}

/* Keeps the first bytes of a send that begins. */
static __always_inline void hold_sent(struct task_struct *task, const struct msghdr *msg)
{
	struct held_bytes *h = bpf_task_storage_get(&uring_bytes, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	const struct iov_iter *iter = &msg->msg_iter;
	__u64 skip = iter->iov_offset, left = iter->count;

	if (!h)
		return;
	h->length = 0;
	if (iter->iter_type == bpf_core_enum_value(enum iter_type, ITER_UBUF)) {
		hold_bytes(h, (const void *)((__u64)BPF_CORE_READ(iter, ubuf) + skip), left);
	} else if (iter->iter_type == bpf_core_enum_value(enum iter_type, ITER_IOVEC)) {
		const struct iovec *at = BPF_CORE_READ(iter, __iov);

		for (int i = 0; i < WS_SEND_SEGMENTS && left; i++, at++) {
			__u64 base = (__u64)BPF_CORE_READ(at, iov_base) + skip, len = BPF_CORE_READ(at, iov_len) - skip;

			skip = 0;
			if (len > left)
				len = left;
			left -= len;
			hold_bytes(h, (const void *)base, len);
		}
	} else if (iter->iter_type == bpf_core_enum_value(enum iter_type, ITER_BVEC)) {
		__u64 address = registered_buffer(BPF_CORE_READ(iter, bvec));

		if (address)
			hold_bytes(h, (const void *)(address + skip), left);
	}
}

/* Keeps the first bytes of a receive. */
static __always_inline void hold_received(struct task_struct *task, struct sock *sk, struct sk_buff *skb, int len)
{
	bool tcp = sk->sk_protocol == IPPROTO_TCP;
	struct held_bytes *h;
	struct bpf_dynptr bytes;
	__u32 from = 0, at, n;

	if (!bpf_ksym_exists(bpf_dynptr_from_skb) || len <= 0 || (!tcp && sk->sk_protocol != IPPROTO_UDP))
		return;
	h = bpf_task_storage_get(&uring_bytes, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!h || bpf_dynptr_from_skb(skb, 0, &bytes))
		return;
	if (tcp)
		from = BPF_CORE_READ((struct tcp_sock *)sk, copied_seq) - ((struct tcp_skb_cb *)skb->cb)->seq;
	at = h->length;
	n = skb->len - from;
	if (n > (__u32)len)
		n = len;
	if (n > WS_HELD_PAYLOAD)
		n = WS_HELD_PAYLOAD;
	barrier_var(n);
	if (at >= WS_HELD_PAYLOAD || !n || n > WS_HELD_PAYLOAD || bpf_dynptr_read(h->bytes + at, n, &bytes, from, 0))
		return;
	h->length = at + n;
}

/* Copies the bytes that were kept of the call that ends now. */
static __always_inline __u32 take_held(struct task_struct *task, __u8 *to, __s64 ret, __u32 want)
{
	struct held_bytes *h = bpf_task_storage_get(&uring_bytes, task, 0, 0);
	__u32 n;

	if (!h)
		return 0;
	n = h->length;
	h->length = 0;
	if (n > want)
		n = want;
	if (n > ret)
		n = ret;
	barrier_var(n);
	if (!n || n > WS_HELD_PAYLOAD || bpf_probe_read_kernel(to, n, h->bytes))
		return 0;
	return n;
}

/* The call is over. Drops its bytes, so that those of the next call do not follow them. */
static __always_inline void forget_held(struct task_struct *task)
{
	struct held_bytes *h;

	if (!uses_io_uring(task))
		return;
	h = bpf_task_storage_get(&uring_bytes, task, 0, 0);
	if (h)
		h->length = 0;
}

#endif
