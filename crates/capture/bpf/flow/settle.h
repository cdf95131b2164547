/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Moves counts of a socket since the last look into the bundle of its flow. */
#ifndef WS_FLOW_SETTLE_H
#define WS_FLOW_SETTLE_H

/*
 * The due part of a count. If a sweep and a close run at the same time, only one of them gets it. A close that is alone
 * with the state (`alone`) saves the atomic operation, because the state ends with the close.
 */
static __always_inline __u64 due_u64(__u64 now, __u64 *bundled, bool alone)
{
	__u64 old = *bundled;

	return now > old && (alone || __sync_val_compare_and_swap(bundled, old, now) == old) ? now - old : 0;
}

static __always_inline __u32 due_u32(__u32 *bundled, __u32 now, bool alone)
{
	__u32 old = *bundled;

	return now != old && (alone || __sync_val_compare_and_swap(bundled, old, now) == old) ? now - old : 0;
}

static __always_inline __u32 take_u32(__u32 *due, bool alone)
{
	__u32 n = *due;

	return n && !alone ? __sync_lock_test_and_set(due, 0) : n;
}

/* Counts that TCP itself keeps. */
struct flow_tcp {
	__u64 bytes[2]; /* bytes handed to TCP, and bytes received in order; by enum ws_direction */
	__u32 unread;
	__u32 retransmits;
	__u32 out_of_order;
	__u32 srtt_us;
	__u32 window;
	__u32 drops;
};

#define SOCK_DONE 1 /* a FIN has arrived */

/*
 * A FIN has a sequence number, and counts as a byte received, but is none. Bytes that are sent again do not count as
 * sent. In this order, a reader without a lock sees too little rather than too much, and the rest the next time.
 */
#define FLOW_BYTES(now, READ)                                                                  \
	do {                                                                                   \
		__u64 sent = READ(tp, bytes_sent), received = READ(tp, bytes_received), again; \
		__u32 fin;                                                                     \
		barrier();                                                                     \
		again = READ(tp, bytes_retrans);                                               \
		fin = READ(sk, __sk_common.skc_flags) >> SOCK_DONE & 1;                        \
		(now)->bytes[WS_EGRESS] = sent > again ? sent - again : 0;                     \
		(now)->bytes[WS_INGRESS] = received > fin ? received - fin : 0;                \
		(now)->unread = READ(tp, rcv_nxt) - fin - READ(tp, copied_seq);                \
	} while (0)

#define FLOW_FIELD(p, field) ((p)->field)
#define FLOW_PROBE(p, field) BPF_CORE_READ(p, field)

/*
 * Reads the counts of a socket that the verifier knows, while TCP holds its lock or is idle. Bytes handed to TCP count,
 * even if they are not sent yet.
 */
static __always_inline void flow_look(struct flow_tcp *now, struct sock *sk, struct tcp_sock *tp)
{
	__u32 unsent = tp->write_seq - tp->snd_nxt;

	FLOW_BYTES(now, FLOW_FIELD);
	if (unsent && sk->sk_shutdown & SEND_SHUTDOWN)
		unsent--; /* the FIN */
	now->bytes[WS_EGRESS] += unsent;
	now->retransmits = tp->total_retrans;
	now->out_of_order = tp->rcv_ooopack;
	now->srtt_us = tp->srtt_us >> 3;
	now->window = tp->snd_wnd;
}

/* Reads the counts of a socket that others may be using. Bytes that wait to be sent are left for later. */
static __always_inline void flow_read_tcp(struct flow_tcp *now, struct sock *sk, bool listens)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (listens) {
		now->drops = BPF_CORE_READ(sk, sk_drops.counter);
		return;
	}
	FLOW_BYTES(now, FLOW_PROBE);
	now->retransmits = BPF_CORE_READ(tp, total_retrans);
	now->out_of_order = BPF_CORE_READ(tp, rcv_ooopack);
	now->srtt_us = BPF_CORE_READ(tp, srtt_us) >> 3;
	now->window = BPF_CORE_READ(tp, snd_wnd);
}

