//! The state that changes: the tail, the memory segments and the list of files; and how spans enter.

use super::log::Log;
use super::manifest::Manifest;
use super::memory::{pack, Memory, MemoryView, CHUNK_ROWS};
use super::segment::Segment;
use super::Inner;
use crate::{StoreError, StoreStatus};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use wirespan_model::{Key, Span};

/// Full memory segments that may wait to become files.
const MAX_FROZEN: usize = 2;
/// Why spans are refused when the flusher is too slow.
const BEHIND: &str = "segments are not written as fast as spans arrive";
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
    pub(crate) tail_keys: Vec<(Key, u32)>,
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
    /// Why the directory is only looked at, if it is.
    pub(crate) looked_at: Option<String>,
    /// Whether segments are not written as fast as spans arrive.
    pub(crate) behind: bool,
    pub(crate) refused: u64,
    pub(crate) dropped: BTreeMap<&'static str, u64>,
    /// Segments that were merged into others, and when. Older queries may still open their files.
    pub(crate) merged: Vec<(Instant, Segment)>,
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
            looked_at: None,
            behind: false,
            refused: 0,
            dropped: BTreeMap::new(),
            merged: Vec::new(),
            unsynced: Vec::new(),
        }
    }

    /// Turns the tail into chunks. After an error the tail has what is not in a chunk.
    pub(crate) fn seal(&mut self) -> Result<(), StoreError> {
        while !self.tail.is_empty() {
            let rows = self.tail.len().min(CHUNK_ROWS);
            let keys = self.tail_keys.partition_point(|(_, row)| (*row as usize) < rows);
            self.packed.clear();
            self.packed.extend(self.tail_keys[..keys].iter().map(|(key, row)| pack(*key, *row as u16)));
            self.active.push(&self.tail[..rows], &mut self.packed)?;
            self.tail.drain(..rows);
            self.tail_keys.drain(..keys);
            self.tail_keys.iter_mut().for_each(|(_, row)| *row -= rows as u32);
            if let Some(log) = &self.active.log {
                if !self.unsynced.iter().any(|f| Arc::ptr_eq(f, &log.file)) {
                    self.unsynced.push(log.file.clone());
                }
            }
        }
        self.tail_bytes = 0;
        Ok(())
    }

    /// Puts the active memory segment aside and starts another. After an error the state is unchanged.
    pub(crate) fn rotate(&mut self, dir: Option<&Path>) -> Result<(), StoreError> {
        let id = self.manifest.next;
        let log = dir.map(|dir| Log::create(&log_path(dir, id))).transpose()?;
        let mut full = std::mem::replace(&mut self.active, Memory::new(log)?);
        self.manifest.next += 1;
        let view = full.view();
        let data_bytes = if full.log.is_some() { full.data_bytes } else { full.memory_bytes() as u64 };
        self.frozen.push_back(Arc::new(Frozen {
            view,
            rows: full.rows,
            data_bytes,
            log_id: self.active_id,
            log: full.log.map(|l| (l.path, l.file)),
        }));
        self.active_id = id;
        self.active_since = Instant::now();
        Ok(())
    }

    fn tail_is_full(&self) -> bool {
        self.tail.len() >= CHUNK_ROWS || self.tail_bytes >= TAIL_BYTES
    }

    /// Bytes of all files; of a store in memory, the bytes of its chunks, their indexes and names.
    pub(crate) fn bytes(&self) -> u64 {
        let merged = self.merged.iter().map(|(_, s)| s.bytes);
        let segments: u64 = self.segments.iter().map(|s| s.bytes).chain(merged).sum();
        let frozen: u64 = self.frozen.iter().map(|f| f.data_bytes).sum();
        let active = self.active.log.as_ref().map_or(self.active.memory_bytes() as u64, Log::len);
        segments + frozen + active + self.manifest.bytes
    }

    /// The reason for refusing spans, if there is one.
    pub(crate) fn stopped(&self) -> Option<&String> {
        self.looked_at.as_ref().or(self.log_trouble.as_ref()).or(self.flush_trouble.as_ref())
    }

    /// Refuses this many spans.
    fn refuse(&mut self, count: usize, why: String) -> StoreError {
        self.refused += count as u64;
        StoreError::Stopped(why)
    }

    pub(crate) fn drop_spans(&mut self, reason: &'static str, count: usize) {
        *self.dropped.entry(reason).or_default() += count as u64;
    }

    pub(crate) fn status(&mut self) -> StoreStatus {
        let on_disk = self.active.log.is_some() || self.looked_at.is_some();
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
            disk_bytes: if on_disk { self.bytes() } else { 0 },
            memory_bytes: if on_disk { 0 } else { self.bytes() },
            oldest_ns: if oldest == u64::MAX { 0 } else { oldest },
            newest_ns: newest,
            stopped: self.stopped().cloned().or_else(|| self.behind.then(|| BEHIND.into())),
            looked_at: self.looked_at.is_some(),
            refused: self.refused,
            damaged: Vec::new(),
            dropped: self.dropped.iter().map(|(reason, n)| ((*reason).to_owned(), *n)).collect(),
        }
    }
}

