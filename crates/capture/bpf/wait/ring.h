/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The last waits of each thread of a target: when it stopped, what woke it, when it went on. They stay here, and cost
 * user space nothing, until a request turns out to be slow.
 */
#ifndef WS_WAIT_RING_H
#define WS_WAIT_RING_H

struct wait_ring {
	struct ws_waits head;
	struct ws_wait waits[WS_WAITS_KEPT];
	struct ws_wait woke; /* what woke the thread last: waker_*, comm, woken_ns */
	__u32 next;	     /* number of the next wait */
	__u32 taken;	     /* number of the first wait that user space has not got */
	__u64 limited_ns;
	__u64 on_cpu_ns;   /* how long it had run when it stopped last */
	__u64 turn;	   /* the actor whose turn it is on this thread (turns.h); 0: none is known */
	__u64 turn_ran_ns; /* how long this thread had run when that turn began */
	__u64 runs_at;	   /* where the runtime keeps the actor that this thread runs: 0 there if it runs none */
	__u32 turn_number; /* of that turn among those of the actor */
	__u32 epoch;	   /* in which the thread stopped */
	__u8 open;	   /* the thread waits */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct wait_ring);
} waits SEC(".maps");

/* A request that took at least so long is slow; by process. The box is empty while no waits are asked for. */
WS_TABLE(wait_thresholds, __u32, __u64);

/* Set by user space while waits are asked for. */
__u64 wait_threshold_ns; /* of processes without one of their own */
__u32 wait_one_of;	 /* one of so many requests is taken whether slow or not; 0: none */
__u32 waits_epoch;	 /* a new one each time that the programs are attached */

/* For how long all groups of the thread were held back. */
static __always_inline __u64 limited_ns(struct task_struct *task)
{
	struct task_group *group;
	__u64 sum = 0;

	if (!bpf_core_field_exists(task->sched_task_group))
		return 0;
	group = task->sched_task_group;
	if (!bpf_core_field_exists(group->cfs_bandwidth))
		return 0;
	for (int i = 0; i < WS_GROUP_DEPTH && group; i++) {
		sum += group->cfs_bandwidth.throttled_time;
		group = group->parent;
	}
	return sum;
}

static __always_inline __u64 state_of(struct task_struct *task)
{
	struct task_struct___old *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return BPF_CORE_READ(old, state);
}

static __always_inline void describe_socket(struct ws_wait *w, struct sock *sk)
{
	__be32 v4;

	w->about = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
	w->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	w->port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (!w->port)
		w->port = BPF_CORE_READ(sk, __sk_common.skc_num);
	if (w->family == AF_INET) {
		v4 = BPF_CORE_READ(sk, __sk_common.skc_daddr);
		put_v4(w->name, v4);
	} else if (w->family == AF_INET6) {
		BPF_CORE_READ_INTO((struct in6_addr *)w->name, sk, __sk_common.skc_v6_daddr);
	}
}

/* Describes the file of a descriptor, which may be none. */
static __always_inline void describe_file(struct ws_wait *w, struct task_struct *task, __u32 fd)
{
	struct file *file = file_of_fd(task, fd);
	const unsigned char *name;
	struct socket *socket;

	if (!file)
		return;
	w->fd = fd;
	w->file = BPF_CORE_READ(file, f_inode, i_mode);
	if ((w->file & S_IFMT) == S_IFSOCK) {
		socket = BPF_CORE_READ(file, private_data);
		describe_socket(w, BPF_CORE_READ(socket, sk));
		return;
	}
	w->about = BPF_CORE_READ(file, f_inode, i_ino);
	name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	bpf_probe_read_kernel_str(w->name, sizeof(w->name), name);
}

#define WS_NO_TIMEOUT 0xffff

/* A number of milliseconds; negative if there is none. */
static __always_inline __u16 timeout_ms(__s64 ms)
{
	return ms < 0 || ms > WS_NO_TIMEOUT ? WS_NO_TIMEOUT : ms;
}

/* A time as seconds and parts of a second, of which `per_ms` are a millisecond; the address may be 0. */
static __always_inline __u16 timeout_at(__u64 at, __u64 per_ms)
{
	return at ? timeout_ms(user_word(at) * 1000 + user_word(at + 8) / per_ms) : WS_NO_TIMEOUT;
}

/* What the thread does that stops: its system call, and what that is about. */
static __always_inline void describe_call(struct ws_wait *w, struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	long call = WS_NR(regs);

	w->fd = -1;
	w->timeout_ms = WS_NO_TIMEOUT;
	w->call = call < 0 || WS_COMPAT_TASK(task) ? -1 : call;
	if (w->call < 0 || w->state == WS_WAIT_READY)
		return;
	switch (call) {
	case NR_FUTEX:
		w->about = WS_ARG1(regs);
		return;
	case NR_NANOSLEEP:
	case NR_CLOCK_NANOSLEEP:
	case NR_IO_URING_ENTER:
		return;
	case NR_EPOLL_WAIT:
	case NR_EPOLL_PWAIT:
		w->timeout_ms = timeout_ms((__s32)WS_ARG4(regs));
		return;
	case NR_EPOLL_PWAIT2:
		w->timeout_ms = timeout_at(WS_ARG4(regs), 1000000);
		return;
	case NR_SELECT:
		w->timeout_ms = timeout_at(WS_ARG5(regs), 1000);
		return;
	case NR_PSELECT6:
		w->timeout_ms = timeout_at(WS_ARG5(regs), 1000000);
		return;
	case NR_POLL:
	case NR_PPOLL:
		w->timeout_ms = call == NR_POLL ? timeout_ms((__s32)WS_ARG3(regs)) : timeout_at(WS_ARG3(regs), 1000000);
		w->several = WS_ARG2(regs) < WS_NO_TIMEOUT ? WS_ARG2(regs) : WS_NO_TIMEOUT;
		if (w->several == 1)
			describe_file(w, task, user_int(WS_ARG1(regs)));
		return;
	}
	describe_file(w, task, WS_ARG1(regs));
}

