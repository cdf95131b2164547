//! The newest spans: encoded batches ("chunks") with a key index each, searched like the segments on disk.
//!
//! A chunk's bytes are those of the log, and are read back from there (the page cache holds them), so that half a
//! million spans cost about 30 bytes of memory each. A store without a directory keeps the bytes in memory instead.

use super::encode;
use super::log::{self, FrameWriter, Log};
use super::names::Names;
use super::schema::{Col, HOT, KEY_COLUMNS};
use super::view::View;
use crate::{StoreError, TimeRange};
use arrow_array::{RecordBatch, StringArray};
use arrow_schema::ArrowError;
use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use wirespan_model::{Key, KeyKind, Span};

/// Most rows of a chunk: what a look-up decompresses, and what `append` gathers before it writes.
pub(crate) const CHUNK_ROWS: usize = 2048;

/// 32 bits of a key. Ids may be counters, so they are mixed here.
pub(crate) fn hash32(value: u64) -> u32 {
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// A key in one number, so that a batch's keys sort fast: kind, hash, row.
pub(crate) fn pack(key: Key, row: u16) -> u64 {
    (key.kind as u64) << 48 | u64::from(hash32(key.value)) << 16 | u64::from(row)
}

/// Rows by key, sorted per kind.
#[derive(Default)]
pub(crate) struct KeyIndex {
    starts: [u32; KeyKind::ALL.len() + 1],
    hashes: Box<[u32]>,
    rows: Box<[u16]>,
}

impl KeyIndex {
    /// An index of packed keys.
    fn new(keys: &mut [u64]) -> KeyIndex {
        keys.sort_unstable();
        let mut starts = [0; KeyKind::ALL.len() + 1];
        for (i, kind) in KeyKind::ALL.into_iter().enumerate() {
            starts[i + 1] = keys.partition_point(|k| k >> 48 <= kind as u64) as u32;
        }
        KeyIndex {
            starts,
            hashes: keys.iter().map(|k| (k >> 16) as u32).collect(),
            rows: keys.iter().map(|k| *k as u16).collect(),
        }
    }

    /// Hashes within a range and their rows, of a kind, by hash.
    pub(crate) fn entries(&self, kind: KeyKind, of: Range<u64>) -> impl ExactSizeIterator<Item = (u32, u16)> + '_ {
        let i = kind as usize - 1;
        let (from, to) = (self.starts[i] as usize, self.starts[i + 1] as usize);
        let first = |bound: u64| from + self.hashes[from..to].partition_point(|h| u64::from(*h) < bound);
        let range = first(of.start)..first(of.end);
        self.hashes[range.clone()].iter().copied().zip(self.rows[range].iter().copied())
    }

    /// Rows that may have the key.
    fn rows(&self, key: Key) -> &[u16] {
        let i = key.kind as usize - 1;
        let (from, to) = (self.starts[i] as usize, self.starts[i + 1] as usize);
        let hash = hash32(key.value);
        let hashes = &self.hashes[from..to];
        let a = hashes.partition_point(|h| *h < hash);
        let b = a + hashes[a..].partition_point(|h| *h == hash);
        &self.rows[from + a..from + b]
    }

    fn bytes(&self) -> usize {
        self.hashes.len() * 6 + 200
    }
}

enum Bytes {
    /// In the log, with the checksums of its two parts.
    Log {
        at: u64,
        len: usize,
        crcs: [u32; 2],
    },
    Memory(Vec<u8>),
}

/// One encoded batch.
pub(crate) struct Chunk {
    pub(crate) rows: usize,
    /// First and last start time, Unix ns.
    pub(crate) starts: (u64, u64),
    /// Longest duration, ns.
    pub(crate) longest_ns: u64,
    pub(crate) index: KeyIndex,
    bytes: Bytes,
    /// Length of its first part, see [`log::hot_len`].
    hot: usize,
}

impl Chunk {
    pub(crate) fn overlaps(&self, range: TimeRange) -> bool {
        self.starts.0 < range.to_ns && self.starts.1 >= range.from_ns
    }

    /// Encoded length, bytes.
    pub(crate) fn len(&self) -> usize {
        match &self.bytes {
            Bytes::Log { len, .. } => *len,
            Bytes::Memory(bytes) => bytes.len(),
        }
    }
}

/// The part of a memory segment that queries see. It does not change.
#[derive(Clone)]
pub(crate) struct MemoryView {
    pub(crate) chunks: Vec<Arc<Chunk>>,
    texts: Arc<StringArray>,
    file: Option<Arc<File>>,
}

