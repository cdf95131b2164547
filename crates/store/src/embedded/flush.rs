//! Memory segment → segment, and segments → one segment. Both stream: a window of rows is in memory at a time.

use super::memory::{each_key, MemoryView};
use super::open::{Batches, Open};
use super::schema::{Col, ALL, WIDE};
use super::segment::{Segment, SegmentWriter};
use super::sidecar::{entry, first_of, Keys};
use super::spill::Spill;
use super::view::View;
use crate::StoreError;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::interleave::interleave_record_batch;
use arrow_select::take::take_record_batch;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use wirespan_model::KeyKind;

/// Rows that are gathered at a time; a multiple of the page.
const WINDOW: usize = 2 * 1024;
/// Rows that are decoded at a time of each input of a merge.
const MERGE_ROWS: usize = 1024;
/// Decoded chunks that are held at a time, about 0.7 MB each.
const HELD_CHUNKS: usize = 6;

/// Writes a memory segment as segment `id`.
pub(crate) fn write_memory(memory: &MemoryView, dir: &Path, id: u64) -> Result<Segment, StoreError> {
    let mut writer = SegmentWriter::create(dir, id)?;
    let order = by_start(memory)?;
    // First row of each chunk, counted over all of them.
    let bases: Vec<u32> = memory
        .chunks
        .iter()
        .scan(0, |next, chunk| {
            *next += chunk.rows as u32;
            Some(*next - chunk.rows as u32)
        })
        .collect();
    let place = |row: u32| {
        let chunk = bases.partition_point(|base| *base <= row) - 1;
        (chunk as u32, row - bases[chunk])
    };

    let mut decoded: FxHashMap<u32, RecordBatch> = FxHashMap::default();
    for window in order.chunks(WINDOW) {
        let mut rows: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let window: Vec<(u32, u32)> = window.iter().map(|row| place(*row)).collect();
        window.iter().for_each(|(chunk, row)| rows.entry(*chunk).or_default().push(*row));
        let mut chunks: Vec<u32> = rows.keys().copied().collect();
        chunks.sort_unstable();
        // Most windows touch few chunks, and these are held whole. Spans with a long duration start far from their
        // neighbours in time and touch many chunks; of these chunks only the wanted rows are held.
        let few = chunks.len() <= HELD_CHUNKS;
        let mut before = std::mem::take(&mut decoded);
        let mut pieces = Vec::with_capacity(chunks.len());
        for chunk in &chunks {
            let batch = match before.remove(chunk) {
                Some(batch) => batch,
                None => memory.narrow(&memory.chunks[*chunk as usize], None)?,
            };
            if few {
                decoded.insert(*chunk, batch.clone());
                pieces.push(batch);
            } else {
                let taken = UInt32Array::from(rows.get(chunk).cloned().unwrap_or_default());
                pieces.push(take_record_batch(&batch, &taken).map_err(|e| super::broken("memory segment", e))?);
            }
        }
        drop(before);
        let at: FxHashMap<u32, usize> = chunks.iter().enumerate().map(|(i, c)| (*c, i)).collect();
        let mut next = vec![0; chunks.len()];
        let indices: Vec<(usize, usize)> = window
            .iter()
            .map(|(chunk, row)| {
                let piece = at[chunk];
                next[piece] += 1;
                (piece, if few { *row as usize } else { next[piece] - 1 })
            })
            .collect();
        writer.write(&memory.widen(&gather(&pieces, &indices)?)?)?;
    }

    // The new place of each row, for the keys.
    let mut row_of = vec![0u32; order.len()];
    for (new, old) in (0u32..).zip(&order) {
        row_of[*old as usize] = new;
    }
    drop(order);
    drop(decoded);
    writer.finish(&MemoryKeys { memory, bases: &bases, row_of: &row_of })
}

/// The keys of a memory segment, with the new places of its rows.
struct MemoryKeys<'a> {
    memory: &'a MemoryView,
    /// First row of each chunk.
    bases: &'a [u32],
    /// The new place of each row.
    row_of: &'a [u32],
}

impl Keys for MemoryKeys<'_> {
    fn count(&self, kind: KeyKind) -> usize {
        self.memory.chunks.iter().map(|chunk| chunk.index.entries(kind, 0..u64::MAX).len()).sum()
    }

    fn part(&self, kind: KeyKind, part: u32, out: &mut Vec<u64>) -> io::Result<()> {
        let hashes = first_of(part)..first_of(part + 1);
        for (base, chunk) in self.bases.iter().zip(&self.memory.chunks) {
            let entries = chunk.index.entries(kind, hashes.clone());
            out.extend(entries.map(|(hash, row)| entry(hash, self.row_of[*base as usize + usize::from(row)])));
        }
        Ok(())
    }
}

