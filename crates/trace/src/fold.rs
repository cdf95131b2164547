//! Keeps drivers' housekeeping out of a trace's tree: the call to which it belongs says how much of it there was.
//!
//! Housekeeping folds into a call that was made for the same request on the same connection: what prepares or sets up
//! into the next one, what closes or resets into the last one. Without such a call it stays: a ping may be all that a
//! handler does. What failed, or took long, may be why a request failed or was slow, and stays, too. So nothing that a
//! request did is lost from its trace.

use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;
use wirespan_model::housekeeping::{is_nameless_push, is_probe, is_unknown_option};
use wirespan_model::{Evidence, Housekeeping, Span, SpanId, TapSide, Trace, TraceSpan, Value};

/// Housekeeping of a request that took this long stays in its trace, ns.
const LONG_NS: u64 = 100_000_000;

/// Whether the trace has nothing but housekeeping, port probes or nameless pushes, and no housekeeping failed.
pub fn is_noise(trace: &Trace) -> bool {
    let quiet = |s: &Span| Housekeeping::of(s).is_some() && !has_failed(s);
    trace.spans.iter().all(|s| quiet(&s.span) || is_probe(&s.span) || is_nameless_push(&s.span))
}

/// What was folded into a call.
#[derive(Default)]
struct Folded {
    count: i64,
    ns: i64,
    operations: Vec<String>,
}

/// Folds the housekeeping of a trace. Returns how many spans it takes out.
pub fn fold(trace: &mut Trace) -> usize {
    let kinds: Vec<Option<Housekeeping>> = trace.spans.iter().map(|s| kind(&s.span)).collect();
    if kinds.iter().all(Option::is_none) {
        return 0;
    }
    let at: FxHashMap<SpanId, usize> = trace.spans.iter().enumerate().map(|(i, s)| (s.span.id, i)).collect();
    let parents: Vec<Option<usize>> =
        trace.spans.iter().map(|s| s.link.and_then(|link| at.get(&link.parent).copied())).collect();
    let leaves = without_work_below(&kinds, &parents);
    let mut into: Vec<Option<usize>> = vec![None; trace.spans.len()];
    let connections = connections(&trace.spans, &parents, &kinds);
    for calls in connections.values() {
        for (place, &i) in calls.iter().enumerate() {
            let Some(kind) = kinds[i].filter(|_| leaves[i]) else { continue };
            into[i] = neighbour(kind, place, calls, &kinds, &leaves);
        }
        gather(&trace.spans, calls, &kinds, &leaves, &mut into);
    }
    // The same message at another point of its way goes where the first one goes. A parent stands before its children.
    let mut gone: Vec<bool> = into.iter().map(Option::is_some).collect();
    for i in 0..gone.len() {
        gone[i] |= kinds[i].is_some() && parents[i].is_some_and(|p| gone[p]);
    }
    let mut all: FxHashMap<usize, Folded> = FxHashMap::default();
    for (i, host) in into.iter().enumerate() {
        if let Some(host) = host {
            all.entry(*host).or_default().add(&trace.spans[i].span);
        }
    }
    for (host, folded) in all {
        folded.write(Arc::make_mut(&mut trace.spans[host].span));
    }
    let before = trace.spans.len();
    let mut gone = gone.into_iter();
    trace.spans.retain(|_| !gone.next().unwrap_or_default());
    before - trace.spans.len()
}

fn kind(span: &Span) -> Option<Housekeeping> {
    Housekeeping::of(span).filter(|_| !has_failed(span) && span.duration_ns() < LONG_NS)
}

fn has_failed(span: &Span) -> bool {
    span.status.is_error(span.kind) && !is_unknown_option(span)
}

/// Which housekeeping has nothing but itself below it.
fn without_work_below(kinds: &[Option<Housekeeping>], parents: &[Option<usize>]) -> Vec<bool> {
    let mut leaves: Vec<bool> = kinds.iter().map(Option::is_some).collect();
    for i in (0..kinds.len()).rev() {
        if let Some(parent) = parents[i].filter(|_| !leaves[i]) {
            leaves[parent] = false;
        }
    }
    leaves
}

/// Host, connection, observation point, request.
type Place = (u64, u64, TapSide, Option<usize>);

/// The calls that were made for one request on one connection, in order of start. The same message at another point of
/// its way is not among them.
fn connections(
    spans: &[TraceSpan],
    parents: &[Option<usize>],
    kinds: &[Option<Housekeeping>],
) -> FxHashMap<Place, Vec<usize>> {
    let mut all: FxHashMap<Place, Vec<usize>> = FxHashMap::default();
    for (i, TraceSpan { span, link, .. }) in spans.iter().enumerate() {
        let again = link.is_some_and(|l| l.evidence == Evidence::Wire) && kinds[i].is_some();
        if span.socket != 0 && !again {
            all.entry((span.host_id, span.socket, span.tap, parents[i])).or_default().push(i);
        }
    }
    all.retain(|_, calls| calls.len() > 1);
    all.values_mut().for_each(|calls| calls.sort_by_key(|i| spans[*i].span.start_ns));
    all
}

/// The call to which housekeeping belongs.
fn neighbour(
    kind: Housekeeping,
    place: usize,
    calls: &[usize],
    kinds: &[Option<Housekeeping>],
    leaves: &[bool],
) -> Option<usize> {
    let works = |i: &&usize| kinds[**i].is_none() || !leaves[**i];
    let next = calls[place + 1..].iter().find(works).copied();
    let last = || calls[..place].iter().rev().find(works).copied();
    match kind {
        Housekeeping::Ping | Housekeeping::Before => next.or_else(last),
        Housekeeping::After => last().or(next),
    }
}

/// A connection on which no call was made is one span: the ping for which it was there, else the log-in, else the
/// longest of them. Each ping stays.
fn gather(
    spans: &[TraceSpan],
    calls: &[usize],
    kinds: &[Option<Housekeeping>],
    leaves: &[bool],
    into: &mut [Option<usize>],
) {
    let left = |i: &usize| into[*i].is_none() && leaves[*i];
    let is_ping = |i: &usize| kinds[*i] == Some(Housekeeping::Ping);
    let rest: Vec<usize> = calls.iter().copied().filter(left).collect();
    let rank = |i: &usize| {
        let span = &spans[*i].span;
        (is_ping(i), matches!(&*span.operation, "STARTUP" | "LOGIN"), span.duration_ns())
    };
    let Some(first) = rest.iter().copied().max_by_key(rank) else { return };
    rest.into_iter().filter(|i| *i != first && !is_ping(i)).for_each(|i| into[i] = Some(first));
}

impl Folded {
    fn add(&mut self, span: &Span) {
        self.count += 1;
        self.ns += i64::try_from(span.duration_ns()).unwrap_or(i64::MAX);
        let name = if span.operation.is_empty() { span.protocol.to_string() } else { span.operation.to_string() };
        if !self.operations.contains(&name) {
            self.operations.push(name);
        }
    }

    fn write(self, span: &mut Span) {
        let mut set = |key: &'static str, value: Value| span.attrs.push((Cow::Borrowed(key), value));
        set("wirespan.housekeeping.count", Value::Int(self.count));
        set("wirespan.housekeeping.duration_ns", Value::Int(self.ns));
        set("wirespan.housekeeping.operations", self.operations.join(", ").into());
    }
}
