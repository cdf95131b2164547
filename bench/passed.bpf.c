/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The hooks that a packet passes, with nothing behind them. */
#include "empty.h"

EMPTY(net_dev_queue)
EMPTY(net_dev_start_xmit)
EMPTY(netif_receive_skb)
EMPTY(skb_copy_datagram_iovec)
#ifdef ALL
EMPTY(tcp_sendmsg_locked)
EMPTY(sk_data_ready)
EMPTY(tcp_probe)
EMPTY(tcp_retransmit_skb)
EMPTY(kfree_skb)
#endif
