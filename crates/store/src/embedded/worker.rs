//! The two threads of a store: one keeps the log safe, one keeps the files in order.

use super::damage::is_damage;
use super::segment::{self, Segment};
use super::state::{trouble, Frozen, State};
use super::{flush as write, Inner};
use crate::StoreError;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How often the flusher checks without being woken.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a query may run before the files that it started with are removed.
const LONGEST_QUERY: Duration = Duration::from_secs(30);
/// Most room that is kept free below [`Options::max_bytes`](super::Options::max_bytes), bytes.
const MOST_RESERVED: u64 = 512 << 20;

/// Writes and syncs the log until the store closes.
pub(crate) fn log(inner: &Inner) {
    let period = (inner.options.sync_interval / 2).max(Duration::from_millis(1));
    let mut next = Instant::now() + period;
    loop {
        let mut state = inner.lock();
        loop {
            let left = next.saturating_duration_since(Instant::now());
            if inner.closing() {
                return;
            }
            if left.is_zero() {
                break;
            }
            state = inner.closed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        next = Instant::now() + period;
        if let Err(e) = inner.check_space().and_then(|()| inner.sync().and(inner.flows.sync())) {
            inner.lock().log_trouble = Some(trouble(&e));
        }
    }
}

/// Makes segments, merges and drops them until the store closes.
pub(crate) fn flush(inner: &Inner) {
    let Some(dir) = inner.dir.clone() else { return };
    while !inner.closing() {
        // Free room first, because the other steps may need it.
        inner.bury(&dir);
        let worked = inner.flush_one(&dir).and_then(|flushed| {
            inner.retain(&dir)?;
            Ok(flushed || inner.merge_some(&dir)?)
        });
        let mut state = inner.lock();
        let mut pause = PAUSE;
        match worked {
            Ok(worked) => {
                state.flush_trouble = None;
                if worked {
                    continue;
                }
            }
            Err(e) => {
                tracing::warn!("segments cannot be written: {e}");
                state.flush_trouble = Some(trouble(&e));
                // Wait longer after an error: a failed attempt costs as much as a successful one.
                pause = 4 * PAUSE;
            }
        }
        inner.flushed.notify_all();
        let until = Instant::now() + pause;
        while !inner.closing() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            state = inner.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            if state.flush_trouble.is_none() {
                // The loop checks everything again, so early and late wake-ups do no harm.
                break;
            }
        }
    }
    inner.bury(&dir);
}

