//! Flows: append-only files of compressed blocks, in the order of arrival; few enough that a query reads blocks whole.
//!
//! `flows/N.log` is [`MAGIC`], then frames: `length u32 | crc32 u32 | first ns u64 | last ns u64 | flows u32 | payload`
//! (little endian; the checksum is over all behind it; the payload is LZ4 of postcard). The heads are kept in memory. A
//! torn frame ends a file, as in the log of spans. Whole files are dropped by age, and the oldest when all are too
//! large.

use super::{corrupt, io};
use crate::{StoreError, TimeRange};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
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
    state: Mutex<State>,
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

impl FlowLog {
    /// Opens the flows of a store's directory, or keeps them in memory.
    pub(crate) fn open(dir: Option<&Path>, max_age: Duration, max_bytes: u64) -> Result<FlowLog, StoreError> {
        let mut state = State::default();
        let dir = dir.map(|d| d.join("flows"));
        let max_bytes = if dir.is_some() { max_bytes / SHARE } else { (max_bytes / SHARE).min(MAX_MEMORY) };
        if let Some(dir) = &dir {
            fs::create_dir_all(dir).map_err(|e| io("create", dir, e))?;
            let entries = fs::read_dir(dir).map_err(|e| io("read", dir, e))?;
            let mut numbers: Vec<u64> =
                entries.flatten().filter_map(|e| e.file_name().to_str()?.strip_suffix(".log")?.parse().ok()).collect();
            numbers.sort_unstable();
            for number in numbers {
                state.parts.push_back(read_part(dir, number)?);
            }
        }
        let log = FlowLog { dir, max_age, max_bytes, state: Mutex::new(state) };
        log.retain(&mut log.lock());
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
                    let part = state.memory_part();
                    part.len += payload.len() as u64;
                    Place::Memory(payload.into())
                }
                Some(dir) => state.write(dir, first_ns, last_ns, flows.len() as u32, &payload)?,
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
            let flows = block.read()?;
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

