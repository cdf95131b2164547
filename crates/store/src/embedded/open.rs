//! A segment that is open for reading. What cannot be read of it costs itself: a page its rows, the sidecar only time.

use super::damage::{is_damage, Damage};
use super::schema::{self, Col, PAGE_ROWS, WIDE};
use super::segment::{data_path, keys_path, sums_path, Segment};
use super::sidecar::{Sidecar, BLOCK_SHIFT};
use super::sums::{self, Checked};
use super::view::View;
use crate::{StoreError, TimeRange};
use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::arrow::ProjectionMask;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wirespan_model::{Key, Span};

/// Reads at a place without moving a shared cursor.
#[derive(Clone)]
struct FileAt(Checked);

struct FileFrom(FileAt, u64);

impl std::io::Read for FileFrom {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0 .0.read_at(buf, self.1)?;
        self.1 += n as u64;
        Ok(n)
    }
}

impl Length for FileAt {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for FileAt {
    type T = std::io::BufReader<FileFrom>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(std::io::BufReader::with_capacity(1024, FileFrom(self.clone(), start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let fits = start.checked_add(length as u64).is_some_and(|end| end <= self.0.len());
        if !fits {
            return Err(ParquetError::EOF("a page lies behind the end of the file".into()));
        }
        let mut buf = vec![0; length];
        self.0.read_exact_at(&mut buf, start)?;
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
    /// `None`: it is missing or damaged, and look-ups read all rows instead.
    sidecar: Option<Sidecar>,
    damage: Arc<Damage>,
    /// First row of each row group, and the number of rows.
    groups: Vec<usize>,
    /// Per row group, the columns with values other than nulls, zeros and empty texts.
    filled: Vec<Vec<usize>>,
}

impl Open {
    /// Opens the files of a segment.
    pub(crate) fn new(dir: &Path, segment: &Segment, damage: Arc<Damage>) -> Result<Open, StoreError> {
        let id = segment.id;
        let (path, keys, sums) = (data_path(dir, id), keys_path(dir, id), sums_path(dir, id));
        let or_report = |path: &Path, e: StoreError| match is_damage(&e) {
            true => {
                damage.report(path, &e);
                Ok(())
            }
            false => Err(e),
        };
        let mut known = None;
        if segment.sums {
            match sums::read(&sums) {
                Ok(sums) => known = Some(sums),
                Err(e) => or_report(&sums, e)?,
            }
        }
        let file = FileAt(Checked::open(&path, known.as_ref().map(|s| &s[0]))?);
        let sidecar = match Sidecar::open(&keys, known.as_ref().map(|s| &s[1])) {
            Ok(sidecar) => Some(sidecar),
            Err(e) => {
                or_report(&keys, e)?;
                None
            }
        };
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
        Ok(Open { sidecar, damage, path, file, meta, groups, filled })
    }

    /// What the files themselves tell about a segment.
    pub(crate) fn describe(&self, segment: Segment) -> Segment {
        let pages = self.pages(TimeRange::ALL);
        Segment {
            rows: self.groups[self.group_count()] as u64,
            first_ns: pages.iter().map(|p| p.times.0).min().unwrap_or(0),
            last_ns: pages.iter().map(|p| p.times.1).max().unwrap_or(0),
            longest_ns: pages.iter().map(|p| p.durations.1).max().unwrap_or(0),
            ..segment
        }
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

    /// Reads rows of a row group as [`Open::read`] does, and calls `visit` with each batch and the places of its rows
    /// until `visit` returns that it has enough. A page that cannot be read costs its own rows.
    pub(crate) fn each(
        &self,
        group: usize,
        rows: &[Range<usize>],
        columns: Option<&[Col]>,
        batch: usize,
        visit: &mut dyn FnMut(&[usize], &RecordBatch) -> bool,
    ) -> Result<bool, StoreError> {
        let mut places = rows.iter().cloned().flatten();
        let mut read = |rows: &[Range<usize>], batch: usize, places: &mut dyn Iterator<Item = usize>| {
            for batch in self.read(group, Some(rows), columns, batch)? {
                let batch = batch?;
                let at: Vec<usize> = places.take(batch.num_rows()).collect();
                if !visit(&at, &batch) {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let error: StoreError = match read(rows, batch, &mut places) {
            Err(e) if is_damage(&e) => e,
            given => return given,
        };
        self.damage.report(&self.path, &error);
        // Page by page, the damaged ones are left out.
        let left: Vec<usize> = places.collect();
        for page in left.chunk_by(|a, b| a / PAGE_ROWS == b / PAGE_ROWS) {
            let rows: Vec<Range<usize>> =
                page.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[run.len() - 1] + 1).collect();
            match read(&rows, PAGE_ROWS, &mut page.iter().copied()) {
                Ok(true) => {}
                Err(e) if is_damage(&e) => {}
                given => return given,
            }
        }
        Ok(true)
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
        let mut blocks = self.candidates(keys, range).into_iter().peekable();
        for group in 0..self.group_count() {
            let (from, to) = (self.groups[group], self.groups[group + 1]);
            let mut ranges = Vec::new();
            while let Some(rows) = blocks.next_if(|rows| rows.start < to) {
                ranges.push(rows.start - from..rows.end.min(to) - from);
            }
            if ranges.is_empty() {
                continue;
            }
            let more = self.each(group, &ranges, None, PAGE_ROWS, &mut |_, batch| {
                let mut view = View::new(batch);
                let mut rows = Vec::new();
                super::memory::each_key(batch, &mut |row, key| {
                    if rows.last() != Some(&row) && keys.contains(&key) {
                        rows.push(row);
                    }
                });
                for row in rows {
                    let start = view.start_ns(row);
                    if range.from_ns <= start && start < range.to_ns && !found(Arc::new(view.span(row))) {
                        return false;
                    }
                }
                true
            })?;
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Rows that may have one of the keys, as sorted ranges: blocks of the sidecar, or all pages of the time range if
    /// the sidecar cannot be read.
    fn candidates(&self, keys: &[Key], range: TimeRange) -> Vec<Range<usize>> {
        if let Some(sidecar) = &self.sidecar {
            let total = self.groups[self.group_count()];
            match sidecar.blocks(keys) {
                Ok(blocks) => {
                    let starts = blocks.into_iter().map(|b| (b as usize) << BLOCK_SHIFT).filter(|s| *s < total);
                    return starts.map(|s| s..(s + (1 << BLOCK_SHIFT)).min(total)).collect();
                }
                Err(e) => self.damage.report(&self.path.with_extension("keys"), &e),
            }
        }
        let pages = self.pages(range).into_iter();
        pages.map(|p| self.groups[p.group] + p.rows.0..self.groups[p.group] + p.rows.1).collect()
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
