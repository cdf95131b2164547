/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Go: a goroutine acts for a request, not its thread. The runtime keeps the address of the running goroutine in a
 * register, and a system call does not change it, so the goroutine is read from the registers at the entry into the
 * kernel. It is trusted only if the stack pointer lies in the stack of that goroutine, because C code uses the register
 * for other values.
 *
 * The start of a goroutine, which inherits, is probed at an instruction that the kernel emulates (src/runtime/go/).
 * channel.h has what passes through channels.
 */
#ifndef WS_GOROUTINE_H
#define WS_GOROUTINE_H

#include "contract.h"

#define GO_G_M 48 /* of runtime.g */

/* By thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct go_facts);
} go_facts SEC(".maps");

struct go_reasons {
	__u64 park; /* address of runtime.gopark in the process */
	__u64 park_size;
	__u8 names[GO_REASONS * GO_REASON_NAME]; /* for user space */
};

_Static_assert(sizeof(struct go_reasons) == GO_REASON_PLACE + GO_REASONS * GO_REASON_NAME, "contract");

/* By thread group. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct go_reasons);
} go_reasons SEC(".maps");

/* A thread of a Go program keeps a copy. */
struct go_thread {
	struct go_facts facts;
	__u32 facts_epoch;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct go_thread);
} go_threads SEC(".maps");

/* The facts of the current process; NULL if its runtime is not followed. */
static __always_inline const struct go_facts *go_facts_of(struct task_struct *task, struct task_state *t)
{
	const struct go_facts *facts;
	__u32 pid = task->tgid;
	struct go_thread *g;

	if (!has_runtime(t, WS_GOROUTINE))
		return NULL;
	g = bpf_task_storage_get(&go_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!g)
		return NULL;
	if (g->facts_epoch != t->facts_epoch) {
		facts = bpf_map_lookup_elem(&go_facts, &pid);
		if (!facts)
			return NULL;
		g->facts = *facts;
		g->facts_epoch = t->facts_epoch;
	}
	return &g->facts;
}

/* The same where a probe runs: `t` is the state of the thread; NULL if it is none of a target, either. */
static __always_inline const struct go_facts *go_probed(struct task_struct *task, struct task_state *t)
{
	if (!t)
		return NULL;
	learn_runtimes(task, t);
	return go_facts_of(task, t);
}

/*
 * The attribution of a goroutine. One that is met for the first time inherits from its parent, unless its start would
 * have been seen.
 */
static __always_inline struct attribution *goroutine(const struct go_facts *go, struct actor_key *key, __u64 g)
{
	struct attribution *c = actor_find(key), *from = NULL;
	__u64 id = key->id, cause;

	if (c)
		return c;
	if (go->parent && !go->births) {
		key->id = user_word(g + go->parent);
		from = actor_find(key);
		key->id = id;
	}
	cause = from && from->state != ACTS_RETURNED ? from->cause : 0;
	actor_met(id, key->pid, WS_GOROUTINE, cause, cause ? WS_EV_COROUTINE : WS_EV_NONE);
	return actor_find(key);
}

/* The goroutine in the system call; the thread itself if none is. */
static __always_inline struct attribution *go_acting(struct task_struct *task, struct task_state *t)
{
	struct actor_key key = { .pid = task->tgid, .kind = WS_GOROUTINE };
	const struct go_facts *go = go_facts_of(task, t);
	struct attribution *c;
	struct pt_regs *regs;
	__u64 stack[2], g;

	if (!go)
		return &t->acts;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	g = WS_GO_G(regs);
	if (bpf_probe_read_user(stack, sizeof(stack), (void *)g) || WS_SP(regs) < stack[0] || WS_SP(regs) > stack[1])
		return &t->acts;
	key.id = user_word(g + go->goid);
	if (!key.id)
		return &t->acts;
	t->actor = key.id;
	c = goroutine(go, &key, g);
	return c ? c : &t->acts;
}

/* The goroutine at address `g`, which runs in a probed function; NULL if it is not known. */
static __always_inline struct attribution *go_running(struct task_struct *task, struct task_state *t, __u64 g)
{
	struct actor_key key = { .pid = task->tgid, .kind = WS_GOROUTINE };
	const struct go_facts *go = go_probed(task, t);

	if (!go)
		return NULL;
	key.id = user_word(g + go->goid);
	return key.id ? goroutine(go, &key, g) : NULL;
}

/*
 * A worker that answers takes its next job from a list in memory. Which request that is for shows when it answers;
 * until then it is as likely this one.
 */
static __always_inline void works_on(struct attribution *c, __u64 guess)
{
	c->guess = guess;
	c->woken = c->pending = 0;
	c->answers = 1;
	c->state = ACTS_RETURNED;
}

/*
 * Before the cause of a message is decided. A goroutine that was made by a request writes to a connection that many
 * requests use at a time, and another one reads the answers. So it sends for others, and was never given a value by
 * them: they leave their requests in memory (rueidis).
 *
 * A goroutine that answers what another one has read, for the cause that it was given, is a worker from then on: it may
 * find its next job without waiting for it (netpoll).
 */
static __always_inline void go_before_message(const struct task_state *t, struct sock_state *s, struct attribution *a,
					      bool sent)
{
	if (!t->actor)
		return;
	if (s->request_direction != WS_EGRESS) {
		if (sent && !s->shared && s->exchange && a->state == ACTS_LENT && a->cause && !a->authoritative &&
		    !is_provisional(a->cause))
			works_on(a, exchange_id(s));
	} else if (!sent)
		s->read_apart |= !a->writes;
	else if (s->read_apart && s->pipelined && a->state == ACTS_LENT && !a->place)
		take(a, 0, WS_EV_INFERRED);
}

/* A worker that has answered starts a goroutine, or hands something over: it is at its next job by now. */
static __always_inline void go_next_job(struct attribution *a)
{
	if (a->state == ACTS_RETURNED && a->answers)
		act(a, 0);
}

/*
 * At the call of runtime.runqput in runtime.newproc, on the scheduler's stack: the second argument is the new
 * goroutine.
 */
SEC("uprobe.multi")
int WS_UPROBE(go_birth)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = { .pid = task->tgid, .kind = WS_GOROUTINE };
	struct attribution *from;
	const struct go_facts *go;
	__u64 child = WS_GO_ARG2(ctx);

	go = go_probed(task, t);
	if (!go)
		return 0;
	if (go->parent)
		key.id = user_word(child + go->parent);
	else
		key.id = user_word(user_word(user_word(WS_GO_G(ctx) + GO_G_M) + go->curg) + go->goid);
	from = actor_find(&key);
	if (!from || !from->cause)
		return 0;
	go_next_job(from);
	key.id = user_word(child + go->goid);
	if (key.id && !actor_born(&key, from, WS_EV_COROUTINE) && from->polls && !from->writes) {
		/* It takes a job from a list: that of its maker, or another one. */
		from = actor_find(&key);
		if (from) {
			works_on(from, from->cause);
			act(from, 0);
		}
	}
	return 0;
}

#endif
