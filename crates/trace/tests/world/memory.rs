//! A small store in memory for the tests.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use wirespan_model::{Key, Span, SpanId};
use wirespan_store::{Field, Query, Store, StoreError, StoreStatus, TimeRange};

/// A store in memory that counts its look-ups.
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

impl Store for Mem {
    fn append(&self, _: Vec<Arc<Span>>) -> Result<(), StoreError> {
        Err(StoreError::Stopped("a test's store".into()))
    }
    fn find(&self, keys: &[Key], range: TimeRange, limit: usize) -> Result<Vec<Arc<Span>>, StoreError> {
        self.finds.lock().unwrap().push(keys.to_vec());
        let mut ids: Vec<SpanId> = keys.iter().filter_map(|k| self.keys.get(k)).flatten().copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let all = ids.iter().map(|i| self.spans[i].clone());
        Ok(all.filter(|s| s.start_ns >= range.from_ns && s.start_ns < range.to_ns).take(limit).collect())
    }
    fn span(&self, id: SpanId) -> Result<Option<Arc<Span>>, StoreError> {
        Ok(self.spans.get(&id).cloned())
    }
    fn search(&self, _: &Query) -> Result<Vec<Arc<Span>>, StoreError> {
        Ok(Vec::new())
    }
    fn suggest(&self, _: Field, _: &str, _: TimeRange, _: usize) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
    fn scan(&self, range: TimeRange, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        let inside = |s: &&Arc<Span>| s.start_ns >= range.from_ns && s.start_ns < range.to_ns;
        self.spans.values().filter(inside).for_each(|s| visit(s));
        Ok(())
    }
    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }
    fn status(&self) -> StoreStatus {
        StoreStatus::default()
    }
}
