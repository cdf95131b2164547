/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Packets at chosen devices, by programs of these devices alone (tcx, Linux 6.6): other devices do not pass them, so
 * they cost less than a tracepoint, which each packet of the machine passes.
 */
#ifndef WS_PACKET_TC_H
#define WS_PACKET_TC_H

#define TCX_NEXT -1	    /* other programs of the device decide */
#define BPF_HDR_START_NET 1 /* an offset from the network header */

/* The beginning of the context, as the kernel's interface has it. */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
};

/* The quick look of plain.h, with what such programs have: less is copied. */
static __always_inline bool is_another_at_tc(struct __sk_buff *ctx)
{
	struct plain_header h;

	if (!may_look() || ctx->protocol != bpf_htons(ETH_P_IP))
		return false;
	return !bpf_skb_load_bytes_relative(ctx, 0, &h, sizeof(h), BPF_HDR_START_NET) &&
	       is_plainly_another(&h, (struct sk_buff *)ctx, false);
}

/*
 * The context of such a program is the packet itself. The verifier lets it be read as memory of the kernel, and not
 * by the names of struct sk_buff.
 */
static __always_inline int at_tc(struct __sk_buff *ctx, __u8 point)
{
	struct ws_packet p = { .point = point };
	struct sk_buff *skb = (void *)ctx;
	struct net_device *dev;

	if (is_another_at_tc(ctx))
		return TCX_NEXT;
	dev = BPF_CORE_READ(skb, dev);
	p.netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	if (!chosen_netns(p.netns) || !parse_skb(&p, skb, false, false))
		return TCX_NEXT;
	fill_device(&p, dev);
	if (chosen_device(&p))
		tell_of(ctx, &p, skb, false, false);
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
