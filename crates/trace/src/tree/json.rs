//! JSON with OpenTelemetry's names.

use serde_json::{json, Map, Value};
use wirespan_model::{ParentLink, Span, SpanKind, Trace, TraceId};

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
    put("attributes", attributes(span));
    put("resource", resource(span));
    if let Some(l) = link {
        put("wirespan.evidence", l.evidence.as_str().into());
        put("wirespan.confidence", json!((f64::from(l.confidence) * 1000.0).round() / 1000.0));
    }
    Value::Object(o)
}

fn attributes(span: &Span) -> Value {
    let mut o = Map::new();
    let mut put = |k: &str, v: Value| {
        o.insert(k.to_string(), v);
    };
    put("network.protocol.name", (&*span.protocol).into());
    put("network.transport", span.tuple.transport.as_str().into());
    for (address, port, end) in
        [("client.address", "client.port", span.tuple.client), ("server.address", "server.port", span.tuple.server)]
    {
        if end.port != 0 {
            put(address, end.ip.to_string().into());
            put(port, end.port.into());
        }
    }
    if let Some(code) = span.status_code {
        put("wirespan.status_code", code.into());
    }
    put("wirespan.operation", (&*span.operation).into());
    put("wirespan.target", (&*span.target).into());
    put("wirespan.tap", span.tap.as_str().into());
    put("wirespan.request.size", span.request_bytes.into());
    put("wirespan.response.size", span.response_bytes.into());
    if span.pid != 0 {
        put("process.pid", span.pid.into());
        put("thread.id", span.tid.into());
        put("thread.name", (&*span.comm).into());
    }
    for (k, v) in [("tcp.request.seq", span.request_seq), ("tcp.response.seq", span.response_seq)] {
        if let Some(v) = v {
            put(&format!("wirespan.{k}"), v.into());
        }
    }
    if let Some(id) = span.message_id {
        put("wirespan.message_id", id.into());
    }
    if let Some(id) = &span.request_id {
        put("http.request.header.x-request-id", (&**id).into());
    }
    if span.response_ns != 0 {
        put("wirespan.response_start_unix_nano", span.response_ns.into());
    }
    if span.tcp.srtt_ns != 0 {
        put("wirespan.tcp.srtt_ns", span.tcp.srtt_ns.into());
    }
    if span.tcp.retransmits != 0 {
        put("wirespan.tcp.retransmits", span.tcp.retransmits.into());
    }
    for (k, v) in &span.attrs {
        o.insert(k.to_string(), v.to_json());
    }
    Value::Object(o)
}

fn resource(span: &Span) -> Value {
    let r = &span.resource;
    let mut o = Map::new();
    for (k, v) in [
        ("service.name", &r.service),
        ("host.name", &r.host),
        ("process.executable.path", &r.executable),
        ("container.id", &r.container),
    ] {
        if !v.is_empty() {
            o.insert(k.to_string(), (&**v).into());
        }
    }
    for (k, v) in &r.extra {
        o.insert(k.to_string(), (&**v).into());
    }
    Value::Object(o)
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
            }
            v
        })
        .collect();
    json!({ "traceId": trace.id.to_string(), "complete": trace.complete, "spans": spans })
}
