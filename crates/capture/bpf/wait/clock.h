/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Clocks of a thread: how long it ran, how long it was ready and waited for a processor, and how long a CPU limit held
 * it back. The scheduler keeps them anyway; each record carries what they show, and user space takes differences.
 */
#ifndef WS_WAIT_CLOCK_H
#define WS_WAIT_CLOCK_H

#define WS_GAP_WINDOW_NS 1000000000LL
#define WS_GROUP_DEPTH 6 /* groups of tasks, one in the other, whose limits are looked at */
#define WS_LONGEST_TICK_NS 10000000ULL

/*
 * The scheduler stamps when a thread came to its processor by a clock of its own. A thread that was just woken makes
 * the difference to our clock smallest: that of the last second or two is the gap between the clocks, to a few
 * microseconds. Several processors may write at once; a value that is lost comes again.
 */
struct {
	__s64 least;
	__s64 next;
	__s64 until;
} clock_gap;

/* How long this thread runs since it came to its processor. */
static __always_inline __u64 running_ns(__s64 now, __s64 arrived)
{
	__s64 gap = now - arrived;

	if (now > clock_gap.until) {
		clock_gap.least = clock_gap.until ? clock_gap.next : gap;
		clock_gap.next = gap;
		clock_gap.until = now + WS_GAP_WINDOW_NS;
	}
	if (gap < clock_gap.next)
		clock_gap.next = gap;
	if (gap < clock_gap.least)
		clock_gap.least = gap;
	gap -= clock_gap.least;
	return gap > 0 ? gap : 0;
}

/* How long the current thread has run. What the scheduler has added up is as old as the last tick. */
static __always_inline __u64 on_cpu_ns(struct task_struct *task, __u64 now)
{
	__u64 ran = task->se.sum_exec_runtime, since;

	if (bpf_core_field_exists(task->sched_info) && bpf_core_field_exists(task->se.prev_sum_exec_runtime)) {
		since = task->se.prev_sum_exec_runtime + running_ns(now, task->sched_info.last_arrival);
		if (since > ran && since < ran + WS_LONGEST_TICK_NS)
			return since;
	}
	return ran;
}

static __always_inline void read_clocks(struct task_struct *task, struct ws_clocks *c, __u64 now)
{
	struct task_group *group;

	c->on_cpu_ns = on_cpu_ns(task, now);
	c->queued_ns = c->limited_ns = 0;
	if (bpf_core_field_exists(task->sched_info))
		c->queued_ns = task->sched_info.run_delay;
	if (!c->on_cpu_ns)
		c->on_cpu_ns = 1; /* a thread that was just born; 0 says that the clocks are not known */
	if (!bpf_core_field_exists(task->sched_task_group))
		return;
	group = task->sched_task_group;
	if (!bpf_core_field_exists(group->cfs_bandwidth))
		return;
	for (int i = 0; i < WS_GROUP_DEPTH && group; i++) {
		c->limited_ns += group->cfs_bandwidth.throttled_time;
		group = group->parent;
	}
}

#endif
