//! Causes seen by the kernel: a client span's parent is the server span that owns the exchange, or the span that
//! received the message from a broker.

use super::{Candidate, Rule, LOOK};
use crate::related::{causes_nothing, handled_until, is_datagram_connection, tolerance, AFTERMATH_NS};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::broker::{asks_for_messages, brings_work, is_delivery};
use wirespan_model::{Evidence, Span};

/// Time after a response within which a call still counts as made while answering, ns.
const SLACK_NS: u64 = 10_000_000;
/// Time after a response within which a call still probably belongs to the request, ns.
const SOON_NS: u64 = 1_000_000_000;
/// How sure that is where the program's runtime says which of its actors calls.
const SAID: f32 = 0.9;

/// Confidence of a cause by its kind of evidence, if it was not judged (see `solve`). What an event loop claims is
/// handed on without a judgement only where many such claims in a row were right.
pub(crate) fn trust(evidence: Evidence) -> f32 {
    match evidence {
        Evidence::Thread | Evidence::Coroutine | Evidence::EventLoop | Evidence::Broker => 0.98,
        Evidence::ChildTask => 0.92,
        Evidence::Connect => 0.95,
        Evidence::WakeUp => 0.8,
        _ => 0.6,
    }
}

/// The confidence of a cause, if nothing speaks against it.
pub(super) fn confidence(span: &Span, evidence: Evidence) -> f32 {
    crate::solve::confidence(span).unwrap_or_else(|| trust(evidence))
}

/// Proposes parents; returns the proposed parent of each span.
pub(super) fn propose(spans: &[Arc<Span>], out: &mut Vec<Candidate>) -> FxHashMap<u32, u32> {
    let mut owners: FxHashMap<(u64, u64), Vec<u32>> = FxHashMap::default();
    for (i, span) in spans.iter().enumerate().filter(|(_, span)| !causes_nothing(span)) {
        for x in span.exchanges() {
            owners.entry((span.host_id, x)).or_default().push(i as u32);
        }
    }
    let mut found = FxHashMap::default();
    for (i, span) in spans.iter().enumerate().filter(|(_, span)| !is_datagram_connection(span)) {
        let Some(list) = span.cause.and_then(|c| owners.get(&(span.host_id, c))) else { continue };
        let named = crate::solve::request(span);
        let named = named.and_then(|id| list.iter().find(|p| spans[**p as usize].id == id));
        let owner = named.map(|p| (*p, 1.0)).or_else(|| owner(i as u32, span, list, spans));
        let owner = owner.or_else(|| delivery(span, list, spans).map(|p| (p, 1.0)));
        let Some((parent, factor)) = owner else { continue };
        let evidence = span.cause_evidence.unwrap_or(Evidence::Thread);
        // One call read several requests of a multiplexed connection. The cause is one of them, but it is not known
        // which one.
        let together = factor < 1.0 && spans[parent as usize].message_id.is_some();
        let evidence = if together { Evidence::Inferred } else { evidence };
        if guess_refuted(evidence, span, &spans[parent as usize]) {
            continue;
        }
        found.insert(i as u32, parent);
        let confidence = confidence(span, evidence) * factor;
        let rule = if evidence == Evidence::Inferred { Rule::Guess } else { Rule::Cause };
        out.push(Candidate { child: i as u32, parent, rule, evidence, confidence });
    }
    found
}

/// An inferred cause is refuted if both messages carry a trace id and the ids differ.
fn guess_refuted(evidence: Evidence, span: &Span, parent: &Span) -> bool {
    evidence == Evidence::Inferred
        && matches!((span.trace_id, parent.trace_id), (Some(own), Some(other)) if own != other)
}

/// The latest span that received work from a broker before this call. A fetch may have brought no messages, so it is
/// skipped. If one call read several messages, their spans are ambiguous and none is the cause.
fn delivery(span: &Span, list: &[u32], spans: &[Arc<Span>]) -> Option<u32> {
    let read_ns = |p: &Span| if asks_for_messages(p) { p.end_ns } else { p.start_ns };
    let brought = |p: &Span| {
        brings_work(p) && p.start_ns <= span.start_ns && span.start_ns <= read_ns(p).saturating_add(AFTERMATH_NS)
    };
    let mut all = list.iter().rev().filter(|p| brought(&spans[**p as usize]));
    let last = *all.next()?;
    let together = all.next().is_some_and(|p| read_ns(&spans[*p as usize]) == read_ns(&spans[last as usize]));
    (!together && !asks_for_messages(span)).then_some(last)
}

/// Which owner of the exchange is the cause, and how sure that is. Pipelined requests share an exchange. A thread
/// answers them one after the other, so a call belongs to the request whose answer ends next. After the answer, what
/// the runtime says of its own actor is believed more than what a thread did before.
fn owner(child: u32, span: &Span, list: &[u32], spans: &[Arc<Span>]) -> Option<(u32, f32)> {
    let from = list.partition_point(|i| spans[*i as usize].start_ns <= span.start_ns);
    // Owners read in one call may start within the tolerance behind.
    let window = &list[from.saturating_sub(LOOK)..(from + 4).min(list.len())];
    let mut inside: Option<(u64, u32)> = None;
    let mut insiders = 0_u32;
    let mut past: Option<(u64, u32)> = None;
    for &p in window
        .iter()
        .filter(|p| **p != child && !asks_for_messages(&spans[**p as usize]) && !is_delivery(&spans[**p as usize]))
    {
        let parent = &spans[p as usize];
        if parent.start_ns > span.start_ns.saturating_add(tolerance(parent, span)) {
            continue;
        }
        let until = handled_until(parent);
        if span.start_ns <= until.saturating_add(SLACK_NS) {
            insiders += 1;
            // A request that ended before the call began, but within the slack, is taken only if no other request fits.
            let rank = if span.start_ns <= until { until } else { u64::MAX - SLACK_NS + (span.start_ns - until) };
            if inside.is_none_or(|best| (rank, p) < best) {
                inside = Some((rank, p));
            }
        } else if past.is_none_or(|best| (until, p) > best) {
            past = Some((until, p));
        }
    }
    if let Some((_, p)) = inside {
        let factor = match insiders {
            1 => 1.0,
            // Requests of a multiplexed connection are answered in any order: of 219 such guesses between two 71 were
            // right.
            several if spans[p as usize].message_id.is_some() => 1.0 / several as f32,
            _ => 0.8,
        };
        return Some((p, factor));
    }
    let (until, p) = past?;
    match span.start_ns - until {
        late if late <= SOON_NS && span.cause_evidence == Some(Evidence::Coroutine) => Some((p, SAID)),
        late if late <= SOON_NS => Some((p, 0.6)),
        late if late <= AFTERMATH_NS => Some((p, 0.3)),
        _ => None,
    }
}
