//! The log in front of the segments: it holds everything appended since the last flush, so that a crash loses at most
//! the last second.
//!
//! A file is [`MAGIC`], then frames: `length u32 | crc32 u32 | kind u8 | payload` (little endian; the checksum is over
//! kind and payload). A frame of kind [`NAMED`] has the texts that are new since the frame before the last, behind the
//! place of the first of them in the dictionary, and a batch: two Arrow IPC record batch messages, the columns that
//! searches look at and the others, each as one LZ4 block behind its length. (The LZ4 of Arrow itself works buffer by
//! buffer, about 60 of them here: half again as dear, and dearer still to read.) Earlier versions wrote names and
//! batches as frames of their own; these are still read.
//!
//! A frame that does not match its checksum costs itself: reading goes on at the next whole frame. Logs are written by
//! one process only; the next start reads them and writes a new one. So nothing is ever cut off a log.

use super::schema::{Col, HOT, NARROW};
use crate::StoreError;
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::writer::{write_message, DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_ipc::MetadataVersion;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// First bytes of a log; the digits are the format version.
const MAGIC: &[u8; 8] = b"WSLOG001";
const HEADER: usize = 9;
const NAMES: u8 = 1;
const BATCH: u8 = 2;
const NAMED: u8 = 3;
/// Most texts of a log.
const MAX_NAMES: usize = 1 << 26;
/// Bytes that are read at a time to find the next whole frame.
const WINDOW: usize = 1 << 20;
/// Most bytes whose checksum is computed to find it.
const MAX_SEARCHED: u64 = 4 << 30;
/// Longest frame that is accepted when a log is read, bytes.
const MAX_FRAME: u64 = 256 << 20;

/// Turns batches into payloads.
pub(crate) struct FrameWriter {
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl FrameWriter {
    /// A writer.
    pub(crate) fn new() -> FrameWriter {
        FrameWriter { options: IpcWriteOptions::default(), context: IpcWriteContext::default() }
    }

    /// The batch as a payload: `length of the first block u32 | block of the first HOT columns | block of the others`.
    pub(crate) fn payload(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        let places: Vec<usize> = (0..batch.num_columns()).collect();
        let (hot, cold) = places.split_at(HOT);
        let hot = self.block(&batch.project(hot)?)?;
        let cold = self.block(&batch.project(cold)?)?;
        let mut out = Vec::with_capacity(4 + hot.len() + cold.len());
        out.extend_from_slice(&(hot.len() as u32).to_le_bytes());
        out.extend_from_slice(&hot);
        out.extend_from_slice(&cold);
        Ok(out)
    }

    fn block(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        let mut tracker = DictionaryTracker::new(false);
        let (_, encoded) = IpcDataGenerator::default().encode(batch, &mut tracker, &self.options, &mut self.context)?;
        let mut message = Vec::with_capacity(encoded.arrow_data.len() + encoded.ipc_message.len() + 64);
        write_message(&mut message, encoded, &self.options)?;
        Ok(lz4_flex::block::compress_prepend_size(&message))
    }
}

/// Length of the first block of a payload, with the length itself.
pub(crate) fn hot_len(payload: &[u8]) -> Option<usize> {
    let (len, rest) = payload.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len) as usize;
    (len <= rest.len()).then_some(len + 4)
}

/// Reads one of the two blocks of a payload. `columns` are places in the whole schema, and all in this block.
pub(crate) fn read_block(block: &[u8], hot: bool, columns: Option<&[Col]>) -> Result<RecordBatch, ArrowError> {
    let broken = |e: &dyn std::fmt::Display| ArrowError::IpcError(e.to_string());
    let (schema, base) = if hot { (&*HOT_SCHEMA, 0) } else { (&*COLD_SCHEMA, HOT) };
    let buffer = Buffer::from_vec(lz4_flex::block::decompress_size_prepended(block).map_err(|e| broken(&e))?);
    let short = || broken(&"message is cut short");
    let head: [u8; 8] = buffer.get(..8).and_then(|b| b.try_into().ok()).ok_or_else(short)?;
    let meta_len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let meta = buffer.get(8..8usize.saturating_add(meta_len)).ok_or_else(short)?;
    let message = arrow_ipc::root_as_message(meta).map_err(|e| broken(&e))?;
    let batch = message.header_as_record_batch().ok_or_else(|| broken(&"not a record batch"))?;
    let body = buffer.slice(8 + meta_len);
    let dictionaries = HashMap::new();
    let places: Option<Vec<usize>> = columns.map(|c| c.iter().map(|c| *c as usize - base).collect());
    RecordBatchDecoder::try_new(&body, batch, schema.clone(), &dictionaries, &MetadataVersion::V5)?
        .with_projection(places.as_deref())
        .read_record_batch()
}

/// The columns of both batches, in one.
pub(crate) fn beside(a: &RecordBatch, b: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let fields: Vec<_> = a.schema_ref().fields().iter().chain(b.schema_ref().fields()).cloned().collect();
    let columns = a.columns().iter().chain(b.columns()).cloned().collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

static HOT_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| part(0..HOT));
static COLD_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| part(HOT..NARROW.fields().len()));

