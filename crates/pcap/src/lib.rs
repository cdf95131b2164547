//! Capture files → [`Event`]s: no privilege, no libbpf, no clock.
//!
//! A byte's way, which is also the order to read in: [`file`] (pcap, pcapng, gzip → frames) → [`packet`] (links,
//! tunnels, fragments → TCP segments and UDP datagrams) → [`tcp`] and [`udp`] (segments → the bytes of each direction,
//! in order).
//!
//! What is emitted is what the *client's* process would have seen: bytes from client to server are
//! [`Egress`](wirespan_model::Direction::Egress), `local` is the client's end. The client is known where a SYN or a
//! SYN-ACK was captured ([`Role::Client`](wirespan_model::Role)); else it is guessed from ports and first bytes, and
//! the role stays `Unknown`. Actors, exchanges and causes are zero: packets do not tell.
//!
//! Bytes that were sent but not captured (a short snapshot length, packets that the capture lost) are counted in
//! [`DataEvent::len`](wirespan_model::DataEvent), which then exceeds the payload; an event without payload is a pure
//! gap.
#![forbid(unsafe_code)]

mod error;
mod file;
mod packet;
mod stats;
mod tcp;
mod udp;

pub use error::PcapError;
pub use stats::Stats;

use file::{Frame, Source};
use packet::{Dissector, Transported};
use std::io::Read;
use std::path::Path;
use wirespan_model::Event;

/// Bounds of the memory that a replay uses. What does not fit is counted in [`Stats::counts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// TCP connections, and pairs of UDP ends, followed at the same time.
    pub flows: usize,
    /// Out-of-order bytes kept per direction of a connection.
    pub stream_bytes: usize,
    /// Out-of-order bytes kept in all.
    pub total_bytes: usize,
    /// Bytes of IP fragments kept in all.
    pub fragment_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { flows: 65_536, stream_bytes: 1 << 20, total_bytes: 64 << 20, fragment_bytes: 8 << 20 }
    }
}

/// Reads captures and emits what was on their sockets. One replay may read several files; socket ids stay unique.
#[derive(Debug)]
pub struct Replay {
    limits: Limits,
    next_socket: u64,
    stats: Stats,
}

impl Default for Replay {
    fn default() -> Self {
        Replay::new(Limits::default())
    }
}

impl Replay {
    /// A replay that has read nothing yet.
    pub fn new(limits: Limits) -> Self {
        Replay { limits, next_socket: 1, stats: Stats::default() }
    }

    /// What was read and dropped so far, over all files.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Reads one file to its end. Errors name the file; what was read before an error has been emitted.
    pub fn read_path(&mut self, path: &Path, sink: &mut dyn FnMut(Event)) -> Result<(), PcapError> {
        let name = path.display().to_string();
        let opened = std::fs::File::open(path).map_err(|source| PcapError::Io { file: name.clone(), source })?;
        self.read(&name, opened, sink)
    }

    /// Reads one capture from anything readable; `name` is for errors. Connections end with the capture.
    pub fn read(&mut self, name: &str, input: impl Read, sink: &mut dyn FnMut(Event)) -> Result<(), PcapError> {
        let mut source = Source::open(name, input)?;
        let mut dissector = Dissector::new(self.limits.fragment_bytes);
        let mut tcp = tcp::Table::new(self.limits);
        let mut udp = udp::Table::new(self.limits.flows);
        let mut frame = Frame::default();
        let mut events = 0;
        let mut emit = |event| {
            events += 1;
            sink(event);
        };
        let ended = loop {
            match source.next(&mut frame, &mut self.stats) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            self.stats.packets += 1;
            self.stats.bytes += frame.data.len() as u64;
            let next_socket = &mut self.next_socket;
            dissector.dissect(&frame, &mut self.stats, &mut |transported, stats| match transported {
                Transported::Tcp(segment) => tcp.segment(&segment, next_socket, stats, &mut emit),
                Transported::Udp(datagram) => udp.datagram(&datagram, next_socket, stats, &mut emit),
            });
        };
        tcp.finish(&mut self.stats, &mut emit);
        dissector.finish(&mut self.stats);
        self.stats.events += events;
        ended
    }
}
