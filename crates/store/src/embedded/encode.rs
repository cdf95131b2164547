//! Spans → columns.

use super::attrs;
use super::names::Names;
use super::schema::{place, NameKey, Ty, COLUMNS, NARROW, WIDE};
use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int32Type, Int64Type, TimestampNanosecondType, UInt16Type, UInt32Type, UInt64Type, UInt8Type,
};
use arrow_array::{ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use std::sync::Arc;
use wirespan_model::{Resource, Span};

/// Latest instant that is kept, Unix ns (the year 2262); later ones are clamped to it.
pub(crate) const LAST_NS: u64 = i64::MAX as u64;

type Spans<'a> = &'a [Arc<Span>];

fn column<T: ArrowPrimitiveType>(spans: Spans<'_>, get: impl Fn(&Span) -> T::Native) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(spans.iter().map(|s| get(s))))
}

fn optional<T: ArrowPrimitiveType>(spans: Spans<'_>, get: impl Fn(&Span) -> Option<T::Native>) -> ArrayRef {
    Arc::new(spans.iter().map(|s| get(s)).collect::<PrimitiveArray<T>>())
}

/// A column of names. Consecutive spans often share the text, and comparing equal texts is cheaper than hashing them.
fn names(spans: Spans<'_>, names: &mut Names, get: impl Fn(&Span) -> &str) -> ArrayRef {
    let mut last: (&str, u32) = ("", names.id(""));
    let ids = spans.iter().map(|s| {
        let text = get(s);
        if text != last.0 {
            last = (text, names.id(text));
        }
        last.1
    });
    Arc::new(PrimitiveArray::<UInt32Type>::from_iter_values(ids))
}

fn addresses(spans: Spans<'_>, names: &mut Names, get: impl Fn(&Span) -> std::net::IpAddr) -> ArrayRef {
    let mut last = None;
    let ids = spans.iter().map(|s| {
        let ip = get(s);
        match last {
            Some((same, id)) if same == ip => id,
            _ => {
                let id = names.address(ip);
                last = Some((ip, id));
                id
            }
        }
    });
    Arc::new(PrimitiveArray::<UInt32Type>::from_iter_values(ids))
}

fn texts<'a>(spans: Spans<'a>, get: impl Fn(&'a Span) -> &'a str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(spans.iter().map(|s| get(s))))
}

/// A column of texts that most spans lack.
fn filled<'a>(spans: Spans<'a>, get: impl Fn(&'a Span) -> Option<&'a str>) -> ArrayRef {
    Arc::new(spans.iter().map(|s| get(s)).collect::<StringArray>())
}

fn time(ns: u64) -> i64 {
    ns.min(LAST_NS) as i64
}

/// The five columns of the resource, as names. Spans share few resources, so each resource is read once per batch.
fn resources(spans: Spans<'_>, names: &mut Names) -> [ArrayRef; 5] {
    let mut known: Vec<(*const Resource, [u32; 5])> = Vec::new();
    let mut columns: [Vec<u32>; 5] = std::array::from_fn(|_| Vec::with_capacity(spans.len()));
    for span in spans {
        let at = Arc::as_ptr(&span.resource);
        let ids = match known.iter().find(|(p, _)| *p == at) {
            Some((_, ids)) => *ids,
            None => {
                let r = &span.resource;
                let mut extra = String::new();
                attrs::write_pairs(&mut extra, &r.extra);
                let texts: [&str; 5] = [&r.service, &r.host, &r.executable, &r.container, &extra];
                let ids = texts.map(|t| names.id(t));
                if known.len() == 64 {
                    known.clear();
                }
                known.push((at, ids));
                ids
            }
        };
        for (column, id) in columns.iter_mut().zip(ids) {
            column.push(id);
        }
    }
    columns.map(|ids| Arc::new(PrimitiveArray::<UInt32Type>::from(ids)) as ArrayRef)
}

fn trace_ids(spans: Spans<'_>) -> Result<ArrayRef, ArrowError> {
    let mut b = FixedSizeBinaryBuilder::with_capacity(spans.len(), 16);
    for s in spans {
        match s.trace_id {
            Some(id) => b.append_value(id.0)?,
            None => b.append_null(),
        }
    }
    Ok(Arc::new(b.finish()))
}

fn attributes(spans: Spans<'_>) -> ArrayRef {
    let mut json = String::with_capacity(spans.len() * 96);
    let mut lengths = Vec::with_capacity(spans.len());
    for s in spans {
        let from = json.len();
        attrs::write(&mut json, &s.attrs);
        lengths.push(json.len() - from);
    }
    let offsets = arrow_buffer::OffsetBuffer::from_lengths(lengths);
    Arc::new(StringArray::new(offsets, json.into_bytes().into(), None))
}