/* State of the socket when it is settled, and whether the caller is alone with it, see flow_closes(). */
#define FLOW_LIVES 0
#define FLOW_CLOSED 1
#define FLOW_FAILED 2
#define FLOW_ALONE 4

/* Moves due counts into the bundle. `now` is NULL if the socket cannot be read, `slot` if the socket has none. */
__noinline int flow_settle(struct flow_sock *f, const struct flow_tcp *now, struct flow_slot *slot, __u32 how)
{
	struct flow_due d = {};
	__u32 end = how & ~FLOW_ALONE;
	bool alone = how & FLOW_ALONE;
	__u64 moved = 0;

	if (!f)
		return 0;
	for (int i = 0; i < 2; i++) {
		if (now && f->based)
			d.bytes[i] = due_u64(now->bytes[i], &f->bytes[i], alone);
		d.messages[i] = take_u32(slot ? &slot->calls[i] : &f->calls[i], alone);
		moved |= d.messages[i] | d.bytes[i];
	}
	d.opened = take_u32(&f->opened, alone);
	d.adopted = take_u32(&f->adopted, alone);
	d.resets_sent = take_u32(&f->resets_sent, alone);
	d.resets_received = take_u32(&f->resets_received, alone);
	d.handshake_us = take_u32(&f->handshake_us, alone);
	d.closed = end == FLOW_CLOSED && !f->listens;
	d.failed = end == FLOW_FAILED;
	if (now && f->listens) {
		d.listen_overflows = due_u32(&f->drops, now->drops, alone);
	} else if (now) {
		d.retransmits = due_u32(&f->retransmits, now->retransmits, alone);
		d.out_of_order = due_u32(&f->out_of_order, now->out_of_order, alone);
		d.zero_windows = end == FLOW_LIVES && f->based && now->bytes[WS_EGRESS] && !now->window;
		if (moved || d.opened)
			d.srtt_us = now->srtt_us;
	}
	if (!(moved | d.opened | d.adopted | d.resets_sent | d.resets_received | d.closed | d.failed |
	      d.listen_overflows | d.retransmits | d.out_of_order | d.zero_windows))
		return 0;
	d.client_port = f->client_port;
	f->bundled = 1;
	flow_bundle(&f->key, &f->owner, &d);
	return 0;
}

/*
 * The first call on a socket shows the process that uses it. Before that, only the listening process of an accepted
 * socket is known, which may be a parent that handed the listening socket down.
 */
static __noinline int flow_own(struct flow_sock *f, struct sock *sk, struct task_struct *task)
{
	struct flow_owner o;

	if (!f)
		return 0;
	if (f->key.pid == task->tgid && f->key.start_ns == task->group_leader->start_boottime) {
		f->owned = 1; /* the process that listens is a target */
		return 0;
	}
	if (!target_task(task))
		return 0;
	f->owned = 1;
	flow_fill_owner(&o, task);
	if (f->bundled) {
		struct flow_due d = { .moved = 1 };

		flow_bundle(&f->key, &f->owner, &d);
		f->adopted = 1;
	}
	flow_set_owner(f, &o);
	return 0;
}

/* Bytes from before the tracing do not count: all except those of the current call, and those that wait to be read. */
static __always_inline void flow_base_at(struct flow_sock *f, struct sock *sk, const struct flow_tcp *now,
					 __u8 direction, int ret)
{
	f->sk = (__u64)sk;
	f->retransmits = now->retransmits;
	f->out_of_order = now->out_of_order;
	f->bytes[WS_EGRESS] = now->bytes[WS_EGRESS] - (direction == WS_EGRESS && ret > 0 ? ret : 0);
	f->bytes[WS_INGRESS] = now->bytes[WS_INGRESS] - now->unread - (direction == WS_INGRESS && ret > 0 ? ret : 0);
	f->based = 1;
}

static __always_inline void flow_base(struct flow_sock *f, struct sock *sk, struct tcp_sock *tp, __u8 direction,
				      int ret)
{
	struct flow_tcp now = {};

	flow_look(&now, sk, tp);
	flow_base_at(f, sk, &now, direction, ret);
}

#endif
