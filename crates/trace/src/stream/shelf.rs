//! Messages that wait at their broker longer than traces are remembered.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use wirespan_model::{Span, SpanId, TraceId};

/// Most of them; the oldest go first.
const MOST: usize = 8_192;

/// Spans that sent messages, and their traces, which are forgotten otherwise.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    order: VecDeque<Arc<Span>>,
    traces: FxHashMap<SpanId, TraceId>,
}

impl Shelf {
    /// Keeps a span. Returns the one that has no room any more.
    pub(super) fn put(&mut self, span: Arc<Span>, trace: TraceId) -> Option<Arc<Span>> {
        self.traces.insert(span.id, trace);
        self.order.push_back(span);
        let oldest = if self.order.len() > MOST { self.order.pop_front() } else { None };
        oldest.inspect(|oldest| {
            self.traces.remove(&oldest.id);
        })
    }

    /// The trace of a span that is kept.
    pub(super) fn trace(&self, id: SpanId) -> Option<TraceId> {
        self.traces.get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_span_makes_room() {
        let mut shelf = Shelf::default();
        let trace = |n: u64| TraceId([n as u8; 16]);
        let mut put = |n: u64| shelf.put(Arc::new(Span { id: SpanId(n), ..Span::default() }), trace(n));
        assert!((1..=MOST as u64).all(|n| put(n).is_none()));
        assert_eq!(put(MOST as u64 + 1).map(|span| span.id), Some(SpanId(1)));
        assert_eq!((shelf.trace(SpanId(1)), shelf.trace(SpanId(2))), (None, Some(trace(2))));
    }
}
