//! A segment: spans sorted by start time in one Parquet file, with its key sidecar. Written once, never changed.

use super::pages::Waiting;
use super::schema::{self, Col, PAGE_ROWS, WIDE};
use super::sidecar::{self, Sidecar, BLOCK_SHIFT};
use super::view::View;
use crate::{StoreError, TimeRange};
use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wirespan_model::{Key, Span};

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
    /// Size of both files, bytes.
    pub(crate) bytes: u64,
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

    /// Finishes both files, makes them durable and gives them their names. They count once the manifest names them.
    pub(crate) fn finish(self, index: &dyn sidecar::Keys) -> Result<Segment, StoreError> {
        let (data, keys) = (data_path(&self.dir, self.id), keys_path(&self.dir, self.id));
        let file = self.writer.into_inner().map_err(|e| writing(&data, e))?;
        file.sync_all().map_err(|e| super::io("sync", &data, e))?;
        let size = file.metadata().map_err(|e| super::io("read", &data, e))?.len();
        let tmp = temporary(&keys);
        let mut keys_file = File::create(&tmp).map_err(|e| super::io("create", &tmp, e))?;
        let length = sidecar::write(&mut keys_file, self.rows as usize, index)
            .and_then(|length| keys_file.sync_all().map(|()| length))
            .map_err(|e| super::io("write", &tmp, e))?;
        for path in [&data, &keys] {
            std::fs::rename(temporary(path), path).map_err(|e| super::io("rename", path, e))?;
        }
        super::manifest::sync_dir(&self.dir)?;
        Ok(Segment {
            id: self.id,
            rows: self.rows,
            first_ns: self.times.0,
            last_ns: self.times.1,
            longest_ns: self.longest_ns,
            bytes: size + length,
        })
    }
}

