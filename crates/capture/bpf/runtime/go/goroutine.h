/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Go: a goroutine, not its thread, acts for a request. Which one runs is read from the registers that it entered the kernel
 * with (the runtime keeps its own structure in one, and a system call does not change it), and believed only if the stack
 * pointer lies in that goroutine's stack: C code does not keep to the rule.
 *
 * Three functions of the runtime are probed, at instructions that the kernel emulates (src/runtime/go.rs): the start of a
 * goroutine, which inherits; and the two hand-overs of a channel, which are called only where one side waits: to a receiver
 * that waits, and from a sender that waits. What passes through a buffer without anybody waiting is not seen.
 */
#ifndef WS_GOROUTINE_H
#define WS_GOROUTINE_H

/* struct hchan: these have not changed since Go 1.0 */
#define GO_CHAN_BUFFERED 8
#define GO_CHAN_ELEMENT 24

#define GO_G_M 48 /* of runtime.g */

/* The place of a task of asyncio that was woken by an answer, and of one that works for whoever asks it (asyncio.h). */
enum { ASYNCIO_READER = 1, ASYNCIO_WORKER = 2 };

/* One that was not seen before acts for this; `kind` is `java` of its key. Of its own, for the stack of its callers. */
__noinline int beget(__u64 id, __u32 pid, __u32 kind, __u64 cause, __u32 evidence)
{
	struct actor_key key = { .id = id, .pid = pid, .java = kind };
	struct attribution born = { .cause = cause, .evidence = evidence, .state = cause ? ACTS_LENT : ACTS_OWN };

	return bpf_map_update_elem(&actors, &key, &born, BPF_ANY); /* whoever calls looks it up */
}

/* What this goroutine acts for; made at first sight, when its parent is asked unless its start would have been seen. */
static __always_inline struct attribution *goroutine(const struct go_runtime *go, struct actor_key *key, __u64 g)
{
	struct attribution *c = bpf_map_lookup_elem(&actors, key), *from = NULL;
	__u64 id = key->id, cause;

	if (c)
		return c;
	if (go->parent && !go->births) {
		key->id = user_word(g + go->parent);
		from = bpf_map_lookup_elem(&actors, key);
		key->id = id;
	}
	cause = from && from->state != ACTS_RETURNED ? from->cause : 0;
	beget(id, key->pid, 0, cause, cause ? WS_EV_COROUTINE : WS_EV_NONE);
	return bpf_map_lookup_elem(&actors, key);
}

/* What a virtual thread of Java acts for: until it has read something, for whoever started it. A worker: for whom its task was made. */
static __always_inline struct attribution *virtual_context(struct task_state *t, struct actor_key *key)
{
	struct attribution *c;
	__u64 cause;

	key->id = virtual_thread(t);
	if (key->id == VIRTUAL_UNKNOWN)
		take(&t->acts, 0, WS_EV_NONE);
	if (!key->id)
		return acts_for_task(t) ? &t->job : &t->acts;
	t->java_mounts = 1;
	if (key->id == VIRTUAL_UNKNOWN)
		return &t->acts;
	key->java = 1;
	t->actor = key->id;
	c = bpf_map_lookup_elem(&actors, key);
	if (c)
		return c;
	cause = made_for(t);
	beget(key->id, key->pid, key->java, cause, cause ? WS_EV_CHILD : WS_EV_INFERRED);
	c = bpf_map_lookup_elem(&actors, key);
	return c ? c : &t->acts;
}

/* Who acts: the goroutine in the system call, the greenlet that runs, or the virtual thread that is mounted, else the thread. */
static __always_inline struct attribution *acting(struct task_struct *task, struct task_state *t)
{
	struct actor_key key = { .pid = task->tgid };
	struct pt_regs *regs;
	struct attribution *c;
	__u64 stack[2], g;

	t->actor = 0;
	if (t->runs) {
		key.id = t->runs;
		c = bpf_map_lookup_elem(&actors, &key);
		/* A task of asyncio of which nothing is known stands for its thread: not a worker, whose calls are what the thread goes by. */
		if (!c || (t->callbacks && !c->cause && c->place != ASYNCIO_WORKER))
			return &t->acts;
		t->actor = key.id;
		return c;
	}
	know_process(task, t);
	if (t->facts.java.thread)
		return virtual_context(t, &key);
	if (t->facts.haproxy.stream)
		return haproxy_context(t, &key);
	if (!t->facts.go.goid)
		return &t->acts;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	g = WS_GO_G(regs);
	if (bpf_probe_read_user(stack, sizeof(stack), (void *)g) || WS_SP(regs) < stack[0] || WS_SP(regs) > stack[1])
		return &t->acts;
	key.id = user_word(g + t->facts.go.goid);
	if (!key.id)
		return &t->acts;
	t->actor = key.id;
	c = goroutine(&t->facts.go, &key, g);
	return c ? c : &t->acts;
}

