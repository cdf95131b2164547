/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What ran while a thread was ready and had no processor. */
#ifndef WS_WAIT_RAN_H
#define WS_WAIT_RAN_H

/*
 * Who had the processor for which a thread waited, if that is a thread of a target. Of another process it is told only
 * that it was one. Nobody has it while the processor idles.
 */
static __always_inline void note_ran(struct ws_wait *w, struct task_struct *waits, struct task_struct *ran,
				     bool is_target)
{
	if (!ran->pid)
		return;
	w->ran_pid = 0;
	if (ran->flags & PF_KTHREAD) {
		w->ran_tid = WS_RAN_KERNEL;
	} else if (is_target || ran->tgid == waits->tgid) {
		w->ran_pid = ran->tgid;
		w->ran_tid = ran->pid;
	} else {
		w->ran_tid = WS_RAN_OTHER;
	}
}

/*
 * The thread goes on after another one on the same processor. That one is told if it ran for half of the time in which
 * the thread was ready, or if nobody else is known.
 */
static __always_inline void note_ran_before(struct wait_ring *r, struct task_struct *task, struct task_struct *before,
					    bool is_target, __u64 now)
{
	struct ws_wait *w = wait_at(r, r->next);
	__u64 ready = w->state == WS_WAIT_READY || r->woke.woken_ns < w->stopped_ns ? w->stopped_ns : r->woke.woken_ns;
	__u64 ran = before->se.sum_exec_runtime - before->se.prev_sum_exec_runtime;

	if (is_open(r) && (!w->ran_tid || ran * 2 >= now - ready))
		note_ran(w, task, before, is_target);
}

#endif
