/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* An empty program on a hook: what no tracer there can go below. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define EMPTY(hook)                 \
	SEC("tp_btf/" #hook)        \
	int empty_##hook(void *ctx) \
	{                           \
		return 0;           \
	}

char LICENSE[] SEC("license") = "GPL";
