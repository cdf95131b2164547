//! Spans in memory for the tests.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use wirespan_model::{Key, Span, SpanId, TimeRange};
use wirespan_trace::SpanIndex;

/// Spans in memory; it counts its look-ups.
#[derive(Default)]
pub struct Mem {
    spans: BTreeMap<SpanId, Arc<Span>>,
    keys: HashMap<Key, Vec<SpanId>>,
    pub finds: Mutex<Vec<Vec<Key>>>,
}

impl Mem {
    pub fn of(spans: impl IntoIterator<Item = Arc<Span>>) -> Self {
        let mut m = Mem::default();
        for s in spans {
            for k in s.keys() {
                m.keys.entry(k).or_default().push(s.id);
            }
            m.spans.insert(s.id, s);
        }
        m
    }
}

impl SpanIndex for Mem {
    type Error = Infallible;

    fn find(&self, keys: &[Key], range: TimeRange, limit: usize) -> Result<Vec<Arc<Span>>, Infallible> {
        self.finds.lock().unwrap().push(keys.to_vec());
        let mut ids: Vec<SpanId> = keys.iter().filter_map(|k| self.keys.get(k)).flatten().copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let all = ids.iter().map(|i| self.spans[i].clone());
        Ok(all.filter(|s| s.start_ns >= range.from_ns && s.start_ns < range.to_ns).take(limit).collect())
    }

    fn span(&self, id: SpanId) -> Result<Option<Arc<Span>>, Infallible> {
        Ok(self.spans.get(&id).cloned())
    }
}
