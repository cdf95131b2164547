//! Flows as a source: programs, sizes of the maps, opening.

use super::{adopt, make_far, size, FlowSource};
use crate::features::{MessageRung, Program};
use crate::object::{OpenWirespanSkel, WirespanSkel};
use crate::source::Source;
use crate::Options;
use libbpf_rs::MapHandle;
use std::any::Any;

/// The source of flows.
pub(in crate::source) struct Bundles;

impl Source for Bundles {
    fn programs(&self) -> Vec<&'static Program> {
        PROGRAMS.iter().collect()
    }

    fn run_by_user_space(&self) -> &'static [&'static str] {
        &["flow_sweep", "flow_adopt"]
    }

    fn is_asked(&self, options: &Options) -> bool {
        options.flows.is_some()
    }

    fn left_out(&self, load: &[&'static Program]) -> Vec<&'static str> {
        let joined: Vec<_> = load.iter().filter(|p| joins_messages(p, load)).map(|p| p.name).collect();
        // Either both programs join the messages or neither: a program that the user left out must not run with them.
        if joined.len() == JOINING.len() {
            joined
        } else {
            Vec::new()
        }
    }

    fn prepare(
        &self,
        skel: &mut OpenWirespanSkel<'static>,
        options: &Options,
        load: &[&'static Program],
    ) -> libbpf_rs::Result<()> {
        let has = |name| load.iter().any(|p| p.name == name);
        if let Some(rodata) = skel.maps.rodata_data.as_mut() {
            rodata.flows_with_messages = !self.left_out(load).is_empty();
        }
        let at_syscalls = load.iter().any(|p| p.rung == Some(MessageRung::SyscallTracepoints));
        let by_syscalls = at_syscalls && has("flow_state") && !has("flow_send") && !has("flow_receive");
        let any = load.iter().any(|p| self.owns(p.name));
        size(skel, options.flows.filter(|_| any), by_syscalls)
    }

    /// Otherwise the sockets of the injection's self-test would be bundled.
    fn attaches_last(&self) -> bool {
        true
    }

    fn open(
        &self,
        skel: &mut WirespanSkel<'static>,
        loaded: &[&'static str],
    ) -> libbpf_rs::Result<Option<Box<dyn Any + Send>>> {
        if let Some(bss) = skel.maps.bss_data.as_mut() {
            bss.flows_open = true;
        }
        if !loaded.contains(&"flow_state") {
            return Ok(None);
        }
        Ok(Some(Box::new(FlowSource::new(skel)?)))
    }

    fn adopts(&self, loaded: &[&'static str]) -> bool {
        loaded.contains(&"flow_state")
    }

    fn grow(&self, skel: &WirespanSkel<'static>) -> libbpf_rs::Result<Option<MapHandle>> {
        make_far(skel)
    }

    fn adopt(&self, skel: &WirespanSkel<'static>, pids: &[u32]) {
        adopt(skel, pids);
    }
}

/// Programs whose work the programs of messages can do as well.
const JOINING: [&str; 2] = ["flow_send", "flow_receive"];

/// Whether a program of messages on the same tracepoint does this program's work. A second hook would cost more than
/// the work itself.
fn joins_messages(program: &Program, load: &[&'static Program]) -> bool {
    let is_own = |p: &Program| PROGRAMS.iter().any(|own| own.name == p.name);
    JOINING.contains(&program.name) && load.iter().any(|p| p.tracepoint == program.tracepoint && !is_own(p))
}

/// The programs that are attached to a hook of the kernel.
const PROGRAMS: &[Program] = &[
    Program::tracepoint(
        "flow_state",
        "Linux 5.14",
        "flows: TCP connections, bundled",
        "the dependency map knows only the calls that spans show",
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
