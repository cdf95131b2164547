//! IP fragments → whole packets, in bounded memory. If fragments overlap, the first wins.

use super::ip::Packet;
use crate::stats::Stats;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// How long fragments wait, ns. RFC 8200 (section 4.5) gives a receiver 60 s; Linux waits 30 s.
const TIMEOUT_NS: u64 = 30_000_000_000;
const MAX_PACKET: usize = 65_535;
/// Memory that a kept fragment takes beside its bytes, so that cut fragments count too.
const PIECE_COST: usize = 128;

/// Place of a fragment in its packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) id: u32,
    pub(super) offset: usize,
    pub(super) last: bool,
}

/// A reassembled packet: the captured prefix of `wire` bytes.
pub(super) struct Whole {
    pub(super) protocol: u8,
    pub(super) data: Vec<u8>,
    pub(super) wire: usize,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    ends: (IpAddr, IpAddr),
    id: u32,
    domain: u64,
}

struct Partial {
    since_ns: u64,
    protocol: u8,
    /// Fragments by offset: length on the wire, captured bytes.
    parts: BTreeMap<usize, (usize, Vec<u8>)>,
    total: Option<usize>,
    bytes: usize,
}

pub(super) struct Fragments {
    packets: FxHashMap<Key, Partial>,
    bytes: usize,
    limit: usize,
}

impl Fragments {
    pub(super) fn new(limit: usize) -> Self {
        Fragments { packets: FxHashMap::default(), bytes: 0, limit }
    }

    /// Number of packets that are not whole.
    pub(super) fn pending(&self) -> u64 {
        self.packets.len() as u64
    }

    /// Adds a fragment. Returns the packet if the fragment makes it whole.
    pub(super) fn add(&mut self, packet: &Packet<'_>, piece: Piece, now_ns: u64, stats: &mut Stats) -> Option<Whole> {
        let (data, wire) = (packet.payload.data, packet.payload.wire);
        if piece.offset + wire > MAX_PACKET || wire == 0 || (!piece.last && wire % 8 != 0) {
            stats.bump("fragment_bad");
            return None;
        }
        let cost = data.len() + PIECE_COST;
        if self.bytes + cost > self.limit {
            self.make_room(now_ns, stats);
        }
        let key = Key { ends: (packet.source, packet.destination), id: piece.id, domain: packet.payload.domain };
        let fresh =
            || Partial { since_ns: now_ns, protocol: packet.protocol, parts: BTreeMap::new(), total: None, bytes: 0 };
        let partial = self.packets.entry(key).or_insert_with(fresh);
        if now_ns.saturating_sub(partial.since_ns) > TIMEOUT_NS {
            stats.bump("fragment_incomplete");
            self.bytes -= partial.bytes;
            *partial = fresh();
        }
        let before =
            partial.parts.range(..=piece.offset).next_back().is_some_and(|(at, (len, _))| at + len > piece.offset);
        let after = partial.parts.range(piece.offset..).next().is_some_and(|(at, _)| *at < piece.offset + wire);
        if before || after {
            stats.bump("fragment_overlap");
            return None;
        }
        if piece.offset == 0 {
            partial.protocol = packet.protocol; // RFC 8200: the first fragment's protocol counts
        }
        if piece.last {
            partial.total = Some(piece.offset + wire);
        }
        partial.parts.insert(piece.offset, (wire, data.to_vec()));
        partial.bytes += cost;
        self.bytes += cost;
        let total = partial.total?;
        let have: usize = partial.parts.values().map(|(len, _)| len).sum();
        if have != total {
            return None;
        }
        let key = Key { ends: (packet.source, packet.destination), id: piece.id, domain: packet.payload.domain };
        let partial = self.packets.remove(&key)?;
        self.bytes -= partial.bytes;
        Some(partial.join(total))
    }

    /// Drops the packets that are too old. If that frees too little, drops all.
    fn make_room(&mut self, now_ns: u64, stats: &mut Stats) {
        let before = self.packets.len();
        self.packets.retain(|_, p| now_ns.saturating_sub(p.since_ns) <= TIMEOUT_NS);
        self.bytes = self.packets.values().map(|p| p.bytes).sum();
        if self.bytes > self.limit / 2 {
            self.packets.clear();
            self.bytes = 0;
        }
        stats.add("fragment_incomplete", (before - self.packets.len()) as u64);
    }
}

impl Partial {
    /// All captured bytes before the first missing one.
    fn join(self, wire: usize) -> Whole {
        let mut data = Vec::with_capacity(self.bytes);
        for (len, part) in self.parts.into_values() {
            data.extend_from_slice(&part);
            if part.len() < len {
                break;
            }
        }
        Whole { protocol: self.protocol, data, wire }
    }
}
