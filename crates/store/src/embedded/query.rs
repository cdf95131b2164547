//! The conditions of a search, on spans and on columns alike, and the best rows found so far.

use super::attrs;
use super::schema::{Col, NameKey};
use super::view::View;
use crate::{Order, Query, StoreError, TimeRange};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::RecordBatch;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wirespan_model::{Span, SpanKind, Status, TapSide};

/// Most spans that a search returns.
pub(crate) const MAX_LIMIT: usize = 10_000;

/// The conditions of a query, prepared for testing rows.
pub(crate) struct Filter<'q> {
    query: &'q Query,
    /// Columns that the conditions read.
    columns: Vec<Col>,
    /// Name columns that must equal a text.
    names: Vec<(Col, &'q str)>,
    durations: (u64, u64),
}

/// The parts of a span that a filter reads.
struct Facts<'a> {
    protocol: &'a str,
    operation: &'a str,
    target: &'a str,
    status: Status,
    kind: SpanKind,
    tap: &'a str,
}

impl<'q> Filter<'q> {
    /// Reads a query.
    ///
    /// # Errors
    /// [`StoreError::Query`] for a status or observation point that does not exist, and for bounds that exclude
    /// everything.
    pub(crate) fn new(query: &'q Query) -> Result<Filter<'q>, StoreError> {
        check(query)?;
        let mut columns = vec![Col::Start, Col::Duration];
        let mut names = Vec::new();
        if let Some(service) = &query.service {
            names.push((Col::Service, service.as_str()));
        }
        if let Some(protocol) = &query.protocol {
            names.push((Col::Protocol, protocol.as_str()));
        }
        columns.extend(names.iter().map(|n| n.0));
        if query.operation.is_some() {
            columns.extend([Col::Operation, Col::Target]);
            if query.protocol.is_none() {
                columns.push(Col::Protocol);
            }
        } else if query.endpoint.is_some() {
            columns.push(Col::Target);
        }
        if query.status.is_some() {
            columns.extend([Col::Status, Col::Kind]);
        }
        if query.tap.is_some() {
            columns.push(Col::Tap);
        }
        if !query.attributes.is_empty() {
            columns.extend([Col::Attributes, Col::Host, Col::Executable, Col::Container, Col::Resource]);
            if query.service.is_none() {
                columns.push(Col::Service);
            }
        }
        let durations = (query.min_duration_ns.unwrap_or(0), query.max_duration_ns.unwrap_or(u64::MAX));
        Ok(Filter { query, columns, names, durations })
    }

    /// Columns that [`Filter::rows`] reads.
    pub(crate) fn columns(&self) -> &[Col] {
        &self.columns
    }

    /// Whether a page with these bounds may have a matching row.
    pub(crate) fn page(&self, range: (u64, u64), durations: (u64, u64)) -> bool {
        let r = self.query.range;
        let in_range = range.0 < r.to_ns && range.1 >= r.from_ns;
        in_range && durations.0 <= self.durations.1 && durations.1 >= self.durations.0
    }

    /// The rank of a span in the order of the query, if it matches; the greatest is the best.
    pub(crate) fn span(&self, span: &Span) -> Option<u64> {
        let (start, duration) = (span.start_ns.min(super::encode::LAST_NS), span.duration_ns());
        let q = self.query;
        let facts = Facts {
            protocol: &span.protocol,
            operation: &span.operation,
            target: &span.target,
            status: span.status,
            kind: span.kind,
            tap: span.tap.as_str(),
        };
        let matches = self.page((start, start), (duration, duration))
            && q.service.as_deref().is_none_or(|s| *s == *span.resource.service)
            && self.facts(&facts)
            && q.attributes.iter().all(|(key, want)| {
                let own = span.attrs.iter().any(|(k, v)| k == key && v.to_string() == *want);
                own || span.resource.extra.iter().any(|(k, v)| **k == **key && **v == **want)
                    || resource(key, |col| match col {
                        Col::Host => &span.resource.host,
                        Col::Executable => &span.resource.executable,
                        Col::Container => &span.resource.container,
                        _ => &span.resource.service,
                    }) == Some(want)
            });
        matches.then(|| self.rank(start, duration))
    }

    fn rank(&self, start: u64, duration: u64) -> u64 {
        match self.query.order {
            Order::Newest => start,
            Order::Slowest => duration,
        }
    }

    /// As [`Filter::columns`], for rows that are all known to start in the range.
    pub(crate) fn columns_inside(&self) -> &[Col] {
        // The start is the first of the columns. In the order of time, the rank needs it.
        if self.query.order == Order::Newest {
            &self.columns
        } else {
            &self.columns[1..]
        }
    }

    /// Whether all spans that start between these bounds start in the range.
    pub(crate) fn contains(&self, times: (u64, u64)) -> bool {
        self.query.range.from_ns <= times.0 && times.1 < self.query.range.to_ns
    }

    /// Calls `visit` with row and rank of each row of a batch that matches; the batch has [`Filter::columns`], or
    /// [`Filter::columns_inside`]. Rows that rank at or below `floor` may be left out.
    pub(crate) fn rows(&self, batch: &RecordBatch, floor: Option<u64>, visit: &mut dyn FnMut(usize, u64)) {
        let view = View::new(batch);
        let starts = view.column(Col::Start).and_then(|c| c.as_primitive_opt::<TimestampNanosecondType>());
        let durations = view.column(Col::Duration).and_then(|c| c.as_primitive_opt::<Int64Type>());
        let Some(durations) = durations else { return };
        // For each name column, the dictionary entry that is wanted.
        let mut wanted = Vec::new();
        for (col, want) in &self.names {
            let Some(dict) = view.column(*col).and_then(|c| c.as_dictionary_opt::<NameKey>()) else { return };
            let texts = dict.values().as_string::<i32>();
            // A dictionary made of two others may have a text twice.
            let hits: Vec<bool> = texts.iter().map(|t| t == Some(want)).collect();
            if !hits.contains(&true) {
                return;
            }
            wanted.push((dict.keys().values().clone(), hits));
        }
        let rest = self.columns.len() > 2 + self.names.len();
        let r = self.query.range;
        for (row, duration) in durations.values().iter().enumerate() {
            // A start that was not read is known to be in the range, and does not affect the rank.
            let start = starts.map_or(r.from_ns, |s| s.value(row) as u64);
            let duration = (*duration).max(0) as u64;
            let rank = self.rank(start, duration);
            let plausible = floor.is_none_or(|f| rank > f)
                && (r.from_ns..r.to_ns).contains(&start)
                && (self.durations.0..=self.durations.1).contains(&duration)
                && wanted.iter().all(|(keys, hits)| hits[keys[row] as usize]);
            if plausible && (!rest || self.row(&view, row)) {
                visit(row, rank);
            }
        }
    }

    fn row(&self, view: &View, row: usize) -> bool {
        let facts = Facts {
            protocol: view.name(Col::Protocol, row),
            operation: view.name(Col::Operation, row),
            target: view.text(Col::Target, row),
            status: view.status(row),
            kind: view.kind(row),
            tap: view.tap(row).as_str(),
        };
        self.facts(&facts)
            && self.query.attributes.iter().all(|(key, want)| {
                has(view.text(Col::Attributes, row), key, want)
                    || has(view.name(Col::Resource, row), key, want)
                    || resource(key, |col| view.name(col, row)) == Some(want)
            })
    }

    fn facts(&self, f: &Facts<'_>) -> bool {
        let q = self.query;
        q.protocol.as_deref().is_none_or(|p| p == f.protocol)
            && q.operation.as_deref().is_none_or(|o| o == f.operation || is_name(o, f))
            && q.endpoint.as_deref().is_none_or(|e| memchr::memmem::find(f.target.as_bytes(), e.as_bytes()).is_some())
            && q.tap.as_deref().is_none_or(|t| t == f.tap)
            && q.status.as_deref().is_none_or(|s| match s {
                "error" => f.status.is_error(f.kind),
                name => f.status.as_str() == name,
            })
    }
}

/// Whether a text is the span's whole name (see `Span::name`).
fn is_name(text: &str, f: &Facts<'_>) -> bool {
    let head = if f.operation.is_empty() { f.protocol } else { f.operation };
    match text.strip_prefix(head) {
        Some("") => f.target.is_empty(),
        Some(rest) => !f.target.is_empty() && rest.strip_prefix(' ') == Some(f.target),
        None => false,
    }
}

/// Whether a JSON object has a member with this value, compared as text.
fn has(json: &str, key: &str, want: &str) -> bool {
    let mut found = false;
    // Parsing is expensive, and the key's bytes rule out most rows. (A key with an escape is not found by its bytes.)
    let plain = !key.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\');
    if plain && memchr::memmem::find(json.as_bytes(), key.as_bytes()).is_none() {
        return false;
    }
    attrs::each(json, |k, v| found |= k == key && v.to_string() == want);
    found
}

/// Value of a resource attribute that has a column of its own.
fn resource<'a>(key: &str, get: impl Fn(Col) -> &'a str) -> Option<&'a str> {
    let col = match key {
        "service.name" => Col::Service,
        "host.name" => Col::Host,
        "process.executable.path" => Col::Executable,
        "container.id" => Col::Container,
        _ => return None,
    };
    Some(get(col))
}

