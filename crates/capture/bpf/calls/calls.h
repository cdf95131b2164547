/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Every system call of chosen processes. Attached only while somebody asks for it: each system call of the machine
 * passes here (docs/decisions/0029).
 */
#ifndef WS_CALLS_H
#define WS_CALLS_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WS_CALLS_PROCESSES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct ws_calls_wanted);
} calls_wanted SEC(".maps");

__u32 calls_epoch; /* a new one each time that the programs are attached */

/* The call that a thread makes. */
struct call_state {
	__u64 began_ns;
	__u32 number; /* of calls that ended, since the programs were attached */
	__u32 epoch;  /* in which the call began */
	__u16 call;
	__u8 open;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call_state);
} call_states SEC(".maps");

/* A ring of their own: a thread that makes very many calls must not push records of messages out. */
struct calls_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by user space */
};

/* The box is empty while no calls are asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct calls_ring);
} calls_ended SEC(".maps");

SEC("tp_btf/sys_enter")
int BPF_PROG(call_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = task->tgid, word = (__u64)id >> 6;
	struct ws_calls_wanted *wanted = bpf_map_lookup_elem(&calls_wanted, &pid);
	struct call_state *s;

	if (!wanted || word >= WS_CALL_WORDS)
		return 0;
	if (!(wanted->bits[word] & (1ULL << (id & 63))))
		return 0;
	/* A process may have ended, and its id be that of another one now. Numbers of 32-bit programs are others. */
	if (!target_task(task) || WS_COMPAT_TASK(task))
		return 0;
	s = bpf_task_storage_get(&call_states, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!s) {
		count(WS_C_LOST_CALLS);
		return 0;
	}
	if (s->epoch != calls_epoch) {
		s->epoch = calls_epoch;
		s->number = 0;
	}
	s->call = id;
	s->open = 1;
	s->began_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call_exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct call_state *s = bpf_task_storage_get(&call_states, task, 0, 0);
	struct ws_call call = {};
	void *ring;

	/* A call that began before the programs were attached again may have ended meanwhile. */
	if (!s || !s->open || s->epoch != calls_epoch)
		return 0;
	s->open = 0;
	call.ended_ns = bpf_ktime_get_ns();
	call.began_ns = s->began_ns;
	call.result = result;
	call.pid = task->tgid;
	call.tid = task->pid;
	call.number = ++s->number;
	call.call = s->call;
	ring = table_in(&calls_ended);
	if (!ring || bpf_ringbuf_output(ring, &call, sizeof(call), BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_CALLS);
	return 0;
}

#endif
