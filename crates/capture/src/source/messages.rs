//! Messages: what targets send and receive, the ends of their connections, and the starts and ends of processes.

use super::Source;
use crate::features::{MessageRung, Program};
use crate::inject::Propagate;
use crate::object::{OpenWirespanSkel, WirespanSkel};
use crate::wire::{self, contract};
use crate::{runtime, tls, Options};

const SOCKET: MessageRung = MessageRung::SocketTracepoints;
const SYSCALL: MessageRung = MessageRung::SyscallTracepoints;

/// Size of the ring if it carries no messages, only the starts and ends of tasks.
const TASKS_RING_BYTES: u32 = 256 << 10;

/// The source of messages. The programs of TLS libraries and of runtimes serve it alone.
pub(super) struct Messages;

impl Source for Messages {
    fn programs(&self) -> Vec<&'static Program> {
        let runtimes = runtime::RUNTIMES.iter().flat_map(|runtime| runtime.programs());
        PROGRAMS.iter().chain(tls::PROGRAMS).chain(runtimes).collect()
    }

    fn is_asked(&self, options: &Options) -> bool {
        options.messages
    }

    fn prepare(
        &self,
        skel: &mut OpenWirespanSkel<'static>,
        options: &Options,
        load: &[&'static Program],
    ) -> libbpf_rs::Result<()> {
        let by_syscalls = load.iter().any(|p| p.rung == Some(SYSCALL));
        if let Some(rodata) = skel.maps.rodata_data.as_mut() {
            rodata.default_bytes = options.payload_bytes;
            rodata.young_bytes = options.young_bytes;
            rodata.waited_for = !options.messages;
            rodata.by_syscalls = by_syscalls;
        }
        let ring = if options.messages { options.ring_bytes } else { options.ring_bytes.min(TASKS_RING_BYTES) };
        let m = &mut skel.maps;
        m.events.set_max_entries(ring)?;
        if !options.messages {
            m.trust.set_max_entries(1)?;
        }
        if options.propagate == Propagate::Off && !options.propagate_options {
            m.contexts.set_max_entries(1)?;
        }
        if !by_syscalls {
            m.socks_by_address.set_max_entries(1)?;
        }
        Ok(())
    }

    fn counters(&self, skel: &WirespanSkel<'static>) -> Vec<(&'static str, u64)> {
        let kernel = contract::WS_COUNTERS.map(|(which, name)| (name, wire::counter(&skel.maps.counters, which)));
        #[cfg(feature = "checked-records")]
        let kernel = [&kernel[..], &crate::checked::counters()].concat();
        kernel.to_vec()
    }
}

/// Every program that hangs on a hook of the kernel.
const PROGRAMS: &[Program] = &[
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
    .on(SOCKET)
    .always(),
    Program::tracepoint(
        "datagram_from6",
        "Linux 5.2",
        "senders of datagrams, IPv6",
        "who sent a datagram to a socket that is not connected is not known",
    )
    .at("cgroup/recvmsg6")
    .on(SOCKET)
    .always(),
    Program::tracepoint(
        "pipe_read",
        "Linux 2.6",
        "jobs that a queue's worker gives to its children by a pipe",
        "the calls of such a job are not linked with the message that asked for it",
    )
    .at("sys_exit"),
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
    )
    .always(),
    Program::tracepoint(
        "sched_process_exec",
        "Linux 3.4",
        "names of programs that start",
        "a process may be shown under its parent's name",
    )
    .always(),
    Program::tracepoint(
        "sched_process_exit",
        "Linux 2.6",
        "ends of processes",
        "state of ended processes is kept until its limit",
    )
    .always(),
    Program::tracepoint(
        "sched_waking",
        "Linux 4.3",
        "hand-over of work inside a process",
        "what a worker thread sends for a request that another thread read is not joined to it, and an event loop's \
               timers may be joined to the request before them",
    ),
];
