/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Facts about a system call that its number and registers show. */
#ifndef WS_SYSCALL_H
#define WS_SYSCALL_H

#define WS_NOT_A_MESSAGE 0xff
#define S_IFMT 0170000
#define S_IFSOCK 0140000

static __always_inline __u8 syscall_direction(long nr)
{
	switch (nr) {
	case NR_READ:
	case NR_READV:
	case NR_RECVFROM:
	case NR_RECVMSG:
	case NR_RECVMMSG:
		return WS_INGRESS;
	case NR_WRITE:
	case NR_WRITEV:
	case NR_SENDTO:
	case NR_SENDMSG:
	case NR_SENDMMSG:
	case NR_SENDFILE:
	case NR_SPLICE:
		return WS_EGRESS;
	}
	return WS_NOT_A_MESSAGE;
}

static __always_inline bool is_peek(long nr, struct pt_regs *regs)
{
	switch (nr) {
	case NR_RECVFROM:
	case NR_RECVMMSG:
		return WS_ARG4(regs) & MSG_PEEK;
	case NR_RECVMSG:
		return WS_ARG3(regs) & MSG_PEEK;
	}
	return false;
}

static __always_inline struct file *file_of_fd(struct task_struct *task, __u32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **slot, *file = NULL;

	if (!table || fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	slot = BPF_CORE_READ(table, fd) + fd;
	bpf_core_read(&file, sizeof(file), slot);
	return file;
}

static __always_inline struct sock *sock_of_fd(struct task_struct *task, __u32 fd, __u64 *inode)
{
	struct file *file = file_of_fd(task, fd);
	struct socket *socket;

	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	*inode = BPF_CORE_READ(file, f_inode, i_ino);
	socket = BPF_CORE_READ(file, private_data);
	return socket ? BPF_CORE_READ(socket, sk) : NULL;
}

#endif
