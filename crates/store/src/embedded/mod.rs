//! A store in one directory, without a server: a log, a memory segment, Parquet segments with key sidecars.
//!
//! ```text
//! append ─► tail (≤ 2048 spans) ─► chunk: log + key index ─► segment: .parquet + .keys ─► merged ─► dropped
//!           found as they are      found by index            found by sidecar, page statistics
//! ```
//! One mutex guards the state that changes. Queries copy what they need (a few pointers) and read without the mutex.
//! Two threads work in the background: one writes and syncs the log, the other turns full memory segments into files,
//! merges and drops them.

mod age;
mod attrs;
mod damage;
mod encode;
mod flows;
mod flush;
mod log;
mod manifest;
mod memory;
mod names;
mod open;
mod options;
mod pages;
mod query;
mod read;
mod recover;
mod schema;
mod segment;
mod sidecar;
mod spill;
mod state;
mod sums;
mod view;
mod worker;

pub use options::Options;

use crate::{Field, Query, Store, StoreError, StoreStatus, TimeRange};
use age::Age;
use damage::Damage;
use flows::FlowLog;
use memory::Memory;
use open::Open;
use segment::Segment;
use state::State;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use wirespan_model::{Flow, Key, Span, SpanId};

/// Open segments that are remembered; each holds about 0.3 MB of page locations and two files.
const OPEN_SEGMENTS: usize = 24;

/// The embedded store.
pub struct Embedded {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

/// State shared by the threads.
struct Inner {
    /// Where the files are; `None` for a store in memory.
    dir: Option<PathBuf>,
    options: Options,
    state: Mutex<State>,
    flows: FlowLog,
    /// Wakes the flusher.
    work: Condvar,
    /// Signals that a memory segment has become a file, or could not become one.
    flushed: Condvar,
    open: Mutex<VecDeque<(u64, Arc<Open>)>>,
    damage: Arc<Damage>,
    age: Arc<Age>,
    closing: AtomicBool,
    /// Wakes the log thread when the store closes.
    closed: Condvar,
    /// The lock on the directory, held as long as the store lives.
    _lock: Option<std::fs::File>,
}

impl Embedded {
    /// Opens the store of a directory, or makes a new one, and starts its threads. Logs that a crash left behind are
    /// taken over.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the directory cannot be used, or is in use by another process (`ResourceBusy`);
    /// [`StoreError::Corrupt`] if it was written by another version or is damaged.
    pub fn open(dir: &Path, options: Options) -> Result<Embedded, StoreError> {
        std::fs::create_dir_all(dir).map_err(|e| io("create", dir, e))?;
        let lock = manifest::lock(dir)?;
        let inner = Arc::new(Inner::of_dir(dir, options, Some(lock), None)?);
        let threads = [("store-log", worker::log as fn(&Inner)), ("store-flush", worker::flush)]
            .into_iter()
            .map(|(name, run)| {
                let inner = inner.clone();
                std::thread::Builder::new().name(name.into()).spawn(move || run(&inner))
            })
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(|source| StoreError::Io { context: "start the store's threads".into(), source })?;
        Ok(Embedded { inner, threads })
    }

    /// Opens the store of a directory only to look at it: no file is changed, nothing is dropped by age or size, and
    /// [`Store::append`] refuses. The directory may be read-only.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the directory cannot be read, or another process writes to it; [`StoreError::Corrupt`] if
    /// it is no store.
    pub fn look(dir: &Path) -> Result<Embedded, StoreError> {
        let lock = manifest::lock_to_look(dir)?;
        let why = format!("{} is only looked at", dir.display());
        let inner = Inner::of_dir(dir, Options::default(), lock, Some(why))?;
        Ok(Embedded { inner: Arc::new(inner), threads: Vec::new() })
    }

    /// A store without a directory, for tests and for captures that are only looked at. It forgets its oldest spans
    /// when spans and flows, with their indexes and names, would take more than [`Options::max_bytes`]; their age does
    /// not matter.
    ///
    /// # Errors
    /// None that depend on the machine.
    pub fn memory(options: Options) -> Result<Embedded, StoreError> {
        let (age, damage) = (Arc::new(Age::new(None)), Arc::new(Damage::default()));
        let flows = FlowLog::open(None, &options, &age, &damage, false)?;
        let state = State::new(Memory::new(None)?);
        let inner = Inner::new(None, options, state, flows, None, age, damage);
        Ok(Embedded { inner: Arc::new(inner), threads: Vec::new() })
    }

    /// Turns everything in memory into segments, and merges small ones; returns when this is done.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn compact(&self) -> Result<(), StoreError> {
        self.inner.compact()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.inner.closing.store(true, Ordering::Relaxed);
        {
            // A waiting thread holds the lock until it waits, so it cannot miss this signal.
            let _state = self.inner.lock();
            self.inner.work.notify_all();
            self.inner.flushed.notify_all();
            self.inner.closed.notify_all();
        }
        for thread in self.threads.drain(..) {
            // The panic was reported already by the thread itself.
            let _ = thread.join();
        }
        if self.inner.lock().looked_at.is_some() {
            return;
        }
        if let Err(e) = self.inner.sync().and(self.inner.flows.sync()) {
            tracing::warn!("the last spans may be lost: {e}");
        }
    }
}

