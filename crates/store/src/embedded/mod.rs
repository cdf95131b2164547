//! A store in one directory, without a server: a log, a memory segment, Parquet segments with key sidecars.
//!
//! ```text
//! append ─► tail (≤ 2048 spans) ─► chunk: log + key index ─► segment: .parquet + .keys ─► merged ─► dropped
//!           found as they are      found by index            found by sidecar, page statistics
//! ```
//! One mutex guards the state that changes. Queries copy what they need (a few pointers) and read without the mutex.
//! Two threads work in the background: one writes and syncs the log, the other turns full memory segments into files,
//! merges and drops them.

mod attrs;
mod encode;
mod flows;
mod flush;
mod log;
mod manifest;
mod memory;
mod names;
mod options;
mod pages;
mod query;
mod read;
mod schema;
mod segment;
mod sidecar;
mod spill;
mod state;
mod view;
mod worker;

pub use options::Options;

use crate::{Field, Query, Store, StoreError, StoreStatus, TimeRange};
use flows::FlowLog;
use memory::Memory;
use segment::Open;
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
        let state = State::recover(dir)?;
        let flows = FlowLog::open(Some(dir), options.max_age, options.max_bytes)?;
        let inner = Arc::new(Inner::new(Some(dir.to_owned()), options, state, flows, Some(lock)));
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

    /// A store without a directory, for tests and for captures that are only looked at. It forgets its oldest spans
    /// when they exceed [`Options::max_bytes`]; their age does not matter.
    ///
    /// # Errors
    /// None that depend on the machine.
    pub fn memory(options: Options) -> Result<Embedded, StoreError> {
        let state = State::new(Memory::new(None)?);
        let flows = FlowLog::open(None, options.max_age, options.max_bytes)?;
        Ok(Embedded { inner: Arc::new(Inner::new(None, options, state, flows, None)), threads: Vec::new() })
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
    fn append_flows(&self, flows: &[Flow]) -> Result<(), StoreError> {
        if self.inner.dir.is_some() {
            self.inner.check_space()?;
        }
        self.inner.flows.append(flows)
    }
    fn flows(&self, range: TimeRange, visit: &mut dyn FnMut(&Flow)) -> Result<(), StoreError> {
        self.inner.flows.scan(range, visit)
    }
    fn flush(&self) -> Result<(), StoreError> {
        self.inner.sync().and(self.inner.flows.sync())
    }
    fn status(&self) -> StoreStatus {
        let mut status = self.inner.lock().status();
        status.disk_bytes += self.inner.flows.disk_bytes();
        status
    }
}

impl Inner {
    fn new(dir: Option<PathBuf>, options: Options, state: State, flows: FlowLog, lock: Option<std::fs::File>) -> Inner {
        Inner {
            dir,
            options,
            state: Mutex::new(state),
            flows,
            work: Condvar::new(),
            flushed: Condvar::new(),
            open: Mutex::new(VecDeque::new()),
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
    fn segment(&self, dir: &Path, id: u64) -> Result<Arc<Open>, StoreError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|(i, _)| *i == id) {
            if let Some(entry) = open.remove(at) {
                let segment = entry.1.clone();
                open.push_front(entry);
                return Ok(segment);
            }
        }
        drop(open);
        let segment = Arc::new(Open::new(dir, id)?);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_front((id, segment.clone()));
        open.truncate(OPEN_SEGMENTS);
        Ok(segment)
    }

    fn forget(&self, ids: &[u64]) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(id, _)| !ids.contains(id));
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
