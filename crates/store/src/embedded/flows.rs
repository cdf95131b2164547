//! Flows: append-only files of compressed blocks, in the order of arrival; few enough that a query reads blocks whole.
//!
//! `flows/N.log` is [`MAGIC`], then frames: `length u32 | crc32 u32 | first ns u64 | last ns u64 | flows u32 | payload`
//! (little endian; the checksum is over all behind it; the payload is LZ4 of postcard). The heads are kept in memory. A
//! damaged frame costs itself, as in the log of spans. Whole files are dropped by age, and the oldest when all are too
//! large.

use super::age::Age;
use super::damage::{is_damage, Damage};
use super::{corrupt, io, Options};
use crate::{StoreError, TimeRange};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wirespan_model::Flow;

const MAGIC: &[u8; 8] = b"WSFLOW01";
const HEAD: usize = 28;
/// Flows per block.
const BLOCK: usize = 2048;
/// A file is finished at this length, bytes.
const MAX_FILE: u64 = 16 << 20;
/// Longest frame that is accepted, bytes.
const MAX_FRAME: u64 = 64 << 20;
/// Flows may take this share of the store's limit, or this much without a directory.
const SHARE: u64 = 8;
const MAX_MEMORY: u64 = 64 << 20;

/// Where the payload of a block is.
#[derive(Clone)]
enum Place {
    Memory(Arc<[u8]>),
    File { file: Arc<File>, path: Arc<Path>, at: u64, len: u32, crc: u32 },
}

#[derive(Clone)]
struct Block {
    first_ns: u64,
    last_ns: u64,
    place: Place,
}

struct Part {
    /// Its number, path and file, if it is one.
    file: Option<(u64, Arc<Path>, Arc<File>)>,
    len: u64,
    blocks: Vec<Block>,
    /// Whether this process made the file. A file of an earlier one is only read.
    writable: bool,
}

#[derive(Default)]
struct State {
    parts: VecDeque<Part>,
    /// Whether the last file has data that are not synced.
    dirty: bool,
}

/// The flows of a store.
pub(crate) struct FlowLog {
    dir: Option<PathBuf>,
    max_age: Duration,
    max_bytes: u64,
    /// Longest file, bytes.
    max_file: u64,
    state: Mutex<State>,
    age: Arc<Age>,
    damage: Arc<Damage>,
}