/// Columns of the spans, names as integers.
///
/// # Errors
/// Fails only if the columns do not fit the schema, which would be a defect of this file.
pub(crate) fn encode(spans: Spans<'_>, n: &mut Names) -> Result<RecordBatch, ArrowError> {
    let [service, host, executable, container, resource] = resources(spans, n);
    let columns: Vec<ArrayRef> = vec![
        column::<TimestampNanosecondType>(spans, |s| time(s.start_ns)),
        column::<Int64Type>(spans, |s| time(s.end_ns).wrapping_sub(time(s.start_ns))),
        optional::<Int64Type>(spans, |s| {
            (s.response_ns != 0).then(|| time(s.end_ns).wrapping_sub(time(s.response_ns)))
        }),
        service,
        column::<UInt8Type>(spans, |s| s.tap as u8),
        column::<UInt8Type>(spans, |s| s.kind as u8),
        names(spans, n, |s| &s.protocol),
        names(spans, n, |s| &s.operation),
        texts(spans, |s| &s.target),
        column::<UInt8Type>(spans, |s| s.status as u8),
        optional::<Int32Type>(spans, |s| s.status_code),
        filled(spans, |s| Some(&*s.error).filter(|e| !e.is_empty())),
        column::<UInt64Type>(spans, |s| s.request_bytes),
        column::<UInt64Type>(spans, |s| s.response_bytes),
        column::<UInt8Type>(spans, |s| s.tuple.transport as u8),
        addresses(spans, n, |s| s.tuple.client.ip),
        column::<UInt16Type>(spans, |s| s.tuple.client.port),
        addresses(spans, n, |s| s.tuple.server.ip),
        column::<UInt16Type>(spans, |s| s.tuple.server.port),
        column::<UInt64Type>(spans, |s| s.id.0),
        trace_ids(spans)?,
        optional::<UInt64Type>(spans, |s| s.parent_span_id.map(|p| p.0)),
        filled(spans, |s| s.request_id.as_deref()),
        column::<UInt64Type>(spans, |s| s.socket),
        optional::<UInt64Type>(spans, |s| s.exchange.map(|e| e.first)),
        optional::<UInt64Type>(spans, |s| s.exchange.map(|e| e.last.wrapping_sub(e.first))),
        optional::<UInt64Type>(spans, |s| s.cause),
        optional::<UInt8Type>(spans, |s| s.cause_evidence.map(|e| e as u8)),
        optional::<UInt32Type>(spans, |s| s.request_seq),
        optional::<UInt32Type>(spans, |s| s.response_seq),
        optional::<UInt64Type>(spans, |s| s.message_id),
        column::<UInt32Type>(spans, |s| s.pid),
        column::<UInt32Type>(spans, |s| s.tid),
        column::<UInt64Type>(spans, |s| s.coroutine),
        names(spans, n, |s| &s.comm),
        column::<UInt32Type>(spans, |s| s.netns),
        column::<UInt64Type>(spans, |s| s.cgroup_id),
        column::<UInt64Type>(spans, |s| s.host_id),
        column::<UInt64Type>(spans, |s| s.tcp.srtt_ns),
        column::<UInt32Type>(spans, |s| s.tcp.retransmits),
        column::<UInt64Type>(spans, |s| s.tcp.connect_ns),
        column::<UInt32Type>(spans, |s| s.tcp.queue_us),
        column::<UInt32Type>(spans, |s| s.tcp.resets),
        host,
        executable,
        container,
        resource,
        attributes(spans),
    ];
    let columns = columns
        .into_iter()
        .zip(NARROW.fields())
        .map(|(c, f)| match f.data_type() {
            arrow_schema::DataType::Timestamp(..) => {
                Arc::new(c.as_primitive::<TimestampNanosecondType>().clone().with_timezone("UTC")) as ArrayRef
            }
            _ => c,
        })
        .collect();
    RecordBatch::try_new(NARROW.clone(), columns)
}

/// Adds the texts to their integers without copying. `batch` may have any of the columns.
///
/// # Errors
/// Fails if an integer has no text, that is, if a log is corrupt.
pub(crate) fn widen(batch: &RecordBatch, texts: &Arc<StringArray>) -> Result<RecordBatch, ArrowError> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    let mut places = Vec::with_capacity(batch.num_columns());
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let unknown = || ArrowError::SchemaError(format!("unknown column {}", field.name()));
        let place = place(field.name()).ok_or_else(unknown)?;
        places.push(place);
        columns.push(match COLUMNS[place].ty {
            Ty::Name => {
                let keys = column.as_primitive::<UInt32Type>().clone();
                Arc::new(DictionaryArray::<NameKey>::try_new(keys, texts.clone())?) as ArrayRef
            }
            _ => column.clone(),
        });
    }
    RecordBatch::try_new(Arc::new(WIDE.project(&places)?), columns)
}
