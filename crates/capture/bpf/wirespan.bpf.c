/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The kernel plane. Each program is optional; user space loads those that this kernel allows (src/features/). */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "compat.h"
#include "wire.h"
#include "maps.h"
#include "targets.h"
#include "sock.h"
#include "context.h"
#include "carry.h"
#include "virtual_thread.h"
#include "virtual_birth.h"
#include "haproxy.h"
#include "goroutine.h"
#include "doubt.h"
#include "cause.h"
#include "served.h"
#include "syscall.h"
#include "tls_state.h"
#include "locate.h"
#include "io_uring.h"
#include "datagram.h"
#include "emit.h"
#include "tls_records.h"
#include "node_turns.h"
#include "message.h"
#include "flow_maps.h"
#include "flow_bundle.h"
#include "flow_socket.h"
#include "flow_message.h"
#include "flow_address.h"
#include "inject.h"
#include "inject_head.h"

#include "task.h"
#include "wake.h"
#include "socket_state.h"
#include "inject_option.h" /* before the next: its program runs first */
#include "socket_tracepoints.h"
#include "tcp_trouble.h"
#include "inject_http.h"
#include "inject_receive.h"
#include "syscall_tracepoints.h"
#include "tls.h"
#include "tls_go.h"
#include "go_http.h"
#include "node_http2.h"
#include "python_queue.h"
#include "greenlet.h"
#include "asyncio.h"
#include "tokio.h"
#include "tls_rust.h"
#include "flow_state.h"
#include "flow_trouble.h"
#include "flow_sweep.h"

/* Dual-licensed; the kernel is told the GPL half, which its helpers ask for. */
char LICENSE[] SEC("license") = "GPL";
