//! A request that something unseen forwarded: a proxy or a host that is not traced, or a connection that cannot be
//! read (QUIC between two proxies). The caller's message and the called process's message then carry the same name.
//!
//! Names, from the strongest to the weakest: the parent span in a trace context (each call has its own), X-Request-ID
//! (one for all calls of a request), the trace id. A name can repeat (retries, a fan-out, a client that never changes
//! it), so a link needs exactly one caller that fits in time, by its call, or as the nearest of a chain
//! ([`super::choose`]). Where two callers fit equally well there is no link.

use super::carried::around;
use super::choose::{choose, is_other_method, is_same_call, Chosen};
use super::{Candidate, Rule};
use crate::related::{handled_until, has_address, same_bytes, same_process};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;
use wirespan_model::key::hash64;
use wirespan_model::{Evidence, Span, TapSide};

/// What two spans have in common; the order is the order of trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    Parent(u64),
    Request(u64),
    Trace(u64),
}

fn names(span: &Span) -> SmallVec<[Name; 3]> {
    let parent = span.parent_span_id.map(|p| Name::Parent(p.0));
    let request = span.request_id.as_deref().filter(|r| !r.is_empty());
    let request = request.map(|r| Name::Request(hash64(&[r.as_bytes()])));
    let trace = span.trace_id.map(|t| Name::Trace(hash64(&[&t.0])));
    parent.into_iter().chain(request).chain(trace).collect()
}

impl Name {
    /// Rule, evidence and confidence of a link, by what was chosen: a call whose other end was not seen, or (where
    /// there is none) a request in whose time this one lies.
    fn trust(self, is_call: bool, chosen: Chosen) -> Option<(Rule, Evidence, f32)> {
        let pick = |[only, same, nearest]: [f32; 3]| match chosen {
            Chosen::Only => only,
            Chosen::SameCall => same,
            Chosen::Nearest => nearest,
        };
        match (self, is_call) {
            (Name::Parent(_), true) => Some((Rule::Forwarded, Evidence::Forwarded, pick([0.97, 0.95, 0.8]))),
            (Name::Parent(_), false) => Some((Rule::RequestId, Evidence::Forwarded, pick([0.75, 0.75, 0.6]))),
            (Name::Request(_), true) => Some((Rule::RequestId, Evidence::Forwarded, pick([0.9, 0.85, 0.6]))),
            (Name::Request(_), false) => Some((Rule::RequestId, Evidence::Forwarded, pick([0.7, 0.7, 0.55]))),
            (Name::Trace(_), true) => Some((Rule::TraceId, Evidence::TraceId, pick([0.6, 0.6, 0.5]))),
            (Name::Trace(_), false) => None,
        }
    }
}

/// What the other rules have found so far.
#[derive(Default)]
struct Known {
    /// Requests whose caller was seen at the other end of the connection.
    received: FxHashSet<u32>,
    /// Calls whose other end was seen. Nothing unseen forwarded them.
    arrived: FxHashSet<u32>,
    /// The call at the other end of a request's connection.
    callers: FxHashMap<u32, u32>,
    /// Calls with a parent.
    made: FxHashSet<u32>,
}

impl Known {
    fn of(found: &[Candidate], spans: &[Arc<Span>]) -> Self {
        let wire = found.iter().filter(|c| c.rule == Rule::Wire);
        let up: FxHashMap<u32, u32> = wire.map(|c| (c.child, c.parent)).collect();
        let mut known = Known { received: up.keys().copied().collect(), ..Known::default() };
        for (i, span) in spans.iter().enumerate().filter(|(_, s)| s.tap == TapSide::ServerProcess) {
            let mut at = i as u32;
            // The way from the called process to its caller has at most as many observation points as there are sides.
            for _ in 0..TapSide::Capture as u8 {
                let Some(next) = up.get(&at) else { break };
                at = *next;
            }
            if spans[at as usize].tap < span.tap {
                known.arrived.insert(at);
                known.callers.insert(i as u32, at);
            }
        }
        known.made = found.iter().filter(|c| c.rule != Rule::TraceId).map(|c| c.child).collect();
        known
    }
}

/// A request for which several calls fit.
struct Open {
    child: u32,
    name: Name,
    fits: Vec<u32>,
}

