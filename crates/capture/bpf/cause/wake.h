/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Hand-over by wake-up. The program runs when one thread wakes another, while the waker still runs. Both are in system
 * calls, whose registers show whether one waited for the other: both name the same futex, or one writes to a pipe or
 * eventfd while the other waits for a file. Wake-ups by timers, by the network or by a garbage collector fit neither.
 *
 * A thread that waited for a lock wakes the next one that waits for it, but no work passes. So a wake-up at a place
 * where the waker itself was woken lately is no hand-over. Such places are an interpreter's lock, a contended mutex,
 * and a queue whose takers wake each other.
 *
 * A thread that waits for events of many sockets has no cause when it is woken, because timers and idle callbacks
 * inherit nothing; unless a thread of its own process woke it.
 */
#ifndef WS_WAKE_H
#define WS_WAKE_H

#define WS_FUTEX_PAIR 7ULL /* a condition variable alternates between two futex words next to each other */

static __always_inline bool was_woken_at(const struct task_state *t, __u64 place)
{
	for (int i = 0; i < WS_WOKEN; i++)
		if (t->woken[i] == place)
			return true;
	return false;
}

static __always_inline void note_woken(struct task_state *t, __u64 place)
{
	if (was_woken_at(t, place))
		return;
	t->woken[t->woken_next % WS_WOKEN] = place;
	t->woken_next++;
}

/*
 * Identity of the file of this descriptor; both ends of a pipe have the same. 0 for a socket, whose bytes are messages.
 */
static __always_inline __u64 object_of_fd(struct task_struct *task, __u32 fd)
{
	struct file *file = file_of_fd(task, fd);

	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK)
		return 0;
	return (__u64)BPF_CORE_READ(file, private_data);
}

/*
 * Whether a thread that waits for events of many sockets is an event loop. The wait may as well be part of a library
 * call within a request that the thread has read from a blocking socket, or within a job that its runtime has given it.
 */
static __always_inline bool waits_as_loop(const struct task_state *w)
{
	const struct attribution *a = &w->acts;

	if (!w->loop && a->authoritative && a->state == ACTS_LENT)
		return false;
	return !w->blocks || a->state != ACTS_OWN || !a->cause;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *wakee)
{
	struct task_state *w = bpf_task_storage_get(&tasks, wakee, 0, 0), *t = NULL;
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *theirs, *ours;
	struct attribution *from;
	__u64 place;
	bool loop = false, written;
	int how;

	if (w ? !w->target : task->tgid != wakee->tgid)
		return 0;
	if (wakee->flags & (PF_KTHREAD | PF_IO_WORKER))
		return 0;
	if (task->tgid == wakee->tgid && task->pid != wakee->pid)
		t = bpf_task_storage_get(&tasks, task, 0, 0);
	if (!w) { /* a worker that has not used a socket yet */
		if (!t || !t->target || !(t->acts.cause || t->acts.guess))
			return 0;
		w = bpf_task_storage_get(&tasks, wakee, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!w)
			return 0;
		w->target = 1;
		w->inherited = t->inherited;
		w->generation = t->generation;
	}
	learn_runtimes(wakee, w);
	if (!threads_act(w))
		return 0;
	theirs = (struct pt_regs *)bpf_task_pt_regs(wakee);
	ours = (struct pt_regs *)bpf_task_pt_regs(task);
	switch (WS_NR(theirs)) {
	case NR_FUTEX:
		if (!t || WS_NR(ours) != NR_FUTEX)
			return 0;
		place = WS_ARG1(theirs);
		if (WS_ARG1(ours) != place && WS_ARG5(ours) != place)
			return 0;
		place &= ~WS_FUTEX_PAIR;
		if (runtime_begins(w, theirs, place)) {
			__builtin_memset(&w->acts, 0, sizeof(w->acts));
			inherit(&w->acts, waking(task, t), runtime_thread_evidence(w));
			return 0;
		}
		if (runtime_is_lock(wakee, w, place))
			return 0;
		note_woken(w, place);
		runtime_woken(wakee, w);
		how = was_woken_at(t, place) ? HOW_CHAIN : HOW_WAKE_UP;
		/*
		 * The waker was woken itself, and has sent nothing since. Perhaps it leaves its work in the queue, and
		 * wakes another worker for that.
		 */
		from = waking(task, t);
		if (reads_for_others(t) || t->brings_ns)
			pass_answer(t, w, wakee, runtime_attribution_of(wakee, w));
		else
			w->brings_ns = 0;
		if (from->state == ACTS_LENT && from->place &&
		    (!from->used || (from->pending && !waits_for_result(&w->acts, place))))
			how = HOW_CHAIN;
		actor_pass(from, &w->acts, place, how);
		return 0;
	case NR_EPOLL_WAIT:
	case NR_EPOLL_PWAIT:
	case NR_EPOLL_PWAIT2:
	case NR_IO_URING_ENTER:
		loop = waits_as_loop(w);
		break;
	case NR_READ:
	case NR_POLL:
	case NR_PPOLL:
	case NR_SELECT:
	case NR_PSELECT6:
		break;
	default:
		return 0;
	}
	written = t && (WS_NR(ours) == NR_WRITE || WS_NR(ours) == NR_WRITEV);
	if (loop) {
		w->loop = 1;
		take(&w->acts, 0, WS_EV_NONE);
		if (runtime_loop_woken(task, t, wakee, w, written))
			return 0;
	}
	if (!written)
		return 0;
	place = object_of_fd(task, WS_ARG1(ours));
	/*
	 * A thread that waits for several files is assumed to wait for this one, too. Otherwise an event of another
	 * file would have to wake it at this very moment.
	 */
	if (place && (WS_NR(theirs) != NR_READ || object_of_fd(wakee, WS_ARG1(theirs)) == place))
		actor_pass(waking(task, t), &w->acts, place, loop ? HOW_CHANNEL : HOW_WAKE_UP);
	return 0;
}

#endif
