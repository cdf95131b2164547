//! The kernel programs, by name, with what each one gives.

use super::MessageRung;

/// One kernel program.
#[derive(Debug)]
pub struct Program {
    /// Its name in `bpf/`.
    pub name: &'static str,
    /// The tracepoint it hangs on, or `cgroup/…` for a hook of the root cgroup; empty for uprobes.
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
        if self.is_uprobe() {
            return "uprobe-multi";
        }
        if self.is_cgroup() {
            return "cgroup";
        }
        self.rung.map_or("tracepoint", MessageRung::as_str)
    }

    /// Whether it is attached to functions of programs, process by process.
    pub fn is_uprobe(&self) -> bool {
        self.tracepoint.is_empty()
    }

    /// Whether it hangs on the root cgroup.
    pub fn is_cgroup(&self) -> bool {
        self.tracepoint.starts_with("cgroup/")
    }

    /// Whether it bundles flows.
    pub fn is_flow(&self) -> bool {
        self.name.starts_with("flow_")
    }

    /// Whether the programs of messages do its work as well, if they hang on the same tracepoint: a hook costs more
    /// than what it does.
    pub(crate) fn joins_messages(&self, others: &[&Program]) -> bool {
        matches!(self.name, "flow_send" | "flow_receive")
            && others.iter().any(|p| p.tracepoint == self.tracepoint && p.sees_messages())
    }

    /// Whether it sees messages, or serves only them.
    pub(crate) fn sees_messages(&self) -> bool {
        !self.is_flow() && !self.is_cgroup() && !self.name.starts_with("sched_process_")
    }

    /// The kernel type whose presence says that it can be attached.
    pub(super) fn kernel_type(&self) -> String {
        if self.is_uprobe() {
            "bpf_uprobe_multi_link".to_string()
        } else if self.is_cgroup() {
            "bpf_sock_addr_kern".to_string()
        } else {
            format!("btf_trace_{}", self.tracepoint)
        }
    }
}

const SOCKET: Option<MessageRung> = Some(MessageRung::SocketTracepoints);
const SYSCALL: Option<MessageRung> = Some(MessageRung::SyscallTracepoints);