impl Store for Embedded {
    fn append(&self, spans: Vec<Arc<Span>>) -> Result<(), StoreError> {
        self.inner.append(spans)
    }
    fn find(&self, keys: &[Key], range: TimeRange, limit: usize) -> Result<Vec<Arc<Span>>, StoreError> {
        self.inner.find(keys, range, limit)
    }
    fn span(&self, id: SpanId) -> Result<Option<Arc<Span>>, StoreError> {
        let key = Key { kind: wirespan_model::KeyKind::Span, value: id.0 };
        Ok(self.inner.find(&[key], TimeRange::ALL, 1)?.pop())
    }
    fn search(&self, query: &Query) -> Result<Vec<Arc<Span>>, StoreError> {
        self.inner.search(query)
    }
    fn suggest(&self, field: Field, prefix: &str, range: TimeRange, limit: usize) -> Result<Vec<String>, StoreError> {
        self.inner.suggest(field, prefix, range, limit)
    }
    fn scan(&self, range: TimeRange, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.inner.scan(range, None, visit)
    }
    fn scan_outline(&self, range: TimeRange, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.inner.scan(range, Some(schema::OUTLINE_COLUMNS), visit)
    }
    fn scan_parents(&self, range: TimeRange, visit: &mut dyn FnMut(&Span)) -> Result<(), StoreError> {
        self.inner.scan(range, Some(schema::PARENT_COLUMNS), visit)
    }
    fn append_flows(&self, flows: &[Flow]) -> Result<(), StoreError> {
        let stopped = self.inner.lock().stopped().cloned();
        if let Some(why) = stopped {
            return Err(StoreError::Stopped(why));
        }
        self.inner.flows.append(flows)
    }
    fn flows(&self, range: TimeRange, visit: &mut dyn FnMut(&Flow)) -> Result<(), StoreError> {
        self.inner.flows.scan(range, visit)
    }
    fn flush(&self) -> Result<(), StoreError> {
        if self.inner.lock().looked_at.is_some() {
            return Ok(());
        }
        self.inner.sync().and(self.inner.flows.sync())
    }
    fn status(&self) -> StoreStatus {
        let mut status = self.inner.lock().status();
        status.disk_bytes += self.inner.flows.disk_bytes();
        if self.inner.dir.is_none() {
            status.memory_bytes += self.inner.flows.memory_bytes();
        }
        status.damaged = self.inner.damage.list();
        status
    }
}

impl Inner {
    /// The store of a directory; `looked_at` says why nothing is written, if that is so.
    fn of_dir(
        dir: &Path,
        options: Options,
        lock: Option<std::fs::File>,
        looked_at: Option<String>,
    ) -> Result<Inner, StoreError> {
        let damage = Arc::new(Damage::default());
        let mut state = recover::recover(dir, &damage, looked_at.is_some())?;
        let chunks = state.frozen.iter().flat_map(|f| &f.view.chunks).map(|c| c.starts.1);
        let newest = state.segments.iter().map(|s| s.last_ns).chain(chunks).max();
        let age = Arc::new(Age::new(newest));
        let flows = FlowLog::open(Some(dir), &options, &age, &damage, looked_at.is_some())?;
        state.looked_at = looked_at;
        Ok(Inner::new(Some(dir.to_owned()), options, state, flows, lock, age, damage))
    }

    fn new(
        dir: Option<PathBuf>,
        options: Options,
        state: State,
        flows: FlowLog,
        lock: Option<std::fs::File>,
        age: Arc<Age>,
        damage: Arc<Damage>,
    ) -> Inner {
        Inner {
            dir,
            options,
            state: Mutex::new(state),
            flows,
            work: Condvar::new(),
            flushed: Condvar::new(),
            open: Mutex::new(VecDeque::new()),
            damage,
            age,
            closing: AtomicBool::new(false),
            closed: Condvar::new(),
            _lock: lock,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Go on after a panic: every change of the state is complete before anything in it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// An open segment; the least recently used is closed when there are too many.
    fn segment(&self, dir: &Path, segment: &Segment) -> Result<Arc<Open>, StoreError> {
        let id = segment.id;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|(i, _)| *i == id) {
            if let Some(entry) = open.remove(at) {
                let segment = entry.1.clone();
                open.push_front(entry);
                return Ok(segment);
            }
        }
        drop(open);
        let segment = Arc::new(Open::new(dir, segment, self.damage.clone())?);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_front((id, segment.clone()));
        open.truncate(OPEN_SEGMENTS);
        Ok(segment)
    }

    /// Removes the files of segments that count no more.
    fn remove(&self, dir: &Path, ids: &[u64]) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(id, _)| !ids.contains(id));
        for id in ids {
            segment::remove(dir, *id);
            let paths = [segment::data_path(dir, *id), segment::keys_path(dir, *id), segment::sums_path(dir, *id)];
            paths.iter().for_each(|path| self.damage.forget(path));
        }
    }
}

fn has_key(span: &Span, keys: &[Key], range: TimeRange) -> bool {
    let start = span.start_ns;
    range.from_ns <= start && start < range.to_ns && span.keys().iter().any(|k| keys.contains(k))
}

fn io(what: &str, path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Io { context: format!("{what} {}", path.display()), source }
}

fn corrupt(path: &Path, what: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { file: path.display().to_string(), what: what.to_string() }
}

fn broken(file: &str, what: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { file: file.to_string(), what: what.to_string() }
}