    /// Drops files that are too old, and the oldest while all are too large; never the file that is being written,
    /// unless it is in memory.
    fn retain(&self, state: &mut State) {
        let oldest_ns = now_ns().saturating_sub(self.max_age.as_nanos() as u64);
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
    fn memory_part(&mut self) -> &mut Part {
        if self.parts.back().is_none_or(|p| p.len >= MAX_FILE / 4) {
            self.parts.push_back(Part { file: None, len: 0, blocks: Vec::new() });
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// Appends a frame to the last file, or to a new one. After an error the file is as it was.
    fn write(&mut self, dir: &Path, first: u64, last: u64, count: u32, payload: &[u8]) -> Result<Place, StoreError> {
        if self.parts.back().is_none_or(|p| p.len >= MAX_FILE) {
            let full = self.parts.back().and_then(|p| p.file.clone());
            let number = full.as_ref().map_or(0, |f| f.0 + 1);
            if let Some((_, path, file)) = full {
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

/// Reads the heads of a file, checks its frames, and cuts a torn tail off.
fn read_part(dir: &Path, number: u64) -> Result<Part, StoreError> {
    let path: Arc<Path> = dir.join(format!("{number:08}.log")).into();
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|e| io("open", &path, e))?;
    let file = Arc::new(file);
    let bytes = fs::read(&path).map_err(|e| io("read", &path, e))?;
    let mut part =
        Part { file: Some((number, path.clone(), file.clone())), len: MAGIC.len() as u64, blocks: Vec::new() };
    if bytes.len() < MAGIC.len() {
        // The machine stopped before the first byte was on the disk.
        file.write_all_at(MAGIC, 0).map_err(|e| io("write", &path, e))?;
        return Ok(part);
    }
    if !bytes.starts_with(MAGIC) {
        return Err(corrupt(&path, "not flows of this version of wirespan"));
    }
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let frame = |at: usize| {
        let (len, crc) = (u32_at(at)?, u32_at(at + 4)?);
        let (first_ns, last_ns) = (u64_at(at + 8)?, u64_at(at + 16)?);
        let body = bytes.get(at + 8..at + HEAD + len as usize)?;
        let whole = u64::from(len) <= MAX_FRAME && crc32fast::hash(body) == crc;
        let place = Place::File { file: file.clone(), path: path.clone(), at: at as u64, len, crc };
        whole.then_some(Block { first_ns, last_ns, place })
    };
    while let Some(block) = frame(part.len as usize) {
        if let Place::File { len, .. } = &block.place {
            part.len += HEAD as u64 + u64::from(*len);
        }
        part.blocks.push(block);
    }
    if part.len < bytes.len() as u64 {
        file.set_len(part.len).map_err(|e| io("truncate", &path, e))?;
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use wirespan_model::{FlowCounts, FlowKey, Role, Transport};

    const AGE: Duration = Duration::from_secs(1 << 32);

    fn flow(n: u64) -> Flow {
        let ip = IpAddr::V4(Ipv4Addr::from(n as u32));
        let key = FlowKey {
            host_id: 1,
            role: Role::Client,
            transport: Transport::Tcp,
            local: ip,
            remote: ip,
            port: 80,
            pid: n as u32,
            process_start_ns: n,
            netns: 1,
        };
        let counts = FlowCounts { bytes_sent: n, drops: [("NO_SOCKET".into(), n)].into(), ..FlowCounts::default() };
        let (comm, resource) = ("c".into(), Arc::default());
        Flow { start_ns: n * 10, end_ns: n * 10 + 10, key, comm, cgroup_id: 0, client_port: 1, resource, counts }
    }

    fn scan(log: &FlowLog, from_ns: u64, to_ns: u64) -> Vec<u64> {
        let mut found = Vec::new();
        log.scan(TimeRange { from_ns, to_ns }, &mut |f| found.push(f.counts.bytes_sent)).unwrap();
        found
    }

    #[test]
    fn windows_that_touch_the_range_are_found_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        for dir in [None, Some(dir.path())] {
            let log = FlowLog::open(dir, AGE, 1 << 30).unwrap();
            (0..100).for_each(|n| log.append(&[flow(n), flow(n)]).unwrap());
            assert_eq!(scan(&log, 505, 520), [50, 50, 51, 51]);
            assert_eq!(scan(&log, 0, u64::MAX).len(), 200);
        }
        let log = FlowLog::open(Some(dir.path()), AGE, 1 << 30).unwrap();
        assert_eq!(scan(&log, 505, 520), [50, 50, 51, 51]);
        assert!(log.sync().is_ok() && log.disk_bytes() > 1000);
    }

    #[test]
    fn a_torn_tail_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let log = FlowLog::open(Some(dir.path()), AGE, 1 << 30).unwrap();
        log.append(&[flow(1)]).unwrap();
        let whole = log.disk_bytes();
        log.append(&[flow(2)]).unwrap();
        let end = log.disk_bytes();
        drop(log);
        let path = dir.path().join("flows/00000000.log");
        let bytes = fs::read(&path).unwrap();
        for cut in [whole, whole + 3, whole + HEAD as u64, end - 1] {
            fs::write(&path, &bytes[..cut as usize]).unwrap();
            let log = FlowLog::open(Some(dir.path()), AGE, 1 << 30).unwrap();
            assert_eq!(scan(&log, 0, u64::MAX), [1], "cut at {cut}");
            log.append(&[flow(3)]).unwrap();
            assert_eq!(scan(&log, 0, u64::MAX), [1, 3]);
        }
        let mut damaged = bytes.clone();
        damaged[whole as usize + HEAD] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(scan(&FlowLog::open(Some(dir.path()), AGE, 1 << 30).unwrap(), 0, u64::MAX), [1]);
        fs::write(&path, b"something else").unwrap();
        assert!(FlowLog::open(Some(dir.path()), AGE, 1 << 30).is_err());
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stay() {
        let log = FlowLog::open(None, AGE, 16 << 20).unwrap();
        for n in 0..4000u64 {
            let many: Vec<Flow> =
                (0..100u64).map(|i| flow((n * 100 + i).wrapping_mul(2_654_435_761) % (1 << 40))).collect();
            log.append(&many).unwrap();
        }
        log.append(&[flow(7)]).unwrap();
        let total: u64 = log.lock().parts.iter().map(|p| p.len).sum();
        assert!(total <= (2 << 20) + MAX_FILE / 4, "{total}");
        assert_eq!(scan(&log, 70, 80).last(), Some(&7));
    }
}
