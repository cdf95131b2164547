//! How spans of SDKs name each other as parents. They come in any order: a child usually before its parent.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use wirespan_model::{Resource, Span, SpanId, SpanKind, TraceId};

/// Most spans that are remembered, and of one trace.
const MOST: usize = 50_000;
const MOST_OF_TRACE: usize = 500;
/// How long, ns.
const REMEMBER_NS: u64 = 60_000_000_000;
/// Most parents that are followed: two spans may name each other.
const CLIMB: usize = 64;

/// What is remembered of a span.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) kind: SpanKind,
    pub(super) time: (u64, u64),
    pid: u32,
    resource: Arc<Resource>,
}

impl Report {
    fn of(span: &Span) -> Self {
        let Span { id, kind, pid, start_ns, end_ns, .. } = *span;
        let (parent, time, resource) = (span.parent_span_id, (start_ns, end_ns), Arc::clone(&span.resource));
        Report { id, parent, kind, time, pid, resource }
    }

    fn same_process(&self, other: &Report) -> bool {
        self.pid == other.pid && self.resource.service == other.resource.service
    }
}

/// The spans of each trace.
#[derive(Debug, Default)]
pub(super) struct Reports {
    traces: FxHashMap<TraceId, Vec<Report>>,
    /// When each span came, oldest first.
    order: VecDeque<(u64, TraceId)>,
}

impl Reports {
    pub(super) fn add(&mut self, span: &Span, now_ns: u64) {
        let Some(trace) = span.trace_id else { return };
        let spans = self.traces.entry(trace).or_default();
        if spans.len() >= MOST_OF_TRACE || spans.iter().any(|known| known.id == span.id) {
            return;
        }
        spans.push(Report::of(span));
        self.order.push_back((now_ns, trace));
        if self.order.len() > MOST {
            self.forget_first();
        }
    }

    /// Forgets what is too old.
    pub(super) fn forget(&mut self, now_ns: u64) {
        while self.order.front().is_some_and(|(came_ns, _)| came_ns + REMEMBER_NS < now_ns) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((_, trace)) = self.order.pop_front() else { return };
        let Some(spans) = self.traces.get_mut(&trace) else { return };
        spans.remove(0);
        if spans.is_empty() {
            self.traces.remove(&trace);
        }
    }

    /// The highest of the span's ancestors in its process, or the span itself.
    pub(super) fn top(&self, span: &Span) -> Option<Report> {
        let spans = self.traces.get(&span.trace_id?).map(Vec::as_slice).unwrap_or_default();
        Some(top(spans, Report::of(span)))
    }

    /// The spans of a trace whose [`Reports::top`] this is.
    pub(super) fn below(&self, trace: TraceId, of: SpanId) -> impl Iterator<Item = &SpanId> {
        let spans = self.traces.get(&trace).map(Vec::as_slice).unwrap_or_default();
        spans.iter().filter(move |span| top(spans, (*span).clone()).id == of).map(|span| &span.id)
    }
}

fn top(spans: &[Report], mut at: Report) -> Report {
    for _ in 0..CLIMB {
        let up = at.parent.and_then(|parent| spans.iter().find(|span| span.id == parent && span.same_process(&at)));
        match up {
            Some(up) => at = up.clone(),
            None => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: u64, parent: u64, pid: u32) -> Span {
        let parent_span_id = Some(SpanId(parent)).filter(|p| p.0 != 0);
        Span { id: SpanId(id), parent_span_id, pid, trace_id: Some(TraceId([1; 16])), ..Span::default() }
    }

    #[test]
    fn ancestors_are_followed_within_their_process() {
        let mut reports = Reports::default();
        [span(1, 9, 7), span(2, 1, 7), span(3, 2, 7), span(4, 3, 8)].iter().for_each(|s| reports.add(s, 0));
        let top = |id: u64, parent: u64, pid: u32| reports.top(&span(id, parent, pid)).map(|top| top.id.0);
        assert_eq!([top(3, 2, 7), top(4, 3, 8), top(5, 0, 7)], [Some(1), Some(4), Some(5)]);
        assert_eq!(reports.below(TraceId([1; 16]), SpanId(1)).map(|id| id.0).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn circles_end_and_what_is_kept_is_bounded() {
        let mut reports = Reports::default();
        [span(1, 2, 7), span(2, 1, 7)].iter().for_each(|s| reports.add(s, 0));
        assert!(reports.top(&span(1, 2, 7)).is_some());
        (10..2_000).for_each(|id| reports.add(&span(id, 0, 7), 1));
        assert_eq!(reports.order.len(), MOST_OF_TRACE);
        for id in 0..MOST as u64 {
            let trace_id = Some(TraceId((u128::from(id) + 7).to_be_bytes()));
            reports.add(&Span { trace_id, ..span(id, 0, 7) }, 2);
        }
        assert_eq!((reports.order.len(), reports.traces.values().map(Vec::len).sum::<usize>()), (MOST, MOST));
        reports.forget(REMEMBER_NS + 3);
        assert!(reports.order.is_empty() && reports.traces.is_empty());
    }
}
