//! Frames that come one by one, from a device that is mirrored, → the same [`Event`]s as those of a file.

use crate::file::Frame;
use crate::packet::{Dissector, Icmp, Link, Transported};
use crate::stats::Stats;
use crate::{tcp, udp, Limits};
use wirespan_model::packet::Passage;
use wirespan_model::Event;

/// The sockets whose packets are followed.
pub(crate) struct Sockets {
    dissector: Dissector,
    pub(crate) tcp: tcp::Table,
    udp: udp::Table,
    /// Messages of ICMP in the last frame.
    icmp: Vec<Icmp>,
    pub(crate) next_socket: u64,
}

impl Sockets {
    pub(crate) fn new(limits: Limits, next_socket: u64) -> Self {
        let (tcp, udp) = (tcp::Table::new(limits), udp::Table::new(limits.flows));
        Sockets { dissector: Dissector::new(limits.fragment_bytes), tcp, udp, icmp: Vec::new(), next_socket }
    }

    pub(crate) fn frame(&mut self, frame: &Frame, stats: &mut Stats, sink: &mut dyn FnMut(Event)) {
        stats.packets += 1;
        stats.bytes += frame.data.len() as u64;
        let Sockets { dissector, tcp, udp, icmp, next_socket } = self;
        icmp.clear();
        let mut events = 0;
        let mut emit = |event| {
            events += 1;
            sink(event);
        };
        dissector.dissect(frame, stats, &mut |transported, stats| match transported {
            Transported::Tcp(segment) => tcp.segment(&segment, next_socket, stats, &mut emit),
            Transported::Udp(datagram) => udp.datagram(&datagram, next_socket, stats, &mut emit),
            Transported::Icmp(message) => icmp.push(message),
        });
        stats.events += events;
    }

    /// Ends all connections.
    pub(crate) fn finish(&mut self, stats: &mut Stats, sink: &mut dyn FnMut(Event)) {
        let mut events = 0;
        self.tcp.finish(stats, &mut |event| {
            events += 1;
            sink(event);
        });
        self.dissector.finish(stats);
        stats.events += events;
    }
}

/// A frame of a device.
#[derive(Clone, Copy, Debug)]
pub struct LiveFrame<'a> {
    /// When it was seen, Unix ns.
    pub time_ns: u64,
    /// Its length on the wire, bytes.
    pub wire_len: usize,
    /// Its bytes, perhaps cut.
    pub data: &'a [u8],
}

/// Reads the frames of one device.
pub struct Live {
    sockets: Sockets,
    frame: Frame,
    stats: Stats,
}

impl Live {
    /// Nothing was read yet. The frames begin with a header of Ethernet, or else with that of IP.
    pub fn new(limits: Limits, ethernet: bool) -> Self {
        let link = if ethernet { Link::Ethernet } else { Link::Raw };
        let frame = Frame { link, ..Frame::default() };
        Live { sockets: Sockets::new(limits, 1), frame, stats: Stats::default() }
    }

    /// Reads one frame, and emits the events that it completes.
    pub fn frame(&mut self, frame: LiveFrame<'_>, sink: &mut dyn FnMut(Event)) {
        let LiveFrame { time_ns, wire_len, data } = frame;
        (self.frame.time_ns, self.frame.wire_len) = (time_ns, wire_len);
        self.frame.data.clear();
        self.frame.data.extend_from_slice(data);
        self.sockets.frame(&self.frame, &mut self.stats, sink);
    }

    /// The messages of ICMP in the last frame, those in tunnels, too; of one that came in fragments, with the last one.
    pub fn icmp(&self) -> &[Icmp] {
        &self.sockets.icmp
    }

    /// The segments since this was last called, if [`Limits::passages`] asks for them.
    pub fn take_passages(&mut self) -> Vec<Passage> {
        std::mem::take(&mut self.sockets.tcp.passages)
    }

    /// Ends all connections, and emits everything that waits.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Event)) {
        self.sockets.finish(&mut self.stats, sink);
    }

    /// Counters of what was read and dropped so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}
