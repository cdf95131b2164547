/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Run by user space: what must pass over every socket, done without copying any of them out (Linux 5.14). */
#ifndef WS_FLOW_SWEEP_H
#define WS_FLOW_SWEEP_H

struct bpf_map;

static long flow_sweep_one(struct bpf_map *map, __u64 *cookie, struct flow_sock *f, void *unused)
{
	struct sock *sk = (struct sock *)f->sk;
	struct flow_slot *slot = flow_slot(*cookie);
	struct flow_tcp now = {};

	if (slot && slot->cookie != *cookie)
		slot = NULL;
	/* Its owner may be told by the first message, so an accepted connection may wait for that once. */
	if (!f->owned && !f->swept) {
		f->swept = 1;
		return 0;
	}
	if (!sk) {
		flow_settle(f, NULL, slot, FLOW_LIVES);
		return 0;
	}
	flow_read_tcp(&now, sk, f->listens);
	/* Not locked: it may be gone, and its memory another's. */
	if ((__u64)BPF_CORE_READ(sk, __sk_common.skc_cookie.counter) != *cookie)
		flow_settle(f, NULL, slot, FLOW_LIVES);
	else
		flow_settle(f, &now, slot, FLOW_LIVES);
	return 0;
}

SEC("syscall")
int flow_sweep(void *ctx)
{
	bpf_for_each_map_elem(&flow_sockets, flow_sweep_one, NULL, 0);
	return 0;
}

/* A socket that existed before us. */
SEC("syscall")
int flow_adopt(struct ws_flow_adopt *a)
{
	struct flow_sock f = {};
	__u64 cookie = a->cookie;

	f.key = a->key;
	f.client_port = a->client_port;
	f.owner.cgroup_id = a->cgroup_id;
	f.owner.pid = a->key.pid;
	f.owner.start_ns = a->key.start_ns;
	__builtin_memcpy(f.owner.comm, a->comm, WS_COMM_LEN);
	f.listens = a->listens;
	f.adopted = !a->listens;
	f.swept = 1;
	if (bpf_map_update_elem(&flow_sockets, &cookie, &f, BPF_NOEXIST))
		return 1;
	if (a->listens)
		flow_listens(&f);
	return 0;
}

#endif
