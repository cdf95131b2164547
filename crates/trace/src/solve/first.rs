//! The first calls of a process, of which the kernel knows nothing.
//!
//! A thread that is handed work before wirespan has seen it, or before the program's runtime is known, calls without a
//! cause. Later such calls are the process's own: connections that are kept alive, timers. So only the first calls wait
//! until the requests around them have ended. If one request alone can have made a call, the call is given to it.

use std::collections::VecDeque;
use std::sync::Arc;
use wirespan_model::Span;

/// Number of calls with a known cause, and of all calls, up to which a process is new.
const FEW_KNOWN: u32 = 50;
const FEW_CALLS: u32 = 200;
/// Most requests that are kept.
const MAX_REQUESTS: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct First {
    known: u32,
    calls: u32,
    /// Answered requests.
    requests: VecDeque<Request>,
    /// Calls that wait.
    waiting: VecDeque<Arc<Span>>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    start_ns: u64,
    end_ns: u64,
    exchange: u64,
}

impl First {
    /// Whether calls without a cause may belong to a request.
    pub(super) fn is_new(&self) -> bool {
        self.known < FEW_KNOWN && self.calls < FEW_CALLS
    }

    pub(super) fn count(&mut self, is_known: bool) {
        self.calls = self.calls.saturating_add(1);
        self.known = self.known.saturating_add(u32::from(is_known));
    }

    /// Adds a request that was answered.
    pub(super) fn add_request(&mut self, span: &Span) {
        let Some(exchange) = span.exchange.filter(|_| self.is_new() || self.waits()) else { return };
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.pop_front();
        }
        let exchange = span.stream_exchange().unwrap_or(exchange.first);
        self.requests.push_back(Request { start_ns: span.start_ns, end_ns: span.end_ns, exchange });
    }

    pub(super) fn wait(&mut self, span: Arc<Span>) {
        self.waiting.push_back(span);
    }

    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a call began before this time.
    pub(super) fn is_due(&self, until_ns: u64) -> bool {
        self.waiting.front().is_some_and(|call| call.start_ns <= until_ns)
    }

    /// Takes the next call that began before this time, and the only request that can have made it.
    pub(super) fn take(&mut self, until_ns: u64) -> Option<(Arc<Span>, Option<u64>)> {
        let call = self.waiting.pop_front_if(|call| call.start_ns <= until_ns)?;
        let mut makers = self.requests.iter().filter(|r| r.start_ns <= call.start_ns && call.end_ns <= r.end_ns);
        let maker = makers.next().filter(|_| makers.next().is_none());
        Some((call, maker.map(|r| r.exchange)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::ExchangeRange;

    fn span(start_ns: u64, end_ns: u64) -> Span {
        Span { start_ns, end_ns, ..Span::default() }
    }

    fn request(number: u64, start_ns: u64, end_ns: u64) -> Span {
        Span { exchange: Some(ExchangeRange { first: number, last: number }), ..span(start_ns, end_ns) }
    }

    #[test]
    fn a_call_within_one_request_alone_is_given_to_it() {
        let mut first = First::default();
        for (start, end) in [(20, 30), (50, 60), (90, 95), (20, 45)] {
            first.wait(Arc::new(span(start, end)));
        }
        // The requests' spans come after those of their calls.
        first.add_request(&request(1, 10, 40));
        first.add_request(&request(2, 45, 80));
        first.add_request(&request(3, 48, 70));
        let mut taken = Vec::new();
        while let Some((call, maker)) = first.take(90) {
            taken.push((call.start_ns, call.end_ns, maker));
        }
        let expected = [(20, 30, Some(1)), (50, 60, None), (90, 95, None), (20, 45, None)];
        assert_eq!(taken, expected, "alone; one of two; none; longer than its request");
    }

    #[test]
    fn a_process_is_new_for_its_first_calls() {
        let mut first = First::default();
        (0..FEW_KNOWN).for_each(|_| first.count(false));
        assert!(first.is_new());
        (0..FEW_KNOWN).for_each(|_| first.count(true));
        assert!(!first.is_new());
        let mut own = First::default();
        (0..FEW_CALLS).for_each(|_| own.count(false));
        assert!(!own.is_new());
    }
}
