//! The same name on both sides of a process: X-Request-ID, or a trace id without a parent.

use super::carried::{around, innermost};
use super::choose::{choose, Chosen};
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
    /// The same, of several requests with this name the one with the same operation and target.
    same_call: f32,
    /// A host received one and sent the other, as far as a capture shows.
    address: f32,
    /// A span of an SDK within a request that was observed.
    reported: f32,
}

const REQUEST_ID: Trust = Trust { process: 0.95, same_call: 0.85, address: 0.7, reported: 0.6 };
const TRACE_ID: Trust = Trust { process: 0.6, same_call: 0.6, address: 0.5, reported: 0.4 };

/// The span that contains this one and can be its parent. Callers in other processes: see [`super::unseen`].
fn best(span: &Span, list: &[u32], spans: &[Arc<Span>], trust: &Trust) -> Option<(u32, f32)> {
    let other = |p: &Span| same_bytes(p, span).is_none();
    match span.tap {
        TapSide::ClientProcess => {
            let fits = |p: &Span| same_process(p, span) && other(p);
            // The SDK's view of a request lies within the request.
            innermost(list, span, spans, |p| p.tap == TapSide::App && fits(p)).map(|p| (p, trust.process)).or_else(
                || {
                    let all = around(list, span, spans, |p| p.tap == TapSide::ServerProcess && fits(p));
                    let (p, chosen) = choose(span, &all, spans)?;
                    Some((p, if chosen == Chosen::Only { trust.process } else { trust.same_call }))
                },
            )
        }
        TapSide::ServerProcess => None,
        TapSide::App => innermost(list, span, spans, |p| p.tap == TapSide::ServerProcess).map(|p| (p, trust.reported)),
        _ => innermost(list, span, spans, |p| {
            p.tap == span.tap && p.tuple != span.tuple && p.tuple.server.ip == span.tuple.client.ip && other(p)
        })
        .map(|p| (p, trust.address)),
    }
}
