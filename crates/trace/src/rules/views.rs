//! One call, seen twice: by the SDK as a client span, and at the socket. The socket's view goes below the SDK's.
//!
//! A call of HTTP or gRPC carries the SDK's span, and needs no rule. SQL, Redis and other protocols carry nothing: the
//! two views would stand side by side under the same request.

use super::adopt::Sdk;
use super::{before, Candidate, Rule};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::{Evidence, Span, SpanKind, TapSide};

/// How far the clocks of an SDK and of the kernel may differ on one host, ns.
const SLACK_NS: u64 = 1_000_000;

/// `caused`: the request of each call, `adopted`: the SDK's roots with the request below which they stand.
pub(super) fn propose(
    spans: &[Arc<Span>],
    sdk: &Sdk,
    caused: &FxHashMap<u32, u32>,
    adopted: &FxHashMap<u32, u32>,
    out: &mut Vec<Candidate>,
) {
    let mut views: FxHashMap<&str, Vec<u32>> = FxHashMap::default();
    for (i, span) in spans.iter().enumerate() {
        if span.tap == TapSide::App && matches!(span.kind, SpanKind::Client | SpanKind::Producer) {
            views.entry(&span.protocol).or_default().push(i as u32);
        }
    }
    if views.is_empty() {
        return;
    }
    for (&call, &request) in caused {
        let span = &spans[call as usize];
        let Some(list) = views.get(&*span.protocol).filter(|_| span.parent_span_id.is_none()) else { continue };
        let is_for_request = |view: u32| {
            let top = sdk.top_of_service(view, spans);
            let carried = spans[top as usize].parent_span_id;
            adopted.get(&top) == Some(&request)
                || (carried.is_some() && carried == spans[request as usize].parent_span_id)
        };
        let until = span.start_ns.saturating_add(SLACK_NS);
        let holds = |view: u32| spans[view as usize].end_ns.saturating_add(SLACK_NS) >= span.end_ns;
        let mut latest_first = before(list, spans, until).iter().rev().copied();
        let Some(parent) = latest_first.find(|view| holds(*view) && is_for_request(*view)) else { continue };
        let evidence = span.cause_evidence.unwrap_or(Evidence::Thread);
        let confidence = super::cause::confidence(span, evidence);
        out.push(Candidate { child: call, parent, rule: Rule::View, evidence, confidence });
    }
}