impl FlowLog {
    /// Opens the flows of a store's directory, or keeps them in memory. If they are only `looked` at, no file is
    /// changed.
    pub(crate) fn open(
        dir: Option<&Path>,
        options: &Options,
        age: &Arc<Age>,
        damage: &Arc<Damage>,
        looked: bool,
    ) -> Result<FlowLog, StoreError> {
        let mut state = State::default();
        let dir = dir.map(|d| d.join("flows"));
        let share = options.max_bytes / SHARE;
        let max_bytes = if dir.is_some() { share } else { share.min(MAX_MEMORY) };
        if let Some(dir) = dir.as_ref().filter(|dir| !looked || dir.is_dir()) {
            if !looked {
                fs::create_dir_all(dir).map_err(|e| io("create", dir, e))?;
            }
            let entries = fs::read_dir(dir).map_err(|e| io("read", dir, e))?;
            let mut numbers: Vec<u64> =
                entries.flatten().filter_map(|e| e.file_name().to_str()?.strip_suffix(".log")?.parse().ok()).collect();
            numbers.sort_unstable();
            for number in numbers {
                state.parts.push_back(read_part(dir, number, damage)?);
            }
        }
        let (age, damage) = (age.clone(), damage.clone());
        // Files are dropped as a whole, and the one that is being written never: each is a small part of the share.
        let max_file = (max_bytes / 4).clamp(4096, MAX_FILE);
        let max_age = options.max_age;
        let log = FlowLog { dir, max_age, max_bytes, max_file, state: Mutex::new(state), age, damage };
        if !looked {
            log.retain(&mut log.lock());
        }
        Ok(log)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds flows; they can be found when this returns.
    pub(crate) fn append(&self, flows: &[Flow]) -> Result<(), StoreError> {
        let mut state = self.lock();
        for flows in flows.chunks(BLOCK) {
            let first_ns = flows.iter().map(|f| f.start_ns).min().unwrap_or(0);
            let last_ns = flows.iter().map(|f| f.end_ns).max().unwrap_or(0);
            let raw = postcard::to_stdvec(flows).map_err(|e| StoreError::Query(format!("a flow: {e}")))?;
            let payload = lz4_flex::block::compress_prepend_size(&raw);
            let place = match &self.dir {
                None => {
                    let part = state.memory_part(self.max_file.min(MAX_FILE / 4));
                    part.len += payload.len() as u64;
                    Place::Memory(payload.into())
                }
                Some(dir) => state.write(dir, self.max_file, first_ns, last_ns, flows.len() as u32, &payload)?,
            };
            if let Some(part) = state.parts.back_mut() {
                part.blocks.push(Block { first_ns, last_ns, place });
            }
        }
        self.retain(&mut state);
        Ok(())
    }

    /// Shows each flow with a window that touches the range, in the order of arrival.
    pub(crate) fn scan(&self, range: TimeRange, visit: &mut dyn FnMut(&Flow)) -> Result<(), StoreError> {
        let touches = |first: u64, last: u64| first < range.to_ns && (last > range.from_ns || first >= range.from_ns);
        let blocks: Vec<Block> = {
            let state = self.lock();
            let all = state.parts.iter().flat_map(|p| &p.blocks);
            all.filter(|b| touches(b.first_ns, b.last_ns)).cloned().collect()
        };
        for block in blocks {
            let flows = match block.read() {
                Ok(flows) => flows,
                Err(e) if is_damage(&e) => {
                    self.damage.report(block.path(), &e);
                    continue;
                }
                Err(e) => return Err(e),
            };
            flows.iter().filter(|f| touches(f.start_ns, f.end_ns)).for_each(&mut *visit);
        }
        Ok(())
    }

    /// Makes everything durable that was added so far.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let (file, path) = {
            let mut state = self.lock();
            if !std::mem::take(&mut state.dirty) {
                return Ok(());
            }
            let Some((_, path, file)) = state.parts.back().and_then(|p| p.file.clone()) else { return Ok(()) };
            (file, path)
        };
        file.sync_data().map_err(|e| {
            self.lock().dirty = true;
            io("sync", &path, e)
        })
    }

    /// Bytes on disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.lock().parts.iter().filter(|p| p.file.is_some()).map(|p| p.len).sum()
    }

    /// Bytes in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.lock().parts.iter().filter(|p| p.file.is_none()).map(|p| p.len).sum()
    }

    /// Drops files that are too old, and the oldest while all are too large; never the file that is being written,
    /// unless it is in memory.
    fn retain(&self, state: &mut State) {
        let max_age = u64::try_from(self.max_age.as_nanos()).unwrap_or(u64::MAX);
        let oldest_ns = self.age.now_ns().saturating_sub(max_age);
        let mut total: u64 = state.parts.iter().map(|p| p.len).sum();
        while state.parts.len() > 1 {
            let Some(part) = state.parts.front() else { return };
            let last_ns = part.blocks.iter().map(|b| b.last_ns).max().unwrap_or(0);
            if total <= self.max_bytes && last_ns >= oldest_ns {
                return;
            }
            if let Some((_, path, _)) = &part.file {
                if let Err(error) = fs::remove_file(path) {
                    tracing::warn!(path = %path.display(), %error, "old flows cannot be removed");
                    return;
                }
            }
            total -= part.len;
            state.parts.pop_front();
        }
    }
}

