//! Memory segment → segment, and segments → one segment. Both stream: a window of rows is in memory at a time.

use super::memory::{each_key, MemoryView};
use super::schema::{Col, WIDE};
use super::segment::{Batches, Open, Segment, SegmentWriter};
use super::view::View;
use crate::StoreError;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::interleave::interleave_record_batch;
use arrow_select::take::take_record_batch;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::Arc;
use wirespan_model::KeyKind;

/// Rows that are gathered at a time; a multiple of the page.
const WINDOW: usize = 16 * 1024;
/// Decoded chunks that are kept from one window to the next.
const KEPT_CHUNKS: usize = 8;

/// Writes a memory segment as segment `id`.
pub(crate) fn write_memory(memory: &MemoryView, dir: &Path, id: u64) -> Result<Segment, StoreError> {
    let mut writer = SegmentWriter::create(dir, id)?;
    // (start, chunk, row) of every span, by start.
    let mut order: Vec<(u64, u32, u16)> = Vec::with_capacity(memory.rows());
    for (c, chunk) in memory.chunks.iter().enumerate() {
        let view = View::new(&memory.wide(chunk, Some(&[Col::Start]))?);
        order.extend((0..view.rows()).map(|row| (view.start_ns(row), c as u32, row as u16)));
    }
    order.sort_unstable();

    let mut left: Vec<usize> = memory.chunks.iter().map(|c| c.rows).collect();
    let mut decoded: FxHashMap<u32, RecordBatch> = FxHashMap::default();
    for window in order.chunks(WINDOW) {
        // Per chunk the rows that the window takes, in order, so that only those are held.
        let mut rows: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut places = Vec::with_capacity(window.len());
        for (_, chunk, row) in window {
            let taken = rows.entry(*chunk).or_default();
            places.push((*chunk, taken.len()));
            taken.push(u32::from(*row));
        }
        let mut chunks: Vec<u32> = rows.keys().copied().collect();
        chunks.sort_unstable();
        let mut pieces = Vec::with_capacity(chunks.len());
        for chunk in &chunks {
            let batch = match decoded.remove(chunk) {
                Some(batch) => batch,
                None => memory.narrow(&memory.chunks[*chunk as usize], None)?,
            };
            let taken = rows.remove(chunk).unwrap_or_default();
            left[*chunk as usize] -= taken.len();
            pieces.push(
                take_record_batch(&batch, &UInt32Array::from(taken)).map_err(|e| super::broken("memory segment", e))?,
            );
            if left[*chunk as usize] > 0 && decoded.len() < KEPT_CHUNKS {
                decoded.insert(*chunk, batch);
            }
        }
        let at: FxHashMap<u32, usize> = chunks.iter().enumerate().map(|(i, c)| (*c, i)).collect();
        let indices: Vec<(usize, usize)> = places.into_iter().map(|(c, row)| (at[&c], row)).collect();
        let batch = gather(&pieces, &indices)?;
        writer.write(&memory.widen(&batch)?)?;
    }

    // Where each row went, chunk by chunk, for the keys.
    let mut bases = Vec::with_capacity(memory.chunks.len());
    let mut total = 0;
    for chunk in &memory.chunks {
        bases.push(total);
        total += chunk.rows;
    }
    let mut row_of = vec![0u32; total];
    for (new, (_, chunk, row)) in (0u32..).zip(&order) {
        row_of[bases[*chunk as usize] + usize::from(*row)] = new;
    }
    drop(order);
    for (base, chunk) in bases.iter().zip(&memory.chunks) {
        for kind in KeyKind::ALL {
            for (hash, row) in chunk.index.entries(kind) {
                writer.keys.add(kind, hash, row_of[base + usize::from(row)]);
            }
        }
    }
    writer.finish()
}

fn gather(pieces: &[RecordBatch], indices: &[(usize, usize)]) -> Result<RecordBatch, StoreError> {
    let pieces: Vec<&RecordBatch> = pieces.iter().collect();
    interleave_record_batch(&pieces, indices).map_err(|e| super::broken("segment", e))
}

/// Reads the rows of a segment in order.
struct Cursor {
    segment: Arc<Open>,
    group: usize,
    batches: Option<Batches>,
    batch: Option<RecordBatch>,
    /// Next row of the batch.
    at: usize,
}

impl Cursor {
    fn new(segment: Arc<Open>) -> Cursor {
        Cursor { segment, group: 0, batches: None, batch: None, at: 0 }
    }

    /// The next rows, at most `most`; `None` at the end.
    fn next(&mut self, most: usize, columns: Option<&[Col]>) -> Result<Option<RecordBatch>, StoreError> {
        loop {
            if let Some(batch) = self.batch.as_ref().filter(|b| self.at < b.num_rows()) {
                let take = most.min(batch.num_rows() - self.at);
                let slice = batch.slice(self.at, take);
                self.at += take;
                return Ok(Some(slice));
            }
            self.at = 0;
            self.batch = self.batches.as_mut().and_then(Iterator::next).transpose()?;
            if self.batch.is_none() {
                if self.group == self.segment.group_count() {
                    return Ok(None);
                }
                self.batches = Some(self.segment.read(self.group, None, columns, 4096)?);
                self.group += 1;
            }
        }
    }
}

/// Merges segments into segment `id`.
pub(crate) fn merge(inputs: &[Arc<Open>], dir: &Path, id: u64) -> Result<Segment, StoreError> {
    // (start, input) of every span, by start; each input is in order already.
    let mut order: Vec<(u64, u16)> = Vec::new();
    for (i, input) in (0u16..).zip(inputs) {
        let mut cursor = Cursor::new(input.clone());
        while let Some(batch) = cursor.next(usize::MAX, Some(&[Col::Start]))? {
            let view = View::new(&batch);
            order.extend((0..view.rows()).map(|row| (view.start_ns(row), i)));
        }
    }
    order.sort();

    let mut writer = SegmentWriter::create(dir, id)?;
    let mut cursors: Vec<Cursor> = inputs.iter().map(|i| Cursor::new(i.clone())).collect();
    let mut row = 0u32;
    for window in order.chunks(WINDOW) {
        let mut pieces = Vec::new();
        // For each input, the pieces that hold its next rows: (piece, rows).
        let mut parts: Vec<Vec<(usize, usize)>> = vec![Vec::new(); inputs.len()];
        let mut counts = vec![0; inputs.len()];
        window.iter().for_each(|(_, i)| counts[usize::from(*i)] += 1);
        for (i, mut count) in counts.into_iter().enumerate() {
            while count > 0 {
                let Some(piece) = cursors[i].next(count, None)? else {
                    return Err(super::broken("segment", "a segment has fewer rows than it had"));
                };
                count -= piece.num_rows();
                parts[i].push((pieces.len(), piece.num_rows()));
                pieces.push(piece);
            }
        }
        let mut next: Vec<_> =
            parts.into_iter().map(|p| p.into_iter().flat_map(|(piece, n)| (0..n).map(move |r| (piece, r)))).collect();
        let indices: Vec<(usize, usize)> = window.iter().filter_map(|(_, i)| next[usize::from(*i)].next()).collect();
        let batch = gather(&pieces, &indices)?;
        let batch =
            RecordBatch::try_new(WIDE.clone(), batch.columns().to_vec()).map_err(|e| super::broken("segment", e))?;
        writer.write(&batch)?;
        let keys = &mut writer.keys;
        each_key(&batch, &mut |at, key| keys.add(key.kind, super::memory::hash32(key.value), row + at as u32));
        row += batch.num_rows() as u32;
    }
    writer.finish()
}
