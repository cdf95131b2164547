/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Hand-over by wake-up: who wakes whom, seen where the waker still runs. Both stand in system calls, whose registers tell
 * whether the one waited for the other: a futex has one address for both; a pipe or eventfd is written by the one while the
 * other waits for a file. Wake-ups by timers, by the network and by a garbage collector fit none of these.
 *
 * A lock is passed on by those who waited for it, work is not: so a wake-up at a place where the waker itself was woken
 * of late is no hand-over (the lock of an interpreter, a contended mutex, a queue whose takers wake each other).
 *
 * A thread that waits for events of many sockets acts for nobody when it is woken, unless a thread of its own process
 * woke it: a timer or an idle callback inherits nothing.
 */
#ifndef WS_WAKE_H
#define WS_WAKE_H

#define WS_FUTEX_PAIR 7ULL /* a condition variable wakes by turns at two words next to each other */

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

/* What the file of this descriptor stands for, the same at both ends of a pipe; 0 for a socket, whose bytes are messages. */
static __always_inline __u64 object_of_fd(struct task_struct *task, __u32 fd)
{
	struct file *file = file_of_fd(task, fd);

	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK)
		return 0;
	return (__u64)BPF_CORE_READ(file, private_data);
}

/* Of Java. What a carrier mounts next is not known yet; who waits for others to send makes more than a buffer holds before he says anything. */
static __always_inline void wake_allocator(struct task_struct *wakee, struct task_state *w)
{
	struct allocations *all;

	if (w->java_mounts) {
		allocates_for(w, 0, 0);
	} else if (w->java_serves && w->acts.state == ACTS_OWN && w->acts.cause) {
		all = allocations_of(wakee->tgid, 0);
		if (all && all->sent_by_others)
			allocates_for(w, w->acts.cause, !is_untrusted(&w->acts, wakee->tgid));
	}
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *wakee)
{
	struct task_state *w = bpf_task_storage_get(&tasks, wakee, 0, 0), *t = NULL;
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *theirs, *ours;
	struct attribution *from;
	__u64 place;
	bool loop = false;
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
	know_process(wakee, w);
	if (w->facts.go.goid) /* goroutines are handed work, not threads */
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
		if (place >= w->facts.locks_from && place < w->facts.locks_to)
			return 0;
		note_woken(w, place);
		if (w->java_allocator)
			wake_allocator(wakee, w);
		how = was_woken_at(t, place) ? HOW_CHAIN : HOW_WAKE_UP;
		/* Woken itself, and nothing sent since: it may only have left something in the queue. */
		from = waker(task, t);
		if (from->state == ACTS_LENT && from->place &&
		    (!from->used || (from->pending && !waits_for_result(&w->acts, place))))
			how = HOW_CHAIN;
		hand_over(from, &w->acts, place, how);
		return 0;
	case NR_EPOLL_WAIT:
	case NR_EPOLL_PWAIT:
	case NR_EPOLL_PWAIT2:
	case NR_IO_URING_ENTER:
		loop = !w->blocks || w->acts.state != ACTS_OWN || !w->acts.cause;
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
	if (loop) {
		w->loop = 1;
		take(&w->acts, 0, WS_EV_NONE);
		if (t && t->java_allocator && !t->java_mounts)
			wake_allocator(task, t); /* it has made something for others to send */
	}
	if (!t || (WS_NR(ours) != NR_WRITE && WS_NR(ours) != NR_WRITEV))
		return 0;
	if (loop && w->java_slot) { /* for a task, which says more than who it is that wakes */
		w->java_called += w->java_called < JAVA_CALLED;
		return 0;
	}
	place = object_of_fd(task, WS_ARG1(ours));
	/* Who waits for several files is believed to wait for this one: the interrupt of another would have to fall here. */
	if (place && (WS_NR(theirs) != NR_READ || object_of_fd(wakee, WS_ARG1(theirs)) == place))
		hand_over(waker(task, t), &w->acts, place, loop ? HOW_CHANNEL : HOW_WAKE_UP);
	return 0;
}

#endif
