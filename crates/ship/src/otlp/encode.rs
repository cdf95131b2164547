//! Traces → OTLP, with the names of OpenTelemetry's semantic conventions. Names that the conventions lack begin with
//! `wirespan.`.
//!
//! | attribute | meaning |
//! |---|---|
//! | `wirespan.tap_side` | observation point ([`TapSide::as_str`]) |
//! | `wirespan.status` | outcome ([`Status::as_str`]) |
//! | `wirespan.evidence`, `wirespan.confidence` | why the parent is believed to be the parent |
//! | `wirespan.request.bytes`, `wirespan.response.bytes` | bytes on the wire, heads included |
//! | `wirespan.first_byte_ns` | first byte of the request to first byte of the response |
//! | `wirespan.tcp.request_seq`, `wirespan.tcp.response_seq` | TCP sequence number of the first byte |
//! | `wirespan.tcp.srtt_ns`, `.retransmits`, `.resets`, `.connect_ns`, `.queue_ns` | what TCP did for its bytes ([`TcpHealth`](wirespan_model::TcpHealth)) |
//! | `wirespan.socket`, `wirespan.coroutine`, `wirespan.request_id` | where they are known |
//! | events `wirespan.wait` | what the threads of a slow request waited for ([`SpanWait`]) |
//! | events `wirespan.syscall`, or spans below | the system calls of a request ([`SpanCalls`]); as attributes: `wirespan.syscall.NAME.count`, `.total`, `.longest` |
//! | events `wirespan.cpu` | in which code these threads ran, the most frequent places ([`SpanSample`]) |
//! | `wirespan.trace.incomplete` | on roots of a trace that a limit cut short |
//!
//! [`SpanWait`]: wirespan_model::wait::SpanWait
//! [`SpanSample`]: wirespan_model::wait::SpanSample
//! [`SpanCalls`]: wirespan_model::syscalls::SpanCalls

use super::proto::{self, AnyValue, ExportRequest, KeyValue, ResourceSpans, Scope, ScopeSpans, STATUS_ERROR};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::key::hash64;
use wirespan_model::syscalls::call_spans;
use wirespan_model::wait::SpanWaits;
use wirespan_model::{
    semconv, span_events, Attr, ParentLink, Resource, SdkLink, SdkTold, Span, SpanEvent, SpanId, SpanLink, TapSide,
    Trace, TraceId, TraceSpan, Value,
};

/// Encodes assembled traces. Spans are grouped by resource and process, in order of first appearance.
pub fn encode_traces<'a>(traces: impl IntoIterator<Item = &'a Trace>) -> ExportRequest {
    let items: Vec<Item> = traces.into_iter().flat_map(Item::of_trace).collect();
    encode_items(&items)
}

/// Encodes spans without assembly: the trace is the carried one or the span's own, and the parent is the carried one.
/// The parent of a carried context is the *sender's* span, which is right for SDK spans and for servers.
pub fn encode_spans<'a>(spans: impl IntoIterator<Item = &'a Arc<Span>>) -> ExportRequest {
    let items: Vec<Item> = spans.into_iter().map(Item::of_span).collect();
    encode_items(&items)
}

/// A span on its way out.
pub(crate) struct Item {
    span: Arc<Span>,
    trace_id: TraceId,
    parent: Option<SpanId>,
    link: Option<ParentLink>,
    links: Vec<SpanLink>,
    incomplete: bool,
}

impl Item {
    pub(crate) fn of_trace(trace: &Trace) -> impl Iterator<Item = Item> + '_ {
        trace.spans.iter().zip(trace.parents()).map(|(TraceSpan { span, link, links, .. }, parent)| Item {
            span: span.clone(),
            trace_id: trace.id,
            parent,
            link: *link,
            links: links.clone(),
            incomplete: !trace.complete && link.is_none(),
        })
    }

    pub(crate) fn of_span(span: &Arc<Span>) -> Item {
        let trace_id = span.trace_id.unwrap_or_else(|| own_trace_id(span));
        Item {
            span: span.clone(),
            trace_id,
            parent: span.parent_span_id,
            link: None,
            links: Vec::new(),
            incomplete: false,
        }
    }
}

impl Item {
    /// The system calls of a span, if they are spans.
    fn of_calls(item: &Item) -> impl Iterator<Item = Item> + '_ {
        call_spans(&item.span).into_iter().map(|call| Item {
            parent: Some(item.span.id),
            link: None,
            links: Vec::new(),
            incomplete: false,
            trace_id: item.trace_id,
            span: Arc::new(call),
        })
    }
}

pub(crate) fn encode_items(items: &[Item]) -> ExportRequest {
    let mut groups = Groups::default();
    for item in items {
        groups.push(&item.span, encode_span(item));
        for call in Item::of_calls(item) {
            groups.push(&item.span, encode_span(&call));
        }
    }
    groups.request
}

/// A trace id for a span that carries none.
fn own_trace_id(span: &Span) -> TraceId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&hash64(&[b"trace", &span.id.0.to_le_bytes()]).to_be_bytes());
    id[8..].copy_from_slice(&span.id.0.to_be_bytes());
    TraceId(id)
}