/// Proposes callers; `out` has the proposals of the other rules.
pub(super) fn propose(spans: &[Arc<Span>], out: &mut Vec<Candidate>) {
    let mut lists: FxHashMap<Name, Vec<u32>> = FxHashMap::default();
    for (i, span) in spans.iter().enumerate().filter(|(_, s)| is_at_process(s)) {
        names(span).into_iter().for_each(|name| lists.entry(name).or_default().push(i as u32));
    }
    lists.retain(|_, list| list.len() > 1);
    if lists.is_empty() {
        return;
    }
    let known = Known::of(out, spans);
    let mut taken: FxHashSet<u32> = FxHashSet::default();
    let mut open: Vec<Open> = Vec::new();
    for (i, span) in spans.iter().enumerate() {
        let child = i as u32;
        let is_open = match span.tap {
            TapSide::ServerProcess => !known.received.contains(&child),
            // The kernel names a request of the process itself, also if the span of that request did not come.
            TapSide::ClientProcess => {
                let named = span.cause.is_some() && span.cause_evidence != Some(Evidence::Inferred);
                !named && !known.made.contains(&child)
            }
            _ => false,
        };
        if !is_open {
            continue;
        }
        for name in names(span) {
            let Some(list) = lists.get(&name) else { continue };
            match caller(child, span, name, list, spans, &known) {
                Found::Caller(candidate) => {
                    taken.insert(candidate.parent);
                    out.push(candidate);
                    break;
                }
                Found::Several(fits) => {
                    open.push(Open { child, name, fits });
                    break;
                }
                Found::Nothing => {}
            }
        }
    }
    settle_rest(open, &taken, out);
}

fn is_at_process(span: &Span) -> bool {
    matches!(span.tap, TapSide::ClientProcess | TapSide::ServerProcess)
}

enum Found {
    Caller(Candidate),
    Several(Vec<u32>),
    Nothing,
}

fn caller(child: u32, span: &Span, name: Name, list: &[u32], spans: &[Arc<Span>], known: &Known) -> Found {
    // The process itself has received the name: which of its requests made this call is for other rules.
    if span.tap == TapSide::ClientProcess
        && list
            .iter()
            .any(|p| spans[*p as usize].tap == TapSide::ServerProcess && same_process(&spans[*p as usize], span))
    {
        return Found::Nothing;
    }
    let fits = |parent: &Span| {
        // Whatever the clocks of two hosts say, the caller waits longer than the called process works.
        handled_until(parent).saturating_sub(parent.start_ns) >= span.duration_ns()
            && !same_process(parent, span)
            && (parent.socket != span.socket || parent.host_id != span.host_id)
            && same_bytes(parent, span).is_none()
            && !is_other_method(parent, span)
    };
    let all = around(list, span, spans, fits);
    let is_call = |p: &u32| spans[*p as usize].tap == TapSide::ClientProcess;
    let calls: Vec<u32> = all.iter().copied().filter(|p| is_call(p) && !known.arrived.contains(p)).collect();
    let of_calls = !calls.is_empty();
    // Without such a call, a proxy's own request: what it sent could not be read. A proxy keeps method and path.
    let is_sibling = |p: &u32| {
        let caller = known.callers.get(p).map(|c| &spans[*c as usize]);
        caller.is_some_and(|c| same_process(c, span)) || has_same_way(&spans[*p as usize], span)
    };
    let is_request = |p: &u32| !is_call(p) && is_same_call(&spans[*p as usize], span) && !is_sibling(p);
    let among = if of_calls { calls } else { all.into_iter().filter(is_request).collect() };
    match choose(span, &among, spans) {
        Some((parent, chosen)) => match name.trust(of_calls, chosen) {
            Some((rule, evidence, confidence)) => {
                Found::Caller(Candidate { child, parent, rule, evidence, confidence })
            }
            None => Found::Nothing,
        },
        None if of_calls => Found::Several(among),
        None => Found::Nothing,
    }
}

/// Whether two requests go to the same server, or come from the same host, by their addresses: a client sends the same
/// name with both, and neither is the other one, forwarded. Addresses of one host in common say nothing of who sent.
fn has_same_way(a: &Span, b: &Span) -> bool {
    let ([from, to], of) = ([a.tuple.client, a.tuple.server], b.tuple);
    has_address(a) && has_address(b) && (to == of.server || (from.ip == of.client.ip && from.ip != to.ip))
}

/// Gives a request the one call that fits and that no other request took, if no other request asks for it.
fn settle_rest(open: Vec<Open>, taken: &FxHashSet<u32>, out: &mut Vec<Candidate>) {
    let mut wanted: FxHashMap<u32, Vec<(u32, Name)>> = FxHashMap::default();
    for each in open {
        let mut left = each.fits.iter().filter(|p| !taken.contains(p));
        if let (Some(parent), None) = (left.next(), left.next()) {
            wanted.entry(*parent).or_default().push((each.child, each.name));
        }
    }
    let mut wanted: Vec<_> = wanted.into_iter().collect();
    wanted.sort_unstable_by_key(|(parent, _)| *parent);
    for (parent, children) in wanted {
        let [(child, name)] = children.as_slice() else { continue };
        if let Some((rule, evidence, confidence)) = name.trust(true, Chosen::Nearest) {
            out.push(Candidate { child: *child, parent, rule, evidence, confidence });
        }
    }
}
