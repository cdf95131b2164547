//! In which span of its SDK each thread was, as its process publishes it (OTEP 4947): so the span has a thread, and the
//! request for which the thread acted then.

use super::{Caller, Explainer};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::sdk::SdkSpan;
use wirespan_model::{SpanId, TraceId};

/// Most spans that are remembered.
const MOST: usize = 50_000;

type Id = (TraceId, SpanId);

/// What was seen of a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) pid: u32,
    /// The thread that was first seen in it; 0: several were.
    pub(super) tid: u32,
    /// The request for which that thread acted.
    pub(super) caller: Option<Caller>,
}

#[derive(Debug, Default)]
pub(super) struct Contexts {
    seen: FxHashMap<Id, Seen>,
    /// Oldest first.
    order: VecDeque<Id>,
}

impl Contexts {
    fn add(&mut self, host_id: u64, span: &SdkSpan) {
        let id = (span.trace_id, span.span_id);
        let caller = (span.cause != 0).then_some(Caller::Exchange(host_id, span.pid, span.cause));
        if let Some(seen) = self.seen.get_mut(&id) {
            seen.caller = seen.caller.or(caller);
            if seen.tid != span.tid {
                seen.tid = 0;
            }
            return;
        }
        self.seen.insert(id, Seen { pid: span.pid, tid: span.tid, caller });
        self.order.push_back(id);
        if self.order.len() > MOST {
            self.order.pop_front().and_then(|oldest| self.seen.remove(&oldest));
        }
    }

    pub(super) fn of(&self, trace: TraceId, span: SpanId) -> Option<&Seen> {
        self.seen.get(&(trace, span))
    }
}

impl Explainer {
    /// Takes in which spans of SDKs threads of a host were.
    pub fn sdk_spans(&mut self, host_id: u64, spans: &[SdkSpan]) {
        spans.iter().for_each(|span| self.contexts.add(host_id, span));
    }
}
