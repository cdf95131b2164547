//! Context in the message names the parent.

use super::{before, Candidate, Rule};
use crate::related::{contains, same_process, tolerance};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::{Evidence, Span, SpanId, SpanKind, TapSide};

pub(super) fn propose(spans: &[Arc<Span>], caused: &FxHashMap<u32, u32>, out: &mut Vec<Candidate>) {
    let mut by_id: FxHashMap<SpanId, u32> = FxHashMap::default();
    let mut servers: FxHashMap<SpanId, Vec<u32>> = FxHashMap::default();
    for (i, span) in spans.iter().enumerate() {
        by_id.insert(span.id, i as u32);
        if let (TapSide::ServerProcess, Some(p)) = (span.tap, span.parent_span_id) {
            servers.entry(p).or_default().push(i as u32);
        }
    }
    let mut push = |child: usize, parent: u32, rule, evidence, confidence| {
        out.push(Candidate { child: child as u32, parent, rule, evidence, confidence });
    };
    for (i, span) in spans.iter().enumerate() {
        let Some(named) = span.parent_span_id.filter(|p| *p != span.id) else { continue };
        let carriers = servers.get(&named).map(Vec::as_slice).unwrap_or_default();
        if span.tap == TapSide::App {
            // The parent named by an SDK's server span is the caller. The socket that received the same message is
            // nearer.
            if span.kind == SpanKind::Server {
                if let Some(p) = innermost(carriers, span, spans, |p| same_trace(p, span)) {
                    push(i, p, Rule::Carried, Evidence::Carried, 1.0);
                    continue;
                }
            }
        } else if span.tap != TapSide::ServerProcess {
            // A proxy forwarded the context unchanged. The message then names the proxy's caller, and the proxy's own
            // span is nearer.
            let forwarded = |p: &Span| p.parent_span_id == Some(named);
            if caused.get(&(i as u32)).is_some_and(|p| forwarded(&spans[*p as usize])) {
                continue;
            }
            if let Some(p) = innermost(carriers, span, spans, |p| same_process(p, span)) {
                push(i, p, Rule::Carried, Evidence::TraceId, 0.8);
                continue;
            }
        }
        if let Some(&p) = by_id.get(&named) {
            if same_trace(&spans[p as usize], span) {
                push(i, p, Rule::Carried, Evidence::Carried, 1.0);
            }
        }
    }
}

fn same_trace(a: &Span, b: &Span) -> bool {
    match (a.trace_id, b.trace_id) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    }
}

/// The latest of a list that contains the span and satisfies `fits`.
pub(super) fn innermost(list: &[u32], span: &Span, spans: &[Arc<Span>], fits: impl Fn(&Span) -> bool) -> Option<u32> {
    latest_first(list, span, spans, fits).next()
}

/// Those of a list that contain the span and satisfy `fits`, in order of start.
pub(super) fn around(list: &[u32], span: &Span, spans: &[Arc<Span>], fits: impl Fn(&Span) -> bool) -> Vec<u32> {
    let mut all: Vec<u32> = latest_first(list, span, spans, fits).collect();
    all.reverse();
    all
}

fn latest_first<'a>(
    list: &'a [u32],
    span: &'a Span,
    spans: &'a [Arc<Span>],
    fits: impl Fn(&Span) -> bool + 'a,
) -> impl Iterator<Item = u32> + 'a {
    let until = span.start_ns.saturating_add(100_000_000);
    before(list, spans, until).iter().rev().copied().filter(move |p| {
        let parent = &spans[*p as usize];
        parent.id != span.id
            && parent.start_ns <= span.start_ns.saturating_add(tolerance(parent, span))
            && contains(parent, span)
            && fits(parent)
    })
}
