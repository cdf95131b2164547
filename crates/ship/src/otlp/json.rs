//! OTLP messages ↔ OTLP/JSON: the protobuf JSON mapping with OTLP's deviations (opentelemetry.io, "OTLP/HTTP, JSON
//! Protobuf Encoding"): trace and span ids are hex, enums are integers, 64-bit integers are strings, keys are
//! camelCase. Fields with their default value are left out, as the collector leaves them out.

use super::proto::{
    AnyValue, ArrayValue, Event, ExportRequest, ExportResponse, KeyValue, KeyValueList, Link, PartialSuccess, Resource,
    ResourceSpans, Scope, ScopeSpans, Span, Status, Value,
};
use serde_json::{json, Map, Value as Json};
use std::fmt::Write as _;

/// Why bytes are not an OTLP/JSON request, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct JsonError {
    /// Path of the offending value, `resourceSpans[0].scopeSpans[0].spans[2].traceId`; `$` for the whole.
    pub path: String,
    /// The error in this value.
    pub what: String,
}

/// Appends a request as one line of JSON, without the line feed.
pub fn write_request(request: &ExportRequest, out: &mut Vec<u8>) {
    let mut w = Writer { out };
    w.object(|w| w.list("resourceSpans", &request.resource_spans, write_resource_spans));
}

/// A response as JSON.
pub fn write_response(response: &ExportResponse) -> Json {
    match &response.partial_success {
        None => json!({}),
        Some(p) => {
            json!({"partialSuccess": {"rejectedSpans": p.rejected_spans.to_string(), "errorMessage": p.error_message}})
        }
    }
}

