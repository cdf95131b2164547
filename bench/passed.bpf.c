/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The hooks that a packet passes, with nothing behind them: what no program at these places can go below. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define NOTHING_AT(point)         \
	SEC("tp_btf/" #point)     \
	int at_##point(void *ctx) \
	{                         \
		return 0;         \
	}

NOTHING_AT(net_dev_queue)
NOTHING_AT(net_dev_start_xmit)
NOTHING_AT(netif_receive_skb)
NOTHING_AT(skb_copy_datagram_iovec)
#ifdef ALL
NOTHING_AT(tcp_sendmsg_locked)
NOTHING_AT(sk_data_ready)
NOTHING_AT(tcp_probe)
NOTHING_AT(tcp_retransmit_skb)
NOTHING_AT(kfree_skb)
#endif

char LICENSE[] SEC("license") = "GPL";
