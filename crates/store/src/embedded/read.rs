//! Queries: over the tail, the memory segments and the segments, newest first.

use super::attrs;
use super::damage::is_damage;
use super::memory::{Chunk, MemoryView};
use super::open::{Open, Page};
use super::query::{Best, Filter};
use super::schema::{Col, NameKey, PAGE_ROWS};
use super::segment::{self, Segment};
use super::view::View;
use super::Inner;
use crate::{Field, Order, Query, StoreError, TimeRange};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use wirespan_model::{Key, Span};

/// Pages that a search reads at a time. It begins with few pages, because these may be enough and the floor may rise
/// between two reads. It goes on with many pages, because each read has a fixed cost.
const SLAB_PAGES: std::ops::RangeInclusive<usize> = 4..=64;
/// Rows per batch of a search.
const SEARCH_ROWS: usize = 16 * PAGE_ROWS;
/// Rows that are looked at for suggestions.
const SUGGEST_ROWS: usize = 1 << 20;
/// Distinct values that are counted for suggestions.
const SUGGEST_VALUES: usize = 10_000;

/// The data that a query reads. They do not change while the query runs.
struct Snapshot {
    tail: Vec<Arc<Span>>,
    /// Newest first.
    memory: Vec<MemoryView>,
    /// Newest first.
    segments: Vec<Segment>,
}

/// The place of a candidate row.
enum Source {
    Tail,
    Chunk(MemoryView, Arc<Chunk>),
    Segment(Arc<Open>),
}

impl Inner {
    fn snapshot(&self, range: TimeRange, tail: impl Fn(&[Arc<Span>], &[(Key, u32)]) -> Vec<Arc<Span>>) -> Snapshot {
        let mut state = self.lock();
        let tail = tail(&state.tail, &state.tail_keys);
        let memory =
            [state.active.view()].into_iter().chain(state.frozen.iter().rev().map(|f| f.view.clone())).collect();
        let segments = state.segments.clone();
        drop(state);
        let mut segments: Vec<Segment> = segments.iter().filter(|s| s.overlaps(range)).cloned().collect();
        segments.sort_by_key(|s| std::cmp::Reverse(s.last_ns));
        Snapshot { tail, memory, segments }
    }