/// Reads a response; anything else counts as an empty response.
pub fn read_response(bytes: &[u8]) -> ExportResponse {
    let json: Json = serde_json::from_slice(bytes).unwrap_or_default();
    let partial = json.get("partialSuccess").and_then(Json::as_object).map(|p| PartialSuccess {
        rejected_spans: p.get("rejectedSpans").or(p.get("rejectedDataPoints")).and_then(integer).unwrap_or(0),
        error_message: p.get("errorMessage").and_then(Json::as_str).unwrap_or("").into(),
    });
    ExportResponse { partial_success: partial }
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn object(&mut self, fields: impl FnOnce(&mut Self)) {
        self.out.push(b'{');
        fields(self);
        self.out.push(b'}');
    }

    fn key(&mut self, key: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn list<T>(&mut self, key: &str, items: &[T], write: impl Fn(&mut Self, &T)) {
        if !items.is_empty() {
            self.key(key);
            self.items(items, write);
        }
    }

    fn items<T>(&mut self, items: &[T], write: impl Fn(&mut Self, &T)) {
        self.out.push(b'[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            write(self, item);
        }
        self.out.push(b']');
    }

    fn string(&mut self, s: &str) {
        // Writing to a Vec does not fail.
        let _ = serde_json::to_writer(&mut *self.out, s);
    }

    fn text(&mut self, key: &str, s: &str) {
        if !s.is_empty() {
            self.key(key);
            self.string(s);
        }
    }

    fn hex(&mut self, key: &str, bytes: &[u8]) {
        if !bytes.is_empty() {
            let mut hex = String::with_capacity(bytes.len() * 2);
            for b in bytes {
                let _ = write!(hex, "{b:02x}");
            }
            self.text(key, &hex);
        }
    }

    /// 32-bit integers are JSON numbers.
    fn number(&mut self, key: &str, n: i64) {
        if n != 0 {
            self.key(key);
            self.out.extend_from_slice(n.to_string().as_bytes());
        }
    }

    /// JSON cannot express numbers that are not finite; the protobuf mapping writes them as strings.
    fn double(&mut self, x: f64) {
        match (x.is_nan(), x.is_infinite()) {
            (true, _) => self.string("NaN"),
            (_, true) => self.string(if x > 0.0 { "Infinity" } else { "-Infinity" }),
            _ => self.out.extend_from_slice(x.to_string().as_bytes()),
        }
    }

    /// 64-bit integers are JSON strings.
    fn long(&mut self, key: &str, n: u64) {
        if n != 0 {
            self.text(key, &n.to_string());
        }
    }
}

fn write_resource_spans(w: &mut Writer<'_>, r: &ResourceSpans) {
    w.object(|w| {
        write_resource(w, r.resource.as_ref());
        w.list("scopeSpans", &r.scope_spans, |w, s| {
            w.object(|w| {
                write_scope(w, s.scope.as_ref());
                w.list("spans", &s.spans, write_span);
                w.text("schemaUrl", &s.schema_url);
            });
        });
        w.text("schemaUrl", &r.schema_url);
    });
}

fn write_resource(w: &mut Writer<'_>, resource: Option<&Resource>) {
    w.key("resource");
    w.object(|w| {
        let Some(resource) = resource else { return };
        w.list("attributes", &resource.attributes, write_key_value);
        w.number("droppedAttributesCount", resource.dropped_attributes_count.into());
    });
}

fn write_scope(w: &mut Writer<'_>, scope: Option<&Scope>) {
    w.key("scope");
    w.object(|w| {
        let Some(scope) = scope else { return };
        w.text("name", &scope.name);
        w.text("version", &scope.version);
        w.list("attributes", &scope.attributes, write_key_value);
        w.number("droppedAttributesCount", scope.dropped_attributes_count.into());
    });
}

fn write_span(w: &mut Writer<'_>, s: &Span) {
    w.object(|w| {
        w.hex("traceId", &s.trace_id);
        w.hex("spanId", &s.span_id);
        w.text("traceState", &s.trace_state);
        w.hex("parentSpanId", &s.parent_span_id);
        w.number("flags", s.flags.into());
        w.text("name", &s.name);
        w.number("kind", s.kind.into());
        w.long("startTimeUnixNano", s.start_time_unix_nano);
        w.long("endTimeUnixNano", s.end_time_unix_nano);
        w.list("attributes", &s.attributes, write_key_value);
        w.number("droppedAttributesCount", s.dropped_attributes_count.into());
        w.list("events", &s.events, |w, e| {
            w.object(|w| {
                w.long("timeUnixNano", e.time_unix_nano);
                w.text("name", &e.name);
                w.list("attributes", &e.attributes, write_key_value);
                w.number("droppedAttributesCount", e.dropped_attributes_count.into());
            });
        });
        w.number("droppedEventsCount", s.dropped_events_count.into());
        w.list("links", &s.links, |w, l| {
            w.object(|w| {
                w.hex("traceId", &l.trace_id);
                w.hex("spanId", &l.span_id);
                w.text("traceState", &l.trace_state);
                w.list("attributes", &l.attributes, write_key_value);
                w.number("droppedAttributesCount", l.dropped_attributes_count.into());
                w.number("flags", l.flags.into());
            });
        });
        w.number("droppedLinksCount", s.dropped_links_count.into());
        w.key("status");
        w.object(|w| {
            if let Some(status) = &s.status {
                w.text("message", &status.message);
                w.number("code", status.code.into());
            }
        });
    });
}

fn write_key_value(w: &mut Writer<'_>, a: &KeyValue) {
    w.object(|w| {
        w.key("key");
        w.string(&a.key);
        w.key("value");
        write_any(w, a.value.as_ref().and_then(|v| v.value.as_ref()));
    });
}

fn write_any(w: &mut Writer<'_>, value: Option<&Value>) {
    w.object(|w| match value {
        None => {}
        Some(Value::String(s)) => {
            w.key("stringValue");
            w.string(s);
        }
        Some(Value::Bool(b)) => {
            w.key("boolValue");
            w.out.extend_from_slice(if *b { b"true" } else { b"false" });
        }
        Some(Value::Int(n)) => {
            w.key("intValue");
            w.string(&n.to_string());
        }
        Some(Value::Double(x)) => {
            w.key("doubleValue");
            w.double(*x);
        }
        Some(Value::Array(a)) => {
            w.key("arrayValue");
            w.object(|w| w.list("values", &a.values, |w, v| write_any(w, v.value.as_ref())));
        }
        Some(Value::Map(m)) => {
            w.key("kvlistValue");
            w.object(|w| w.list("values", &m.values, write_key_value));
        }
        Some(Value::Bytes(b)) => {
            w.key("bytesValue");
            w.string(&base64(b));
        }
    });
}

/// RFC 4648, with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

mod metrics;
mod read;
pub(crate) use metrics::write_metrics;
use read::integer;
pub use read::read_request;
pub(crate) use read::unbase64;

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
