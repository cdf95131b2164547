/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Programs that user space runs to pass over every socket, without copying sockets to user space (Linux 5.14). */
#ifndef WS_FLOW_SWEEP_H
#define WS_FLOW_SWEEP_H

struct bpf_map;

static __always_inline void flow_sweep_sock(struct flow_slot *slot, struct flow_sock *f, __u64 cookie)
{
	struct sock *sk = (struct sock *)f->sk;
	struct flow_tcp now = {};

	/* The first message will show the owner of an accepted connection, so the sweep leaves it out once. */
	if (!f->owned && !f->swept) {
		f->swept = 1;
		return;
	}
	/* A client that connects has no port and no address yet. */
	if (!f->client_port && !f->listens)
		return;
	if (!sk) {
		flow_settle(f, NULL, slot, FLOW_LIVES);
		return;
	}
	flow_read_tcp(&now, sk, f->listens);
	/* The socket is not locked: it may be gone, and another socket may have its memory. */
	if ((__u64)BPF_CORE_READ(sk, __sk_common.skc_cookie.counter) != cookie)
		flow_settle(f, NULL, slot, FLOW_LIVES);
	else
		flow_settle(f, &now, slot, FLOW_LIVES);
}

/* Sweeps a place. Returns whether it is in use. */
__noinline int flow_sweep_place(__u32 at)
{
	struct flow_slot *slot = bpf_map_lookup_elem(&flow_slots, &at);
	struct flow_sock *f;
	__u64 cookie;

	if (!slot)
		return 0;
	cookie = slot->cookie;
	if (!cookie || cookie & FLOW_GOING)
		return !!cookie;
	cookie &= ~FLOW_NEW;
	f = flow_state_at(at);
	if (!f)
		return 0;
	__sync_lock_test_and_set(&f->swept_now, 1);
	if ((slot->cookie & ~FLOW_NEW) == cookie)
		flow_sweep_sock(slot, f, cookie);
	__sync_lock_test_and_set(&f->swept_now, 0);
	if (slot->cookie == FLOW_ENDED)
		__sync_val_compare_and_swap(&slot->cookie, FLOW_ENDED, 0);
	return 1;
}

/*
 * A socket first takes a place and then sets the mark of its block. The sweep clears the mark before it looks: either
 * it sees the place, or the mark stays.
 */
static long flow_sweep_block(struct bpf_map *map, __u32 *block, __u32 *used, void *unused)
{
	__u32 first = *block * WS_FLOW_BLOCK, taken = 0;

	if (!*used)
		return 0;
	__sync_lock_test_and_set(used, 0);
	for (int i = 0; i < WS_FLOW_BLOCK; i++)
		taken |= flow_sweep_place(first + i);
	if (taken)
		*used = 1;
	return 0;
}

SEC("syscall")
int flow_sweep(void *ctx)
{
	flow_made = 0;
	flow_beyond = 0;
	bpf_for_each_map_elem(&flow_blocks, flow_sweep_block, NULL, 0);
	return 0;
}

/* Adopts a socket that is older than the tracing. */
SEC("syscall")
int flow_adopt(struct ws_flow_adopt *a)
{
	struct flow_slot *slot = NULL;
	__u64 cookie = a->cookie;
	struct flow_sock *f;

	/*
	 * Another program has met the socket already, and knows more; or no place is free, and its first message will
	 * do.
	 */
	if (!cookie || flow_listed(cookie, &slot))
		return 1;
	f = flow_take(cookie, &slot);
	if (!f) {
		flow_far_wanted = true;
		return 1;
	}
	__builtin_memset(f, 0, sizeof(*f));
	f->key = a->key;
	f->client_port = a->client_port;
	if (!a->listens)
		f->key.client_port = flow_apart(&f->key, a->client_port);
	f->owner.cgroup_id = a->cgroup_id;
	f->owner.pid = a->key.pid;
	f->owner.start_ns = a->key.start_ns;
	__builtin_memcpy(f->owner.comm, a->comm, WS_COMM_LEN);
	f->listens = a->listens;
	f->adopted = !a->listens;
	f->swept = 1;
	flow_publish(slot, cookie | FLOW_NEW);
	if (a->listens)
		flow_listens(f);
	return 0;
}

#endif