fn part(places: std::ops::Range<usize>) -> SchemaRef {
    Arc::new(Schema::new(NARROW.fields()[places].to_vec()))
}

fn frame(out: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[kind]);
    crc.update(payload);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc.finalize().to_le_bytes());
    out.push(kind);
    out.extend_from_slice(payload);
}

/// One log, open for writing.
pub(crate) struct Log {
    /// The file; queries read their chunks from it.
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    len: u64,
}

impl Log {
    /// Makes a new log.
    pub(crate) fn create(path: &Path) -> Result<Log, StoreError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = file.map_err(|e| super::io("create", path, e))?;
        file.write_all_at(MAGIC, 0).map_err(|e| super::io("write", path, e))?;
        Ok(Log { file: Arc::new(file), path: path.to_owned(), len: MAGIC.len() as u64 })
    }

    /// Bytes written.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends a batch and names, the first of which has the place `base`; returns where the batch starts. After an
    /// error the log is as it was.
    pub(crate) fn append(&mut self, base: usize, names: &[Arc<str>], batch: &[u8]) -> Result<u64, StoreError> {
        let mut payload = Vec::with_capacity(batch.len() + 8 + names.iter().map(|n| n.len() + 4).sum::<usize>());
        payload.extend_from_slice(&(base as u32).to_le_bytes());
        payload.extend_from_slice(&[0; 4]);
        for name in names {
            payload.extend_from_slice(&(name.len() as u32).to_le_bytes());
            payload.extend_from_slice(name.as_bytes());
        }
        let names_len = payload.len() - 8;
        payload[4..8].copy_from_slice(&(names_len as u32).to_le_bytes());
        payload.extend_from_slice(batch);
        let at = self.len + (HEADER + 8 + names_len) as u64;
        let mut out = Vec::with_capacity(payload.len() + HEADER);
        frame(&mut out, NAMED, &payload);
        if let Err(e) = self.file.write_all_at(&out, self.len) {
            // The next frame overwrites the half-written one. Truncating now only gives the room back early.
            let _ = self.file.set_len(self.len);
            return Err(super::io("write", &self.path, e));
        }
        self.len += out.len() as u64;
        Ok(at)
    }
}

/// A frame of an old log.
pub(crate) struct Replayed {
    /// The place of the first new text; `None`: behind those already known.
    pub(crate) base: Option<usize>,
    /// New texts.
    pub(crate) names: Vec<String>,
    /// The payload of the batch, and where it starts.
    pub(crate) batch: Option<(Vec<u8>, u64)>,
}

/// What was wrong with an old log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Bytes within the log that belong to no whole frame.
    pub(crate) inside: u64,
    /// Frames of these, as far as their number can be known.
    pub(crate) places: u64,
    /// Bytes behind the last whole frame: a crash cuts off what was being written.
    pub(crate) torn: u64,
}

