//! Order of a connection's segments.
//!
//! A capture may show an acknowledgement a moment before the bytes it acknowledges (several queues, several CPUs). So a
//! segment that acknowledges bytes not captured yet is held, with all segments that follow, until those bytes come, or
//! until [`HELD_MAX`] segments or [`HELD_NS`] have passed. Only then the bytes count as missing. The order between the
//! directions is kept.

use super::Flow;
use crate::packet::Segment;
use crate::stats::Stats;
use std::collections::VecDeque;
use wirespan_model::Event;

const HELD_MAX: usize = 16;
const HELD_NS: u64 = 20_000_000;

/// Segments that wait, oldest first.
#[derive(Default)]
pub(super) struct Held {
    segments: VecDeque<HeldSegment>,
    /// Memory that they take, bytes.
    pub(super) bytes: usize,
}

/// A segment with its own copy of its bytes.
struct HeldSegment {
    segment: Segment<'static>,
    payload: Vec<u8>,
}

impl HeldSegment {
    fn cost(&self) -> usize {
        self.payload.len() + size_of::<HeldSegment>()
    }
}

impl Held {
    fn push(&mut self, segment: &Segment<'_>) {
        let payload = segment.payload.to_vec();
        let held = HeldSegment { segment: Segment { payload: &[], ..*segment }, payload };
        self.bytes += held.cost();
        self.segments.push_back(held);
    }

    fn pop(&mut self) -> Option<HeldSegment> {
        let held = self.segments.pop_front()?;
        self.bytes -= held.cost();
        Some(held)
    }
}

/// The last segments (IP id, sequence number, length), to recognise a segment that was captured twice.
#[derive(Default)]
pub(super) struct Recent {
    segments: [(u16, u32, u32); 8],
    next: usize,
}

impl Recent {
    /// True if the packet was captured at two points. Packets that were sent twice have different IP ids.
    fn captured_twice(&mut self, segment: &Segment<'_>) -> bool {
        let mark = (segment.ip_id, segment.seq, segment.len);
        if segment.ip_id == 0 || segment.len == 0 {
            return false;
        }
        if self.segments.contains(&mark) {
            return true;
        }
        self.segments[self.next % self.segments.len()] = mark;
        self.next += 1;
        false
    }
}

impl Flow {
    /// Takes one segment. Returns false if the same packet was captured before, at another device.
    pub(crate) fn segment(&mut self, segment: &Segment<'_>, stats: &mut Stats, out: &mut dyn FnMut(Event)) -> bool {
        self.last_ns = self.last_ns.max(segment.time_ns);
        if self.recent.captured_twice(segment) {
            stats.bump("tcp_captured_twice");
            return false;
        }
        let from = self.sender(segment);
        let Some(since) = self.held.segments.front().map(|h| h.segment.time_ns) else {
            if self.acks_uncaptured(segment) {
                self.held.push(segment);
            } else {
                self.take(segment, stats, out);
            }
            return true;
        };
        if self.halves[from].wants(segment.seq, segment.len) {
            self.take(segment, stats, out);
            while self.held.segments.front().is_some_and(|first| !self.acks_uncaptured(&first.segment)) {
                self.take_held(stats, out);
            }
        } else {
            self.held.push(segment);
        }
        if self.held.segments.len() >= HELD_MAX || segment.time_ns.saturating_sub(since) > HELD_NS {
            self.release(stats, out);
        }
        true
    }

    /// True if the segment acknowledges bytes of the other direction that have not been captured yet.
    fn acks_uncaptured(&self, segment: &Segment<'_>) -> bool {
        let other = &self.halves[1 - self.sender(segment)];
        !segment.rst && other.seen && segment.ack.is_some_and(|ack| other.unseen_before(ack) > 0)
    }

    fn take_held(&mut self, stats: &mut Stats, out: &mut dyn FnMut(Event)) -> bool {
        let Some(held) = self.held.pop() else { return false };
        self.take(&Segment { payload: &held.payload, ..held.segment }, stats, out);
        true
    }

    /// Reads all held segments.
    pub(super) fn release(&mut self, stats: &mut Stats, out: &mut dyn FnMut(Event)) {
        while self.take_held(stats, out) {}
    }
}
