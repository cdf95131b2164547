//! Ends of the connections of targets, for the packets that are watched: servers to which targets connect, and
//! addresses where they listen. There are no records: the table belongs to the programs of packets ([`crate::packet`]).

use super::flow::older_ends;
use super::Source;
use crate::features::Program;
use crate::object::{OpenWirespanSkel, WirespanSkel};
use crate::wire::contract::{PacketEnd, WS_E_LEARNT};
use crate::Options;
use libbpf_rs::{MapCore as _, MapFlags};
use std::os::fd::AsFd as _;

/// The source of ends.
pub(super) struct Ends;

impl Source for Ends {
    fn programs(&self) -> Vec<&'static Program> {
        PROGRAMS.iter().collect()
    }

    fn is_asked(&self, options: &Options) -> bool {
        options.watched_ends.is_some()
    }

    fn prepare(
        &self,
        skel: &mut OpenWirespanSkel<'static>,
        options: &Options,
        _: &[&'static Program],
    ) -> libbpf_rs::Result<()> {
        match &options.watched_ends {
            Some(ends) => skel.maps.packet_ends.reuse_fd(ends.as_fd()),
            None => skel.maps.packet_ends.set_max_entries(1),
        }
    }

    fn adopts(&self, loaded: &[&'static str]) -> bool {
        loaded.contains(&PROGRAMS[0].name)
    }

    fn adopt(&self, skel: &WirespanSkel<'static>, pids: &[u32]) {
        older_ends(pids, &mut |address, port, netns| {
            let end = PacketEnd { address, port: port.into(), netns }.to_bytes();
            // The kernel refuses an end that is in the table, as it should, and one without room, which it counts
            // when the end is used for the next time.
            let _ = skel.maps.packet_ends.update(&end, &[WS_E_LEARNT as u8], MapFlags::NO_EXIST);
        });
    }
}

const PROGRAMS: &[Program] = &[Program::tracepoint(
    "packet_target",
    "Linux 5.14",
    "devices of watched requests: from the first one to a server on",
    "the first request to a server has no devices",
)
.at("inet_sock_set_state")];