/// Reads a log from its start. `visit` says whether it could use the frame.
pub(crate) fn replay(path: &Path, visit: &mut dyn FnMut(Replayed) -> bool) -> Result<(Arc<File>, Damage), StoreError> {
    let file = File::open(path).map_err(|e| super::io("open", path, e))?;
    let size = file.metadata().map_err(|e| super::io("read", path, e))?.len();
    let mut damage = Damage::default();
    let mut at = MAGIC.len() as u64;
    if size < at {
        // The machine stopped before the first byte was safe.
        return Ok((Arc::new(file), Damage { torn: size, ..damage }));
    }
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0).map_err(|e| super::io("read", path, e))?;
    if &magic != MAGIC {
        return Err(super::corrupt(path, "not a log of this version of wirespan"));
    }
    while at < size {
        if let Some((kind, payload)) = read_frame(&file, at, size) {
            let next = at + HEADER as u64 + payload.len() as u64;
            // Names of earlier versions have no place of their own: a lost frame would shift those behind it.
            let usable = kind == NAMED || damage.places == 0;
            if !(usable && parse(kind, payload, at + HEADER as u64).is_some_and(&mut *visit)) {
                damage.inside += next - at;
                damage.places += 1;
            }
            at = next;
            continue;
        }
        match next_frame(&file, at, size) {
            Some(next) => {
                damage.inside += next - at;
                damage.places += 1;
                at = next;
            }
            None => {
                damage.torn = size - at;
                break;
            }
        }
    }
    Ok((Arc::new(file), damage))
}

/// The kind and the payload of the frame at a place, if there is a whole one.
fn read_frame(file: &File, at: u64, size: u64) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; HEADER];
    file.read_exact_at(&mut head, at).ok()?;
    let (len, crc, kind) = header(&head, at, size)?;
    let mut payload = vec![0; len];
    file.read_exact_at(&mut payload, at + HEADER as u64).ok()?;
    let mut actual = crc32fast::Hasher::new();
    actual.update(&[kind]);
    actual.update(&payload);
    (actual.finalize() == crc).then_some((kind, payload))
}

/// Length, checksum and kind of a header that may be one.
fn header(head: &[u8], at: u64, size: u64) -> Option<(usize, u32, u8)> {
    let word = |i: usize| Some(u32::from_le_bytes(head.get(i..i + 4)?.try_into().ok()?));
    let (len, crc, kind) = (word(0)?, word(4)?, *head.get(8)?);
    let fits = u64::from(len) <= MAX_FRAME && at + HEADER as u64 + u64::from(len) <= size;
    (fits && matches!(kind, NAMES | BATCH | NAMED)).then_some((len as usize, crc, kind))
}

/// The first whole frame behind a place.
fn next_frame(file: &File, at: u64, size: u64) -> Option<u64> {
    let mut searched = 0;
    let mut from = at + 1;
    while from + HEADER as u64 <= size {
        let mut window = vec![0; WINDOW.min((size - from) as usize)];
        if file.read_exact_at(&mut window, from).is_err() {
            // A place of the disk that cannot be read: look behind it.
            from += window.len() as u64;
            continue;
        }
        for (i, head) in window.windows(HEADER).enumerate() {
            let at = from + i as u64;
            let Some((len, ..)) = header(head, at, size) else { continue };
            searched += len as u64;
            if searched > MAX_SEARCHED {
                return None;
            }
            if read_frame(file, at, size).is_some() {
                return Some(at);
            }
        }
        from += (window.len() + 1 - HEADER.min(window.len())) as u64;
    }
    None
}

fn parse(kind: u8, mut payload: Vec<u8>, body: u64) -> Option<Replayed> {
    match kind {
        NAMES => Some(Replayed { base: None, names: parse_names(&payload)?, batch: None }),
        BATCH => Some(Replayed { base: None, names: Vec::new(), batch: Some((payload, body)) }),
        _ => {
            let base = u32::from_le_bytes(*payload.first_chunk()?) as usize;
            let len = u32::from_le_bytes(payload.get(4..8)?.try_into().ok()?) as usize;
            let names = parse_names(payload.get(8..8usize.checked_add(len)?)?)?;
            payload.drain(..8 + len);
            (base <= MAX_NAMES).then_some(Replayed {
                base: Some(base),
                names,
                batch: Some((payload, body + 8 + len as u64)),
            })
        }
    }
}

fn parse_names(mut payload: &[u8]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    while !payload.is_empty() {
        let (len, rest) = payload.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        names.push(String::from_utf8(text.to_vec()).ok()?);
        payload = rest;
    }
    Some(names)
}
