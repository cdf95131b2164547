//! When the requests of a process were read and answered.

use rustc_hash::FxHashMap;
use wirespan_model::Span;

/// Most exchanges that are remembered.
const MAX_EXCHANGES: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Lives {
    /// Unix ns, by exchange; where requests share one, from the first read to the last answer.
    by_exchange: FxHashMap<u64, (u64, u64)>,
}

impl Lives {
    /// Adds a request that was answered.
    pub(super) fn add(&mut self, span: &Span) {
        if self.by_exchange.len() >= MAX_EXCHANGES {
            self.by_exchange.clear();
        }
        for exchange in span.exchanges() {
            let life = self.by_exchange.entry(exchange).or_insert((span.start_ns, span.end_ns));
            *life = (life.0.min(span.start_ns), life.1.max(span.end_ns));
        }
    }

    pub(super) fn has(&self, exchange: u64) -> bool {
        self.by_exchange.contains_key(&exchange)
    }

    /// Whether this request is known, and was answered before this time.
    pub(super) fn was_answered(&self, exchange: u64, at_ns: u64) -> bool {
        self.by_exchange.get(&exchange).is_some_and(|(_, answered_ns)| *answered_ns < at_ns)
    }

    /// Whether this request is known, and was read before this time.
    pub(super) fn was_read(&self, exchange: u64, at_ns: u64) -> bool {
        self.by_exchange.get(&exchange).is_some_and(|(read_ns, _)| *read_ns <= at_ns)
    }

    /// Whether this request may lie around a call: as far as is known it was read before and answered after.
    pub(super) fn may_enclose(&self, exchange: u64, start_ns: u64, end_ns: u64) -> bool {
        let life = self.by_exchange.get(&exchange);
        life.is_none_or(|(read_ns, answered_ns)| *read_ns <= start_ns && end_ns <= *answered_ns)
    }
}