#include "turns.h"

static __always_inline struct ws_wait *wait_at(struct wait_ring *r, __u32 number)
{
	return &r->waits[number & (WS_WAITS_KEPT - 1)];
}

/*
 * A waker says so before it takes the scheduler's lock, so that it may come before the thread has stopped, but not
 * earlier than this.
 */
#define WS_EARLY_NS 1000000

/*
 * Who ended a wait. A thread that is awake, or is about to be, is not woken again: who woke it last before it went on
 * has ended its wait. The scheduler's locks lie between the two, so that this one is written whole.
 */
static __always_inline void take_waker(struct wait_ring *r, struct ws_wait *w)
{
	const struct ws_wait *woke = &r->woke;

	if (w->state == WS_WAIT_READY || w->woken_ns || !woke->woken_ns ||
	    (__s64)(w->stopped_ns - woke->woken_ns) >= WS_EARLY_NS)
		return;
	w->waker = woke->waker;
	w->waker_call = woke->waker_call;
	w->waker_pid = woke->waker_pid;
	w->waker_tid = woke->waker_tid;
	__builtin_memcpy(w->comm, woke->comm, sizeof(w->comm));
	w->woken_ns = woke->woken_ns < w->stopped_ns ? w->stopped_ns : woke->woken_ns;
}

/* Whether the thread waits. A thread that stopped before the programs were attached again may have run meanwhile. */
static __always_inline bool is_open(struct wait_ring *r)
{
	return r->open && r->epoch == waits_epoch;
}

#include "ran.h"

/* The thread goes on. */
static __always_inline void wait_ends(struct task_struct *task, struct wait_ring *r, __u64 now)
{
	struct ws_wait *w = wait_at(r, r->next);

	if (!is_open(r))
		return;
	take_waker(r, w);
	/* Another waker may be missed: this one has not ended the next wait. */
	r->woke.woken_ns = 0;
	w->limited_us = (limited_ns(task) - r->limited_ns) / 1000;
	w->ran_ns = now;
	r->open = 0;
	r->next++;
}

/*
 * A thread that runs seems to wait: it went on while no program ran, and has run since then. Some machines run none
 * while a process of their own leaves the processor.
 */
static __always_inline void wait_ended_unseen(struct task_struct *task, struct wait_ring *r, __u64 now, __u64 on_cpu_ns)
{
	__u64 ran_ns = now - (on_cpu_ns - r->on_cpu_ns), stopped_ns = wait_at(r, r->next)->stopped_ns;

	wait_ends(task, r, ran_ns < stopped_ns ? stopped_ns : ran_ns);
}

/* The thread stops. */
static __always_inline void wait_begins(void *ctx, struct task_struct *task, struct wait_ring *r, bool preempted,
					struct task_struct *next, bool next_is_target, __u64 now)
{
	__u64 state = state_of(task), on_cpu_ns = task->se.sum_exec_runtime;
	struct ws_wait *w;

	wait_ended_unseen(task, r, now, on_cpu_ns);
	r->on_cpu_ns = on_cpu_ns;
	w = wait_at(r, r->next);
	__builtin_memset(w, 0, sizeof(*w));
	w->stopped_ns = now;
	w->state = preempted || !state ? WS_WAIT_READY : state & 1 ? WS_WAIT_SLEEPS : WS_WAIT_UNINTERRUPTIBLE;
	r->limited_ns = limited_ns(task);
	r->epoch = waits_epoch;
	r->open = 1;
	describe_call(w, task);
	if (w->state == WS_WAIT_READY) {
		note_ran(w, task, next, next_is_target);
	} else {
		turn_may_end(r, task, now);
		w->stack = take_stack(ctx, task);
	}
}

/*
 * The thread is woken by what runs now. An interrupt borrows the thread that runs: the idle one, or one whose registers
 * show no system call. An interrupt within a system call looks like that thread; user space compares the calls.
 */
static __always_inline void wait_woken(struct wait_ring *r, struct task_struct *by, bool by_target)
{
	struct ws_wait *w = &r->woke;

	if (!by->pid) {
		w->waker = WS_WAKER_INTERRUPT;
	} else if (by->flags & PF_KTHREAD) {
		w->waker = WS_WAKER_KERNEL;
	} else {
		long call = WS_NR((struct pt_regs *)bpf_task_pt_regs(by));

		w->waker_call = call;
		w->waker = call < 0 ? WS_WAKER_INTERRUPT : by_target ? WS_WAKER_TARGET : WS_WAKER_OTHER;
		if (w->waker == WS_WAKER_TARGET) {
			w->waker_pid = by->tgid;
			w->waker_tid = by->pid;
			__builtin_memcpy(w->comm, by->comm, sizeof(w->comm));
		}
	}
	w->woken_ns = bpf_ktime_get_ns();
}

#endif
