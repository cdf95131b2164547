/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Go: work that passes from goroutine to goroutine through a channel. Probed are the two hand-overs to and from one
 * that waits; and, for channels with room, the copying of a value into its place in the buffer and out of it. All are
 * instructions that the kernel emulates (src/runtime/go/).
 */
#ifndef WS_GO_CHANNEL_H
#define WS_GO_CHANNEL_H

#include "goroutine.h"

/* struct hchan: these have not changed since Go 1.0 */
#define GO_CHAN_BUFFERED 8
#define GO_CHAN_BUFFER 16
#define GO_CHAN_ELEMENT 24
/* So far before the queue of receivers: the number of the next place to take from, and the type of the values. */
#define GO_CHAN_NEXT 8
#define GO_CHAN_TYPE 24

/* In place of a stream's number: the object is a channel, and carries its receiver; a place in a buffer. */
#define GO_RECEIVER 0xfffffffe
#define GO_PLACE 0xfffffffd

/* A goroutine leaves a value at this place in the buffer of a channel. */
__noinline int go_left(__u64 place, __u64 goid)
{
	struct actor_key mine = { .id = goid, .pid = bpf_get_current_task_btf()->tgid, .kind = WS_GOROUTINE };
	struct carrier_key key = { .object = place, .pid = mine.pid, .stream = GO_PLACE };
	struct attribution *from = actor_find(&mine);
	struct carried value = {};

	if (!from || from->reads_answers)
		return 0;
	if (from->delivers) {
		from->delivers = 0;
		return 0;
	}
	go_next_job(from);
	value.cause = given_cause(from);
	if (value.cause)
		actor_carry(&key, &value);
	return 0;
}

/*
 * Whether a goroutine that takes a value of this type out of a buffer works for others: it has no request, or has its
 * request by such a value. All others take what they need for their own work, as a free connection. Where it has waited
 * for a value, it knows the channel instead of the type.
 */
static __always_inline bool go_takes_jobs(const struct attribution *to, __u64 type, __u32 recvq)
{
	if (to->answers || to->authoritative)
		return false;
	if (!to->place)
		return to->state < ACTS_LENT && !to->cause;
	return to->place == type || user_word(to->place + recvq - GO_CHAN_TYPE) == type;
}

/* A goroutine takes the value at this place, of this type. */
__noinline int go_taken(__u64 place, __u64 goid, __u64 type, __u32 recvq)
{
	struct actor_key mine = { .id = goid, .pid = bpf_get_current_task_btf()->tgid, .kind = WS_GOROUTINE };
	struct carrier_key key = { .object = place, .pid = mine.pid, .stream = GO_PLACE };
	struct carried *left = actor_carried(&key);
	struct attribution from = {}, *to;

	if (left) {
		from.cause = left->cause;
		from.state = ACTS_LENT;
		actor_drop(&key);
	}
	to = actor_find(&mine);
	if (!to && from.cause) {
		actor_met(goid, mine.pid, WS_GOROUTINE, 0, WS_EV_NONE);
		to = actor_find(&mine);
	}
	if (to && go_takes_jobs(to, type, recvq))
		actor_pass(&from, to, to->place ? to->place : type, HOW_CHANNEL);
	return 0;
}

/* Where a value is copied: the arguments are its type, which begins with its size, and whereto and wherefrom. */
static __always_inline int copy(struct pt_regs *ctx, bool leaves)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct go_facts *go = go_probed(task, target_task(task));
	__u64 goid;

	/* A value without a size is a signal, and passes no work. */
	if (!go || !user_word(WS_GO_ARG1(ctx)))
		return 0;
	goid = user_word(WS_GO_G(ctx) + go->goid);
	if (leaves)
		go_left(WS_GO_ARG2(ctx), goid);
	else
		go_taken(WS_GO_ARG3(ctx), goid, WS_GO_ARG1(ctx), go->recvq);
	return 0;
}

/* At the call of runtime.typedmemmove by which a value gets into a buffer. */
SEC("uprobe.multi")
int WS_UPROBE(go_put)
{
	return copy(ctx, true);
}