/// Path of a log.
pub(crate) fn log_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("log-{id:010}.arrows"))
}

/// Kind and number of a file of the store.
pub(super) fn parse_name(name: &str) -> Option<(&'static str, u64)> {
    let (kind, rest) = match name.split_once('-')? {
        ("log", rest) => ("log", rest),
        ("segment", rest) => ("segment", rest),
        _ => return None,
    };
    Some((kind, rest.split('.').next()?.parse().ok()?))
}

impl Inner {
    /// Takes all spans in, or none. Searches find them as soon as this returns.
    pub(crate) fn append(&self, spans: Vec<Arc<Span>>) -> Result<(), StoreError> {
        // Making the keys costs most, so it happens before the lock is taken.
        let mut keys: Vec<(Key, u32)> = Vec::with_capacity(spans.len() * 6);
        for (i, span) in (0..).zip(&spans) {
            keys.extend(span.keys().into_iter().map(|k| (k, i)));
        }
        let mut state = self.make_room(self.lock(), spans.len())?;
        // From here on the spans are taken, whatever happens to the log: the tail is as long as a batch at most.
        let first = state.tail.len() as u32;
        state.tail_keys.extend(keys.into_iter().map(|(key, i)| (key, first + i)));
        state.tail_bytes += spans.iter().map(|s| s.target.len() + s.error.len() + s.attrs.len() * 48).sum::<usize>();
        state.tail.extend(spans);
        if state.tail_is_full() && state.stopped().is_none() {
            // Encode now rather than at the next append, so that the tail stays short.
            let sealed = state.seal().and_then(|()| match self.full(&state) && state.frozen.len() < MAX_FROZEN {
                true => self.rotate(&mut state),
                false => Ok(()),
            });
            if let Err(e) = sealed {
                state.log_trouble = Some(trouble(&e));
            }
        }
        Ok(())
    }

    /// Makes room for `count` spans: if the tail is full it is emptied, and if too many memory segments wait it waits a
    /// while for the flusher. After a failure the spans count as refused.
    fn make_room<'a>(
        &'a self,
        mut state: std::sync::MutexGuard<'a, State>,
        count: usize,
    ) -> Result<std::sync::MutexGuard<'a, State>, StoreError> {
        let until = Instant::now() + self.options.patience;
        loop {
            if let Some(why) = state.looked_at.as_ref().or(state.log_trouble.as_ref()).cloned() {
                return Err(state.refuse(count, why));
            }
            if self.dir.is_none() || !self.full(&state) || state.frozen.len() < MAX_FROZEN {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if let Some(why) = state.flush_trouble.clone() {
                return Err(state.refuse(count, why));
            }
            if left.is_zero() {
                state.behind = true;
                return Err(state.refuse(count, BEHIND.into()));
            }
            self.work.notify_one();
            state = self.flushed.wait_timeout(state, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        state.behind = false;
        let done = match state.tail_is_full() {
            true => state.seal(),
            false => Ok(()),
        };
        match done.and_then(|()| if self.full(&state) { self.rotate(&mut state) } else { Ok(()) }) {
            Ok(()) => Ok(state),
            Err(e) => {
                let trouble = trouble(&e);
                state.log_trouble = Some(trouble.clone());
                Err(state.refuse(count, trouble))
            }
        }
    }

    fn full(&self, state: &State) -> bool {
        let memory = match self.dir {
            Some(_) => self.options.flush_memory_bytes,
            // A full store in memory drops whole memory segments, so each should be a small part of the store.
            None => (self.options.max_bytes / 8) as usize,
        };
        // The same holds for a small store on a disk: up to three logs are there beside the segments.
        let log = state.active.log.as_ref().map_or(0, Log::len);
        state.active.rows >= self.options.flush_rows
            || state.active.memory_bytes() >= memory.max(1)
            || (log >= self.options.max_bytes / 8 && state.active.rows > 0)
    }

    /// Puts the active memory segment aside, and wakes the flusher.
    pub(crate) fn rotate(&self, state: &mut State) -> Result<(), StoreError> {
        state.rotate(self.dir.as_deref())?;
        if self.dir.is_none() {
            // The rest is for the memory segment that grows now, and for flows.
            let most = self.options.max_bytes / 4 * 3;
            while state.bytes() > most && !state.frozen.is_empty() {
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
