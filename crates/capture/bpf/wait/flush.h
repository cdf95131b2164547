/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Sends the waits of a thread to user space when it answers a request that took long. */
#ifndef WS_WAIT_FLUSH_H
#define WS_WAIT_FLUSH_H

/*
 * Sends those waits that user space has not got. The record is built in the scratch of this processor, which is held
 * (hold_processor()) and not in use.
 */
__noinline int send_waits(struct sock_state *s, __u32 slow, __u64 actor)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct wait_ring *r = bpf_task_storage_get(&waits, task, 0, 0);
	__u32 cpu = bpf_get_smp_processor_id(), first;
	struct scratch *to = bpf_map_lookup_elem(&scratches, &cpu);
	__u64 now = bpf_ktime_get_ns(), all, part, rest;
	struct ws_waits *head;

	if (!s || !r || !to)
		return 0;
	wait_ended_unseen(task, r, now, on_cpu_ns(task, now));
	first = r->taken;
	if (r->next - first > WS_WAITS_KEPT) {
		first = r->next - WS_WAITS_KEPT;
		if (wait_at(r, first)->stopped_ns > s->request_ns)
			count(WS_C_WAITS_FORGOTTEN);
	}
	/* The ring may turn between the first of them and the last. */
	all = (__u64)(r->next - first) * sizeof(*r->waits);
	part = sizeof(r->waits) - first % WS_WAITS_KEPT * sizeof(*r->waits);
	if (part > all)
		part = all;
	rest = all - part;
	barrier_var(part);
	if (part > sizeof(r->waits))
		return 0;
	bpf_probe_read_kernel(to->payload + sizeof(*head), part, wait_at(r, first));
	barrier_var(rest);
	if (rest > sizeof(r->waits))
		return 0;
	bpf_probe_read_kernel(to->payload + sizeof(*head) + part, rest, r->waits);
	head = (struct ws_waits *)to->payload;
	head->count = r->next - first;
	r->taken = r->next;
	head->kind = WS_WAITS;
	head->slow = slow;
	head->depth = 0;
	head->runs_actors = r->head.runs_actors;
	head->pid = task->tgid;
	head->tid = task->pid;
	head->exchange = exchange_id(s);
	head->actor = actor;
	head->since_ns = s->request_ns;
	head->time_ns = bpf_ktime_get_ns();
	__builtin_memcpy(head->comm, task->comm, sizeof(head->comm));
	barrier_var(all);
	if (all > sizeof(r->waits))
		return 0;
	if (bpf_ringbuf_output(&events, head, sizeof(*head) + all, BPF_RB_NO_WAKEUP))
		count(WS_C_LOST_WAITS);
	return 0;
}

/*
 * The actor that sends an answer. An event loop may send what one of its actors has written before: then it is the one
 * that acted for the request last.
 */
static __always_inline __u64 wait_actor(const struct sock_state *s, const struct task_state *t)
{
	__u64 request = exchange_id(s), *acted;

	if (t->actor || t->runs)
		return t->actor ? t->actor : t->runs;
	acted = table_find(&turn_actors, &request);
	return acted ? *acted : 0;
}

/*
 * A thread has moved a message. Notes when requests begin; sends waits with the answer to a slow request. Of a long
 * answer, each call sends what is new. A global function, so that the verifier does not go through it for each message.
 */
__noinline int wait_message(struct sock_state *s, struct task_state *t, __u32 direction, __u64 enter_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns(), *own, threshold = wait_threshold_ns;
	__u32 pid = task->tgid;
	bool slow;

	if (!s || !t || s->request_direction != WS_INGRESS)
		return 0;
	if (!bpf_task_storage_get(&waits, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return 0;
	if (direction == WS_INGRESS) {
		if (!s->waits_request) {
			s->request_ns = enter_ns ? enter_ns : now;
			s->waits_request = 1;
			s->waits_sampled = wait_one_of && bpf_get_prandom_u32() % wait_one_of == 0;
		}
		return 0;
	}
	own = table_find(&wait_thresholds, &pid);
	if (own)
		threshold = *own;
	slow = s->request_ns && now - s->request_ns >= threshold;
	if (slow || s->waits_sampled) {
		if (s->waits_request)
			count(slow ? WS_C_WAITS_SLOW : WS_C_WAITS_SAMPLED);
		send_waits(s, slow, wait_actor(s, t));
	}
	s->waits_request = 0;
	return 0;
}

#endif
