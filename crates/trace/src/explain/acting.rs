//! For which request a thread acted at some time: the one of which it moved a message before and after it.

use super::marks::Marks;
use super::served::Served;
use super::turns::Actors;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::{Span, SpanId};

/// Most exchanges whose spans are remembered.
const MOST: usize = 50_000;
/// Most exchanges of one span.
const MOST_OF_SPAN: usize = 8;
/// How long after the end of a request one waits for those of other threads, ns.
const WAIT_NS: u64 = 1_000_000_000;

/// For what a thread acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acts {
    /// For this span.
    For(SpanId),
    /// For none, or that is not known.
    Unknown,
    /// For a request that has not been answered yet.
    Later,
}

/// Says for what threads acted.
pub(super) trait Acting {
    /// For what a thread of this process acted at this time.
    fn of(&self, pid: u32, tid: u32, time_ns: u64) -> Acts;
}

/// The spans of requests, by their processes and exchanges.
#[derive(Debug, Default)]
pub(super) struct Answered {
    spans: FxHashMap<(u32, u64), SpanId>,
    order: VecDeque<(u32, u64)>,
}

impl Answered {
    /// Takes a request that has been answered.
    pub(super) fn add(&mut self, span: &Span) {
        for exchange in span.exchanges().take(MOST_OF_SPAN) {
            if self.spans.insert((span.pid, exchange), span.id).is_none() {
                self.order.push_back((span.pid, exchange));
            }
        }
        while self.order.len() > MOST {
            self.order.pop_front().and_then(|oldest| self.spans.remove(&oldest));
        }
    }
}

/// For what other threads acted while a request was served.
pub(super) struct Others<'a> {
    pub(super) marks: &'a Marks,
    pub(super) answered: &'a Answered,
    pub(super) actors: &'a Actors,
    /// The request: what acted for it is no other.
    pub(super) request: &'a Served,
    /// Nothing more will come.
    pub(super) is_end: bool,
}

impl Acting for Others<'_> {
    fn of(&self, pid: u32, tid: u32, time_ns: u64) -> Acts {
        let (before, after) = self.marks.requests_around(pid, tid, time_ns);
        let Some(exchange) = before else { return Acts::Unknown };
        let is_own = pid == self.request.pid && self.request.exchange.is_some_and(|own| own.contains(exchange));
        let is_early = !self.is_end && self.marks.latest_ns() < self.request.end_ns.saturating_add(WAIT_NS);
        match (after, self.answered.spans.get(&(pid, exchange))) {
            _ if is_own => Acts::Unknown,
            (None, _) if is_early => Acts::Later,
            (Some(next), _) if next != exchange => Acts::Unknown,
            (Some(_), None) if is_early => Acts::Later,
            // A thread that runs actors in turns may have run another one between two messages.
            (Some(_), Some(span)) if self.actors.ran(pid, exchange, tid, time_ns) => Acts::For(*span),
            _ => Acts::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::event::{ClockMark, Clocks};
    use wirespan_model::wait::{ActorTurn, ThreadWaits};
    use wirespan_model::ExchangeRange;

    fn mark(tid: u32, time_ns: u64, exchange: u64) -> ClockMark {
        let clocks = Clocks { on_cpu_ns: 1, ..Clocks::default() };
        ClockMark { pid: 1, tid, began_ns: time_ns, time_ns, socket: 1, exchange, request: exchange, clocks }
    }

    fn span(id: u64, exchange: u64) -> Span {
        let range = ExchangeRange { first: exchange, last: exchange };
        Span { id: SpanId(id), pid: 1, exchange: Some(range), end_ns: 100, ..Span::default() }
    }

    #[test]
    fn a_thread_acts_for_the_request_whose_messages_it_moves_before_and_after() {
        let (mut marks, mut answered) = (Marks::default(), Answered::default());
        // Thread 5 reads request 7, makes a call, and answers; then it reads request 8. Thread 6 reads request 9.
        [(5, 10, 7), (5, 20, 0), (5, 60, 7), (5, 80, 8), (6, 10, 9)]
            .iter()
            .for_each(|&(tid, time, exchange)| marks.add(mark(tid, time, exchange)));
        answered.add(&span(70, 7));
        let request = Served::of(&span(1, 3));
        let actors = Actors::default();
        let others = |is_end| Others { marks: &marks, answered: &answered, actors: &actors, request: &request, is_end };
        let of = |tid, time_ns| others(false).of(1, tid, time_ns);
        assert_eq!([of(5, 15), of(5, 30)], [Acts::For(SpanId(70)); 2]);
        assert_eq!([of(5, 5), of(5, 70), of(4, 30)], [Acts::Unknown; 3], "before it, between two, no such thread");
        assert_eq!([of(5, 90), of(6, 30)], [Acts::Later; 2], "not answered yet");
        assert_eq!(others(false).of(2, 5, 30), Acts::Unknown, "another process had that thread");
        assert_eq!(others(true).of(1, 6, 30), Acts::Unknown);
        let own = Served::of(&span(70, 7));
        assert_eq!(Others { request: &own, ..others(false) }.of(1, 5, 30), Acts::Unknown, "for the request itself");
        marks.add(mark(4, WAIT_NS + 200, 2));
        let others = Others { marks: &marks, answered: &answered, actors: &actors, request: &request, is_end: false };
        assert_eq!(others.of(1, 6, 30), Acts::Unknown, "that is too long");
    }

    #[test]
    fn a_thread_that_runs_actors_acts_for_a_request_in_its_turns_only() {
        let (mut marks, mut answered, mut actors) = (Marks::default(), Answered::default(), Actors::default());
        [10, 60].iter().for_each(|time| marks.add(mark(5, *time, 7)));
        answered.add(&span(70, 7));
        let turn = |from_ns, to_ns| ActorTurn { tid: 5, from_ns, to_ns, ..ActorTurn::default() };
        let turns = vec![turn(10, 20), turn(50, 60)];
        actors.add(&mut ThreadWaits { pid: 1, tid: 5, exchange: 7, turns, ..ThreadWaits::default() });
        let request = Served::of(&span(1, 3));
        let others = Others { marks: &marks, answered: &answered, actors: &actors, request: &request, is_end: false };
        let of = |time_ns| others.of(1, 5, time_ns);
        assert_eq!([of(15), of(55), of(30)], [Acts::For(SpanId(70)), Acts::For(SpanId(70)), Acts::Unknown]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut answered = Answered::default();
        (0..MOST as u64 + 9).for_each(|n| answered.add(&span(n + 1, n)));
        assert_eq!((answered.spans.len(), answered.order.len()), (MOST, MOST));
    }
}
