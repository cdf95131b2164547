//! The kernel programs of the sources, by name, with what each one gives.

use super::{MessageRung, Program};

const SOCKET: MessageRung = MessageRung::SocketTracepoints;
const SYSCALL: MessageRung = MessageRung::SyscallTracepoints;

/// Every program that hangs on a hook of the kernel.
pub(super) const PROGRAMS: &[Program] = &[
    Program::tracepoint("sock_send_length", "Linux 6.3", "messages sent", "nothing that a process sends is seen")
        .on(SOCKET)
        .required(),
    Program::tracepoint(
        "sock_recv_length",
        "Linux 6.3",
        "messages received",
        "nothing that a process receives is seen",
    )
    .on(SOCKET)
    .required(),
    Program::tracepoint(
        "tcp_sendmsg_locked",
        "Linux 6.16",
        "enter time of long sends; bytes sent by io_uring",
        "a long send that blocks seems to start when its last bytes leave; sends by io_uring show lengths only",
    )
    .on(SOCKET),
    Program::tracepoint(
        "skb_copy_datagram_iovec",
        "Linux 2.6",
        "bytes received by io_uring",
        "receives by io_uring show lengths only",
    )
    .on(SOCKET),
    Program::tracepoint(
        "io_uring_create",
        "Linux 5.5",
        "io_uring, as soon as it is set up",
        "the programs for io_uring are attached from the start, and cost every call",
    )
    .on(SOCKET),
    Program::tracepoint(
        "tcp_rcv_space_adjust",
        "Linux 4.15",
        "splice() out of sockets",
        "what splice() takes out of a socket shows as a gap in its sequence numbers",
    )
    .on(SOCKET),
    Program::tracepoint(
        "datagram_from4",
        "Linux 5.2",
        "senders of datagrams, IPv4",
        "who sent a datagram to a socket that is not connected is not known",
    )
    .at("cgroup/recvmsg4")
    .on(SOCKET),
    Program::tracepoint(
        "datagram_from6",
        "Linux 5.2",
        "senders of datagrams, IPv6",
        "who sent a datagram to a socket that is not connected is not known",
    )
    .at("cgroup/recvmsg6")
    .on(SOCKET),
    Program::tracepoint("sys_exit", "Linux 2.6", "messages sent and received", "no message is seen")
        .on(SYSCALL)
        .required(),
    Program::tracepoint("sys_enter", "Linux 2.6", "enter time of messages", "a call's start is taken from its end")
        .on(SYSCALL),
    Program::tracepoint(
        "inet_sock_set_state",
        "Linux 4.16",
        "connections: handshake, failure, close, RTT",
        "refused and reset connections look like missing responses; no TCP totals",
    ),
    Program::tracepoint(
        "tcp_retransmit_skb",
        "Linux 4.16",
        "segments sent again, by span",
        "spans do not tell which of them waited for a lost packet",
    )
    .on(SOCKET),
    Program::tracepoint(
        "tcp_send_reset",
        "Linux 4.16",
        "resets sent, by span",
        "a connection that this end reset looks closed",
    )
    .on(SOCKET),
    Program::tracepoint(
        "tcp_receive_reset",
        "Linux 4.16",
        "resets received, by span",
        "resets are known by the errors of calls only",
    )
    .on(SOCKET),
    Program::tracepoint(
        "sched_process_fork",
        "Linux 2.6",
        "children of targets join at birth",
        "children of a target are not traced unless a cgroup or namespace covers them",
    ),
    Program::tracepoint(
        "sched_process_exec",
        "Linux 3.4",
        "names of programs that start",
        "a process may be shown under its parent's name",
    ),
    Program::tracepoint(
        "sched_process_exit",
        "Linux 2.6",
        "ends of processes",
        "state of ended processes is kept until its limit",
    ),
    Program::tracepoint(
        "sched_waking",
        "Linux 4.3",
        "hand-over of work inside a process",
        "what a worker thread sends for a request that another thread read is not joined to it, and an event loop's \
               timers may be joined to the request before them",
    ),
    Program::tracepoint(
        "flow_state",
        "Linux 5.14",
        "flows: TCP connections, bundled",
        "the dependency map knows only what spans tell",
    )
    .at("inet_sock_set_state"),
    Program::tracepoint(
        "flow_send",
        "Linux 6.3",
        "flows: messages sent, datagrams",
        "flows know no UDP, and messages of TCP only where system calls are seen; bytes of TCP are told",
    )
    .at("sock_send_length"),
    Program::tracepoint(
        "flow_receive",
        "Linux 6.3",
        "flows: messages received, datagrams",
        "flows know no UDP, and messages of TCP only where system calls are seen; bytes of TCP are told",
    )
    .at("sock_recv_length"),
    Program::tracepoint("flow_reset_sent", "Linux 4.16", "flows: resets sent", "flows do not count resets sent")
        .at("tcp_send_reset"),
    Program::tracepoint(
        "flow_reset_received",
        "Linux 4.16",
        "flows: resets received",
        "flows do not count resets received",
    )
    .at("tcp_receive_reset"),
    Program::tracepoint(
        "flow_drop",
        "Linux 6.11",
        "flows: packets dropped, by reason",
        "flows do not count packets that the kernel dropped",
    )
    .at("kfree_skb"),
];
