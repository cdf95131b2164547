// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Two methods to compare bundles with: an event for each connection and message (stream), and counts in the kernel for
 * each five-tuple (tuples). They look only at sockets with this port at one end.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include "core/compat.h"
#include "others.h"

const volatile __u16 port;
const volatile bool stream;
__u64 lost;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__type(key, struct tuple);
	__type(value, struct counts);
} tuples SEC(".maps");

static __always_inline int tell(struct sock *sk, __u8 kind, __u64 bytes)
{
	__u16 own = sk->__sk_common.skc_num, other = bpf_ntohs(sk->__sk_common.skc_dport);
	struct event e = { .kind = kind, .bytes = bytes };
	struct counts zero = {}, *c;

	if (own != port && other != port)
		return 0;
	e.tuple.local = sk->__sk_common.skc_rcv_saddr;
	e.tuple.remote = sk->__sk_common.skc_daddr;
	e.tuple.local_port = own;
	e.tuple.remote_port = other;
	e.tuple.protocol = sk->sk_protocol;
	if (stream) {
		if (bpf_ringbuf_output(&events, &e, sizeof(e), BPF_RB_NO_WAKEUP))
			__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	c = bpf_map_lookup_elem(&tuples, &e.tuple);
	if (!c) {
		bpf_map_update_elem(&tuples, &e.tuple, &zero, BPF_NOEXIST);
		c = bpf_map_lookup_elem(&tuples, &e.tuple);
	}
	if (!c) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	if (kind == OPENED)
		__sync_fetch_and_add(&c->opened, 1);
	else
		__sync_fetch_and_add(&c->bytes[kind & 1], bytes);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state, struct sock *sk, int old, int new)
{
	return new == TCP_ESTABLISHED ? tell(sk, OPENED, 0) : 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sent, struct sock *sk, int ret, int flags)
{
	return ret > 0 && sk->__sk_common.skc_family == AF_INET ? tell(sk, SENT, ret) : 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(received, struct sock *sk, int ret, int flags)
{
	return ret > 0 && sk->__sk_common.skc_family == AF_INET ? tell(sk, RECEIVED, ret) : 0;
}

char LICENSE[] SEC("license") = "GPL";
