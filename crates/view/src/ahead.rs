//! A cache in front of a store: it asks many keys at once, for many traces.
//!
//! Assembly asks for a few keys at a time, about four times per trace, and each query costs the store about the same
//! for one key as for a thousand. So for a list of a hundred traces, all their keys are asked for together, round by
//! round. Assembly then runs unchanged: it gets its answers from memory where they are complete, else from the store.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;
use wirespan_model::{Flow, Key, KeyKind, Span, SpanId};
use wirespan_store::{Field, Query, Store, StoreError, StoreStatus, TimeRange};

/// Most spans fetched ahead; assembly itself asks for further spans.
const MAX_SPANS: usize = 20_000;
/// Most rounds. Each round fetches the spans one step away from the known spans.
const MAX_ROUNDS: usize = 24;

/// A store with some answers in memory.
pub(crate) struct Ahead<'a> {
    store: &'a dyn Store,
    /// The time range of the answers.
    range: TimeRange,
    /// Spans by key. A key in this map was asked for, and its answer is complete.
    answers: FxHashMap<Key, SmallVec<[u32; 4]>>,
    spans: Vec<Arc<Span>>,
    ids: FxHashMap<SpanId, u32>,
}

/// Both keys that assembly asks for: a parent's id is also looked up as a span's id, and the reverse.
fn questions(span: &Span) -> impl Iterator<Item = Key> {
    span.keys().into_iter().flat_map(|key| {
        let twin = match key.kind {
            KeyKind::Span => Some(KeyKind::Parent),
            KeyKind::Parent => Some(KeyKind::Span),
            _ => None,
        };
        std::iter::once(key).chain(twin.map(|kind| Key { kind, value: key.value }))
    })
}

impl<'a> Ahead<'a> {
    /// Fetches the spans related to these spans, step by step. `window_ns` is the window of the assembly.
    pub(crate) fn of(store: &'a dyn Store, first: &[Arc<Span>], window_ns: u64) -> Result<Self, StoreError> {
        let reach = window_ns.saturating_mul(3);
        let from_ns = first.iter().map(|s| s.start_ns).min().unwrap_or(0).saturating_sub(reach);
        let to_ns = first.iter().map(|s| s.end_ns).max().unwrap_or(0).saturating_add(reach);
        let mut ahead = Ahead {
            store,
            range: TimeRange { from_ns, to_ns },
            answers: FxHashMap::default(),
            spans: Vec::new(),
            ids: FxHashMap::default(),
        };
        let mut front: Vec<Arc<Span>> = first.to_vec();
        front.iter().for_each(|span| ahead.keep(span));
        for _ in 0..MAX_ROUNDS {
            let ask: FxHashSet<Key> =
                front.iter().flat_map(|s| questions(s)).filter(|k| !ahead.answers.contains_key(k)).collect();
            if ask.is_empty() {
                break;
            }
            let ask: Vec<Key> = ask.into_iter().collect();
            let found = store.find(&ask, ahead.range, MAX_SPANS)?;
            if found.len() >= MAX_SPANS || ahead.spans.len() >= MAX_SPANS {
                break;
            }
            front = found.iter().filter(|span| !ahead.ids.contains_key(&span.id)).cloned().collect();
            found.iter().for_each(|span| ahead.keep(span));
            ahead.answers.extend(ask.iter().map(|key| (*key, SmallVec::new())));
            for span in &found {
                let Some(at) = ahead.ids.get(&span.id) else { continue };
                for key in span.keys() {
                    if let Some(holders) = ahead.answers.get_mut(&key).filter(|h| !h.contains(at)) {
                        holders.push(*at);
                    }
                }
            }
        }
        Ok(ahead)
    }

    fn keep(&mut self, span: &Arc<Span>) {
        let at = u32::try_from(self.spans.len()).unwrap_or(u32::MAX);
        self.ids.entry(span.id).or_insert_with(|| {
            self.spans.push(Arc::clone(span));
            at
        });
    }

    /// The answer, if memory has all of it.
    fn known(&self, keys: &[Key], range: TimeRange, limit: usize) -> Option<Vec<Arc<Span>>> {
        if range.from_ns < self.range.from_ns || range.to_ns > self.range.to_ns {
            return None;
        }
        let mut at: Vec<u32> = Vec::new();
        for key in keys {
            at.extend_from_slice(self.answers.get(key)?);
        }
        at.sort_unstable();
        at.dedup();
        let spans = at.into_iter().filter_map(|n| self.spans.get(n as usize));
        let within = spans.filter(|s| (range.from_ns..range.to_ns).contains(&s.start_ns));
        Some(within.take(limit).cloned().collect())
    }
}

impl Store for Ahead<'_> {
    fn find(&self, keys: &[Key], range: TimeRange, limit: usize) -> Result<Vec<Arc<Span>>, StoreError> {
        match self.known(keys, range, limit) {
            Some(spans) => Ok(spans),
            None => self.store.find(keys, range, limit),
        }
    }

    fn span(&self, id: SpanId) -> Result<Option<Arc<Span>>, StoreError> {
        match self.ids.get(&id).and_then(|at| self.spans.get(*at as usize)) {
            Some(span) => Ok(Some(Arc::clone(span))),
            None => self.store.span(id),
        }
    }

    fn append(&self, spans: Vec<Arc<Span>>) -> Result<(), StoreError> {
        self.store.append(spans)
    }

    fn search(&self, query: &Query) -> Result<Vec<Arc<Span>>, StoreError> {
        self.store.search(query)
    }

    fn suggest(&self, field: Field, prefix: &str, range: TimeRange, limit: usize) -> Result<Vec<String>, StoreError> {
        self.store.suggest(field, prefix, range, limit)
    }

    fn scan(&self, range: TimeRange, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.store.scan(range, visit)
    }

    fn scan_parents(&self, range: TimeRange, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.store.scan_parents(range, visit)
    }

    fn append_flows(&self, flows: &[Flow]) -> Result<(), StoreError> {
        self.store.append_flows(flows)
    }

    fn flows(&self, range: TimeRange, visit: &mut dyn FnMut(&Flow)) -> Result<(), StoreError> {
        self.store.flows(range, visit)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()
    }

    fn status(&self) -> StoreStatus {
        self.store.status()
    }
}