/// Removes all files of a segment, finished or not.
pub(crate) fn remove(dir: &Path, id: u64) {
    for path in [data_path(dir, id), keys_path(dir, id)] {
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

/// Reads at a place without moving a shared cursor.
#[derive(Clone)]
struct FileAt {
    file: Arc<File>,
    len: u64,
}

struct FileFrom(FileAt, u64);

impl std::io::Read for FileFrom {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.file.read_at(buf, self.1)?;
        self.1 += n as u64;
        Ok(n)
    }
}

impl Length for FileAt {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for FileAt {
    type T = std::io::BufReader<FileFrom>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(std::io::BufReader::with_capacity(1024, FileFrom(self.clone(), start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let fits = start.checked_add(length as u64).is_some_and(|end| end <= self.len);
        if !fits {
            return Err(ParquetError::EOF("a page lies behind the end of the file".into()));
        }
        let mut buf = vec![0; length];
        self.file.read_exact_at(&mut buf, start)?;
        Ok(buf.into())
    }
}

/// Up to [`PAGE_ROWS`] rows and what their statistics say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub(crate) group: usize,
    /// First row in its group, and the row behind the last.
    pub(crate) rows: (usize, usize),
    /// First and last start time, Unix ns.
    pub(crate) times: (u64, u64),
    /// Shortest and longest duration, ns.
    pub(crate) durations: (u64, u64),
}

/// A segment, open for reading.
pub(crate) struct Open {
    path: PathBuf,
    file: FileAt,
    meta: ArrowReaderMetadata,
    sidecar: Sidecar,
    /// First row of each row group, and the number of rows.
    groups: Vec<usize>,
    /// Per row group, the columns with values other than nulls, zeros and empty texts.
    filled: Vec<Vec<usize>>,
}

impl Open {
    /// Opens the files of a segment.
    pub(crate) fn new(dir: &Path, id: u64) -> Result<Open, StoreError> {
        let path = data_path(dir, id);
        let file = File::open(&path).map_err(|e| super::io("open", &path, e))?;
        let len = file.metadata().map_err(|e| super::io("read", &path, e))?.len();
        let file = FileAt { file: Arc::new(file), len };
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let meta = ArrowReaderMetadata::load(&file, options).map_err(|e| super::corrupt(&path, e))?;
        if meta.schema().fields() != WIDE.fields() {
            return Err(super::corrupt(&path, "its columns are not those of this version of wirespan"));
        }
        let mut groups = vec![0];
        for g in meta.metadata().row_groups() {
            groups.push(groups[groups.len() - 1] + g.num_rows().max(0) as usize);
        }
        let filled = meta.metadata().row_groups().iter().map(filled_columns).collect();
        Ok(Open { sidecar: Sidecar::open(&keys_path(dir, id))?, path, file, meta, groups, filled })
    }

    /// First row of a row group.
    pub(crate) fn group_start(&self, group: usize) -> usize {
        self.groups[group]
    }

    pub(crate) fn group_count(&self) -> usize {
        self.groups.len() - 1
    }

    /// Reads rows of a row group. `rows` are sorted ranges that do not overlap, counted from the start of the group;
    /// `None` reads all rows. `None` as columns reads all columns that are not blank, which is enough for [`View`].
    pub(crate) fn read(
        &self,
        group: usize,
        rows: Option<&[Range<usize>]>,
        columns: Option<&[Col]>,
        batch: usize,
    ) -> Result<Batches, StoreError> {
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.meta.clone())
            .with_row_groups(vec![group])
            .with_batch_size(batch);
        let mask = match columns {
            Some(columns) => ProjectionMask::leaves(builder.parquet_schema(), columns.iter().map(|c| *c as usize)),
            None => ProjectionMask::leaves(builder.parquet_schema(), self.filled[group].iter().copied()),
        };
        builder = builder.with_projection(mask);
        if let Some(rows) = rows {
            let total = self.groups[group + 1] - self.groups[group];
            builder = builder.with_row_selection(RowSelection::from_consecutive_ranges(rows.iter().cloned(), total));
        }
        let reader = builder.build().map_err(|e| super::corrupt(&self.path, e))?;
        Ok(Batches { reader, path: self.path.clone() })
    }

    /// The pages that may have rows of the range, in the order of the file.
    pub(crate) fn pages(&self, range: TimeRange) -> Vec<Page> {
        let mut pages = Vec::new();
        for group in 0..self.group_count() {
            let rows = self.groups[group + 1] - self.groups[group];
            let count = rows.div_ceil(PAGE_ROWS);
            let times = self.statistics(group, Col::Start, count);
            let durations = self.statistics(group, Col::Duration, count);
            for i in 0..count {
                let page = Page {
                    group,
                    rows: (i * PAGE_ROWS, ((i + 1) * PAGE_ROWS).min(rows)),
                    times: times.get(i).copied().unwrap_or((0, u64::MAX)),
                    durations: durations.get(i).copied().unwrap_or((0, u64::MAX)),
                };
                if page.times.0 < range.to_ns && page.times.1 >= range.from_ns {
                    pages.push(page);
                }
            }
        }
        pages
    }

    /// Least and greatest value per page; empty if the file's pages are not where they are expected.
    fn statistics(&self, group: usize, col: Col, pages: usize) -> Vec<(u64, u64)> {
        let Some(index) = self.meta.metadata().page_index() else { return Vec::new() };
        let Some(locations) = index.offset_index(group, col as usize) else { return Vec::new() };
        let starts = locations.page_locations().iter().map(|p| p.first_row_index);
        if !starts.eq((0..pages).map(|i| (i * PAGE_ROWS) as i64)) {
            return Vec::new();
        }
        match index.column_index(group, col as usize) {
            Some(ColumnIndexMetaData::INT64(values)) => {
                let clamp = |v: Option<&i64>, missing: u64| v.map_or(missing, |v| (*v).max(0) as u64);
                (0..pages).map(|i| (clamp(values.min_value(i), 0), clamp(values.max_value(i), u64::MAX))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Spans that have one of the keys and start in the range. Stops when `found` returns false.
    pub(crate) fn find(
        &self,
        keys: &[Key],
        range: TimeRange,
        found: &mut dyn FnMut(Arc<Span>) -> bool,
    ) -> Result<bool, StoreError> {
        let blocks = self.sidecar.blocks(keys).map_err(|e| super::io("read the keys of", &self.path, e))?;
        let total = self.groups[self.group_count()];
        let mut blocks =
            blocks.into_iter().map(|b| (b as usize) << BLOCK_SHIFT).filter(|start| *start < total).peekable();
        for group in 0..self.group_count() {
            let (from, to) = (self.groups[group], self.groups[group + 1]);
            let mut ranges = Vec::new();
            while let Some(start) = blocks.next_if(|start| *start < to) {
                ranges.push(start - from..(start + (1 << BLOCK_SHIFT)).min(to) - from);
            }
            if ranges.is_empty() {
                continue;
            }
            for batch in self.read(group, Some(&ranges), None, PAGE_ROWS)? {
                let batch = batch?;
                let mut view = View::new(&batch);
                let mut rows = Vec::new();
                super::memory::each_key(&batch, &mut |row, key| {
                    if rows.last() != Some(&row) && keys.contains(&key) {
                        rows.push(row);
                    }
                });
                for row in rows {
                    let start = view.start_ns(row);
                    if range.from_ns <= start && start < range.to_ns && !found(Arc::new(view.span(row))) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

/// Columns of a row group that may have values, according to the statistics.
fn filled_columns(group: &RowGroupMetaData) -> Vec<usize> {
    let rows = group.num_rows();
    let blank = |nullable: bool, column: &ColumnChunkMetaData| match column.statistics() {
        // Where a column may be null or zero, the two mean different things.
        Some(s) if nullable => s.null_count_opt() == Some(rows as u64),
        Some(Statistics::Int32(s)) => s.min_opt() == Some(&0) && s.max_opt() == Some(&0),
        Some(Statistics::Int64(s)) => s.min_opt() == Some(&0) && s.max_opt() == Some(&0),
        _ => false,
    };
    (0..group.num_columns()).filter(|i| !blank(schema::COLUMNS[*i].nullable, group.column(*i))).collect()
}

/// Batches of a segment.
pub(crate) struct Batches {
    reader: ParquetRecordBatchReader,
    path: PathBuf,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.reader.next().map(|batch| batch.map_err(|e| super::corrupt(&self.path, e)))
    }
}
