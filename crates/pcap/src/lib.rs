//! Capture files → [`Event`]s. It needs no privilege, no libbpf and no clock.
//!
//! The modules in the order of the data flow: [`file`] (pcap, pcapng, gzip → frames) → [`packet`] (links, tunnels,
//! fragments → TCP segments, UDP datagrams and ICMP) → [`tcp`] and [`udp`] (segments → the bytes of each direction, in
//! order).
//!
//! Events have the view of the *client's* process: bytes from client to server are
//! [`Egress`](wirespan_model::Direction::Egress), and `local` is the client's end. If a SYN or a SYN-ACK was captured,
//! the client is known ([`Role::Client`](wirespan_model::Role)). Otherwise it is guessed from ports and first bytes,
//! and the role stays `Unknown`. Actors, exchanges and causes are zero, as packets do not show them.
//!
//! [`DataEvent::len`](wirespan_model::DataEvent) also counts bytes that were sent but not captured (a short snapshot
//! length, packets that the capture lost). It then exceeds the payload's length. An event without payload is a gap.
#![forbid(unsafe_code)]

mod error;
mod file;
mod live;
mod packet;
mod stats;
mod tcp;
mod udp;

pub use error::PcapError;
pub use live::{Live, LiveFrame};
pub use packet::{About, Icmp};
pub use stats::Stats;

use file::{Frame, Source};
use live::Sockets;
use std::io::Read;
use std::path::Path;
use wirespan_model::packet::Passage;
use wirespan_model::Event;

/// Bounds of the memory that a replay uses. [`Stats::counts`] counts what does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most TCP connections, and most pairs of UDP ends, that are followed at once.
    pub flows: usize,
    /// Most out-of-order bytes kept per connection.
    pub stream_bytes: usize,
    /// Most out-of-order bytes kept over all connections.
    pub total_bytes: usize,
    /// Most bytes of IP fragments kept.
    pub fragment_bytes: usize,
    /// Most segments of which `take_passages` of [`Replay`] and [`Live`] tells when they were seen; 0: none.
    pub passages: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { flows: 65_536, stream_bytes: 1 << 20, total_bytes: 64 << 20, fragment_bytes: 8 << 20, passages: 0 }
    }
}

/// Reads captures and emits the events of their sockets. One replay may read several files; socket ids stay unique.
#[derive(Debug)]
pub struct Replay {
    limits: Limits,
    next_socket: u64,
    stats: Stats,
    passages: Vec<Passage>,
}

impl Default for Replay {
    fn default() -> Self {
        Replay::new(Limits::default())
    }
}

impl Replay {
    /// A replay that has read nothing yet.
    pub fn new(limits: Limits) -> Self {
        Replay { limits, next_socket: 1, stats: Stats::default(), passages: Vec::new() }
    }

    /// Counters of what was read and dropped so far, over all files.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The segments of TCP that were read since the last call, in the order of the capture. With those of another
    /// capture of the same connections, they tell how long each was under way.
    pub fn take_passages(&mut self) -> Vec<Passage> {
        std::mem::take(&mut self.passages)
    }

    /// Reads one file to its end, and emits its events to `sink`.
    ///
    /// An error names the file. The events before it have been emitted.
    pub fn read_path(&mut self, path: &Path, sink: &mut dyn FnMut(Event)) -> Result<(), PcapError> {
        let name = path.display().to_string();
        let opened = std::fs::File::open(path).map_err(|source| PcapError::Io { file: name.clone(), source })?;
        self.read(&name, opened, sink)
    }

    /// Reads one capture from `input`; errors name it `name`. Connections end with the capture.
    ///
    /// The events before an error have been emitted.
    pub fn read(&mut self, name: &str, input: impl Read, sink: &mut dyn FnMut(Event)) -> Result<(), PcapError> {
        let mut source = Source::open(name, input)?;
        let mut sockets = Sockets::new(self.limits, self.next_socket);
        let mut frame = Frame::default();
        let ended = loop {
            match source.next(&mut frame, &mut self.stats) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            sockets.frame(&frame, &mut self.stats, sink);
        };
        sockets.finish(&mut self.stats, sink);
        self.passages.append(&mut sockets.tcp.passages);
        self.next_socket = sockets.next_socket;
        ended
    }
}
