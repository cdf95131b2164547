/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The least work of a tracer that shows bytes, on the two hooks of the socket-tracepoint rung: check the process, find
 * its buffer, take the time, put one record into a ring. It keeps no state of sockets, threads or requests.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "core/compat.h"

#define WANTED 256

struct record {
	__u64 socket;
	__u64 time_ns;
	__u64 pid_tgid;
	__u32 length;
	__u32 seq;
	__u8 rest[120]; /* as long as wirespan's */
	__u8 bytes[WANTED];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 * 1024 * 1024);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} tasks SEC(".maps");

__u32 pid;

static __always_inline int capture(struct sock *sk, int ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 *known = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 n = ret < WANTED ? ret : WANTED - 1;
	struct record *r;
	__u64 from;

	if (!known || task->tgid != pid || ret <= 0)
		return 0;
	barrier_var(n);
	n &= WANTED - 1; /* and so one byte less */
	r = bpf_ringbuf_reserve(&events, sizeof(*r), 0);
	if (!r)
		return 0;
	r->socket = (__u64)sk;
	r->time_ns = bpf_ktime_get_ns();
	r->pid_tgid = bpf_get_current_pid_tgid();
	r->length = ret;
	r->seq = 0;
	from = WS_ARG2(regs);
	if (WS_NR(regs) == NR_WRITEV || WS_NR(regs) == NR_READV)
		bpf_probe_read_user(&from, sizeof(from), (void *)from);
	if (WS_NR(regs) != NR_SENDFILE)
		bpf_probe_read_user(r->bytes, n, (void *)from);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(bare_send, struct sock *sk, int ret, int flags)
{
	return capture(sk, ret);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(bare_receive, struct sock *sk, int ret, int flags)
{
	return capture(sk, ret);
}

char LICENSE[] SEC("license") = "GPL";
