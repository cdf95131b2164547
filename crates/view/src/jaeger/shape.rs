//! Jaeger's JSON.

use crate::shape::kind;
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use wirespan_model::wait::SpanWaits;
use wirespan_model::{semconv, span_events, Attr, Resource, SdkTold, SpanEvent, Trace, TraceSpan};

/// The envelope of every answer.
#[derive(Debug, Serialize)]
pub(super) struct Envelope<T> {
    pub(super) data: Option<Vec<T>>,
    pub(super) total: usize,
    pub(super) limit: usize,
    pub(super) offset: usize,
    pub(super) errors: Option<Vec<Failure>>,
}

impl<T> Envelope<T> {
    pub(super) fn of(data: Vec<T>) -> Self {
        Envelope { total: data.len(), data: Some(data), limit: 0, offset: 0, errors: None }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Failure {
    pub(super) code: u16,
    pub(super) msg: String,
    #[serde(rename = "traceID", skip_serializing_if = "Option::is_none")]
    pub(super) trace_id: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) span_kind: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Dependency {
    pub(super) parent: String,
    pub(super) child: String,
    pub(super) call_count: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct TraceJson {
    #[serde(rename = "traceID")]
    trace_id: String,
    spans: Vec<SpanJson>,
    processes: BTreeMap<String, Process>,
    warnings: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SpanJson {
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
    flags: u32,
    operation_name: String,
    references: Vec<Reference>,
    start_time: u64,
    duration: u64,
    tags: Vec<Tag>,
    logs: Vec<Log>,
    #[serde(rename = "processID")]
    process_id: String,
    warnings: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    ref_type: &'static str,
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
}

#[derive(Debug, Serialize)]
struct Tag {
    key: String,
    #[serde(rename = "type")]
    kind: &'static str,
    value: Json,
}

/// What Jaeger calls a log is an event of the span.
#[derive(Debug, Serialize)]
struct Log {
    timestamp: u64,
    fields: Vec<Tag>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    service_name: String,
    tags: Vec<Tag>,
}

impl Tag {
    fn new(key: &str, value: Json) -> Self {
        let kind = match &value {
            Json::Bool(_) => "bool",
            Json::Number(n) if n.is_f64() => "float64",
            Json::Number(_) => "int64",
            _ => "string",
        };
        Tag { key: key.to_owned(), kind, value }
    }
}

/// Jaeger has the service name in a field of its own, not among the tags.
fn tags(attributes: Vec<Attr>) -> Vec<Tag> {
    let pairs = attributes.into_iter().filter(|(key, _)| key != "service.name");
    pairs.map(|(key, value)| Tag::new(&key, value.to_json())).collect()
}

fn log(event: SpanEvent) -> Log {
    let mut fields = vec![Tag::new("event", Json::String(event.name.into()))];
    fields.extend(tags(event.attributes));
    Log { timestamp: event.time_ns / 1_000, fields }
}

pub(super) fn trace_json(trace: &Trace) -> TraceJson {
    let id = trace.id.to_string();
    let mut processes: BTreeMap<String, Process> = BTreeMap::new();
    let mut ids: Vec<(Arc<Resource>, u32)> = Vec::new();
    let mut spans = Vec::with_capacity(trace.spans.len());
    for s in &trace.spans {
        let resource = &s.span.resource;
        let known = ids.iter().position(|(r, pid)| *pid == s.span.pid && (Arc::ptr_eq(r, resource) || r == resource));
        let at = known.unwrap_or_else(|| {
            ids.push((Arc::clone(resource), s.span.pid));
            ids.len() - 1
        });
        let process_id = format!("p{}", at + 1);
        let own = tags(semconv::attributes(&s.span));
        processes.entry(process_id.clone()).or_insert_with(|| Process {
            service_name: match resource.service.as_ref() {
                "" => "unknown".to_owned(),
                name => name.to_owned(),
            },
            tags: tags(semconv::resource_attributes(resource, s.span.pid)),
        });
        spans.push(span_json(&id, s, process_id, own));
    }
    let warnings = (!trace.complete).then(|| vec!["a limit cut the search for spans of this trace short".to_owned()]);
    TraceJson { trace_id: id, spans, processes, warnings }
}

fn span_json(trace_id: &str, s: &TraceSpan, process_id: String, mut tags: Vec<Tag>) -> SpanJson {
    let span = &s.span;
    tags.push(Tag::new("span.kind", kind(span.kind).into()));
    if span.status.is_error(span.kind) {
        tags.push(Tag::new("error", true.into()));
        tags.push(Tag::new("otel.status_code", "ERROR".into()));
        if !span.error.is_empty() {
            tags.push(Tag::new("otel.status_description", span.error.as_str().into()));
        }
    }
    let mut references = Vec::new();
    if let Some(link) = &s.link {
        tags.push(Tag::new("wirespan.link.evidence", link.evidence.as_str().into()));
        tags.push(Tag::new("wirespan.link.confidence", f64::from(link.confidence).into()));
        references.push(Reference {
            ref_type: "CHILD_OF",
            trace_id: trace_id.to_owned(),
            span_id: link.parent.to_string(),
        });
    }
    let told = SdkTold::of(span).unwrap_or_default();
    references.extend(told.links.into_iter().map(|link| Reference {
        ref_type: "FOLLOWS_FROM",
        trace_id: link.trace.to_string(),
        span_id: link.span.to_string(),
    }));
    SpanJson {
        trace_id: trace_id.to_owned(),
        span_id: span.id.to_string(),
        flags: 1,
        operation_name: span.name(),
        references,
        start_time: span.start_ns / 1_000,
        duration: span.duration_ns() / 1_000,
        tags,
        logs: span_events(span, SpanWaits::of(span).as_ref(), told.events).into_iter().map(log).collect(),
        process_id,
        warnings: None,
    }
}
