//! The kernel programs, by name, with what each one gives.

use super::MessageRung;

/// One kernel program.
#[derive(Debug)]
pub struct Program {
    /// Its name in `bpf/`.
    pub name: &'static str,
    /// The tracepoint it hangs on.
    pub tracepoint: &'static str,
    /// Kernel that brought the tracepoint.
    pub since: &'static str,
    /// Only on this message rung; `None` on all.
    pub rung: Option<MessageRung>,
    /// What it gives.
    pub feature: &'static str,
    /// What is lost without it.
    pub lost: &'static str,
    /// Without it there is nothing to see.
    pub required: bool,
}

impl Program {
    /// Mechanism, as shown in the table.
    pub fn mechanism(&self) -> &'static str {
        self.rung.map_or("tracepoint", MessageRung::as_str)
    }
}

const SOCKET: Option<MessageRung> = Some(MessageRung::SocketTracepoints);
const SYSCALL: Option<MessageRung> = Some(MessageRung::SyscallTracepoints);

/// Every program.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "sock_send_length",
        tracepoint: "sock_send_length",
        since: "Linux 6.3",
        rung: SOCKET,
        feature: "messages sent",
        lost: "nothing that a process sends is seen",
        required: true,
    },
    Program {
        name: "sock_recv_length",
        tracepoint: "sock_recv_length",
        since: "Linux 6.3",
        rung: SOCKET,
        feature: "messages received",
        lost: "nothing that a process receives is seen",
        required: true,
    },
    Program {
        name: "tcp_sendmsg_locked",
        tracepoint: "tcp_sendmsg_locked",
        since: "Linux 6.16",
        rung: SOCKET,
        feature: "enter time of sends",
        lost: "a send's start is taken from its end: a send that blocks looks instantaneous",
        required: false,
    },
    Program {
        name: "skb_copy_datagram_iovec",
        tracepoint: "skb_copy_datagram_iovec",
        since: "Linux 2.6",
        rung: SOCKET,
        feature: "enter time of receives",
        lost: "a receive's start is taken from its end",
        required: false,
    },
    Program {
        name: "sys_exit",
        tracepoint: "sys_exit",
        since: "Linux 2.6",
        rung: SYSCALL,
        feature: "messages sent and received",
        lost: "no message is seen",
        required: true,
    },
    Program {
        name: "sys_enter",
        tracepoint: "sys_enter",
        since: "Linux 2.6",
        rung: SYSCALL,
        feature: "enter time of messages",
        lost: "a call's start is taken from its end",
        required: false,
    },
    Program {
        name: "inet_sock_set_state",
        tracepoint: "inet_sock_set_state",
        since: "Linux 4.16",
        rung: None,
        feature: "connections: handshake, failure, close, RTT",
        lost: "refused and reset connections look like missing responses; no TCP totals",
        required: false,
    },
    Program {
        name: "sched_process_fork",
        tracepoint: "sched_process_fork",
        since: "Linux 2.6",
        rung: None,
        feature: "children of targets join at birth",
        lost: "children of a target are not traced unless a cgroup or namespace covers them",
        required: false,
    },
    Program {
        name: "sched_process_exec",
        tracepoint: "sched_process_exec",
        since: "Linux 3.4",
        rung: None,
        feature: "names of programs that start",
        lost: "a process may be shown under its parent's name",
        required: false,
    },
    Program {
        name: "sched_process_exit",
        tracepoint: "sched_process_exit",
        since: "Linux 2.6",
        rung: None,
        feature: "ends of processes",
        lost: "state of ended processes is kept until its limit",
        required: false,
    },
];
