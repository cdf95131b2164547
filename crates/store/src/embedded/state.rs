//! The state that changes: the tail, the memory segments and the list of files; and how spans enter.

use super::log::Log;
use super::manifest::Manifest;
use super::memory::{pack, Memory, MemoryView, CHUNK_ROWS};
use super::segment::{self, Segment};
use super::{io, Inner};
use crate::{StoreError, StoreStatus};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_model::{Key, Span};

/// Full memory segments that may wait to become files.
const MAX_FROZEN: usize = 2;
/// How long an append waits for them.
const PATIENCE: Duration = Duration::from_secs(5);
/// Text of the spans of a tail, bytes, at which it becomes a chunk early.
const TAIL_BYTES: usize = 2 << 20;

/// A full memory segment: it waits to become a file, or stays (a store without a directory).
pub(crate) struct Frozen {
    pub(crate) view: MemoryView,
    pub(crate) rows: usize,
    pub(crate) data_bytes: u64,
    /// Number of its log.
    pub(crate) log_id: u64,
    pub(crate) log: Option<(PathBuf, Arc<File>)>,
}

/// The state that changes.
pub(crate) struct State {
    /// Spans that are not encoded yet, with their keys.
    pub(crate) tail: Vec<Arc<Span>>,
    pub(crate) tail_keys: Vec<(Key, u16)>,
    /// The same keys, packed for the index.
    packed: Vec<u64>,
    tail_bytes: usize,
    pub(crate) active: Memory,
    pub(crate) active_id: u64,
    pub(crate) active_since: Instant,
    /// Oldest first.
    pub(crate) frozen: VecDeque<Arc<Frozen>>,
    pub(crate) segments: Arc<Vec<Segment>>,
    pub(crate) manifest: Manifest,
    /// Why the log cannot be written.
    pub(crate) log_trouble: Option<String>,
    /// Why segments cannot be written.
    pub(crate) flush_trouble: Option<String>,
    pub(crate) dropped: BTreeMap<&'static str, u64>,
    /// Segments that were merged into others, and when. Older queries may still open their files.
    pub(crate) merged: Vec<(Instant, u64)>,
    /// Logs with bytes that may not be on the disk yet.
    pub(crate) unsynced: Vec<Arc<File>>,
}

impl State {
    /// An empty state.
    pub(crate) fn new(active: Memory) -> State {
        State {
            tail: Vec::new(),
            tail_keys: Vec::new(),
            packed: Vec::new(),
            tail_bytes: 0,
            active,
            active_id: 0,
            active_since: Instant::now(),
            frozen: VecDeque::new(),
            segments: Arc::default(),
            manifest: Manifest::default(),
            log_trouble: None,
            flush_trouble: None,
            dropped: BTreeMap::new(),
            merged: Vec::new(),
            unsynced: Vec::new(),
        }
    }

    /// The state that a directory describes. Leftovers of a crash are removed, logs are taken over.
    pub(crate) fn recover(dir: &Path) -> Result<State, StoreError> {
        let mut manifest = Manifest::load(dir)?;
        let mut logs = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(|e| io("list", dir, e))? {
            let name = entry.map_err(|e| io("list", dir, e))?.file_name();
            let Some((kind, id)) = parse_name(&name.to_string_lossy()) else { continue };
            manifest.next = manifest.next.max(id + 1);
            match kind {
                "log" if id >= manifest.first_log => logs.push(id),
                "log" => drop(std::fs::remove_file(log_path(dir, id))),
                _ if manifest.segments.iter().any(|s| s.id == id) => {}
                _ => segment::remove(dir, id),
            }
        }
        for s in &manifest.segments {
            for path in [segment::data_path(dir, s.id), segment::keys_path(dir, s.id)] {
                path.metadata().map_err(|e| io("read", &path, e))?;
            }
        }
        logs.sort_unstable();
        let mut frozen = VecDeque::new();
        for id in logs {
            let path = log_path(dir, id);
            let (view, cut) = Memory::replay(&path)?;
            if cut > 0 {
                tracing::info!("{}: {cut} bytes that were being written at the crash were cut off", path.display());
            }
            let rows = view.rows();
            if rows == 0 {
                std::fs::remove_file(&path).map_err(|e| io("remove", &path, e))?;
                continue;
            }
            let data_bytes = view.chunks.iter().map(|c| c.len() as u64).sum();
            let file = Arc::new(File::open(&path).map_err(|e| io("open", &path, e))?);
            frozen.push_back(Arc::new(Frozen { view, rows, data_bytes, log_id: id, log: Some((path, file)) }));
        }
        let id = manifest.next;
        manifest.next += 1;
        let log = Log::create(&log_path(dir, id))?;
        manifest.save(dir)?;
        let mut state = State::new(Memory::new(Some(log))?);
        state.active_id = id;
        state.frozen = frozen;
        state.segments = Arc::new(manifest.segments.clone());
        state.manifest = manifest;
        Ok(state)
    }

