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

/// The SDK spans of a set, by id.
pub(super) struct Sdk(FxHashMap<SpanId, u32>);

impl Sdk {
    pub(super) fn of(spans: &[Arc<Span>]) -> Self {
        Sdk(spans.iter().enumerate().filter(|(_, s)| s.tap == TapSide::App).map(|(i, s)| (s.id, i as u32)).collect())
    }

    /// The highest ancestor of an SDK span within its service.
    pub(super) fn top_of_service(&self, mut at: u32, spans: &[Arc<Span>]) -> u32 {
        let service = &spans[at as usize].resource.service;
        for _ in 0..CLIMB {
            let up = spans[at as usize].parent_span_id.and_then(|named| self.0.get(&named));
            match up {
                Some(up) if spans[*up as usize].resource.service == *service => at = *up,
                _ => break,
            }
        }
        at
    }
}

/// Returns the request below which each of the SDK's roots stands.
pub(super) fn propose(
    spans: &[Arc<Span>],
    sdk: &Sdk,
    caused: &FxHashMap<u32, u32>,
    out: &mut Vec<Candidate>,
) -> FxHashMap<u32, u32> {
    let mut adopted = FxHashMap::default();
    if sdk.0.is_empty() {
        return adopted;
    }
    let mut calls: Vec<(u32, u32)> = caused.iter().map(|(call, request)| (*call, *request)).collect();
    calls.sort_unstable();
    for (call, request) in calls {
        let call = &spans[call as usize];
        let Some(view) = call.parent_span_id.and_then(|p| sdk.0.get(&p)) else { continue };
        let top = sdk.top_of_service(*view, spans);
        let is_root = spans[top as usize].parent_span_id.is_none();
        if is_root && contains(&spans[request as usize], &spans[top as usize]) {
            let evidence = call.cause_evidence.unwrap_or(Evidence::Thread);
            out.push(Candidate { child: top, parent: request, rule: Rule::Cause, evidence, confidence: DETOUR });
            adopted.entry(top).or_insert(request);
        }
    }
    adopted
}