/* Who wakes somebody. */
static __always_inline struct attribution *waker(struct task_struct *task, struct task_state *t)
{
	know_process(task, t);
	return t->facts.java.thread || t->tokio ? acting(task, t) : &t->acts;
}

/* After acting(): the process of a thread; 0 if it was a goroutine. */
static __always_inline __u32 thread_group(struct task_struct *task, const struct task_state *t)
{
	return t->actor ? 0 : task->tgid;
}

/* After acting(): who that was, to be known again. */
static __always_inline __u32 actor_id(struct task_struct *task, const struct task_state *t)
{
	return t->actor ? (__u32)t->actor : task->pid;
}

/* At the call of runtime.runqput in runtime.newproc, on the scheduler's stack: the second argument is the new goroutine. */
SEC("uprobe.multi")
int go_birth(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key key = {};
	struct attribution *from, born = {};
	__u64 child = WS_GO_ARG2(ctx);

	if (!t)
		return 0;
	know_process(task, t);
	if (!t->facts.go.goid)
		return 0;
	key.pid = task->tgid;
	if (t->facts.go.parent)
		key.id = user_word(child + t->facts.go.parent);
	else
		key.id = user_word(user_word(user_word(WS_GO_G(ctx) + GO_G_M) + t->facts.go.curg) + t->facts.go.goid);
	from = bpf_map_lookup_elem(&actors, &key);
	if (!from || !from->cause)
		return 0;
	inherit(&born, from, WS_EV_COROUTINE);
	key.id = user_word(child + t->facts.go.goid);
	if (key.id)
		remember(&actors, &key, &born);
	return 0;
}

/* A channel's value goes from one goroutine to the other, of which one has waited. */
static __always_inline int pass(struct pt_regs *ctx, bool receiver_waits)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key mine = {}, theirs = {};
	__u64 channel = WS_GO_ARG1(ctx), g = WS_GO_G(ctx), other;
	struct attribution *from, *to, nobody = {};
	__u16 element = 0;

	if (!t)
		return 0;
	know_process(task, t);
	if (!t->facts.go.goid)
		return 0;
	other = user_word(WS_GO_ARG2(ctx)); /* struct sudog begins with its goroutine */
	mine.pid = theirs.pid = task->tgid;
	mine.id = user_word(g + t->facts.go.goid);
	theirs.id = user_word(other + t->facts.go.goid);
	if (!theirs.id)
		return 0;
	from = bpf_map_lookup_elem(&actors, receiver_waits ? &mine : &theirs);
	if (receiver_waits && from && from->delivers) {
		from->delivers = 0;
		return 0;
	}
	to = bpf_map_lookup_elem(&actors, receiver_waits ? &theirs : &mine);
	if (!to && !(from && from->cause))
		return 0;
	if (!to)
		to = goroutine(&t->facts.go, receiver_waits ? &theirs : &mine, receiver_waits ? other : g);
	if (!to)
		return 0;
	if (!from)
		from = &nobody;
	bpf_probe_read_user(&element, sizeof(element), (void *)(channel + GO_CHAN_ELEMENT));
	/* An answer, handed to who waits for it: that one knows for whom it asked. */
	if (from->reads_answers)
		return 0;
	/* A value of no size says that something has happened; it is no work. */
	if (!element && !(to->cause && to->state == ACTS_OWN))
		return 0;
	if (!receiver_waits && user_word(channel + GO_CHAN_BUFFERED)) {
		/* It takes the oldest value of the buffer, which is not this sender's. */
		if (to->state == ACTS_LENT && to->place == channel)
			to->state = ACTS_RETURNED;
		return 0;
	}
	/* Who reads a connection gives the handler of a stream what came for it: that is no further work. */
	if (from->state <= ACTS_ANSWERED && is_by_stream(to->cause) && socket_of(to->cause) == socket_of(from->cause))
		return 0;
	hand_over(from, to, channel, HOW_CHANNEL);
	return 0;
}

SEC("uprobe.multi")
int go_send(struct pt_regs *ctx)
{
	return pass(ctx, true);
}

SEC("uprobe.multi")
int go_recv(struct pt_regs *ctx)
{
	return pass(ctx, false);
}

#endif
