/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The two hooks of the socket-tracepoint rung with nothing behind them: what no tracer on these hooks can go below. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

SEC("tp_btf/sock_send_length")
int empty_send(void *ctx)
{
	return 0;
}

SEC("tp_btf/sock_recv_length")
int empty_receive(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
