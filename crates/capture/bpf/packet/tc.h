/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Packets at chosen devices, by programs of these devices alone (tcx, Linux 6.6): other devices do not pass them, so
 * they cost less than a tracepoint, which each packet of the machine passes.
 */
#ifndef WS_PACKET_TC_H
#define WS_PACKET_TC_H

#define TCX_NEXT -1 /* other programs of the device decide */

/*
 * The context of such a program is the packet itself. The verifier lets it be read as memory of the kernel, and not
 * by the names of struct sk_buff.
 */
static __always_inline int at_tc(void *ctx, __u8 point)
{
	struct ws_packet p = { .point = point };
	struct sk_buff *skb = ctx;
	struct net_device *dev = BPF_CORE_READ(skb, dev);

	p.netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	if (!chosen_netns(p.netns) || !parse_skb(&p, skb, false))
		return TCX_NEXT;
	fill_device(&p, dev);
	if (chosen_device(&p))
		tell_of(ctx, &p, skb, false);
	return TCX_NEXT;
}

SEC("tcx/ingress")
int packet_ingress(struct __sk_buff *ctx)
{
	return at_tc(ctx, WS_P_INGRESS);
}

SEC("tcx/egress")
int packet_egress(struct __sk_buff *ctx)
{
	return at_tc(ctx, WS_P_EGRESS);
}

#endif
