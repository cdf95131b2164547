//! The same name on both sides of a process: X-Request-ID, or a trace id without a parent.

use super::carried::innermost;
use super::{Candidate, Rule};
use crate::related::{same_bytes, same_process};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::{Evidence, Span, TapSide, TraceId};

pub(super) fn propose(spans: &[Arc<Span>], out: &mut Vec<Candidate>) {
    let mut requests: FxHashMap<&str, Vec<u32>> = FxHashMap::default();
    let mut traces: FxHashMap<TraceId, Vec<u32>> = FxHashMap::default();
    for (i, span) in spans.iter().enumerate() {
        if let Some(r) = span.request_id.as_deref().filter(|r| !r.is_empty()) {
            requests.entry(r).or_default().push(i as u32);
        }
        if let Some(t) = span.trace_id {
            traces.entry(t).or_default().push(i as u32);
        }
    }
    for (i, span) in spans.iter().enumerate() {
        let child = i as u32;
        if let Some(list) = span.request_id.as_deref().and_then(|r| requests.get(r)) {
            if let Some((parent, confidence)) = best(span, list, spans, &REQUEST_ID) {
                let (rule, evidence) = (Rule::RequestId, Evidence::RequestId);
                out.push(Candidate { child, parent, rule, evidence, confidence });
            }
        }
        if let Some(list) = span.trace_id.and_then(|t| traces.get(&t)) {
            if let Some((parent, confidence)) = best(span, list, spans, &TRACE_ID) {
                let (rule, evidence) = (Rule::TraceId, Evidence::TraceId);
                out.push(Candidate { child, parent, rule, evidence, confidence });
            }
        }
    }
}

/// Confidence by how parent and child relate.
struct Trust {
    /// A process received one and sent the other.
    process: f32,
    /// A host received one and sent the other, as far as a capture shows.
    address: f32,
    /// A process that was not observed lies between.
    between: f32,
}

const REQUEST_ID: Trust = Trust { process: 0.9, address: 0.7, between: 0.6 };
const TRACE_ID: Trust = Trust { process: 0.6, address: 0.5, between: 0.4 };

/// The innermost span that contains this one and can be its parent.
fn best(span: &Span, list: &[u32], spans: &[Arc<Span>], trust: &Trust) -> Option<(u32, f32)> {
    let other = |p: &Span| same_bytes(p, span).is_none();
    match span.tap {
        TapSide::ClientProcess => innermost(list, span, spans, |p| {
            matches!(p.tap, TapSide::ServerProcess | TapSide::App) && same_process(p, span) && other(p)
        })
        .map(|p| (p, trust.process)),
        TapSide::ServerProcess => innermost(list, span, spans, |p| {
            // The caller was not observed; a proxy that was not observed forwarded the name.
            p.tap == TapSide::ClientProcess && !same_process(p, span) && p.socket != span.socket && other(p)
        })
        .map(|p| (p, trust.between)),
        TapSide::App => innermost(list, span, spans, |p| p.tap == TapSide::ServerProcess).map(|p| (p, trust.between)),
        _ => innermost(list, span, spans, |p| {
            p.tap == span.tap && p.tuple != span.tuple && p.tuple.server.ip == span.tuple.client.ip && other(p)
        })
        .map(|p| (p, trust.address)),
    }
}
