//! Retransmitted bytes of a connection, so that each span can count its own.

use crate::direction::index;
use std::collections::VecDeque;
use wirespan_model::event::TroubleKind;
use wirespan_model::Direction;

/// Retransmissions kept per direction. Requests that wait need them.
const KEPT: usize = 256;

/// Sequence numbers `from..to` that were retransmitted in `count` segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) count: u16,
}

impl Segments {
    /// The segments of a retransmission; `None` for a reset.
    pub(crate) fn of(kind: &TroubleKind) -> Option<Segments> {
        match *kind {
            TroubleKind::Retransmit { from, to, segments } => Some(Segments { from, to, count: segments }),
            TroubleKind::ResetSent | TroubleKind::ResetReceived => None,
        }
    }

    /// Number of the segments that hold bytes of `from..to`. If the segments hold other bytes too, their share counts.
    pub(crate) fn inside(&self, from: u32, to: u32) -> u32 {
        // Distances from the start of the span's bytes: sequence numbers wrap.
        let at = |seq: u32| i64::from(seq.wrapping_sub(from) as i32);
        let (begin, end) = (at(self.from).max(0), at(self.to).min(at(to)));
        if begin >= end {
            return 0;
        }
        let (part, all) = ((end - begin) as u64, u64::from(self.to.wrapping_sub(self.from)));
        (u64::from(self.count.max(1)) * part).div_ceil(all.max(1)) as u32
    }
}

/// Retransmissions of a connection.
#[derive(Debug, Default)]
pub(crate) struct Resent {
    kept: [VecDeque<Segments>; 2],
    /// Segments since the last span of the connection itself.
    pub(crate) since_flow_span: u32,
}

impl Resent {
    pub(crate) fn add(&mut self, direction: Direction, segments: Segments) {
        let kept = &mut self.kept[index(direction)];
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(segments);
        self.since_flow_span = self.since_flow_span.saturating_add(u32::from(segments.count.max(1)));
    }

    /// Retransmitted segments of this direction that held bytes of `from..to`.
    pub(crate) fn inside(&self, direction: Direction, from: u32, to: u32) -> u32 {
        self.kept[index(direction)].iter().map(|s| s.inside(from, to)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_count_for_the_bytes_that_they_hold() {
        let one = Segments { from: 100, to: 200, count: 1 };
        for ((from, to), n) in [((100, 200), 1), ((0, 100), 0), ((200, 300), 0), ((0, 101), 1), ((199, 999), 1)] {
            assert_eq!(one.inside(from, to), n, "{from}..{to}");
        }
        let four = Segments { from: u32::MAX - 999, to: 3000, count: 4 };
        assert_eq!(four.inside(u32::MAX - 999, 3000), 4);
        assert_eq!(four.inside(0, 1000), 1, "a quarter of them, across the end of the numbers");
        assert_eq!(four.inside(0, 1001), 2);
        assert_eq!(four.inside(3000, 4000), 0);
    }
}
