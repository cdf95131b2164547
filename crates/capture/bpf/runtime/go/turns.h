/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Go: turns of goroutines on threads, and since when a goroutine was ready for its next one. Probed while waits are
 * asked for. What makes a goroutine ready goes through runtime.ready (channels, locks, timers), or through the poller
 * of connections. One that its runtime has interrupted is ready at once.
 */
#ifndef WS_GO_TURNS_H
#define WS_GO_TURNS_H

#define GO_READS 'r' /* modes of the poller, which may come together, as their sum */
#define GO_WRITES 'w'
#define GO_POLL_STATES 2 /* who waits in a runtime.pollDesc: nobody, pdReady, pdWait, or else an address */

static __always_inline void go_is_due(const struct go_facts *go, __u64 g, __u32 pid)
{
	__u64 id = user_word(g + go->goid);

	if (id)
		turn_is_due(id, pid);
}

/* The goroutine that waits in this word of a runtime.pollDesc. */
static __always_inline void go_polled(const struct go_facts *go, __u64 at, __u32 pid)
{
	__u64 g = user_word(at);

	if (g > GO_POLL_STATES)
		go_is_due(go, g, pid);
}

#define GO_G_PC 64     /* in runtime.g: where the goroutine goes on (sched.pc) */
#define GO_G_REASON 24 /* in runtime.g, behind its id: waitreason; the same from Go 1.17 to 1.26 */

/*
 * Why the goroutine that goes on had stopped. If it was parked, it goes on within runtime.gopark, which has left the
 * reason. Otherwise its runtime has interrupted it, or let it wait after a system call, and the reason is an old one.
 */
static __always_inline __u16 go_parked(struct task_struct *task, const struct go_facts *go, __u64 g)
{
	__u32 pid = task->tgid;
	struct go_reasons *reasons = bpf_map_lookup_elem(&go_reasons, &pid);
	__u8 reason = WS_PARK_UNKNOWN;
	__u64 at;

	if (!reasons)
		return WS_PARK_UNKNOWN;
	at = user_word(g + GO_G_PC);
	if (!at)
		return WS_PARK_UNKNOWN;
	if (at - reasons->park >= reasons->park_size)
		return WS_PARK_READY;
	bpf_probe_read_user(&reason, sizeof(reason), (void *)(g + go->goid + GO_G_REASON));
	return reason;
}

/*
 * At the entry of runtime.execute, on the scheduler's stack: the argument is the goroutine that this thread will run.
 * The runtime keeps it in runtime.m as long as the thread runs it, also in system calls. The argument of runtime.ready
 * is the goroutine, those of runtime.netpollready are a list, a runtime.pollDesc and the mode.
 */
SEC("uprobe.multi")
int WS_UPROBE(go_turns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	const struct go_facts *go;
	__u64 id, m, mode;

	go = waits_on ? go_probed(task, t) : NULL;
	if (!go)
		return 0;
	switch (bpf_get_attach_cookie(ctx)) {
	case GO_READY:
		go_is_due(go, WS_GO_ARG1(ctx), task->tgid);
		break;
	case GO_POLLED:
		mode = (__u32)WS_GO_ARG3(ctx);
		if (mode == GO_READS || mode == GO_READS + GO_WRITES)
			go_polled(go, WS_GO_ARG2(ctx) + go->reader, task->tgid);
		if (mode == GO_WRITES || mode == GO_READS + GO_WRITES)
			go_polled(go, WS_GO_ARG2(ctx) + go->reader + sizeof(__u64), task->tgid);
		break;
	case GO_EXECUTE:
		id = user_word(WS_GO_ARG1(ctx) + go->goid);
		m = user_word(WS_GO_G(ctx) + GO_G_M);
		if (id && m)
			turn_begins(task, id, m + go->curg, go_parked(task, go, WS_GO_ARG1(ctx)), 0);
		break;
	}
	return 0;
}

#endif