    /// Opens a segment of a snapshot; `None` if it was merged or dropped meanwhile, or cannot be read.
    fn open_segment(&self, segment: &Segment) -> Result<Option<Arc<Open>>, StoreError> {
        let Some(dir) = &self.dir else { return Ok(None) };
        match self.segment(dir, segment) {
            Ok(open) => Ok(Some(open)),
            Err(e) if is_damage(&e) => {
                if self.lock().segments.iter().any(|s| s.id == segment.id) {
                    self.damage.report(&segment::data_path(dir, segment.id), &e);
                }
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// What was read of a chunk; `None` if the log has lost it.
    fn readable<T>(&self, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(e) if is_damage(&e) => {
                self.damage.report(Path::new("log"), &e);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    pub(crate) fn find(&self, keys: &[Key], range: TimeRange, limit: usize) -> Result<Vec<Arc<Span>>, StoreError> {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        let snapshot = self.snapshot(range, |tail, tail_keys| {
            let mut rows: Vec<u32> =
                tail_keys.iter().filter(|(k, _)| keys.binary_search(k).is_ok()).map(|(_, row)| *row).collect();
            rows.dedup();
            rows.into_iter().map(|row| tail[row as usize].clone()).collect()
        });
        let mut seen = FxHashSet::default();
        let mut out = Vec::new();
        let mut found = |span: Arc<Span>| {
            if seen.insert(span.id) {
                out.push(span);
            }
            out.len() < limit
        };
        let in_range = |s: &Span| range.from_ns <= s.start_ns && s.start_ns < range.to_ns;
        let mut more = snapshot.tail.into_iter().filter(|s| in_range(s)).all(&mut found);
        for view in snapshot.memory {
            more = more && view.find(&keys, range, &mut |e| self.readable::<()>(Err(e)).map(drop), &mut found)?;
        }
        for segment in snapshot.segments {
            if !more {
                break;
            }
            if let Some(open) = self.open_segment(&segment)? {
                more = open.find(&keys, range, &mut found)?;
            }
        }
        Ok(out)
    }

    pub(crate) fn search(&self, query: &Query) -> Result<Vec<Arc<Span>>, StoreError> {
        let filter = Filter::new(query)?;
        if query.limit == 0 {
            return Ok(Vec::new());
        }
        let snapshot = self.snapshot(query.range, |tail, _| tail.to_vec());
        let mut best = Best::new(query.limit);
        let mut sources = vec![Source::Tail];
        for (row, span) in snapshot.tail.iter().enumerate() {
            if let Some(rank) = filter.span(span) {
                best.offer(rank, 0, row);
            }
        }
        let top = |last_ns: u64, longest_ns: u64| if query.order == Order::Newest { last_ns } else { longest_ns };
        for view in snapshot.memory {
            for chunk in view.chunks.iter().rev() {
                let may = filter.page(chunk.starts, (0, chunk.longest_ns));
                if !may || !best.wants(top(chunk.starts.1, chunk.longest_ns)) {
                    continue;
                }
                let Some(batch) = self.readable(view.wide(chunk, Some(filter.columns())))? else { continue };
                let floor = best.floor();
                filter.rows(&batch, floor, &mut |row, rank| best.offer(rank, sources.len(), row));
                sources.push(Source::Chunk(view.clone(), chunk.clone()));
            }
        }
        for segment in snapshot.segments {
            let may = filter.page((segment.first_ns, segment.last_ns), (0, segment.longest_ns));
            if !may || !best.wants(top(segment.last_ns, segment.longest_ns)) {
                continue;
            }
            if let Some(open) = self.open_segment(&segment)? {
                search_segment(&open, query, &filter, sources.len(), &mut best)?;
                sources.push(Source::Segment(open));
            }
        }
        self.fetch(best, &sources, &snapshot.tail)
    }

    /// Visits the spans of a range, with some columns or with all.
    pub(crate) fn scan(
        &self,
        range: TimeRange,
        columns: Option<&[Col]>,
        visit: &mut dyn FnMut(&Span),
    ) -> Result<(), StoreError> {
        let in_range = |start: u64| range.from_ns <= start && start < range.to_ns;
        let snapshot = self.snapshot(range, |tail, _| tail.to_vec());
        snapshot.tail.iter().filter(|s| in_range(s.start_ns)).for_each(|s| visit(s));
        self.batches(snapshot, range, columns, &mut |batch| {
            let mut view = View::new(batch);
            for row in 0..view.rows() {
                if in_range(view.start_ns(row)) {
                    visit(&view.span(row));
                }
            }
            true
        })
    }

    /// Calls `visit` with the encoded rows of a snapshot until `visit` returns that it has enough. A batch may have
    /// rows outside the range.
    fn batches(
        &self,
        snapshot: Snapshot,
        range: TimeRange,
        columns: Option<&[Col]>,
        visit: &mut dyn FnMut(&RecordBatch) -> bool,
    ) -> Result<(), StoreError> {
        for view in &snapshot.memory {
            for chunk in view.chunks.iter().rev().filter(|c| c.overlaps(range)) {
                let Some(batch) = self.readable(view.wide(chunk, columns))? else { continue };
                if !visit(&batch) {
                    return Ok(());
                }
            }
        }
        for segment in snapshot.segments {
            let Some(open) = self.open_segment(&segment)? else { continue };
            for pages in open.pages(range).chunk_by(|a, b| a.group == b.group).rev_groups() {
                let rows = ranges(&pages);
                if !open.each(pages[0].group, &rows, columns, 4 * PAGE_ROWS, &mut |_, batch| visit(batch))? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(crate) fn suggest(
        &self,
        field: Field,
        prefix: &str,
        range: TimeRange,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let prefix = prefix.to_lowercase();
        let mut counts: FxHashMap<String, u64> = FxHashMap::default();
        let mut count = |value: &str, n: u64| {
            if let Some(known) = counts.get_mut(value) {
                *known += n;
            } else if !value.is_empty() && counts.len() < SUGGEST_VALUES && value.to_lowercase().starts_with(&prefix) {
                counts.insert(value.to_owned(), n);
            }
        };
        let in_range = |start: u64| range.from_ns <= start && start < range.to_ns;
        let snapshot = self.snapshot(range, |tail, _| tail.to_vec());
        for span in snapshot.tail.iter().filter(|s| in_range(s.start_ns)) {
            match field {
                Field::Service => count(&span.resource.service, 1),
                Field::Operation => count(&span.operation, 1),
                Field::Endpoint => count(&span.target, 1),
                Field::Protocol => count(&span.protocol, 1),
                Field::AttributeKey => span.attrs.iter().for_each(|(k, _)| count(k, 1)),
            }
        }
        let col = match field {
            Field::Service => Col::Service,
            Field::Operation => Col::Operation,
            Field::Endpoint => Col::Target,
            Field::Protocol => Col::Protocol,
            Field::AttributeKey => Col::Attributes,
        };
        let mut left = SUGGEST_ROWS;
        self.batches(snapshot, range, Some(&[Col::Start, col]), &mut |batch| {
            let view = View::new(batch);
            let rows = (0..view.rows()).filter(|row| in_range(view.start_ns(*row)));
            match view.column(col).and_then(|c| c.as_dictionary_opt::<NameKey>()) {
                Some(dict) => {
                    let texts = dict.values().as_string::<i32>();
                    let mut hits = vec![0u64; texts.len()];
                    rows.for_each(|row| hits[dict.keys().value(row) as usize] += 1);
                    hits.into_iter().enumerate().filter(|(_, n)| *n > 0).for_each(|(i, n)| count(texts.value(i), n));
                }
                None if field == Field::AttributeKey => {
                    rows.for_each(|row| attrs::each(view.text(col, row), |key, _| count(&key, 1)));
                }
                None => rows.for_each(|row| count(view.text(col, row), 1)),
            }
            // Texts cost more than integers; attributes cost most.
            let weight = match field {
                Field::AttributeKey => 16,
                Field::Endpoint => 2,
                _ => 1,
            };
            left = left.saturating_sub(view.rows() * weight);
            left > 0
        })?;
        let mut values: Vec<(String, u64)> = counts.into_iter().collect();
        values.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(values.into_iter().take(limit).map(|(value, _)| value).collect())
    }

    /// Second pass of a search: the whole spans, best first.
    fn fetch(&self, best: Best, sources: &[Source], tail: &[Arc<Span>]) -> Result<Vec<Arc<Span>>, StoreError> {
        let winners = best.into_sorted();
        let mut out: Vec<Option<Arc<Span>>> = vec![None; winners.len()];
        // (source, row, place in the answer)
        let mut wanted: Vec<(usize, usize, usize)> =
            winners.into_iter().enumerate().map(|(i, (_, s, r))| (s, r, i)).collect();
        wanted.sort_unstable();
        for rows in wanted.chunk_by(|a, b| a.0 == b.0) {
            match &sources[rows[0].0] {
                Source::Tail => rows.iter().for_each(|(_, row, i)| out[*i] = Some(tail[*row].clone())),
                Source::Chunk(view, chunk) => {
                    let Some(batch) = self.readable(view.wide(chunk, None))? else { continue };
                    let mut view = View::new(&batch);
                    rows.iter().for_each(|(_, row, i)| out[*i] = Some(Arc::new(view.span(*row))));
                }
                Source::Segment(open) => fetch_rows(open, rows, &mut out)?,
            }
        }
        Ok(out.into_iter().flatten().collect())
    }
}

/// Groups of a `chunk_by`, last first.
trait RevGroups<T> {
    fn rev_groups(self) -> std::vec::IntoIter<Vec<T>>;
}

impl<'a, T: Clone + 'a, I: DoubleEndedIterator<Item = &'a [T]>> RevGroups<T> for I {
    fn rev_groups(self) -> std::vec::IntoIter<Vec<T>> {
        self.rev().map(<[T]>::to_vec).collect::<Vec<_>>().into_iter()
    }
}

/// Rows of pages of one group, as sorted ranges.
fn ranges(pages: &[Page]) -> Vec<Range<usize>> {
    let mut rows: Vec<Range<usize>> = pages.iter().map(|p| p.rows.0..p.rows.1).collect();
    rows.sort_by_key(|r| r.start);
    rows
}

/// First pass over a segment: finds the best rows by the columns of the conditions. Promising pages come first, because
/// a high floor rules out other pages by their statistics.
fn search_segment(
    open: &Open,
    query: &Query,
    filter: &Filter<'_>,
    source: usize,
    best: &mut Best,
) -> Result<(), StoreError> {
    let mut pages = open.pages(query.range);
    pages.retain(|p| filter.page(p.times, p.durations));
    let top = |p: &Page| if query.order == Order::Newest { p.times.1 } else { p.durations.1 };
    pages.sort_by_key(|p| std::cmp::Reverse(top(p)));
    let mut slab_pages = *SLAB_PAGES.start();
    while !pages.is_empty() {
        // Pages are sorted, so the pages below the floor are at the end.
        let wanted = pages.partition_point(|p| best.wants(top(p)));
        pages.truncate(wanted);
        let mut slab: Vec<Page> = pages.drain(..pages.len().min(slab_pages)).collect();
        slab_pages = (slab_pages * 2).min(*SLAB_PAGES.end());
        slab.sort_by_key(|p| (filter.contains(p.times), p.group, p.rows.0));
        let same = |a: &Page, b: &Page| a.group == b.group && filter.contains(a.times) == filter.contains(b.times);
        for group in slab.chunk_by(same) {
            let inside = filter.contains(group[0].times);
            let columns = if inside { filter.columns_inside() } else { filter.columns() };
            let rows = ranges(group);
            let base = open.group_start(group[0].group);
            open.each(group[0].group, &rows, Some(columns), SEARCH_ROWS, &mut |at, batch| {
                let floor = best.floor();
                filter.rows(batch, floor, &mut |row, rank| best.offer(rank, source, base + at[row]));
                true
            })?;
        }
    }
    Ok(())
}

/// Fetches rows of a segment: each has its row and its place in the answer.
fn fetch_rows(open: &Open, rows: &[(usize, usize, usize)], out: &mut [Option<Arc<Span>>]) -> Result<(), StoreError> {
    let mut rows = rows.iter().peekable();
    for group in 0..open.group_count() {
        let (from, to) = (open.group_start(group), open.group_start(group + 1));
        let wanted: Vec<(usize, usize)> = std::iter::from_fn(|| rows.next_if(|(_, row, _)| *row < to))
            .map(|(_, row, place)| (row - from, *place))
            .collect();
        let ranges: Vec<Range<usize>> = wanted.iter().map(|(row, _)| *row..row + 1).collect();
        if ranges.is_empty() {
            continue;
        }
        open.each(group, &ranges, None, PAGE_ROWS, &mut |at, batch| {
            let mut view = View::new(batch);
            for (row, at) in at.iter().enumerate() {
                if let Ok(i) = wanted.binary_search_by_key(at, |(row, _)| *row) {
                    out[wanted[i].1] = Some(Arc::new(view.span(row)));
                }
            }
            true
        })?;
    }
    Ok(())
}
