//! A segment: spans sorted by start time in one Parquet file, with its key sidecar and the
//! checksums of both. Written once, never changed.

use super::pages::Waiting;
use super::schema::{self, WIDE};
use super::view::View;
use super::{sidecar, sums};
use crate::{StoreError, TimeRange};
use arrow_array::RecordBatch;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Facts about a segment that are known without opening it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Segment {
    /// Number of the files.
    pub(crate) id: u64,
    /// Spans.
    pub(crate) rows: u64,
    /// First start time, Unix ns.
    pub(crate) first_ns: u64,
    /// Last start time, Unix ns.
    pub(crate) last_ns: u64,
    /// Longest duration, ns.
    pub(crate) longest_ns: u64,
    /// Size of all files, bytes.
    pub(crate) bytes: u64,
    /// Whether there are checksums of the other files.
    #[serde(default)]
    pub(crate) sums: bool,
}

impl Segment {
    pub(crate) fn overlaps(&self, range: TimeRange) -> bool {
        self.first_ns < range.to_ns && self.last_ns >= range.from_ns
    }
}

/// Path of the Parquet file.
pub(crate) fn data_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("segment-{id:010}.parquet"))
}

/// Path of the key sidecar.
pub(crate) fn keys_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("segment-{id:010}.keys"))
}

/// Path of the checksums.
pub(crate) fn sums_path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("segment-{id:010}.sums"))
}

/// Writes a segment from batches in order of their start time.
pub(crate) struct SegmentWriter {
    dir: PathBuf,
    id: u64,
    writer: ArrowWriter<File>,
    rows: u64,
    times: (u64, u64),
    longest_ns: u64,
}

impl SegmentWriter {
    /// Starts the files of segment `id`, under temporary names.
    pub(crate) fn create(dir: &Path, id: u64) -> Result<SegmentWriter, StoreError> {
        let path = temporary(&data_path(dir, id));
        let file = File::create(&path).map_err(|e| super::io("create", &path, e))?;
        let waiting = Waiting::create(dir).map_err(|e| super::io("create", dir, e))?;
        let options = ArrowWriterOptions::new()
            .with_properties(schema::writer_properties())
            .with_page_store_factory(Arc::new(waiting));
        let writer = ArrowWriter::try_new_with_options(file, WIDE.clone(), options).map_err(|e| writing(&path, e))?;
        Ok(SegmentWriter { dir: dir.to_owned(), id, writer, rows: 0, times: (u64::MAX, 0), longest_ns: 0 })
    }

    /// Appends rows.
    pub(crate) fn write(&mut self, wide: &RecordBatch) -> Result<(), StoreError> {
        let view = View::new(wide);
        if let Some(last) = view.rows().checked_sub(1) {
            self.times = (self.times.0.min(view.start_ns(0)), self.times.1.max(view.start_ns(last)));
        }
        let longest = (0..view.rows()).map(|row| view.duration_ns(row)).max();
        self.longest_ns = self.longest_ns.max(longest.unwrap_or(0));
        self.rows += wide.num_rows() as u64;
        self.writer.write(wide).map_err(|e| writing(&data_path(&self.dir, self.id), e))
    }

    /// Finishes all files, makes them durable and gives them their names. They count once the manifest names them.
    pub(crate) fn finish(self, index: &dyn sidecar::Keys) -> Result<Segment, StoreError> {
        let (dir, id) = (self.dir.as_path(), self.id);
        let (data, keys, sums) = (data_path(dir, id), keys_path(dir, id), sums_path(dir, id));
        let file = self.writer.into_inner().map_err(|e| writing(&data, e))?;
        file.sync_all().map_err(|e| super::io("sync", &data, e))?;
        let size = file.metadata().map_err(|e| super::io("read", &data, e))?.len();
        drop(file);
        let tmp = temporary(&keys);
        let mut keys_file = File::create(&tmp).map_err(|e| super::io("create", &tmp, e))?;
        let length = sidecar::write(&mut keys_file, self.rows as usize, index)
            .and_then(|length| keys_file.sync_all().map(|()| length))
            .map_err(|e| super::io("write", &tmp, e))?;
        drop(keys_file);
        let open = |path: &Path| File::open(temporary(path)).map_err(|e| super::io("open", path, e));
        let summed = sums::write(&temporary(&sums), &open(&data)?, &open(&keys)?);
        let summed = summed.map_err(|e| super::io("write", &sums, e))?;
        for path in [&data, &keys, &sums] {
            std::fs::rename(temporary(path), path).map_err(|e| super::io("rename", path, e))?;
        }
        super::manifest::sync_dir(&self.dir)?;
        Ok(Segment {
            id: self.id,
            rows: self.rows,
            first_ns: self.times.0,
            last_ns: self.times.1,
            longest_ns: self.longest_ns,
            bytes: size + length + summed,
            sums: true,
        })
    }
}

/// Removes all files of a segment, finished or not.
pub(crate) fn remove(dir: &Path, id: u64) {
    for path in [data_path(dir, id), keys_path(dir, id), sums_path(dir, id)] {
        // A missing file needs no removing. A file that cannot be removed is tried again at the next start.
        let _ = std::fs::remove_file(temporary(&path));
        let _ = std::fs::remove_file(&path);
    }
}

fn temporary(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.tmp", path.extension().and_then(|e| e.to_str()).unwrap_or("")))
}

fn writing(path: &Path, e: ParquetError) -> StoreError {
    let source = match e {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    super::io("write", path, source)
}
