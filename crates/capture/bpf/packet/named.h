/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Functions that the user names: of the kernel, with a packet, and of programs, as marks in time. */
#ifndef WS_PACKET_NAMED_H
#define WS_PACKET_NAMED_H

/* The cookie of a function of the kernel: its number; in the second byte the argument that is the packet, from 1. */
static __always_inline struct sk_buff *packet_argument(struct pt_regs *ctx, __u64 cookie)
{
	__u64 all[] = { WS_FN_ARG1(ctx), WS_FN_ARG2(ctx), WS_FN_ARG3(ctx), WS_FN_ARG4(ctx), WS_FN_ARG5(ctx) };
	__u64 chosen = 0, which = cookie >> 8 & 0xff;

	/* Each is read before one is chosen: the verifier takes no offset into the registers that it does not know. */
	for (int i = 0; i < 5; i++) {
		barrier_var(all[i]);
		if (which == i + 1)
			chosen = all[i];
	}
	return (void *)chosen;
}

/* Only for kernels with kprobes. A function may have the packet before its headers are known: then it is not told. */
SEC("kprobe")
int packet_function(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct ws_packet p = { .point = WS_P_FUNCTION, .reason = cookie & 0xff };
	struct sk_buff *skb = packet_argument(ctx, cookie);
	struct net_device *dev = BPF_CORE_READ(skb, dev);

	/* skb->dev may hold other data, see points.h. */
	p.netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	if (p.netns)
		fill_device(&p, dev);
	else
		p.netns = BPF_CORE_READ(skb, sk, __sk_common.skc_net.net, ns.inum);
	if (!chosen_netns(p.netns) || !parse_skb(&p, skb, false, false) || !chosen_device(&p))
		return 0;
	return tell_of(ctx, &p, skb, false, true);
}

/* A program has come to a function. No filter but the namespace can say whether that has to do with a packet. */
SEC("uprobe")
int packet_mark(struct pt_regs *ctx)
{
	struct ws_packet p = { .point = WS_P_MARK, .reason = bpf_get_attach_cookie(ctx) };
	__u64 task = bpf_get_current_pid_tgid();

	p.netns = BPF_CORE_READ(bpf_get_current_task_btf(), nsproxy, net_ns, ns.inum);
	if (!chosen_netns(p.netns))
		return 0;
	p.seq = task >> 32;
	p.len = (__u32)task;
	bpf_get_current_comm(p.device, sizeof(p.device));
	return tell(ctx, &p, NULL);
}

#endif
