//! `trace` of a program that runs: which packets belong to the trace is known only when its spans come, so the newest
//! packets are held until then.

use super::Subject;
use std::collections::VecDeque;
use wirespan_model::packet::Sighting;

/// Sightings that are held at most.
const HELD: usize = 400_000;

/// Packets that may belong to a trace.
#[derive(Debug)]
pub(crate) struct Awaited {
    held: VecDeque<Sighting>,
    most: usize,
    /// Let go before the trace was known.
    let_go: u64,
    known: bool,
}

impl Default for Awaited {
    fn default() -> Self {
        Awaited { held: VecDeque::new(), most: HELD, let_go: 0, known: false }
    }
}

impl Awaited {
    /// Takes what was seen.
    pub(crate) fn hold(&mut self, seen: impl Iterator<Item = Sighting>) {
        self.held.extend(seen);
        let too_many = self.held.len().saturating_sub(self.most);
        self.held.drain(..too_many);
        self.let_go += if self.known { 0 } else { too_many as u64 };
    }

    /// Moves those that belong to the trace, as far as its spans are known. Spans that come later may claim others.
    pub(crate) fn release(&mut self, subject: &Subject, into: &mut Vec<Sighting>) {
        self.known = true;
        let (told, held) = std::mem::take(&mut self.held).into_iter().partition::<VecDeque<_>, _>(|s| subject.has(s));
        into.extend(told);
        self.held = held;
    }

    /// Goes on with what another program held.
    pub(crate) fn take_over(&mut self, other: Awaited) {
        self.let_go += other.let_go;
        self.hold(other.held.into_iter());
    }

    /// Whether no span of the trace has come.
    pub(crate) fn is_unknown(&self) -> bool {
        !self.known
    }

    /// When the newest of those that are held was seen; 0 if none is.
    pub(crate) fn newest_ns(&self) -> u64 {
        self.held.iter().map(|s| s.time_ns).max().unwrap_or(0)
    }

    /// Sightings that were let go for want of room, before any span of the trace was known.
    pub(crate) fn let_go(&self) -> u64 {
        self.let_go
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;
    use wirespan_model::packet::{Route, TCP};
    use wirespan_model::test_support::{route, sighting};

    fn packet(time_ns: u64, destination_port: u16) -> Sighting {
        Sighting { time_ns, route: Route { destination_port, ..route(TCP) }, ..sighting(TCP, 0, 1) }
    }

    #[test]
    fn packets_wait_until_the_spans_of_their_trace_come() {
        let mut awaited = Awaited::default();
        awaited.hold([packet(1, 80), packet(2, 81), packet(3, 80)].into_iter());
        let server = |port| Subject::of_spans(&json!({"spans": [{"server": format!("10.0.0.2:{port}")}]}));
        let mut told = Vec::new();
        awaited.release(&server(80), &mut told);
        assert_eq!(told.iter().map(|s| s.time_ns).collect::<Vec<_>>(), [1, 3]);
        awaited.release(&server(81), &mut told);
        assert_eq!(told.len(), 3, "a later span claims another");
        assert_eq!(awaited.let_go(), 0);
    }

    #[test]
    fn the_oldest_are_let_go_and_counted_until_the_trace_is_known() {
        let mut awaited = Awaited { most: 2, ..Awaited::default() };
        awaited.hold((0..5).map(|n| packet(n, 80)));
        assert_eq!((awaited.let_go(), awaited.is_unknown()), (3, true));
        let mut told = Vec::new();
        awaited.release(&Subject::default(), &mut told);
        awaited.hold((5..9).map(|n| packet(n, 80)));
        assert_eq!((told.len(), awaited.let_go(), awaited.is_unknown()), (0, 3, false));
    }
}
