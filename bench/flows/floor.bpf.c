/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Empty programs on the hooks of flows: the least cost of any tracer there, with the same clock around each run. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define EMPTY(hook)                 \
	SEC("tp_btf/" #hook)        \
	int empty_##hook(void *ctx) \
	{                           \
		return 0;           \
	}

EMPTY(inet_sock_set_state)
EMPTY(sock_send_length)
EMPTY(sock_recv_length)
EMPTY(tcp_send_reset)
EMPTY(tcp_receive_reset)
EMPTY(kfree_skb)

char LICENSE[] SEC("license") = "GPL";
