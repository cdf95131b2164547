//! Frames → TCP segments, UDP datagrams and messages of ICMP: links, VLANs, tunnels, IPv4 and IPv6, fragments.
//!
//! Packets inside a tunnel are followed, and the tunnel's own datagrams are not emitted. The networks of two tunnels
//! may use the same addresses. So the tunnel's network id (VNI, GRE key) is part of a connection's identity, as
//! [`View::domain`].

mod fragment;
mod icmp;
mod ip;
mod link;
mod transport;
mod tunnel;
mod wifi;
mod wrapped;

pub use icmp::{About, Icmp};
pub(crate) use link::{Link, KNOWN};
pub(crate) use transport::{Datagram, Segment, Transported};

use crate::file::Frame;
use crate::stats::Stats;
use fragment::Fragments;

/// Most headers inside headers that are followed. A deeper packet is an attack or a loop. A mirrored packet (ERSPAN) of
/// a tunnel in a tunnel in a tunnel has about 16, and each may have VLAN tags.
const MAX_DEPTH: u32 = 32;

/// Bytes of a packet that may be cut: `data` holds the first of `wire` bytes.
#[derive(Clone, Copy, Debug)]
struct View<'a> {
    data: &'a [u8],
    wire: usize,
    /// Network in which its addresses are valid: 0, or a hash of the ids of the tunnels around it.
    domain: u64,
    depth: u32,
}

impl<'a> View<'a> {
    /// The bytes behind the first `n`; `None` if the first `n` were not captured.
    fn skip(self, n: usize) -> Option<View<'a>> {
        let data = self.data.get(n..)?;
        Some(View { data, wire: self.wire.saturating_sub(n), ..self })
    }

    /// The first `n` bytes (the rest is padding).
    fn limit(self, n: usize) -> View<'a> {
        let data = self.data.get(..n).unwrap_or(self.data);
        View { data, wire: self.wire.min(n), ..self }
    }

    fn deeper(self) -> View<'a> {
        View { depth: self.depth + 1, ..self }
    }

    /// The same bytes in the network of a tunnel of this kind and id.
    fn inside(self, kind: u64, id: u32) -> View<'a> {
        let domain = self.domain.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (kind << 32 | u64::from(id));
        View { domain, ..self }
    }

    fn u8(&self, at: usize) -> Option<u8> {
        self.data.get(at).copied()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_be_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_be_bytes)
    }

    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.data.get(at..at.checked_add(N)?)?.try_into().ok()
    }
}

/// Receiver of segments, datagrams and messages.
type Out<'o> = &'o mut dyn FnMut(Transported<'_>, &mut Stats);

/// Reads the headers of packets. It keeps nothing but fragments.
pub(crate) struct Dissector {
    fragments: Fragments,
    time_ns: u64,
}

impl Dissector {
    pub(crate) fn new(fragment_bytes: usize) -> Self {
        Dissector { fragments: Fragments::new(fragment_bytes), time_ns: 0 }
    }

    /// Emits the segment or datagram in the frame. If there is none, counts the reason.
    pub(crate) fn dissect(&mut self, frame: &Frame, stats: &mut Stats, out: Out<'_>) {
        self.time_ns = frame.time_ns;
        let view = View { data: &frame.data, wire: frame.wire_len, domain: 0, depth: 0 };
        if let Err(reason) = self.link(frame.link, view, stats, out) {
            stats.bump(reason);
        }
    }

    /// Counts the fragmented packets that stay incomplete.
    pub(crate) fn finish(&mut self, stats: &mut Stats) {
        stats_add_if(stats, "fragment_incomplete", self.fragments.pending());
    }
}

fn stats_add_if(stats: &mut Stats, reason: &'static str, n: u64) {
    if n > 0 {
        stats.add(reason, n);
    }
}

/// Result of reading a layer: the reason if the packet is dropped here.
type Taken = Result<(), &'static str>;
