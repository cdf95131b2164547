//! Assembly until `wirespan-trace` lands.
use crate::error::ApiError;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::{Evidence, ParentLink, Span, SpanId, TapSide, Trace, TraceId, TraceSpan};
use wirespan_store::{Store, TimeRange};

pub(crate) fn assemble(store: &dyn Store, from: SpanId) -> Result<Trace, ApiError> {
    let first = store.span(from)?.ok_or_else(|| ApiError::not_found(format!("no span {from}")))?;
    let mut all: FxHashMap<SpanId, Arc<Span>> = FxHashMap::default();
    let mut front = vec![first];
    while !front.is_empty() && all.len() < 10_000 {
        let mut keys = Vec::new();
        for s in front.drain(..) {
            keys.extend(s.keys());
            all.insert(s.id, s);
        }
        front = store.find(&keys, TimeRange::ALL, 10_000)?.into_iter().filter(|s| !all.contains_key(&s.id)).collect();
    }
    let mut links: FxHashMap<SpanId, ParentLink> = FxHashMap::default();
    for child in all.values() {
        for p in all.values().filter(|p| p.id != child.id) {
            if child.tap == TapSide::ServerProcess && p.tap == TapSide::ClientProcess {
                if p.wire_keys().iter().any(|k| child.wire_keys().contains(k)) {
                    links.insert(child.id, ParentLink { parent: p.id, evidence: Evidence::Wire, confidence: 1.0 });
                }
            } else if child.cause.is_some_and(|c| p.exchange.is_some_and(|e| e.contains(c)))
                && p.tap == TapSide::ServerProcess
            {
                let evidence = child.cause_evidence.unwrap_or(Evidence::Thread);
                links.insert(child.id, ParentLink { parent: p.id, evidence, confidence: 0.95 });
            }
        }
    }
    let mut order: Vec<Arc<Span>> = all.values().cloned().collect();
    order.sort_by_key(|s| (s.start_ns, s.id));
    let mut spans = Vec::new();
    let mut stack: Vec<(Arc<Span>, u32)> =
        order.iter().rev().filter(|s| !links.contains_key(&s.id)).map(|s| (Arc::clone(s), 0)).collect();
    while let Some((s, depth)) = stack.pop() {
        for c in order.iter().rev().filter(|c| links.get(&c.id).is_some_and(|l| l.parent == s.id)) {
            stack.push((Arc::clone(c), depth + 1));
        }
        spans.push(TraceSpan { link: links.get(&s.id).copied(), span: s, depth });
    }
    let root = spans.first().map_or(0, |s| s.span.id.0);
    Ok(Trace { id: TraceId(u128::from(root).to_be_bytes()), spans, complete: true })
}