impl Inner {
    /// Writes the tail to the log, and syncs the log. Success ends a stop.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let files = {
            let mut state = self.lock();
            state.seal()?;
            std::mem::take(&mut state.unsynced)
        };
        for file in &files {
            if let Err(source) = file.sync_data() {
                self.lock().unsynced.extend(files.iter().cloned());
                return Err(StoreError::Io { context: "sync the log".into(), source });
            }
        }
        self.lock().log_trouble = None;
        Ok(())
    }

    /// Stops writing when the file system is nearly full: segments must still fit, because they free the logs.
    pub(super) fn check_space(&self) -> Result<(), StoreError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let fs = rustix::fs::statvfs(dir.as_path()).map_err(|e| super::io("examine", dir, e.into()))?;
        let free = fs.f_bavail.saturating_mul(fs.f_frsize);
        if free >= self.options.min_free_bytes {
            return Ok(());
        }
        let mut state = self.lock();
        if state.frozen.is_empty() && state.active.rows > 0 {
            // A segment is about half as long as its log.
            self.rotate(&mut state)?;
        }
        let needed = self.options.min_free_bytes;
        Err(StoreError::Io {
            context: format!("{} has {free} bytes left, and {needed} are needed", dir.display()),
            source: std::io::ErrorKind::StorageFull.into(),
        })
    }

    /// Makes a segment of the oldest full memory segment, or of the active one when it is old enough.
    fn flush_one(&self, dir: &Path) -> Result<bool, StoreError> {
        let (frozen, id) = {
            let mut state = self.lock();
            let old = state.active_since.elapsed() >= self.options.flush_interval;
            if state.frozen.is_empty() && old && state.active.rows > 0 {
                self.rotate(&mut state)?;
            }
            let Some(frozen) = state.frozen.front().cloned() else { return Ok(false) };
            (frozen, next_id(&mut state))
        };
        let (view, lost) = frozen.view.intact();
        if let (Some((path, _)), true) = (&frozen.log, lost > 0) {
            self.damage.report(path, &format!("{lost} spans can no longer be read"));
        }
        if view.chunks.is_empty() {
            return self.drop_front(&frozen, dir, None);
        }
        let segment = match apart(|| write::write_memory(&view, dir, id)) {
            Ok(segment) => segment,
            Err(e) => {
                segment::remove(dir, id);
                return Err(e);
            }
        };
        self.drop_front(&frozen, dir, Some(segment))
    }

    /// The oldest memory segment has become a segment, if anything was left of it.
    fn drop_front(&self, frozen: &Frozen, dir: &Path, segment: Option<Segment>) -> Result<bool, StoreError> {
        let id = segment.as_ref().map(|s| s.id);
        let mut state = self.lock();
        let before = state.manifest.first_log;
        state.manifest.first_log = frozen.log_id + 1;
        state.manifest.segments.extend(segment);
        if let Err(e) = state.manifest.save(dir) {
            state.manifest.first_log = before;
            if let Some(id) = id {
                state.manifest.segments.pop();
                segment::remove(dir, id);
            }
            return Err(e);
        }
        state.segments = state.manifest.segments.clone().into();
        state.frozen.pop_front();
        if let Some((path, file)) = &frozen.log {
            state.unsynced.retain(|f| !Arc::ptr_eq(f, file));
            // A file left behind has a number below `first_log`, and is removed at the next start.
            let _ = std::fs::remove_file(path);
        }
        self.flushed.notify_all();
        Ok(true)
    }

    /// Room that a look leaves for what is written until the next one: in a small store three logs of an eighth each,
    /// and a segment.
    fn reserved(&self) -> u64 {
        (self.options.max_bytes / 2).min(MOST_RESERVED)
    }

    /// Drops segments that are too old, and the oldest ones while all files together are too large.
    fn retain(&self, dir: &Path) -> Result<(), StoreError> {
        let max_age = u64::try_from(self.options.max_age.as_nanos()).unwrap_or(u64::MAX);
        let oldest = self.age.now_ns().saturating_sub(max_age);
        let most = self.options.max_bytes - self.reserved();
        let mut state = self.lock();
        let mut kept = state.manifest.segments.clone();
        kept.sort_by_key(|s| s.last_ns);
        let mut bytes = state.bytes();
        let mut dropped = Vec::new();
        while let Some(first) = kept.first() {
            if first.last_ns >= oldest && bytes <= most {
                break;
            }
            bytes = bytes.saturating_sub(first.bytes);
            dropped.push(kept.remove(0).id);
        }
        self.replace(&mut state, dir, kept, &dropped)?;
        drop(state);
        self.remove(dir, &dropped);
        Ok(())
    }

    /// Makes `kept` the list of segments, unless nothing is `gone`.
    fn replace(&self, state: &mut State, dir: &Path, kept: Vec<Segment>, gone: &[u64]) -> Result<(), StoreError> {
        if gone.is_empty() {
            return Ok(());
        }
        let before = std::mem::replace(&mut state.manifest.segments, kept);
        if let Err(e) = state.manifest.save(dir) {
            state.manifest.segments = before;
            return Err(e);
        }
        state.segments = state.manifest.segments.clone().into();
        Ok(())
    }

    /// Removes the files of merged segments once no query can need them.
    fn bury(&self, dir: &Path) {
        let mut state = self.lock();
        // When room is short, it matters more than a query that has been running for a long time.
        let now = self.closing() || state.stopped().is_some() || state.bytes() > self.options.max_bytes / 2;
        let old = |at: &Instant| now || at.elapsed() >= LONGEST_QUERY;
        let gone: Vec<u64> = state.merged.iter().filter(|(at, _)| old(at)).map(|(_, s)| s.id).collect();
        state.merged.retain(|(at, _)| !old(at));
        drop(state);
        self.remove(dir, &gone);
    }

    /// Merges some small segments that are neighbours in time, if there are enough of them.
    fn merge_some(&self, dir: &Path) -> Result<bool, StoreError> {
        let (run, id) = {
            let mut state = self.lock();
            if state.stopped().is_some() {
                // Merging needs room for both.
                return Ok(false);
            }
            let run = self.merge_run(dir, &state);
            if run.is_empty() {
                return Ok(false);
            }
            let id = next_id(&mut state);
            (run, id)
        };
        let inputs = run.iter().map(|s| self.segment(dir, s)).collect::<Result<Vec<_>, _>>();
        let merged = match inputs.and_then(|inputs| apart(|| write::merge(&inputs, dir, id))) {
            Ok(merged) => merged,
            Err(e) => {
                segment::remove(dir, id);
                // A damaged segment stays as it is: merging it would lose what can still be read.
                let damaged = run.iter().map(|s| segment::data_path(dir, s.id)).find(|path| is_about(&e, path));
                return match damaged.filter(|_| is_damage(&e)) {
                    Some(path) => {
                        self.damage.report(&path, &e);
                        Ok(true)
                    }
                    None => Err(e),
                };
            }
        };
        let gone: Vec<u64> = run.iter().map(|s| s.id).collect();
        let mut state = self.lock();
        let mut kept = state.manifest.segments.clone();
        kept.retain(|s| !gone.contains(&s.id));
        kept.push(merged);
        self.replace(&mut state, dir, kept, &gone)?;
        state.merged.extend(run.into_iter().map(|segment| (Instant::now(), segment)));
        Ok(true)
    }

    /// Small segments that are worth merging, if there is room for what they become.
    fn merge_run(&self, dir: &Path, state: &State) -> Vec<Segment> {
        let whole = |s: &&Segment| {
            ![segment::data_path(dir, s.id), segment::keys_path(dir, s.id)].iter().any(|path| self.damage.has(path))
        };
        let segments: Vec<Segment> = state.segments.iter().filter(whole).cloned().collect();
        // Segments are dropped as a whole, so each should be a small part of the store.
        let mut run =
            merge_run(&segments, self.options.merge_rows, self.options.max_bytes / 8, self.options.merge_count);
        // Logs grow while segments are merged.
        let room = (self.options.max_bytes - self.reserved() / 2).saturating_sub(state.bytes());
        if run.iter().map(|s| s.bytes).sum::<u64>() > room {
            run.clear();
        }
        run
    }

    /// Makes segments of everything, and merges; waits for the flusher.
    pub(crate) fn compact(&self) -> Result<(), StoreError> {
        self.sync()?;
        let mut state = self.lock();
        if state.active.rows > 0 {
            self.rotate(&mut state)?;
        }
        while let (Some(dir), false) = (&self.dir, self.closing()) {
            let small = self.merge_run(dir, &state);
            if state.frozen.is_empty() && small.is_empty() {
                break;
            }
            if let Some(trouble) = state.stopped() {
                return Err(StoreError::Stopped(trouble.clone()));
            }
            self.work.notify_one();
            state = self.flushed.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// Runs a step on a thread of its own. Allocators keep freed memory for the thread that freed it. This step takes 30 MB
/// once a minute, and the memory goes back when its thread ends.
fn apart(work: impl FnOnce() -> Result<Segment, StoreError> + Send) -> Result<Segment, StoreError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("store-write".into()).spawn_scoped(scope, work);
        let thread = thread.map_err(|source| StoreError::Io { context: "start a thread".into(), source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn next_id(state: &mut State) -> u64 {
    let id = state.manifest.next;
    state.manifest.next += 1;
    id
}

/// Whether an error is about the files of a segment.
fn is_about(e: &StoreError, path: &Path) -> bool {
    let path = path.with_extension("");
    match e {
        StoreError::Corrupt { file, .. } => Path::new(file).with_extension("") == path,
        StoreError::Io { context, .. } => context.contains(&*path.to_string_lossy()),
        _ => false,
    }
}

/// The first run of small segments, by time, that is worth merging: at least `count` of them, or enough rows.
fn merge_run(segments: &[Segment], rows: u64, bytes: u64, count: usize) -> Vec<Segment> {
    let mut sorted: Vec<_> = segments.iter().collect();
    sorted.sort_by_key(|s| (s.first_ns, s.id));
    let mut run: Vec<Segment> = Vec::new();
    let mut sum = 0;
    for s in sorted {
        if s.rows >= rows / 2 || s.bytes >= bytes / 2 {
            // A large neighbour is left alone; the run before it may be merged.
            if run.len() >= count {
                return run;
            }
            run.clear();
            sum = 0;
            continue;
        }
        let size: u64 = run.iter().map(|s| s.bytes).sum();
        if (sum + s.rows > rows || size + s.bytes > bytes) && run.len() > 1 {
            return run;
        }
        sum += s.rows;
        run.push(s.clone());
    }
    if run.len() >= count {
        run
    } else {
        Vec::new()
    }
}
