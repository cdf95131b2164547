/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The sender of a datagram. The kernel gives it to the process after the call has ended: it writes `msg_name` to user
 * memory behind sock_recv_length. It gives it to programs of the cgroup earlier, while the call runs. These programs
 * run only if the caller asks for the name, and change nothing.
 */
#ifndef WS_DATAGRAM_H
#define WS_DATAGRAM_H

SEC("cgroup/recvmsg4")
int datagram_from4(struct bpf_sock_addr *ctx)
{
	struct task_state *t = target_task(bpf_get_current_task_btf());

	if (t) {
		t->from_port = t->flow_from_port = bpf_ntohs(ctx->user_port);
		put_v4(t->from, ctx->user_ip4);
	}
	return 1;
}

SEC("cgroup/recvmsg6")
int datagram_from6(struct bpf_sock_addr *ctx)
{
	struct task_state *t = target_task(bpf_get_current_task_btf());
	__u32 *to;

	if (t) {
		to = (__u32 *)t->from;
		t->from_port = t->flow_from_port = bpf_ntohs(ctx->user_port);
		to[0] = ctx->user_ip6[0];
		to[1] = ctx->user_ip6[1];
		to[2] = ctx->user_ip6[2];
		to[3] = ctx->user_ip6[3];
	}
	return 1;
}

/* The far end of a datagram of a socket that is not connected. */
static __always_inline void datagram_peer(struct ws_tuple *tuple, struct task_state *t, __u8 direction, __u64 name)
{
	if (direction == WS_EGRESS || by_syscalls) {
		read_name(tuple, name);
	} else if (t->from_port) {
		tuple->remote_port = t->from_port;
		__builtin_memcpy(tuple->remote, t->from, sizeof(t->from));
		t->from_port = 0;
	}
}

#endif