fn check(q: &Query) -> Result<(), StoreError> {
    let statuses: Vec<&str> = Status::ALL.map(Status::as_str).into_iter().chain(["error"]).collect();
    let taps = TapSide::ALL.map(TapSide::as_str);
    for (field, value, known) in [("status", &q.status, &statuses[..]), ("tap", &q.tap, &taps[..])] {
        if let Some(v) = value {
            if !known.contains(&v.as_str()) {
                return Err(StoreError::Query(format!("{field} {v:?} is none of {}", known.join(", "))));
            }
        }
    }
    let TimeRange { from_ns, to_ns } = q.range;
    if from_ns > to_ns {
        return Err(StoreError::Query(format!("the range ends ({to_ns}) before it starts ({from_ns})")));
    }
    match (q.min_duration_ns, q.max_duration_ns) {
        (Some(min), Some(max)) if min > max => {
            Err(StoreError::Query(format!("the shortest duration ({min} ns) is longer than the longest ({max} ns)")))
        }
        _ => Ok(()),
    }
}

/// The best rows so far, each with the place from which it can be fetched.
pub(crate) struct Best {
    limit: usize,
    heap: BinaryHeap<Reverse<(u64, usize, usize)>>,
}

impl Best {
    /// Keeps at most `limit`.
    pub(crate) fn new(limit: usize) -> Best {
        Best { limit: limit.min(MAX_LIMIT), heap: BinaryHeap::new() }
    }

    /// The rank that a row must exceed, once there are enough rows.
    pub(crate) fn floor(&self) -> Option<u64> {
        if self.heap.len() < self.limit {
            return None;
        }
        Some(self.heap.peek().map_or(u64::MAX, |worst| worst.0 .0))
    }

    /// Whether a row of this rank would be kept.
    pub(crate) fn wants(&self, rank: u64) -> bool {
        self.floor().is_none_or(|f| rank > f)
    }

    /// Offers a row.
    pub(crate) fn offer(&mut self, rank: u64, source: usize, row: usize) {
        if !self.wants(rank) {
            return;
        }
        if self.heap.len() == self.limit {
            self.heap.pop();
        }
        self.heap.push(Reverse((rank, source, row)));
    }

    /// All rows, best first: rank, source, row.
    pub(crate) fn into_sorted(self) -> Vec<(u64, usize, usize)> {
        self.heap.into_sorted_vec().into_iter().map(|r| r.0).collect()
    }
}
