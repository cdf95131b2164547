//! Candidates → links that form a forest → traces in depth-first order.

use crate::related::AFTERMATH_NS;
use crate::rules::{candidates, Candidate};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::key::hash64;
use wirespan_model::{Evidence, ParentLink, Span, SpanId, TapSide, Trace, TraceId, TraceSpan};

/// Disjoint sets with path halving.
pub(crate) struct Sets(Vec<u32>);

impl Sets {
    pub(crate) fn new(n: usize) -> Self {
        Sets((0..n as u32).collect())
    }

    pub(crate) fn find(&mut self, mut i: u32) -> u32 {
        while self.0[i as usize] != i {
            let up = self.0[self.0[i as usize] as usize];
            self.0[i as usize] = up;
            i = up;
        }
        i
    }

    /// Joins two sets; false if they were one already. The smaller index leads, so that the result does not depend on
    /// the order of the calls.
    pub(crate) fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return false;
        }
        self.0[a.max(b) as usize] = a.min(b);
        true
    }
}

/// A canonical order of spans: by time, then place on the path, then by the order of bytes and streams on the
/// connection (of calls that left in one write), then id. It does not depend on how the spans were found.
fn canonical(spans: &mut Vec<Arc<Span>>) {
    let order = |s: &Arc<Span>| (s.start_ns, s.tap, s.socket, s.request_seq, s.message_id, s.id);
    spans.sort_unstable_by_key(order);
    // The same span twice is one span. The longer record is an update, so it is kept.
    spans.sort_by_key(|s| (s.id, std::cmp::Reverse(s.end_ns)));
    spans.dedup_by_key(|s| s.id);
    spans.sort_unstable_by_key(order);
}

/// Sets the parents of a set of spans and splits it into traces, earliest first.
///
/// Spans are in one trace if they are linked, carry the same trace id, or name the same cause that was not seen. The
/// result depends only on the set, not on its order. Links form a forest whatever the spans say: strongest evidence is
/// taken first, and a link that would close a circle is left out.
pub fn link(mut spans: Vec<Arc<Span>>) -> Vec<Trace> {
    canonical(&mut spans);
    let links = parents(&spans);
    let mut sets = Sets::new(spans.len());
    for (i, link) in links.iter().enumerate() {
        if let Some(l) = link {
            sets.join(i as u32, l.parent);
        }
    }
    join_by_name(&spans, &links, &mut sets);
    let mut members: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for i in 0..spans.len() as u32 {
        members.entry(sets.find(i)).or_default().push(i);
    }
    let mut all: Vec<Vec<u32>> = members.into_values().collect();
    all.sort_unstable_by_key(|m| m[0]);
    let children = children(&links);
    all.iter().map(|m| trace(m, &spans, &links, &children)).collect()
}

/// The best candidate of each span such that no circle closes.
fn parents(spans: &[Arc<Span>]) -> Vec<Option<Candidate>> {
    let mut links: Vec<Option<Candidate>> = vec![None; spans.len()];
    let mut trees = Sets::new(spans.len());
    let mut all = candidates(spans);
    all.sort_unstable_by(|a, b| {
        let key = |c: &Candidate| (c.rule, std::cmp::Reverse((c.confidence * 1e6) as u32), c.child, c.parent);
        key(a).cmp(&key(b))
    });
    for c in all {
        // A span without a parent is the root of its tree. A link closes a circle exactly if its parent is in the
        // child's own tree.
        if links[c.child as usize].is_none() && c.child != c.parent && trees.join(c.child, c.parent) {
            links[c.child as usize] = Some(c);
        }
    }
    links
}

/// Joins spans that have no link between them, but name the same trace id, parent or cause.
fn join_by_name(spans: &[Arc<Span>], links: &[Option<Candidate>], sets: &mut Sets) {
    let mut traces: FxHashMap<TraceId, u32> = FxHashMap::default();
    let mut parents: FxHashMap<SpanId, u32> = FxHashMap::default();
    let mut causes: FxHashMap<(u64, u64), (u32, u64)> = FxHashMap::default();
    for (i, span) in spans.iter().enumerate() {
        let i = i as u32;
        if let Some(t) = span.trace_id {
            let first = *traces.entry(t).or_insert(i);
            sets.join(first, i);
        } else if let Some(p) = span.parent_span_id {
            let first = *parents.entry(p).or_insert(i);
            sets.join(first, i);
        }
        // An inferred cause does not name a trace.
        let named =
            links[i as usize].is_none() && span.tap != TapSide::App && span.cause_evidence != Some(Evidence::Inferred);
        let Some(cause) = span.cause.filter(|_| named) else { continue };
        let end = span.end_ns;
        causes
            .entry((span.host_id, cause))
            .and_modify(|(other, until)| {
                if span.start_ns.saturating_sub(*until) <= AFTERMATH_NS {
                    sets.join(*other, i);
                    *until = end.max(*until);
                } else {
                    (*other, *until) = (i, end);
                }
            })
            .or_insert((i, end));
    }
}

fn children(links: &[Option<Candidate>]) -> Vec<Vec<u32>> {
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); links.len()];
    for (i, link) in links.iter().enumerate() {
        if let Some(l) = link {
            children[l.parent as usize].push(i as u32);
        }
    }
    children
}

fn trace(members: &[u32], spans: &[Arc<Span>], links: &[Option<Candidate>], children: &[Vec<u32>]) -> Trace {
    let roots = members.iter().copied().filter(|i| links[*i as usize].is_none());
    let mut stack: Vec<(u32, u32)> = roots.map(|i| (i, 0)).collect();
    let id = trace_id(members, spans, stack.first().map_or(0, |r| r.0));
    stack.reverse();
    let mut ordered = Vec::with_capacity(members.len());
    while let Some((i, depth)) = stack.pop() {
        let link = links[i as usize].map(|c| ParentLink {
            parent: spans[c.parent as usize].id,
            evidence: c.evidence,
            confidence: c.confidence,
        });
        ordered.push(TraceSpan { span: spans[i as usize].clone(), link, depth, links: Vec::new() });
        stack.extend(children[i as usize].iter().rev().map(|c| (*c, depth + 1)));
    }
    Trace { id, spans: ordered, complete: true }
}

/// The carried trace id if there is exactly one, else one derived from the first root.
fn trace_id(members: &[u32], spans: &[Arc<Span>], root: u32) -> TraceId {
    let mut carried: Option<TraceId> = None;
    for t in members.iter().filter_map(|i| spans[*i as usize].trace_id) {
        match carried {
            None => carried = Some(t),
            Some(c) if c == t => {}
            Some(_) => return derived_trace_id(spans[root as usize].id),
        }
    }
    carried.unwrap_or_else(|| derived_trace_id(spans[root as usize].id))
}

/// The id of a trace for which no span carries one: a hash, then the id of its first root.
pub fn derived_trace_id(root: SpanId) -> TraceId {
    let mut id = [0u8; 16];
    id[..8].copy_from_slice(&hash64(&[b"wirespan", &root.0.to_le_bytes()]).max(1).to_be_bytes());
    id[8..].copy_from_slice(&root.0.to_be_bytes());
    TraceId(id)
}
