//! An SDK's root span inside a request that was observed.
//!
//! If a request carries no context, the SDK of the serving process begins a trace of its own, and the server span seen
//! at the socket carries no id of that trace. A call of the process joins the two: the call's message names an SDK span
//! as its parent, and the kernel saw the request on whose behalf it was sent. So the highest ancestor of that SDK span
//! within the same service belongs under that request.

use super::{Candidate, Rule};
use crate::related::contains;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::{Evidence, Span, SpanId, TapSide};

/// Most ancestors that are followed. The bound ends the search if SDK spans name each other in a circle.
const CLIMB: usize = 64;
/// Factor on the confidence of a cause, because the link is indirect.
const DETOUR: f32 = 0.85;

pub(super) fn propose(spans: &[Arc<Span>], caused: &FxHashMap<u32, u32>, out: &mut Vec<Candidate>) {
    let apps: FxHashMap<SpanId, u32> =
        spans.iter().enumerate().filter(|(_, s)| s.tap == TapSide::App).map(|(i, s)| (s.id, i as u32)).collect();
    if apps.is_empty() {
        return;
    }
    let mut calls: Vec<(u32, u32)> = caused.iter().map(|(call, request)| (*call, *request)).collect();
    calls.sort_unstable();
    for (call, request) in calls {
        let call = &spans[call as usize];
        let Some(top) = call.parent_span_id.and_then(|p| apps.get(&p)).and_then(|i| top(*i, spans, &apps)) else {
            continue;
        };
        if contains(&spans[request as usize], &spans[top as usize]) {
            let evidence = call.cause_evidence.unwrap_or(Evidence::Thread);
            out.push(Candidate { child: top, parent: request, rule: Rule::Cause, evidence, confidence: DETOUR });
        }
    }
}

/// The highest ancestor of the same service, if it is a root.
fn top(mut at: u32, spans: &[Arc<Span>], apps: &FxHashMap<SpanId, u32>) -> Option<u32> {
    let service = spans[at as usize].resource.service.clone();
    for _ in 0..CLIMB {
        let Some(named) = spans[at as usize].parent_span_id else { return Some(at) };
        let up = *apps.get(&named)?;
        if spans[up as usize].resource.service != service {
            return None;
        }
        at = up;
    }
    None
}