#[derive(Default)]
struct Groups<'a> {
    request: ExportRequest,
    by_process: FxHashMap<(&'a Resource, u32), usize>,
}

impl<'a> Groups<'a> {
    fn push(&mut self, span: &'a Span, out: proto::Span) {
        let groups = &mut self.request.resource_spans;
        let at = *self.by_process.entry((&span.resource, span.pid)).or_insert_with(|| {
            groups.push(ResourceSpans {
                resource: Some(encode_resource(&span.resource, span.pid)),
                scope_spans: vec![ScopeSpans {
                    scope: Some(Scope {
                        name: "wirespan".into(),
                        version: env!("CARGO_PKG_VERSION").into(),
                        ..Scope::default()
                    }),
                    // The SDK's own attributes follow the release of the conventions that the SDK knows.
                    schema_url: if span.tap == TapSide::App { "" } else { semconv::SCHEMA_URL }.into(),
                    ..ScopeSpans::default()
                }],
                schema_url: String::new(),
            });
            groups.len() - 1
        });
        groups[at].scope_spans[0].spans.push(out);
    }
}

fn encode_resource(resource: &Resource, pid: u32) -> proto::Resource {
    let mut attributes = key_values(semconv::resource_attributes(resource, pid));
    attributes.push(key_value("telemetry.sdk.name", "wirespan"));
    attributes.push(key_value("telemetry.sdk.version", env!("CARGO_PKG_VERSION")));
    proto::Resource { attributes, dropped_attributes_count: 0 }
}

fn key_values(attributes: Vec<Attr>) -> Vec<KeyValue> {
    attributes.into_iter().map(|(key, value)| key_value(&key, value)).collect()
}

fn encode_span(item: &Item) -> proto::Span {
    let span = &item.span;
    let error = span.status.is_error(span.kind);
    let status = error.then(|| proto::Status {
        message: if span.error.is_empty() { span.status.as_str().into() } else { span.error.to_string() },
        code: STATUS_ERROR,
    });
    let mut attributes = attributes(span, item.link.as_ref());
    if item.incomplete {
        attributes.push(key_value("wirespan.trace.incomplete", true));
    }
    let (waits, told) = (SpanWaits::of(span), SdkTold::of(span).unwrap_or_default());
    proto::Span {
        trace_id: item.trace_id.0.to_vec(),
        span_id: span.id.0.to_be_bytes().to_vec(),
        parent_span_id: item.parent.map_or_else(Vec::new, |p| p.0.to_be_bytes().to_vec()),
        name: span.name(),
        kind: span.kind as i32,
        start_time_unix_nano: span.start_ns,
        end_time_unix_nano: span.end_ns.max(span.start_ns),
        attributes,
        dropped_events_count: told.events_left_out.saturating_add(waits.as_ref().map_or(0, |waits| waits.left_out)),
        events: span_events(span, waits.as_ref(), told.events).into_iter().map(encode_event).collect(),
        dropped_links_count: told.links_left_out,
        links: item.links.iter().filter_map(encode_link).chain(told.links.into_iter().map(encode_sdk_link)).collect(),
        status: Some(status.unwrap_or_default()),
        ..proto::Span::default()
    }
}

fn encode_event(event: SpanEvent) -> proto::Event {
    proto::Event {
        time_unix_nano: event.time_ns,
        name: event.name.into(),
        attributes: key_values(event.attributes),
        ..proto::Event::default()
    }
}

/// A link to the span that sent the messages which this span received. The reverse link is not exported:
/// OpenTelemetry's links point back in time.
fn encode_link(link: &SpanLink) -> Option<proto::Link> {
    let trace = link.trace.filter(|_| link.sent)?;
    Some(proto::Link {
        trace_id: trace.0.to_vec(),
        span_id: link.span.0.to_be_bytes().to_vec(),
        attributes: vec![
            key_value("wirespan.evidence", link.evidence.as_str()),
            key_value("wirespan.confidence", (f64::from(link.confidence) * 100.0).round() / 100.0),
        ],
        ..proto::Link::default()
    })
}

/// A link that the span's SDK told.
fn encode_sdk_link(link: SdkLink) -> proto::Link {
    proto::Link {
        trace_id: link.trace.0.to_vec(),
        span_id: link.span.0.to_be_bytes().to_vec(),
        attributes: key_values(link.attributes),
        ..proto::Link::default()
    }
}

fn attributes(span: &Span, link: Option<&ParentLink>) -> Vec<KeyValue> {
    let mut a = key_values(semconv::attributes(span));
    if let Some(link) = link {
        a.push(key_value("wirespan.evidence", link.evidence.as_str()));
        // Two decimals are precise enough, and 0.9 must not become 0.8999999761581421.
        a.push(key_value("wirespan.confidence", (f64::from(link.confidence) * 100.0).round() / 100.0));
    }
    a
}

/// An attribute.
pub(crate) fn key_value(key: &str, value: impl Into<Value>) -> KeyValue {
    let value = match value.into() {
        Value::Str(s) => proto::Value::String(s.into()),
        Value::Int(n) => proto::Value::Int(n),
        Value::Float(x) => proto::Value::Double(x),
        Value::Bool(b) => proto::Value::Bool(b),
    };
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }) }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
