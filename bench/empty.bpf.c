/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The two hooks of the socket-tracepoint rung with nothing behind them. */
#include "empty.h"

EMPTY(sock_send_length)
EMPTY(sock_recv_length)
