//! Resources of processes by pid, in bounded memory.

use crate::published::Asked;
use crate::LINGER;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_model::Resource;

/// How often a cached pid is checked for another process. An exit event can be lost.
const RECHECK: Duration = Duration::from_secs(10);
/// Most processes kept. Beyond it ended processes go first, then those that were checked longest ago.
const MAX_PROCESSES: usize = 32 * 1024;
/// Exits between two sweeps for processes that ended longer than [`LINGER`] ago.
const SWEEP_EVERY: u32 = 1024;

pub(crate) struct Entry {
    pub(crate) resource: Arc<Resource>,
    /// `None` until `/proc` was read: inherited at fork, or the process was gone.
    pub(crate) start_ticks: Option<u64>,
    pub(crate) checked: Instant,
    pub(crate) ended: Option<Instant>,
    /// Read while the program was still being loaded: to be read once more.
    pub(crate) provisional: bool,
    /// When it was asked for what it publishes.
    pub(crate) asked: Asked,
}

impl Entry {
    /// True if the entry may be used without reading `/proc`.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        match self.ended {
            Some(ended) => now.saturating_duration_since(ended) < LINGER,
            None if self.provisional || self.asked.is_due(now) => false,
            None => now.saturating_duration_since(self.checked) < RECHECK,
        }
    }
}

#[derive(Default)]
pub(crate) struct Cache {
    processes: FxHashMap<u32, Entry>,
    /// Every resource in use once: the workers of one program share it.
    resources: FxHashSet<Arc<Resource>>,
    exits: u32,
}

impl Cache {
    pub(crate) fn len(&self) -> usize {
        self.processes.len()
    }

    pub(crate) fn get(&self, pid: u32) -> Option<&Entry> {
        self.processes.get(&pid)
    }

    pub(crate) fn get_mut(&mut self, pid: u32) -> Option<&mut Entry> {
        self.processes.get_mut(&pid)
    }

    pub(crate) fn remove(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    pub(crate) fn insert(&mut self, pid: u32, entry: Entry, now: Instant) {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            self.make_room(now);
        }
        self.processes.insert(pid, entry);
    }

    /// The shared copy of a resource.
    pub(crate) fn intern(&mut self, resource: Resource) -> Arc<Resource> {
        if let Some(shared) = self.resources.get(&resource) {
            return shared.clone();
        }
        let shared = Arc::new(resource);
        self.resources.insert(shared.clone());
        shared
    }

    /// Marks the end of a process.
    pub(crate) fn end(&mut self, pid: u32, now: Instant) {
        if let Some(entry) = self.processes.get_mut(&pid) {
            entry.ended = Some(now);
        }
        self.exits = self.exits.wrapping_add(1);
        if self.exits.is_multiple_of(SWEEP_EVERY) {
            self.sweep(now);
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.processes.retain(|_, e| e.ended.is_none_or(|t| now.saturating_duration_since(t) < LINGER));
        self.resources.retain(|r| Arc::strong_count(r) > 1);
    }

    /// Drops what ended long ago; if that is not enough, the quarter that was checked longest ago, ended ones first.
    fn make_room(&mut self, now: Instant) {
        self.sweep(now);
        if self.processes.len() < MAX_PROCESSES {
            return;
        }
        let mut ages: Vec<(bool, Instant)> = self.processes.values().map(|e| (e.ended.is_none(), e.checked)).collect();
        let (_, &mut limit, _) = ages.select_nth_unstable(MAX_PROCESSES / 4);
        self.processes.retain(|_, e| (e.ended.is_none(), e.checked) > limit);
        self.resources.retain(|r| Arc::strong_count(r) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(cache: &mut Cache, name: &str, at: Instant) -> Entry {
        let resource = cache.intern(Resource { service: name.into(), ..Resource::default() });
        Entry {
            resource,
            start_ticks: None,
            checked: at,
            ended: None,
            provisional: false,
            asked: Asked::first(None, at),
        }
    }

    #[test]
    fn memory_is_bounded_however_many_processes_come() {
        let mut cache = Cache::default();
        let t0 = Instant::now();
        for pid in 0..3 * MAX_PROCESSES as u32 {
            let now = t0 + Duration::from_micros(u64::from(pid));
            let e = entry(&mut cache, &format!("p{pid}"), now);
            cache.insert(pid, e, now);
            assert!(cache.len() <= MAX_PROCESSES);
        }
        assert!(cache.resources.len() <= MAX_PROCESSES + 1);
        assert!(cache.get(3 * MAX_PROCESSES as u32 - 1).is_some(), "the newest stays");
    }

    #[test]
    fn ended_processes_go_first_and_their_resources_with_them() {
        let mut cache = Cache::default();
        let t0 = Instant::now();
        let e = entry(&mut cache, "old", t0);
        cache.insert(1, e, t0);
        cache.end(1, t0);
        assert!(cache.get(1).is_some_and(|e| e.is_fresh(t0 + LINGER / 2)));
        let late = t0 + LINGER * 2;
        assert!(cache.get(1).is_some_and(|e| !e.is_fresh(late)));
        for _ in 1..SWEEP_EVERY {
            cache.end(99, late);
        }
        assert!(cache.get(1).is_none());
        assert!(cache.resources.is_empty());
    }
}
