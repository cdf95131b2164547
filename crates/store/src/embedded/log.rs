//! The log in front of the segments: it holds everything appended since the last flush, so that a crash loses at most
//! the last second.
//!
//! A file is [`MAGIC`], then frames: `length u32 | crc32 u32 | kind u8 | payload` (little endian; the checksum is over
//! kind and payload). A frame of kind *names* adds texts to the dictionary. A frame of kind *batch* has two Arrow IPC
//! record batch messages, the columns that searches look at and the others, each as one LZ4 block behind its length.
//! (The LZ4 of Arrow itself works buffer by buffer, about 60 of them here: half again as dear, and dearer still to
//! read.) The first frame that is short or does not match its checksum ends the file: it was being written when the
//! machine stopped.

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

    /// Appends new names and a batch; returns where its payload starts. After an error the log is as it was.
    pub(crate) fn append(&mut self, names: &[Arc<str>], batch: &[u8]) -> Result<u64, StoreError> {
        let mut out = Vec::with_capacity(batch.len() + 64);
        if !names.is_empty() {
            let mut payload = Vec::new();
            for name in names {
                payload.extend_from_slice(&(name.len() as u32).to_le_bytes());
                payload.extend_from_slice(name.as_bytes());
            }
            frame(&mut out, NAMES, &payload);
        }
        let at = self.len + (out.len() + HEADER) as u64;
        frame(&mut out, BATCH, batch);
        if let Err(e) = self.file.write_all_at(&out, self.len) {
            // The next start would cut the half-written frame anyway. Truncating now only gives the room back early.
            let _ = self.file.set_len(self.len);
            return Err(super::io("write", &self.path, e));
        }
        self.len += out.len() as u64;
        Ok(at)
    }
}

/// A frame of an old log.
pub(crate) enum Replayed {
    /// Texts that follow those already known.
    Names(Vec<String>),
    /// The payload of a batch, and where it starts.
    Batch(Vec<u8>, u64),
}

/// Reads a log from its start, cuts a torn tail off, and returns the file with the number of bytes that were cut.
pub(crate) fn replay(
    path: &Path,
    visit: &mut dyn FnMut(Replayed) -> Result<(), StoreError>,
) -> Result<(Arc<File>, u64), StoreError> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| super::io("open", path, e))?;
    let size = file.metadata().map_err(|e| super::io("read", path, e))?.len();
    let read = |at: u64, len: usize| {
        let mut buf = vec![0; len];
        file.read_exact_at(&mut buf, at).map(|()| buf).map_err(|e| super::io("read", path, e))
    };
    let mut at = MAGIC.len() as u64;
    if size < at {
        // The machine stopped before the first byte was safe.
        return Ok((Arc::new(file), size));
    }
    if read(0, MAGIC.len())? != MAGIC {
        return Err(super::corrupt(path, "not a log of this version of wirespan"));
    }
    while size - at >= HEADER as u64 {
        let head = read(at, HEADER)?;
        let len = u64::from(u32::from_le_bytes([head[0], head[1], head[2], head[3]]));
        let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let kind = head[8];
        let body = at + HEADER as u64;
        if len > MAX_FRAME || size - body < len {
            break;
        }
        let payload = read(body, len as usize)?;
        let mut actual = crc32fast::Hasher::new();
        actual.update(&[kind]);
        actual.update(&payload);
        if actual.finalize() != crc {
            break;
        }
        match kind {
            NAMES => visit(Replayed::Names(parse_names(&payload).ok_or_else(|| super::corrupt(path, "bad names"))?))?,
            BATCH => visit(Replayed::Batch(payload, body))?,
            _ => return Err(super::corrupt(path, "unknown kind of frame; written by a newer wirespan?")),
        }
        at = body + len;
    }
    if at < size {
        file.set_len(at).map_err(|e| super::io("truncate", path, e))?;
    }
    Ok((Arc::new(file), size - at))
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