    /// Turns the tail into a chunk. After an error the tail is as it was.
    pub(crate) fn seal(&mut self) -> Result<(), StoreError> {
        if self.tail.is_empty() {
            return Ok(());
        }
        self.packed.clear();
        self.packed.extend(self.tail_keys.iter().map(|(key, row)| pack(*key, *row)));
        self.active.push(&self.tail, &mut self.packed)?;
        self.tail.clear();
        self.tail_keys.clear();
        self.tail_bytes = 0;
        if let Some(log) = &self.active.log {
            if !self.unsynced.iter().any(|f| Arc::ptr_eq(f, &log.file)) {
                self.unsynced.push(log.file.clone());
            }
        }
        Ok(())
    }

    /// Puts the active memory segment aside and starts another. After an error the state is unchanged.
    pub(crate) fn rotate(&mut self, dir: Option<&Path>) -> Result<(), StoreError> {
        let id = self.manifest.next;
        let log = dir.map(|dir| Log::create(&log_path(dir, id))).transpose()?;
        let mut full = std::mem::replace(&mut self.active, Memory::new(log)?);
        self.manifest.next += 1;
        let view = full.view();
        self.frozen.push_back(Arc::new(Frozen {
            view,
            rows: full.rows,
            data_bytes: full.data_bytes,
            log_id: self.active_id,
            log: full.log.map(|l| (l.path, l.file)),
        }));
        self.active_id = id;
        self.active_since = Instant::now();
        Ok(())
    }

    /// Bytes of all files, or of all chunks of a store in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|s| s.bytes).sum();
        let frozen: u64 = self.frozen.iter().map(|f| f.data_bytes).sum();
        let active = self.active.log.as_ref().map_or(self.active.data_bytes, Log::len);
        segments + frozen + active + self.manifest.bytes
    }

    /// The reason for refusing spans, if there is one.
    pub(crate) fn stopped(&self) -> Option<&String> {
        self.log_trouble.as_ref().or(self.flush_trouble.as_ref())
    }

    pub(crate) fn drop_spans(&mut self, reason: &'static str, count: usize) {
        *self.dropped.entry(reason).or_default() += count as u64;
    }

    pub(crate) fn status(&mut self) -> StoreStatus {
        let active = self.active.view();
        let views = self.frozen.iter().map(|f| &f.view).chain([&active]);
        let chunks: Vec<_> = views.flat_map(|v| &v.chunks).collect();
        let times = (chunks.iter().map(|c| c.starts))
            .chain(self.segments.iter().map(|s| (s.first_ns, s.last_ns)))
            .chain(self.tail.iter().map(|s| (s.start_ns, s.start_ns)));
        let (oldest, newest) = times.fold((u64::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        StoreStatus {
            spans: self.segments.iter().map(|s| s.rows).sum::<u64>()
                + chunks.iter().map(|c| c.rows as u64).sum::<u64>()
                + self.tail.len() as u64,
            disk_bytes: if self.active.log.is_some() { self.bytes() } else { 0 },
            oldest_ns: if oldest == u64::MAX { 0 } else { oldest },
            newest_ns: newest,
            stopped: self.stopped().cloned(),
            dropped: self.dropped.iter().map(|(reason, n)| ((*reason).to_owned(), *n)).collect(),
        }
    }
}

/// Path of a log.
pub(crate) fn log_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("log-{id:010}.arrows"))
}

/// Kind and number of a file of the store.
fn parse_name(name: &str) -> Option<(&'static str, u64)> {
    let (kind, rest) = match name.split_once('-')? {
        ("log", rest) => ("log", rest),
        ("segment", rest) => ("segment", rest),
        _ => return None,
    };
    Some((kind, rest.split('.').next()?.parse().ok()?))
}