const LOST_TLS: &str = "connections that speak TLS are seen with their times and byte counts, not their messages";

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
        feature: "enter time of long sends; bytes sent by io_uring",
        lost: "a long send that blocks seems to start when its last bytes leave; sends by io_uring show lengths only",
        required: false,
    },
    Program {
        name: "skb_copy_datagram_iovec",
        tracepoint: "skb_copy_datagram_iovec",
        since: "Linux 2.6",
        rung: SOCKET,
        feature: "bytes received by io_uring",
        lost: "receives by io_uring show lengths only",
        required: false,
    },
    Program {
        name: "io_uring_create",
        tracepoint: "io_uring_create",
        since: "Linux 5.5",
        rung: SOCKET,
        feature: "io_uring, as soon as it is set up",
        lost: "the programs for io_uring are attached from the start, and cost every call",
        required: false,
    },
    Program {
        name: "tcp_rcv_space_adjust",
        tracepoint: "tcp_rcv_space_adjust",
        since: "Linux 4.15",
        rung: SOCKET,
        feature: "splice() out of sockets",
        lost: "what splice() takes out of a socket shows as a gap in its sequence numbers",
        required: false,
    },
    Program {
        name: "datagram_from4",
        tracepoint: "cgroup/recvmsg4",
        since: "Linux 5.2",
        rung: SOCKET,
        feature: "senders of datagrams, IPv4",
        lost: "who sent a datagram to a socket that is not connected is not known",
        required: false,
    },
    Program {
        name: "datagram_from6",
        tracepoint: "cgroup/recvmsg6",
        since: "Linux 5.2",
        rung: SOCKET,
        feature: "senders of datagrams, IPv6",
        lost: "who sent a datagram to a socket that is not connected is not known",
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
        name: "tcp_retransmit_skb",
        tracepoint: "tcp_retransmit_skb",
        since: "Linux 4.16",
        rung: SOCKET,
        feature: "segments sent again, by span",
        lost: "spans do not tell which of them waited for a lost packet",
        required: false,
    },
    Program {
        name: "tcp_send_reset",
        tracepoint: "tcp_send_reset",
        since: "Linux 4.16",
        rung: SOCKET,
        feature: "resets sent, by span",
        lost: "a connection that this end reset looks closed",
        required: false,
    },
    Program {
        name: "tcp_receive_reset",
        tracepoint: "tcp_receive_reset",
        since: "Linux 4.16",
        rung: SOCKET,
        feature: "resets received, by span",
        lost: "resets are known by the errors of calls only",
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
    Program {
        name: "sched_waking",
        tracepoint: "sched_waking",
        since: "Linux 4.3",
        rung: None,
        feature: "hand-over of work inside a process",
        lost: "what a worker thread sends for a request that another thread read is not joined to it, and an event loop's \
               timers may be joined to the request before them",
        required: false,
    },
    Program {
        name: "tls_enter",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "TLS in clear text: calls of OpenSSL, GnuTLS",
        lost: LOST_TLS,
        required: false,
    },
    Program {
        name: "tls_exit",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "TLS in clear text: what they gave",
        lost: LOST_TLS,
        required: false,
    },
    Program {
        name: "tls_go_enter",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "TLS in clear text: calls of Go's crypto/tls",
        lost: LOST_TLS,
        required: false,
    },
    Program {
        name: "tls_go_exit",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "TLS in clear text: what Go gave",
        lost: LOST_TLS,
        required: false,
    },
    Program {
        name: "tls_rust_enter",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "TLS in clear text: calls of rustls",
        lost: LOST_TLS,
        required: false,
    },
    Program {
        name: "tls_rust_exit",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "TLS in clear text: what rustls gave",
        lost: LOST_TLS,
        required: false,
    },
    Program {
        name: "go_birth",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "Go: a goroutine acts for who started it",
        lost: "a goroutine acts for what its parent acts for when it is first seen, before Go 1.21 for nothing",
        required: false,
    },
    Program {
        name: "go_send",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "Go: hand-over by channel to who waits",
        lost: "what a goroutine sends for a request that another one read is not joined to it",
        required: false,
    },
    Program {
        name: "go_recv",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "Go: hand-over by channel from who waits",
        lost: "what a goroutine sends for a request that another one read is not joined to it",
        required: false,
    },
    Program {
        name: "go_http",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "Go: for which request its HTTP and gRPC libraries act",
        lost: "calls of Go's HTTP/2 and gRPC servers are joined by guess if several requests were read together",
        required: false,
    },
    Program {
        name: "node_http2",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "Node: for which stream its HTTP/2 acts",
        lost: "calls of Node's HTTP/2 servers, and over HTTP/2, are joined by guess if several streams were read together",
        required: false,
    },
    Program {
        name: "python_queue",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "Python: which job an executor's worker takes",
        lost: "a worker acts for who woke it, which may not be whose job it took",
        required: false,
    },
    Program {
        name: "greenlet",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "Python: which greenlet runs (gevent, eventlet)",
        lost: "calls of greenlets are joined by guess if several requests were read together",
        required: false,
    },
    Program {
        name: "haproxy_stream_made",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "HAProxy: which stream its scheduler runs",
        lost: "calls of HAProxy are joined by guess if several requests were read before they were sent on",
        required: false,
    },
    Program {
        name: "asyncio",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "Python: which task runs (asyncio, uvloop)",
        lost: "calls of tasks are joined by guess if several requests were read together",
        required: false,
    },
    Program {
        name: "tokio",
        tracepoint: "",
        since: "Linux 6.6",
        rung: None,
        feature: "Rust: which task of tokio runs (programs that keep their symbols)",
        lost: "calls of tasks are joined by guess if several requests are served at a time",
        required: false,
    },
    Program {
        name: "flow_state",
        tracepoint: "inet_sock_set_state",
        since: "Linux 5.14",
        rung: None,
        feature: "flows: TCP connections, bundled",
        lost: "the dependency map knows only what spans tell",
        required: false,
    },
    Program {
        name: "flow_send",
        tracepoint: "sock_send_length",
        since: "Linux 6.3",
        rung: None,
        feature: "flows: messages sent, datagrams",
        lost: "flows know no UDP, and messages of TCP only where system calls are seen; bytes of TCP are told",
        required: false,
    },
    Program {
        name: "flow_receive",
        tracepoint: "sock_recv_length",
        since: "Linux 6.3",
        rung: None,
        feature: "flows: messages received, datagrams",
        lost: "flows know no UDP, and messages of TCP only where system calls are seen; bytes of TCP are told",
        required: false,
    },
    Program {
        name: "flow_reset_sent",
        tracepoint: "tcp_send_reset",
        since: "Linux 4.16",
        rung: None,
        feature: "flows: resets sent",
        lost: "flows do not count resets sent",
        required: false,
    },
    Program {
        name: "flow_reset_received",
        tracepoint: "tcp_receive_reset",
        since: "Linux 4.16",
        rung: None,
        feature: "flows: resets received",
        lost: "flows do not count resets received",
        required: false,
    },
    Program {
        name: "flow_drop",
        tracepoint: "kfree_skb",
        since: "Linux 6.11",
        rung: None,
        feature: "flows: packets dropped, by reason",
        lost: "flows do not count packets that the kernel dropped",
        required: false,
    },
];