impl State {
    fn memory_part(&mut self, max_file: u64) -> &mut Part {
        if self.parts.back().is_none_or(|p| p.len >= max_file) {
            self.parts.push_back(Part { file: None, len: 0, blocks: Vec::new(), writable: true });
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// Appends a frame to the last file, or to a new one. After an error the file is as it was.
    fn write(
        &mut self,
        dir: &Path,
        max_file: u64,
        first: u64,
        last: u64,
        count: u32,
        payload: &[u8],
    ) -> Result<Place, StoreError> {
        if self.parts.back().is_none_or(|p| p.len >= max_file || !p.writable) {
            let full = self.parts.back().and_then(|p| p.file.clone());
            let number = full.as_ref().map_or(0, |f| f.0 + 1);
            if let Some((_, path, file)) = full.filter(|_| self.dirty) {
                file.sync_data().map_err(|e| io("sync", &path, e))?;
            }
            let path: Arc<Path> = dir.join(format!("{number:08}.log")).into();
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
            let file = Arc::new(file.map_err(|e| io("create", &path, e))?);
            file.write_all_at(MAGIC, 0).map_err(|e| io("write", &path, e))?;
            self.parts.push_back(Part {
                file: Some((number, path, file)),
                len: MAGIC.len() as u64,
                blocks: Vec::new(),
                writable: true,
            });
        }
        let Some(Part { file: Some((_, path, file)), len, .. }) = self.parts.back_mut() else {
            return Err(StoreError::Stopped("flows have no file".into()));
        };
        let mut frame = Vec::with_capacity(HEAD + payload.len());
        frame.extend((payload.len() as u32).to_le_bytes());
        frame.extend([0; 4]);
        frame.extend(first.to_le_bytes());
        frame.extend(last.to_le_bytes());
        frame.extend(count.to_le_bytes());
        frame.extend(payload);
        let crc = crc32fast::hash(&frame[8..]);
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        if let Err(e) = file.write_all_at(&frame, *len) {
            let _ = file.set_len(*len);
            return Err(io("write", path, e));
        }
        let at = *len;
        *len += frame.len() as u64;
        self.dirty = true;
        Ok(Place::File { file: file.clone(), path: path.clone(), at, len: payload.len() as u32, crc })
    }
}

impl Block {
    fn path(&self) -> &Path {
        match &self.place {
            Place::Memory(_) => Path::new("flows in memory"),
            Place::File { path, .. } => path,
        }
    }

    fn read(&self) -> Result<Vec<Flow>, StoreError> {
        let decode = |bytes: &[u8], path: &Path| {
            let raw = lz4_flex::block::decompress_size_prepended(bytes).map_err(|e| corrupt(path, e))?;
            postcard::from_bytes(&raw).map_err(|e| corrupt(path, e))
        };
        match &self.place {
            Place::Memory(bytes) => decode(bytes, Path::new("flows in memory")),
            Place::File { file, path, at, len, crc, .. } => {
                let mut frame = vec![0; HEAD + *len as usize];
                file.read_exact_at(&mut frame, *at).map_err(|e| io("read", path, e))?;
                if crc32fast::hash(&frame[8..]) != *crc {
                    return Err(corrupt(path, format!("the block at {at} is damaged")));
                }
                decode(&frame[HEAD..], path)
            }
        }
    }
}

/// Reads the heads of a file and checks its frames. A frame that is damaged costs itself; the file is not changed.
fn read_part(dir: &Path, number: u64, damage: &Damage) -> Result<Part, StoreError> {
    let path: Arc<Path> = dir.join(format!("{number:08}.log")).into();
    let file = Arc::new(File::open(&path).map_err(|e| io("open", &path, e))?);
    let bytes = match fs::read(&path).map_err(|e| io("read", &path, e)) {
        Ok(bytes) => bytes,
        Err(e) if is_damage(&e) => {
            damage.report(&path, &e);
            Vec::new()
        }
        Err(e) => return Err(e),
    };
    let (len, blocks) = (bytes.len() as u64, Vec::new());
    let mut part = Part { file: Some((number, path.clone(), file.clone())), len, blocks, writable: false };
    if bytes.len() >= MAGIC.len() && !bytes.starts_with(MAGIC) {
        damage.report(&path, &"these are no flows of this version of wirespan");
        return Ok(part);
    }
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let frame = |at: usize| {
        let (len, crc) = (u32_at(at)?, u32_at(at + 4)?);
        let (first_ns, last_ns) = (u64_at(at + 8)?, u64_at(at + 16)?);
        // Checked first: a damaged frame is looked through byte by byte.
        let plausible = u64::from(len) <= MAX_FRAME && u32_at(at + 24)? as usize <= BLOCK;
        let body = bytes.get(at + 8..at + HEAD + len as usize).filter(|_| plausible)?;
        let place = Place::File { file: file.clone(), path: path.clone(), at: at as u64, len, crc };
        let next = at + HEAD + len as usize;
        (crc32fast::hash(body) == crc).then_some((next, Block { first_ns, last_ns, place }))
    };
    let (mut at, mut lost) = (MAGIC.len(), 0);
    while at < bytes.len() {
        if let Some((next, block)) = frame(at) {
            part.blocks.push(block);
            at = next;
        } else if let Some(whole) = (at + 1..bytes.len()).find(|at| frame(*at).is_some()) {
            lost += whole - at;
            at = whole;
        } else {
            // The frame that was being written when the machine stopped.
            break;
        }
    }
    if lost > 0 {
        damage.report(&path, &format!("{lost} bytes are damaged and left out"));
    }
    Ok(part)
}

#[cfg(test)]
#[path = "flows_tests.rs"]
mod tests;