impl Inner {
    /// Takes spans in. Searches find them as soon as this returns.
    pub(crate) fn append(&self, spans: Vec<Arc<Span>>) -> Result<(), StoreError> {
        // Making the keys costs most, so it happens before the lock is taken.
        let mut keys: Vec<(Key, u32)> = Vec::with_capacity(spans.len() * 6);
        for (i, span) in (0..).zip(&spans) {
            keys.extend(span.keys().into_iter().map(|k| (k, i)));
        }
        let mut keys = keys.into_iter().peekable();
        let mut state = self.lock();
        let count = spans.len();
        for (i, span) in (0u32..).zip(spans) {
            if state.tail.len() >= CHUNK_ROWS || state.tail_bytes >= TAIL_BYTES {
                state = self.make_room(state, count - i as usize)?;
            } else if i == 0 {
                self.check_writable(&mut state, count)?;
            }
            let row = state.tail.len() as u16;
            while let Some((key, _)) = keys.next_if(|(_, of)| *of == i) {
                state.tail_keys.push((key, row));
            }
            state.tail_bytes += span.target.len() + span.error.len() + span.attrs.len() * 48;
            state.tail.push(span);
        }
        if state.tail.len() >= CHUNK_ROWS && state.stopped().is_none() {
            // Encode now rather than at the next append, so that the tail stays short. The next append meets the same
            // error again.
            drop(self.make_room(state, 0));
        }
        Ok(())
    }

    fn check_writable(&self, state: &mut State, count: usize) -> Result<(), StoreError> {
        match &state.log_trouble {
            Some(trouble) => {
                let error = StoreError::Stopped(trouble.clone());
                state.drop_spans("stopped", count);
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// Empties the tail. If too many memory segments wait, it waits a while for the flusher. After a failure `count`
    /// spans are counted as dropped.
    fn make_room<'a>(
        &'a self,
        mut state: std::sync::MutexGuard<'a, State>,
        count: usize,
    ) -> Result<std::sync::MutexGuard<'a, State>, StoreError> {
        self.check_writable(&mut state, count)?;
        let until = Instant::now() + PATIENCE;
        while self.dir.is_some() && self.full(&state) && state.frozen.len() >= MAX_FROZEN {
            let left = until.saturating_duration_since(Instant::now());
            let behind = || "segments are not written as fast as spans arrive".to_owned();
            if let Some(trouble) = state.flush_trouble.clone().or_else(|| left.is_zero().then(behind)) {
                state.drop_spans("stopped", count);
                return Err(StoreError::Stopped(trouble));
            }
            self.work.notify_one();
            state = self.flushed.wait_timeout(state, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        let done = state.seal().and_then(|()| if self.full(&state) { self.rotate(&mut state) } else { Ok(()) });
        match done {
            Ok(()) => Ok(state),
            Err(e) => {
                let trouble = trouble(&e);
                state.log_trouble = Some(trouble.clone());
                state.drop_spans("stopped", count);
                Err(StoreError::Stopped(trouble))
            }
        }
    }

    fn full(&self, state: &State) -> bool {
        let memory = match self.dir {
            Some(_) => self.options.flush_memory_bytes,
            // A full store in memory drops whole memory segments, so each should be a small part of the store.
            None => (self.options.max_bytes / 8) as usize,
        };
        state.active.rows >= self.options.flush_rows || state.active.memory_bytes() >= memory.max(1)
    }

    /// Puts the active memory segment aside, and wakes the flusher.
    pub(crate) fn rotate(&self, state: &mut State) -> Result<(), StoreError> {
        state.rotate(self.dir.as_deref())?;
        if self.dir.is_none() {
            while state.bytes() > self.options.max_bytes && !state.frozen.is_empty() {
                let rows = state.frozen.pop_front().map_or(0, |f| f.rows);
                state.drop_spans("forgotten: memory is full", rows);
            }
        }
        self.work.notify_one();
        Ok(())
    }
}

/// The text for the user about a failed write.
pub(crate) fn trouble(e: &StoreError) -> String {
    match e {
        StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
            format!("disk full: {e}")
        }
        other => other.to_string(),
    }
}
