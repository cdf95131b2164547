/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Messages by sys_enter and sys_exit: the rung for kernels before 6.3. It works on every kernel, but slows every system
 * call of the machine. The socket is found by its descriptor after the call.
 */
#ifndef WS_SYSCALL_TRACEPOINTS_H
#define WS_SYSCALL_TRACEPOINTS_H

#define WS_MMSG_MAX 16

/*
 * Makes the record of a message on a connection. A global function, so that the verifier checks it once, and not at
 * each call and each round of the loop below.
 */
__noinline int syscall_message(__u64 address, __u64 inode, __u8 direction, __s64 ret)
{
	struct sock *sk = (struct sock *)address;
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct sock_state *s;
	__u64 enter_ns = 0;
	__u32 seq = 0;
	__u16 flags = 0;

	if (!t)
		return 0;
	s = use_sock_by_address(sk, inode, task);
	if (!s)
		return 0;
	if (s->tuple.transport == WS_TCP) {
		struct tcp_sock *tp = (struct tcp_sock *)sk;

		if (direction == WS_EGRESS)
			seq = BPF_CORE_READ(tp, write_seq) - ret;
		else
			seq = read_up_to(BPF_CORE_READ(sk, __sk_common.skc_state), BPF_CORE_READ(sk, sk_err),
					 BPF_CORE_READ(tp, copied_seq), BPF_CORE_READ(tp, rcv_nxt)) -
			      ret;
		flags = WS_F_HAS_SEQ;
	}
	if (t->enter_ns) {
		enter_ns = t->enter_ns;
		flags |= WS_F_ENTER;
	}
	hold_processor();
	message(NULL, s, task, t, direction, ret, seq, flags, enter_ns);
	leave_processor();
	return flags & WS_F_HAS_SEQ;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	struct task_state *t;

	if (syscall_direction(nr) == WS_NOT_A_MESSAGE)
		return 0;
	t = target_task(bpf_get_current_task_btf());
	if (t)
		t->enter_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t;
	__u64 inode = 0;
	struct sock *sk;
	__u8 direction;
	int nr = WS_NR(regs);

	direction = syscall_direction(nr);
	if (direction == WS_NOT_A_MESSAGE)
		return 0;
	t = target_task(task);
	if (!t || WS_COMPAT_TASK(task))
		return 0;
	if (ret > 0 && is_peek(nr, regs)) {
		count(WS_C_PEEKS);
		return 0;
	}
	sk = sock_of_fd(task, WS_ARG1(regs), &inode);
	if (nr == NR_SPLICE) {
		if (sk)
			direction = WS_INGRESS;
		else
			sk = sock_of_fd(task, WS_ARG3(regs), &inode);
	}
	if (!sk)
		return 0;
	if (nr == NR_SENDMMSG || nr == NR_RECVMMSG) {
		__u64 vector = WS_ARG2(regs);

		t->mmsg_next = 0;
		t->mmsg_vector = vector;
		for (int i = 0; i < WS_MMSG_MAX && i < ret; i++) {
			__u32 len = 0;

			bpf_probe_read_user(&len, sizeof(len),
					    (void *)(vector + i * sizeof(struct user_mmsghdr64) +
						     __builtin_offsetof(struct user_mmsghdr64, len)));
			syscall_message((__u64)sk, inode, direction, len);
		}
	} else if (syscall_message((__u64)sk, inode, direction, ret) && flows_by_syscalls && ret > 0) {
		flow_call_by_address((__u64)sk, direction, ret);
	}
	t->enter_ns = 0;
	return 0;
}

#endif
