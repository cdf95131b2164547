/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Empty programs on the hooks of flows: the least cost of any tracer there, with the same clock around each run. */
#include "../empty.h"

EMPTY(inet_sock_set_state)
EMPTY(sock_send_length)
EMPTY(sock_recv_length)
EMPTY(tcp_send_reset)
EMPTY(tcp_receive_reset)
EMPTY(kfree_skb)
