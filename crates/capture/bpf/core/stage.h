/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Programs that look into runtimes take the kernel long to verify. So a plain variant of each is loaded first, and the
 * whole one takes its place once it is loaded (src/stages.rs). What is attached is one of the programs below. It jumps
 * to the variant in its table, so that no event is seen by both variants, or by none.
 */
#ifndef WS_STAGE_H
#define WS_STAGE_H

#define WS_STAGED(hook)                                  \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);   \
		__uint(max_entries, 1);                  \
		__type(key, __u32);                      \
		__type(value, __u32);                    \
	} hook##_now SEC(".maps");                       \
	SEC("tp_btf/" #hook) int hook##_stage(void *ctx) \
	{                                                \
		bpf_tail_call(ctx, &hook##_now, 0);      \
		return 0;                                \
	}

WS_STAGED(sock_send_length)
WS_STAGED(sock_recv_length)
WS_STAGED(inet_sock_set_state)
WS_STAGED(sched_waking)
WS_STAGED(sched_process_fork)

#endif