impl MemoryView {
    /// Columns of a chunk, names as integers. If only hot columns are asked for, the others are not read.
    pub(crate) fn narrow(&self, chunk: &Chunk, columns: Option<&[Col]>) -> Result<RecordBatch, StoreError> {
        let broken = |e| super::broken("log", e);
        let hot_only = columns.is_some_and(|c| c.iter().all(|c| (*c as usize) < HOT));
        let bytes = self.bytes(chunk, hot_only)?;
        let (hot, cold) = (&bytes[4..chunk.hot], &bytes[chunk.hot..]);
        if hot_only {
            return log::read_block(hot, true, columns).map_err(broken);
        }
        let (hot, cold) = match columns {
            None => (log::read_block(hot, true, None), log::read_block(cold, false, None)),
            Some(columns) => {
                let (hot_cols, cold_cols): (Vec<_>, Vec<_>) = columns.iter().partition(|c| (**c as usize) < HOT);
                (log::read_block(hot, true, Some(&hot_cols)), log::read_block(cold, false, Some(&cold_cols)))
            }
        };
        log::beside(&hot.map_err(broken)?, &cold.map_err(broken)?).map_err(broken)
    }

    /// Encoded bytes of a chunk, or of its hot columns, checked if they come from the log.
    fn bytes<'a>(&self, chunk: &'a Chunk, hot_only: bool) -> Result<Cow<'a, [u8]>, StoreError> {
        let len = if hot_only { chunk.hot } else { chunk.len() };
        match (&chunk.bytes, &self.file) {
            (Bytes::Memory(bytes), _) => Ok(bytes[..len].into()),
            (Bytes::Log { at, crcs, .. }, Some(file)) => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, *at)
                    .map_err(|source| StoreError::Io { context: "read the log".into(), source })?;
                let (hot, cold) = bytes.split_at(chunk.hot);
                if crc32fast::hash(hot) != crcs[0] || !(hot_only || crc32fast::hash(cold) == crcs[1]) {
                    return Err(super::broken("log", format!("the batch at {at} does not match its checksum")));
                }
                Ok(bytes.into())
            }
            (Bytes::Log { .. }, None) => Err(super::broken("log", "a chunk has lost its file")),
        }
    }

    /// Columns of a chunk, names as dictionaries.
    pub(crate) fn wide(&self, chunk: &Chunk, columns: Option<&[Col]>) -> Result<RecordBatch, StoreError> {
        self.widen(&self.narrow(chunk, columns)?)
    }

    /// Adds the texts to the integers of a batch of this segment.
    pub(crate) fn widen(&self, batch: &RecordBatch) -> Result<RecordBatch, StoreError> {
        encode::widen(batch, &self.texts).map_err(|e| super::broken("log", e))
    }

    /// The same without the chunks that can no longer be read; with the number of spans that are lost with them.
    pub(crate) fn intact(&self) -> (MemoryView, usize) {
        let mut view = self.clone();
        view.chunks.retain(|chunk| self.bytes(chunk, false).is_ok());
        let lost = self.rows() - view.rows();
        (view, lost)
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.chunks.iter().map(|c| c.rows).sum()
    }

    /// Spans that have one of the keys and start in the range. Stops when `found` returns false. `lost` decides about a
    /// chunk that cannot be read.
    pub(crate) fn find(
        &self,
        keys: &[Key],
        range: TimeRange,
        lost: &mut dyn FnMut(StoreError) -> Result<(), StoreError>,
        found: &mut dyn FnMut(Arc<Span>) -> bool,
    ) -> Result<bool, StoreError> {
        let mut rows = Vec::new();
        for chunk in self.chunks.iter().rev().filter(|c| c.overlaps(range)) {
            rows.clear();
            keys.iter().for_each(|k| rows.extend_from_slice(chunk.index.rows(*k)));
            if rows.is_empty() {
                continue;
            }
            rows.sort_unstable();
            rows.dedup();
            let batch = match self.wide(chunk, None) {
                Ok(batch) => batch,
                Err(e) => {
                    lost(e)?;
                    continue;
                }
            };
            let mut view = View::new(&batch);
            for row in &rows {
                let span = view.span(usize::from(*row));
                if super::has_key(&span, keys, range) && !found(Arc::new(span)) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// A memory segment that still grows, with its log.
pub(crate) struct Memory {
    chunks: Vec<Arc<Chunk>>,
    names: Names,
    /// Names that the log has.
    logged: usize,
    /// Names that the log had before its last frame. The next frame has those behind them again, so that no single
    /// damaged frame loses a name.
    again: usize,
    frames: FrameWriter,
    pub(crate) log: Option<Log>,
    pub(crate) rows: usize,
    /// Bytes of the index and the names.
    index_bytes: usize,
    /// Bytes of the chunks.
    pub(crate) data_bytes: u64,
}

impl Memory {
    /// An empty one; its chunks go to the log, if there is one.
    pub(crate) fn new(log: Option<Log>) -> Result<Memory, StoreError> {
        Ok(Memory {
            chunks: Vec::new(),
            names: Names::default(),
            logged: 0,
            again: 0,
            frames: FrameWriter::new(),
            log,
            rows: 0,
            index_bytes: 0,
            data_bytes: 0,
        })
    }

    /// Memory in use, bytes, roughly.
    pub(crate) fn memory_bytes(&self) -> usize {
        let data = if self.log.is_some() { 0 } else { self.data_bytes as usize };
        data + self.index_bytes + self.names.bytes()
    }

    /// Encodes the spans as a chunk and writes it to the log. After an error the segment is unchanged. `keys` are
    /// packed.
    pub(crate) fn push(&mut self, spans: &[Arc<Span>], keys: &mut [u64]) -> Result<(), StoreError> {
        let batch = encode::encode(spans, &mut self.names).map_err(|e| super::broken("memory segment", e))?;
        let mut payload = self.frames.payload(&batch).map_err(|e| super::broken("memory segment", e))?;
        let len = payload.len();
        let hot = log::hot_len(&payload).unwrap_or(len);
        let bytes = match &mut self.log {
            None => {
                payload.shrink_to_fit();
                Bytes::Memory(payload)
            }
            Some(log) => match log.append(self.again, self.names.since(self.again), &payload) {
                Ok(at) => Bytes::Log { at, len, crcs: crcs(&payload, hot) },
                Err(e) => {
                    self.names.truncate(self.logged);
                    return Err(e);
                }
            },
        };
        (self.again, self.logged) = (self.logged, self.names.len());
        let times = || spans.iter().map(|s| s.start_ns.min(encode::LAST_NS));
        let starts = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let longest_ns = spans.iter().map(|s| s.duration_ns()).max().unwrap_or(0);
        self.add(Chunk { rows: spans.len(), starts, longest_ns, index: KeyIndex::new(keys), bytes, hot });
        Ok(())
    }

    fn add(&mut self, chunk: Chunk) {
        self.rows += chunk.rows;
        self.index_bytes += chunk.index.bytes();
        self.data_bytes += chunk.len() as u64;
        self.chunks.push(Arc::new(chunk));
    }

    /// Rebuilds a memory segment from a log that was left behind; returns it with what was wrong with the log.
    pub(crate) fn replay(path: &std::path::Path) -> Result<(MemoryView, log::Damage), StoreError> {
        let mut memory = Memory::new(None)?;
        let (file, damage) = log::replay(path, &mut |frame| {
            memory.names.replay(frame.base.unwrap_or(memory.names.len()), frame.names);
            let Some((payload, at)) = frame.batch else { return true };
            let texts = memory.names.array();
            match rebuild(&payload, at, &texts) {
                Ok(chunk) => {
                    memory.add(chunk);
                    true
                }
                Err(_) => false,
            }
        })?;
        let mut view = memory.view();
        view.file = Some(file);
        Ok((view, damage))
    }

    /// The snapshot that queries see now.
    pub(crate) fn view(&mut self) -> MemoryView {
        MemoryView {
            chunks: self.chunks.clone(),
            texts: self.names.array(),
            file: self.log.as_ref().map(|l| l.file.clone()),
        }
    }
}

/// Checksums of the two parts of a payload.
fn crcs(payload: &[u8], hot: usize) -> [u32; 2] {
    let (hot, cold) = payload.split_at(hot.min(payload.len()));
    [crc32fast::hash(hot), crc32fast::hash(cold)]
}

/// The chunk of a batch found in a log.
fn rebuild(payload: &[u8], at: u64, texts: &Arc<StringArray>) -> Result<Chunk, ArrowError> {
    let hot = log::hot_len(payload).ok_or_else(|| ArrowError::IpcError("a batch is cut short".into()))?;
    let hot_batch = log::read_block(&payload[4..hot], true, None)?;
    let cold_batch = log::read_block(&payload[hot..], false, None)?;
    let wide = encode::widen(&log::beside(&hot_batch, &cold_batch)?, texts)?;
    if wide.num_rows() > usize::from(u16::MAX) {
        return Err(ArrowError::IpcError("a batch is too long".into()));
    }
    let times = View::new(&wide);
    let (mut first, mut last, mut longest_ns) = (u64::MAX, 0, 0);
    for row in 0..wide.num_rows() {
        first = first.min(times.start_ns(row));
        last = last.max(times.start_ns(row));
        longest_ns = longest_ns.max(times.duration_ns(row));
    }
    let mut keys = Vec::new();
    each_key(&wide, &mut |row, key| keys.push(pack(key, row as u16)));
    Ok(Chunk {
        rows: wide.num_rows(),
        starts: (first, last),
        longest_ns,
        index: KeyIndex::new(&mut keys),
        bytes: Bytes::Log { at, len: payload.len(), crcs: crcs(payload, hot) },
        hot,
    })
}

/// Calls `visit` for each key of each row.
pub(crate) fn each_key(wide: &RecordBatch, visit: &mut dyn FnMut(usize, Key)) {
    let mut view = View::only(wide, KEY_COLUMNS);
    for row in 0..view.rows() {
        view.span(row).keys().into_iter().for_each(|key| visit(row, key));
    }
}
