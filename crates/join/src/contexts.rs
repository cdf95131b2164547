//! Trace contexts beside the requests of one direction, and the bytes that injection added on the wire for them.
//!
//! The captured bytes of a call are those that its program sent, without the added ones. A call tells the sequence
//! number of its first byte on the wire, and a context that of the first byte it added. So any other sequence number
//! follows: count the added bytes between the two. The context always comes before the call that it belongs to.

use crate::stream::MAX_JUMP;
use std::collections::VecDeque;
use wirespan_model::event::ContextEvent;

/// Contexts remembered. A context is needed until the request has been read; servers of HTTP/2 let 100 to 250 requests
/// be under way on a connection.
const MOST: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Contexts(VecDeque<ContextEvent>);

/// How far `seq` lies behind `from`; `None` if it lies before it.
fn ahead(from: u32, seq: u32) -> Option<u32> {
    let distance = seq.wrapping_sub(from);
    (distance <= MAX_JUMP).then_some(distance)
}

impl Contexts {
    pub(crate) fn add(&mut self, c: &ContextEvent) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(*c);
    }

    /// The context of the request that begins at this sequence number, or, if the context names one, on this stream.
    pub(crate) fn of(&self, seq: u32, stream: Option<u64>) -> Option<&ContextEvent> {
        let is = |c: &&ContextEvent| match c.stream {
            0 => c.seq == seq,
            of => stream == Some(of.into()),
        };
        self.0.iter().rev().find(is)
    }

    /// Sequence numbers at which bytes were added, in their order, each with the number of those bytes.
    fn places(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let added = self.0.iter().filter(|c| c.added != 0);
        added.map(|c| (c.seq.wrapping_add(c.added_at.into()), c.added.into()))
    }

    /// Bytes that were added behind one or more of the next `len` captured bytes; the first of them has this sequence
    /// number.
    pub(crate) fn added(&self, seq: u32, len: u64) -> u32 {
        let mut all = 0;
        for (place, bytes) in self.places() {
            let captured = ahead(seq, place).map(|distance| distance.saturating_sub(all));
            if captured.is_some_and(|n| n > 0 && u64::from(n) <= len) {
                all = all.saturating_add(bytes);
            }
        }
        all
    }

    /// Bytes that were added between these two sequence numbers.
    pub(crate) fn added_before(&self, seq: u32, end: u32) -> u32 {
        let inside = |place| ahead(seq, place).is_some() && ahead(place, end).is_some_and(|n| n > 0);
        self.places().filter(|(place, _)| inside(*place)).map(|(_, bytes)| bytes).sum()
    }

    /// Sequence number of the first byte of a call's part. The record told that of the call, plus the distance.
    pub(crate) fn begin(&self, told: u32, part: u32) -> u32 {
        told.wrapping_add(self.added(told.wrapping_sub(part), part.into()))
    }

    /// Forgets what lies so far back that its sequence numbers will come again.
    pub(crate) fn forget_before(&mut self, seq: u32) {
        while self.0.front().is_some_and(|c| seq.wrapping_sub(c.seq) > MAX_JUMP && ahead(seq, c.seq).is_none()) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::{Direction, SocketId, SpanId, TraceId};

    const ADDED: u16 = 69;

    /// A request at `seq` on a stream, with bytes added so far behind its first one.
    fn context(seq: u32, added_at: u16, stream: u32) -> ContextEvent {
        ContextEvent {
            socket: SocketId(1),
            direction: Direction::Egress,
            seq,
            stream,
            added_at,
            added: ADDED,
            flags: 1,
            time_ns: 0,
            trace_id: TraceId::default(),
            span_id: SpanId(stream.into()),
        }
    }

    /// Three requests of 40, 30 and 20 bytes whose call begins at `seq`; each has its context at its end.
    fn three(seq: u32) -> Contexts {
        let mut all = Contexts::default();
        all.add(&context(seq, 40, 1));
        all.add(&context(seq.wrapping_add(40 + 69), 30, 3));
        all.add(&context(seq.wrapping_add(70 + 2 * 69), 20, 5));
        all
    }

    #[test]
    fn added_bytes_lie_behind_the_captured_byte_before_them() {
        for seq in [1000, u32::MAX - 50] {
            let all = three(seq);
            let at = [(0, 0), (39, 0), (40, 69), (69, 69), (70, 138), (89, 138), (90, 207), (5000, 207)];
            for (len, added) in at {
                assert_eq!(all.added(seq, len), added, "{len} bytes from {seq}");
            }
            // The next call does not have them.
            assert_eq!(all.added(seq.wrapping_add(90 + 207), 5000), 0);
            assert_eq!(all.added(seq.wrapping_sub(10), 49), 0);
            assert_eq!(all.added(seq.wrapping_sub(10), 50), 69);
        }
    }

    #[test]
    fn a_further_part_of_a_call_begins_behind_what_was_added_to_those_before() {
        let all = three(u32::MAX - 50);
        let call = u32::MAX - 50;
        for (part, added) in [(0, 0), (39, 0), (40, 69), (50, 69), (70, 138), (90, 207)] {
            assert_eq!(all.begin(call.wrapping_add(part), part), call.wrapping_add(part + added), "{part}");
        }
        // Parts follow each other without a gap, wherever the call is cut.
        for cut in 1..120 {
            let first_end = call.wrapping_add(cut).wrapping_add(all.added(call, cut.into()));
            assert_eq!(all.begin(call.wrapping_add(cut), cut), first_end, "{cut}");
        }
    }

    #[test]
    fn added_bytes_between_two_sequence_numbers() {
        let all = three(1000);
        assert_eq!(all.added_before(1000, 1040), 0);
        assert_eq!(all.added_before(1000, 1041), 69);
        assert_eq!(all.added_before(1041, 1297), 138);
    }

    #[test]
    fn a_context_is_that_of_its_stream_or_of_the_byte_at_which_its_request_begins() {
        let mut all = three(1000);
        assert_eq!(all.of(1000, Some(3)).map(|c| c.span_id), Some(SpanId(3)));
        assert_eq!(all.of(1000, None), None);
        all.add(&context(2000, 20, 0));
        assert_eq!(all.of(2000, None).map(|c| c.seq), Some(2000));
        assert_eq!(all.of(2001, None), None);
    }

    #[test]
    fn contexts_are_few_and_old_ones_are_forgotten() {
        let mut all = Contexts::default();
        (0..2 * MOST as u32).for_each(|n| all.add(&context(100 * n, 10, 2 * n + 1)));
        assert_eq!(all.0.len(), MOST);
        all.forget_before(100 * 2 * MOST as u32);
        assert_eq!(all.0.len(), MOST);
        all.forget_before(MAX_JUMP + 100 * 2 * MOST as u32);
        assert_eq!(all.0.len(), 0);
    }
}
