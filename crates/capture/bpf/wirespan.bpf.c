/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The kernel plane. Each program is optional; user space loads those that this kernel allows (src/features/). */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

/* Each header relies only on those above it. */

/* Which tasks and sockets are followed, and what is kept of them. */
#include "core/compat.h"
#include "wire.h"
#include "wait/contract.h"
#include "calls/contract.h"
#include "sdk/contract.h"
#include "packet/contract.h"
#include "core/maps.h"
#include "core/user.h"
#include "core/call.h"
#include "core/task_state.h"
#include "core/sock_state.h"
#include "core/targets.h"
#include "core/sock.h"
#include "core/syscall.h"
#include "core/checked.h"
#include "core/processor.h"
#include "core/emit.h"

/* For which request an actor acts. */
#include "cause/attribution.h"
#include "cause/streams.h"
#include "cause/trust.h"
#include "cause/actor.h"
#include "cause/exchanges.h"
#include "cause/follow.h"
#include "cause/pipe.h"
#include "cause/answer.h"

/* Which actor a thread runs. */
#include "runtime/runtimes.h"

/* Plaintext. */
#include "tls/state.h"
#include "tls/checked.h"
#include "tls/records.h"
#include "tls/library.h"
#include "tls/go.h"
#include "tls/java.h"
#include "tls/rust.h"
#include "tls/message.h"

/* In which span of an SDK a thread is. */
#include "sdk/span.h"

/* Where the time of a thread goes. */
#include "wait/clock.h"
#include "wait/copy.h"
#include "wait/stack.h"
#include "wait/ring.h"
#include "wait/flush.h"
#include "runtime/go/turns.h"
#include "runtime/asyncio/turns.h"
#include "runtime/tokio/turns.h"
#include "runtime/java/turns.h"
#include "runtime/go/channel.h"
#include "runtime/go/ready.h"

/* One call on one socket. */
#include "message/locate.h"
#include "message/redis.h"
#include "message/io_uring.h"
#include "message/datagram.h"
#include "message/record.h"
#include "message/message.h"

/* Connections, bundled. */
#include "flow/maps.h"
#include "flow/bundle.h"
#include "flow/socket.h"
#include "flow/settle.h"
#include "flow/connection.h"
#include "flow/datagram.h"
#include "flow/message.h"
#include "flow/address.h"

/* Context put into requests. */
#include "inject/inject.h"
#include "inject/head.h"

/* Programs on tracepoints and sockets. */
#include "core/task.h"
#include "cause/wake.h"
#include "wait/sched.h"
#include "wait/sample.h"
#include "calls/calls.h"
#include "message/socket.h"
#include "inject/option.h" /* before the next: its program runs first */
#include "message/tracepoints.h"
#include "message/trouble.h"
#include "inject/hpack.h"
#include "inject/room.h"
#include "inject/frames.h"
#include "inject/http2.h"
#include "inject/http.h"
#include "inject/came.h"
#include "inject/receive.h"
#include "message/syscalls.h"
#include "flow/state.h"
#include "flow/trouble.h"
#include "flow/sweep.h"

/* Whose packets are watched. */
#include "packet/ends.h"
#include "packet/targets.h"

/* Dual-licensed; the kernel is told the GPL half, which its helpers ask for. */
char LICENSE[] SEC("license") = "GPL";
