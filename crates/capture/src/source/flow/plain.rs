//! Remote ends of which the kernel is told that their connections are not translated: it bundles those. Where
//! connection tracking is loaded, any other connection is a bundle of its own, so that its true ends can be asked for.

use super::wire::octets;
use crate::boxes;
use crate::wire::contract::{FlowPlain, WS_CLIENT, WS_SERVER, WS_TCP, WS_UDP};
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use std::io;
use std::net::IpAddr;
use wirespan_model::Transport;

/// Most remote ends. The kernel forgets old ones if there are more; their connections are bundles of their own then.
const ENDS: u32 = 4096;

/// A remote end, as the sockets of one network namespace see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlainEnd {
    /// Whether the sockets are those of servers; then `port` is their own, else that of the remote end.
    pub serves: bool,
    /// TCP or UDP.
    pub transport: Transport,
    /// Address of the remote end.
    pub remote: IpAddr,
    /// Port of the server.
    pub port: u16,
    /// Inode of the network namespace.
    pub netns: u32,
}

impl PlainEnd {
    fn key(&self) -> Vec<u8> {
        let key = FlowPlain {
            remote: octets(self.remote),
            netns: self.netns,
            port: self.port,
            transport: if self.transport == Transport::Udp { WS_UDP } else { WS_TCP } as u8,
            role: if self.serves { WS_SERVER } else { WS_CLIENT } as u8,
        };
        key.to_bytes().to_vec()
    }
}

/// The kernel's table of plain ends.
pub(super) struct Plain {
    place: MapHandle,
    table: Option<MapHandle>,
}

impl Plain {
    pub(super) fn new(place: MapHandle) -> Self {
        Plain { place, table: None }
    }

    /// Makes the table: without it, all connections are bundled.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if self.table.is_some() {
            return Ok(());
        }
        let sizes = (FlowPlain::SIZE as u32, 1);
        let made = boxes::make_table(&self.place, "flow_plain", sizes, ENDS);
        self.table = Some(made.map_err(io::Error::other)?);
        Ok(())
    }

    pub(super) fn set(&self, end: &PlainEnd, plain: bool) {
        let Some(table) = &self.table else { return };
        // Without the entry, more is asked for. Nothing is lost.
        let _ = if plain { table.update(&end.key(), &[1], MapFlags::ANY) } else { table.delete(&end.key()) };
    }
}