/* The same by which a value gets out of it. */
SEC("uprobe.multi")
int WS_UPROBE(go_take)
{
	return copy(ctx, false);
}

/*
 * Whether only this goroutine has received from a channel, as far as is known. Such a channel was made for it, to be
 * given what it has asked for. A channel of which several goroutines receive brings jobs. A function of its own,
 * because its caller has little stack.
 */
__noinline int go_is_own(__u64 channel, __u64 receiver)
{
	struct carrier_key key = { .object = channel, .pid = bpf_get_current_task_btf()->tgid, .stream = GO_RECEIVER };
	struct carried first = { .cause = receiver }, *seen = actor_carried(&key);

	if (seen)
		return seen->cause == receiver;
	actor_carry(&key, &first);
	return 1;
}

/* A value goes through a channel from one goroutine to another, one of which has waited. */
static __always_inline int pass(struct pt_regs *ctx, bool receiver_waits)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *t = target_task(task);
	struct actor_key mine = { .pid = task->tgid, .kind = WS_GOROUTINE }, theirs = mine;
	const struct go_facts *go;
	__u64 channel = WS_GO_ARG1(ctx), g = WS_GO_G(ctx), made_for = 0, other;
	struct attribution *from, *to, nobody = {};
	__u16 element = 0;

	go = go_probed(task, t);
	if (!go)
		return 0;
	other = user_word(WS_GO_ARG2(ctx)); /* struct sudog begins with its goroutine */
	mine.id = user_word(g + go->goid);
	theirs.id = user_word(other + go->goid);
	if (!theirs.id)
		return 0;
	from = actor_find(receiver_waits ? &mine : &theirs);
	if (receiver_waits && from && from->delivers) {
		from->delivers = 0;
		return 0;
	}
	to = actor_find(receiver_waits ? &theirs : &mine);
	if (!to && !(from && from->cause))
		return 0;
	if (!to)
		to = goroutine(go, receiver_waits ? &theirs : &mine, receiver_waits ? other : g);
	if (!to)
		return 0;
	if (!from)
		from = &nobody;
	bpf_probe_read_user(&element, sizeof(element), (void *)(channel + GO_CHAN_ELEMENT));
	/* An answer goes to the goroutine that waits for it, which has the cause of its own request. */
	if (from->reads_answers)
		return 0;
	/* A value without a size is a signal, and passes no work. */
	if (!element && !(to->cause && to->state == ACTS_OWN))
		return 0;
	if (!receiver_waits && user_word(channel + GO_CHAN_BUFFERED)) {
		/* The receiver takes the oldest value of the buffer, another sender's, and leaves room for this one. */
		other = user_word(channel + GO_CHAN_BUFFER) + user_word(channel + go->recvq - GO_CHAN_NEXT) * element;
		go_taken(other, mine.id, user_word(channel + go->recvq - GO_CHAN_TYPE), go->recvq);
		go_left(other, theirs.id);
		return 0;
	}
	if (to->place && to->place == user_word(channel + go->recvq - GO_CHAN_TYPE))
		to->place = channel;
	/*
	 * The reader of a connection passes more bytes of its request to the handler of a stream. That is no new work.
	 */
	if (from->state <= ACTS_ANSWERED && is_by_stream(to->cause) && socket_of(to->cause) == socket_of(from->cause))
		return 0;
	/* The next request of its connection, which another goroutine has read, is work as well. */
	if (receiver_waits && to->state == ACTS_LENT && !to->place && !to->used &&
	    (from->state > ACTS_ANSWERED || socket_of(from->cause) != socket_of(to->cause)))
		made_for = to->cause;
	go_next_job(from);
	actor_pass(from, to, channel, HOW_CHANNEL);
	to->in_wait = made_for && to->cause != made_for && go_is_own(channel, theirs.id);
	if (to->in_wait)
		to->made_for = made_for;
	return 0;
}

SEC("uprobe.multi")
int WS_UPROBE(go_send)
{
	return pass(ctx, true);
}

SEC("uprobe.multi")
int WS_UPROBE(go_recv)
{
	return pass(ctx, false);
}

#endif
