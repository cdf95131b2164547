//! JSON with OpenTelemetry's names.

use serde_json::{json, Map, Value};
use wirespan_model::semconv::{attributes, resource_attributes};
use wirespan_model::{ParentLink, Span, SpanKind, SpanLink, Trace, TraceId};

fn kind(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Internal => "internal",
        SpanKind::Server => "server",
        SpanKind::Client => "client",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
    }
}

/// One span as a flat JSON object: OTLP's names for its frame, semantic conventions for its attributes, `wirespan.*` for
/// what only wirespan knows. `trace` and `link` are those of the assembled trace, if there is one; without them the
/// carried ids are given.
pub fn span_json(span: &Span, trace: Option<TraceId>, link: Option<&ParentLink>) -> Value {
    let mut o = Map::new();
    let mut put = |k: &str, v: Value| {
        o.insert(k.to_string(), v);
    };
    if let Some(t) = trace.or(span.trace_id) {
        put("traceId", t.to_string().into());
    }
    put("spanId", span.id.to_string().into());
    if let Some(p) = link.map(|l| l.parent).or(span.parent_span_id.filter(|_| trace.is_none())) {
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
        put("error.message", (&*span.error).into());
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

/// A trace: its id, whether it is complete, and its spans in depth-first order.
pub fn trace_json(trace: &Trace) -> Value {
    let spans: Vec<Value> = trace
        .spans
        .iter()
        .map(|s| {
            let mut v = span_json(&s.span, Some(trace.id), s.link.as_ref());
            if let Value::Object(o) = &mut v {
                o.insert("wirespan.depth".into(), s.depth.into());
                if !s.links.is_empty() {
                    o.insert("links".into(), s.links.iter().map(link_json).collect());
                }
            }
            v
        })
        .collect();
    json!({ "traceId": trace.id.to_string(), "complete": trace.complete, "spans": spans })
}
