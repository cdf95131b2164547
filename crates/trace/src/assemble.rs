//! From one span to its trace: search by keys until nothing is added (DeepFlow, SIGCOMM '23, Algorithm 1), then link.
//!
//! Unlike the paper's, the search asks for each key once (again only if a span lies outside the time that was
//! searched), and believes an equal key only at a plausible time. Whether two spans may join does not depend on the
//! span that was asked for; so the same trace comes back from each of its spans.

use crate::forest::link;
use crate::related::{keys, may_join};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::{Key, KeyKind, Span, SpanId, TimeRange, Trace};

/// Where the spans of a trace are found: a store, as far as it concerns traces.
pub trait SpanIndex {
    /// Why a look-up failed.
    type Error;

    /// The span with this id.
    fn span(&self, id: SpanId) -> Result<Option<Arc<Span>>, Self::Error>;

    /// Spans that have one of these keys and start in the range, at most `limit`.
    fn find(&self, keys: &[Key], range: TimeRange, limit: usize) -> Result<Vec<Arc<Span>>, Self::Error>;
}

/// Bounds of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most spans of a search; beyond it the trace says that it is not complete.
    pub max_spans: usize,
    /// Most look-ups; a long chain needs about two per hop.
    pub max_rounds: usize,
    /// Longest time between two spans that find each other, ns.
    pub window_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_spans: 10_000, max_rounds: 4_000, window_ns: 1_800_000_000_000 }
    }
}

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError<E> {
    /// The index does not have the span: it never had it, or has dropped it.
    #[error("there is no span {0}")]
    NotFound(SpanId),
    /// A look-up failed.
    #[error(transparent)]
    Index(E),
}

/// The trace of the span `from`. See [`Limits`] for what bounds it.
pub fn assemble<I: SpanIndex>(index: &I, from: SpanId, limits: &Limits) -> Result<Trace, AssembleError<I::Error>> {
    let start = index.span(from).map_err(AssembleError::Index)?.ok_or(AssembleError::NotFound(from))?;
    let mut search = Search::new(limits);
    search.add(start);
    search.accept(0);
    let mut complete = true;
    for round in 0.. {
        let Some((ask, range)) = search.questions() else { break };
        let room = limits.max_spans.saturating_sub(search.accepted);
        if room == 0 || round >= limits.max_rounds {
            complete = false;
            break;
        }
        // The answer repeats spans that are known already. Leave room for them, so that a full answer means that there
        // is more.
        let limit = search.spans.len() + room + 1;
        let answer = index.find(&ask, range, limit).map_err(AssembleError::Index)?;
        complete &= answer.len() < limit;
        for span in answer {
            search.add(span);
        }
        search.spread();
    }
    let found = search.spans.iter().zip(&search.is_accepted).filter(|(_, a)| **a).map(|(s, _)| s.clone()).collect();
    let mut traces = link(found);
    let at = traces.iter().position(|t| t.spans.iter().any(|s| s.span.id == from));
    let mut trace = traces.swap_remove(at.ok_or(AssembleError::NotFound(from))?);
    trace.complete = complete;
    Ok(trace)
}

struct Search<'a> {
    limits: &'a Limits,
    spans: Vec<Arc<Span>>,
    is_accepted: Vec<bool>,
    accepted: usize,
    ids: FxHashMap<SpanId, u32>,
    /// Every fetched span, by key.
    holders: FxHashMap<Key, Vec<u32>>,
    /// Time searched, by key.
    asked: FxHashMap<Key, TimeRange>,
    /// Accepted spans whose keys were not asked for yet.
    frontier: Vec<u32>,
    /// Fetched or accepted spans that were not compared yet.
    fresh: Vec<u32>,
}

impl<'a> Search<'a> {
    fn new(limits: &'a Limits) -> Self {
        Search {
            limits,
            spans: Vec::new(),
            is_accepted: Vec::new(),
            accepted: 0,
            ids: FxHashMap::default(),
            holders: FxHashMap::default(),
            asked: FxHashMap::default(),
            frontier: Vec::new(),
            fresh: Vec::new(),
        }
    }

    fn add(&mut self, span: Arc<Span>) {
        let i = self.spans.len() as u32;
        if *self.ids.entry(span.id).or_insert(i) != i {
            return;
        }
        for key in keys(&span) {
            self.holders.entry(key).or_default().push(i);
        }
        self.spans.push(span);
        self.is_accepted.push(false);
        self.fresh.push(i);
    }

    fn accept(&mut self, i: u32) {
        if !std::mem::replace(&mut self.is_accepted[i as usize], true) {
            self.accepted += 1;
            self.frontier.push(i);
            self.fresh.push(i);
        }
    }

    /// Accepts every fetched span that may join an accepted one, until nothing is added.
    fn spread(&mut self) {
        while let Some(i) = self.fresh.pop() {
            let span = self.spans[i as usize].clone();
            for key in keys(&span) {
                let Some(holders) = self.holders.get(&key) else { continue };
                let joins = |j: &u32| {
                    *j != i
                        && self.is_accepted[*j as usize] != self.is_accepted[i as usize]
                        && may_join(&span, &self.spans[*j as usize], key, self.limits.window_ns)
                };
                if self.is_accepted[i as usize] {
                    let more: Vec<u32> = holders.iter().copied().filter(joins).collect();
                    more.into_iter().for_each(|j| self.accept(j));
                } else if holders.iter().any(joins) {
                    self.accept(i);
                    break;
                }
            }
        }
    }

    /// Keys to ask for next, and the time to search; `None` if every key was asked for.
    fn questions(&mut self) -> Option<(Vec<Key>, TimeRange)> {
        let w = self.limits.window_ns;
        let mut ask: Vec<Key> = Vec::new();
        let mut range = TimeRange { from_ns: u64::MAX, to_ns: 0 };
        for i in std::mem::take(&mut self.frontier) {
            let span = &self.spans[i as usize];
            let (from, to) = (span.start_ns.saturating_sub(w), span.end_ns.saturating_add(w));
            for key in keys(span) {
                let known = self.asked.get(&key).is_some_and(|r| r.from_ns <= from && r.to_ns > to);
                if !known {
                    ask.push(key);
                    range.from_ns = range.from_ns.min(from.saturating_sub(w));
                    range.to_ns = range.to_ns.max(to.saturating_add(w).saturating_add(1));
                }
            }
        }
        if ask.is_empty() {
            return None;
        }
        ask.sort_unstable();
        ask.dedup();
        for key in &ask {
            let r = self.asked.entry(*key).or_insert(range);
            r.from_ns = r.from_ns.min(range.from_ns);
            r.to_ns = r.to_ns.max(range.to_ns);
        }
        let ids: Vec<u64> = ask.iter().filter(|k| k.kind == KeyKind::Span).map(|k| k.value).collect();
        ask.extend(ids.into_iter().map(|value| Key { kind: KeyKind::Parent, value }));
        Some((ask, range))
    }
}
