/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Hand-over between processes. A process takes messages from a queue, and gives each job to a child that it has forked,
 * by a pipe. The order in which it writes need not be that in which it took: it keeps jobs for later, and tries failed
 * ones again. But a job goes by the id that its message had. So the child acts for a provisional cause from the read
 * on, and user space, which knows the ids of messages, finds in the bytes which message that was.
 *
 * The program runs at the end of every system call of the machine. So it is attached once a process takes messages that
 * has children.
 */
#ifndef WS_PIPE_H
#define WS_PIPE_H

#define S_IFIFO 0010000
#define WS_SHORTEST_JOB 24 /* bytes: less is no job with an id */

/* Processes that take messages, and whether they have had children. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} takers SEC(".maps");

/* Some probes of this process wait for what it does now. */
static __always_inline void tell_need(__u32 pid)
{
	struct ws_life life = { .pid = pid, .change = WS_NEEDS };

	if (watch_lives)
		bpf_ringbuf_output(&lives, &life, sizeof(life), BPF_RB_FORCE_WAKEUP);
}

/* This process reads a delivery, or asks for one. A function of its own, as its caller has little stack left. */
__noinline int note_taker(void)
{
	struct task_struct *task = bpf_get_current_task_btf(), *leader = task->group_leader;
	struct list_head *children = &leader->children;
	__u8 *known, parent;
	__u32 pid = task->tgid;

	known = bpf_map_lookup_elem(&takers, &pid);
	if (known && *known)
		return 0;
	if (!known)
		begin_trusted(pid);
	parent = BPF_CORE_READ(leader, children.next) != children;
	if (!known || parent)
		bpf_map_update_elem(&takers, &pid, &parent, BPF_ANY);
	if (!known)
		tell_need(pid);
	if (parent)
		want_hooks(WS_HOOK_PIPES);
	return 0;
}

/* Processes in which requests share a connection, and one send may be for several. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} sharers SEC(".maps");

/*
 * Whether requests of this process share the connection, so that a send or a read may be for several. Go's libraries
 * of HTTP/2 are probed themselves.
 */
static __always_inline bool requests_share(const struct sock_state *s, const struct task_state *t)
{
	return s->request_direction == WS_EGRESS &&
	       (s->gathers || s->pipelined || (s->shared && has_runtime(t, WS_TOKIO_TASK)));
}

/* They do. */
__noinline int note_sharer(struct task_state *t)
{
	__u32 pid = bpf_get_current_task_btf()->tgid;
	__u8 one = 1;

	if (!t || t->shares)
		return 0;
	t->shares = 1;
	if (!bpf_map_lookup_elem(&sharers, &pid) && !bpf_map_update_elem(&sharers, &pid, &one, BPF_ANY))
		tell_need(pid);
	return 0;
}

struct handed_record {
	struct ws_handed head;
	__u8 bytes[WS_HANDED_BYTES];
};

/* The child acts for the job that it has read. */
static __always_inline void take_job(struct attribution *a, __u64 at, __u32 length)
{
	struct handed_record *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	__u64 cause = a->cause;

	if (!e) {
		count(WS_C_LOST_RING_FULL);
		return;
	}
	/* Until it has sent something, it reads more of the same job. */
	if (!a->authoritative || !is_provisional(cause) || a->used)
		cause = WS_PROVISIONAL | __sync_fetch_and_add(&next_provisional, 1);
	if (length > WS_HANDED_BYTES)
		length = WS_HANDED_BYTES;
	if (bpf_probe_read_user(e->bytes, length, (void *)at))
		length = 0;
	e->head.kind = WS_HANDED;
	e->head.pad0 = 0;
	e->head.length = length;
	e->head.pad1 = 0;
	e->head.time_ns = bpf_ktime_get_ns();
	e->head.provisional = cause;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	actor_pass_cause(a, cause, WS_EV_BROKER, PASS_OWN);
	a->authoritative = 1;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(pipe_read, struct pt_regs *regs, long ret)
{
	struct task_struct *task;
	struct task_state *t;
	struct file *file;
	__u32 parent;

	if (WS_NR(regs) != NR_READ || ret < WS_SHORTEST_JOB)
		return 0;
	task = bpf_get_current_task_btf();
	t = bpf_task_storage_get(&tasks, task, 0, 0);
	if (!t || !t->target)
		return 0;
	parent = BPF_CORE_READ(task, real_parent, tgid);
	if (!bpf_map_lookup_elem(&takers, &parent))
		return 0;
	file = file_of_fd(task, WS_ARG1(regs));
	if (file && (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFIFO)
		take_job(&t->acts, WS_ARG2(regs), ret);
	return 0;
}

#endif
