//! JSON with OpenTelemetry's names.

use serde_json::{json, Map, Value};
use wirespan_model::semconv::{attributes, resource_attributes};
use wirespan_model::{SpanId, SpanKind, SpanLink, Trace, TraceId, TraceSpan};

fn kind(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Internal => "internal",
        SpanKind::Server => "server",
        SpanKind::Client => "client",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
    }
}

/// One span as a flat JSON object: OTLP's names for its frame, semantic conventions for its attributes, `wirespan.*`
/// for what only wirespan knows.
fn span_json(trace: TraceId, parent: Option<SpanId>, TraceSpan { span, link, links, .. }: &TraceSpan) -> Value {
    let mut o = Map::new();
    let mut put = |k: &str, v: Value| {
        o.insert(k.to_string(), v);
    };
    put("traceId", trace.to_string().into());
    put("spanId", span.id.to_string().into());
    if let Some(p) = parent {
        put("parentSpanId", p.to_string().into());
    }
    put("name", span.name().into());
    put("kind", kind(span.kind).into());
    put("startTimeUnixNano", span.start_ns.into());
    put("endTimeUnixNano", span.end_ns.into());
    put("durationNano", span.duration_ns().into());
    put("status", span.status.as_str().into());
    put("error", span.status.is_error(span.kind).into());
    if !span.error.is_empty() {
        put("wirespan.error.message", (&*span.error).into());
    }
    for (key, value) in resource_attributes(&span.resource, span.pid).into_iter().chain(attributes(span)) {
        o.entry(key.into_owned()).or_insert_with(|| value.to_json());
    }
    let mut put = |k: &str, v: Value| {
        o.insert(k.to_string(), v);
    };
    if let Some(l) = link {
        put("wirespan.evidence", l.evidence.as_str().into());
        put("wirespan.confidence", rounded(l.confidence));
    }
    if !links.is_empty() {
        put("links", links.iter().map(link_json).collect());
    }
    Value::Object(o)
}

fn link_json(link: &SpanLink) -> Value {
    let mut o = Map::new();
    o.insert("spanId".into(), link.span.to_string().into());
    if let Some(trace) = link.trace {
        o.insert("traceId".into(), trace.to_string().into());
    }
    o.insert("wirespan.link".into(), if link.sent { "from-producer" } else { "to-consumer" }.into());
    o.insert("wirespan.evidence".into(), link.evidence.as_str().into());
    o.insert("wirespan.confidence".into(), rounded(link.confidence));
    Value::Object(o)
}

fn rounded(confidence: f32) -> Value {
    json!((f64::from(confidence) * 1000.0).round() / 1000.0)
}

/// The spans of a trace, in depth-first order.
pub fn spans_json(trace: &Trace) -> impl Iterator<Item = Value> + '_ {
    trace.spans.iter().zip(trace.parents()).map(|(s, parent)| span_json(trace.id, parent, s))
}

/// A trace: its id, whether it is complete, and its spans in depth-first order.
pub fn trace_json(trace: &Trace) -> Value {
    let spans: Vec<Value> = spans_json(trace)
        .zip(&trace.spans)
        .map(|(mut v, s)| {
            v["wirespan.depth"] = s.depth.into();
            v
        })
        .collect();
    json!({ "traceId": trace.id.to_string(), "complete": trace.complete, "spans": spans })
}