/// The rows of all chunks, counted over all of them, in the order of their start.
fn by_start(memory: &MemoryView) -> Result<Vec<u32>, StoreError> {
    let mut starts: Vec<u64> = Vec::with_capacity(memory.rows());
    for chunk in &memory.chunks {
        let view = View::new(&memory.wide(chunk, Some(&[Col::Start]))?);
        starts.extend((0..view.rows()).map(|row| view.start_ns(row)));
    }
    let mut order: Vec<u32> = (0..starts.len() as u32).collect();
    order.sort_unstable_by_key(|row| (starts[*row as usize], *row));
    Ok(order)
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
    fn next(&mut self, most: usize, columns: &[Col]) -> Result<Option<RecordBatch>, StoreError> {
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
                self.batches = Some(self.segment.read(self.group, None, Some(columns), MERGE_ROWS)?);
                self.group += 1;
            }
        }
    }
}

/// Merges segments into segment `id`.
pub(crate) fn merge(inputs: &[Arc<Open>], dir: &Path, id: u64) -> Result<Segment, StoreError> {
    let mut writer = SegmentWriter::create(dir, id)?;
    let mut cursors: Vec<Cursor> = inputs.iter().map(|i| Cursor::new(i.clone())).collect();
    let mut order = Order::new(inputs)?;
    let mut row = 0u32;
    let spilled = |e| super::io("write", dir, e);
    let mut keys = Spill::create(dir).map_err(spilled)?;
    loop {
        let window = order.next(WINDOW)?;
        if window.is_empty() {
            break;
        }
        let mut pieces = Vec::new();
        // For each input, the pieces that hold its next rows: (piece, rows).
        let mut parts: Vec<Vec<(usize, usize)>> = vec![Vec::new(); inputs.len()];
        let mut counts = vec![0; inputs.len()];
        window.iter().for_each(|i| counts[*i] += 1);
        for (i, mut count) in counts.into_iter().enumerate() {
            while count > 0 {
                let Some(piece) = cursors[i].next(count, ALL)? else {
                    return Err(super::broken("segment", "a segment has fewer rows than it had"));
                };
                count -= piece.num_rows();
                parts[i].push((pieces.len(), piece.num_rows()));
                pieces.push(piece);
            }
        }
        let mut next: Vec<_> =
            parts.into_iter().map(|p| p.into_iter().flat_map(|(piece, n)| (0..n).map(move |r| (piece, r)))).collect();
        let indices: Vec<(usize, usize)> = window.iter().filter_map(|i| next[*i].next()).collect();
        let batch = gather(&pieces, &indices)?;
        let batch =
            RecordBatch::try_new(WIDE.clone(), batch.columns().to_vec()).map_err(|e| super::broken("segment", e))?;
        writer.write(&batch)?;
        let mut pushed = Ok(());
        each_key(&batch, &mut |at, key| {
            if pushed.is_ok() {
                pushed = keys.push(key.kind, entry(super::memory::hash32(key.value), row + at as u32));
            }
        });
        pushed.map_err(spilled)?;
        row += batch.num_rows() as u32;
    }
    writer.finish(&keys)
}

/// Finds the input that has the next row by start time. Each input is sorted already.
struct Order {
    inputs: Vec<(Cursor, Vec<u64>, usize)>,
    /// The next start of each input that has rows left.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Order {
    fn new(inputs: &[Arc<Open>]) -> Result<Order, StoreError> {
        let inputs = inputs.iter().map(|input| (Cursor::new(input.clone()), Vec::new(), 0)).collect();
        let mut order = Order { inputs, heads: BinaryHeap::new() };
        (0..order.inputs.len()).try_for_each(|i| order.advance(i))?;
        Ok(order)
    }

    /// The inputs of the next rows, at most `most`.
    fn next(&mut self, most: usize) -> Result<Vec<usize>, StoreError> {
        let mut window = Vec::with_capacity(most);
        while window.len() < most {
            let Some(Reverse((_, i))) = self.heads.pop() else { break };
            window.push(i);
            self.advance(i)?;
        }
        Ok(window)
    }

    fn advance(&mut self, i: usize) -> Result<(), StoreError> {
        let (cursor, starts, at) = &mut self.inputs[i];
        if *at == starts.len() {
            starts.clear();
            *at = 0;
            if let Some(batch) = cursor.next(usize::MAX, &[Col::Start])? {
                let view = View::new(&batch);
                starts.extend((0..view.rows()).map(|row| view.start_ns(row)));
            }
        }
        if let Some(start) = starts.get(*at) {
            *at += 1;
            self.heads.push(Reverse((*start, i)));
        }
        Ok(())
    }
}
