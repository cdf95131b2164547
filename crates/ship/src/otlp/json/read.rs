//! OTLP/JSON → messages. Lenient where the specification asks for it: unknown fields are skipped, 64-bit integers may
//! be numbers or strings, `null` is the default, names of enums are accepted beside their numbers.

use super::{
    AnyValue, ArrayValue, Event, ExportRequest, Json, JsonError, KeyValue, KeyValueList, Link, Map, Resource,
    ResourceSpans, Scope, ScopeSpans, Span, Status, Value,
};

/// Reads a request. Nesting is bounded by the JSON parser (128).
pub fn read_request(bytes: &[u8]) -> Result<ExportRequest, JsonError> {
    let json: Json = serde_json::from_slice(bytes).map_err(|e| JsonError { path: "$".into(), what: e.to_string() })?;
    let at = Path(None, Step::Root);
    let o = object(&json, at)?;
    Ok(ExportRequest { resource_spans: list(o, "resourceSpans", at, resource_spans)? })
}

/// The path of the current value; it is formatted only for an error.
#[derive(Clone, Copy)]
struct Path<'a>(Option<&'a Path<'a>>, Step<'a>);

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl Path<'_> {
    fn write(&self, out: &mut String) {
        if let Some(up) = self.0 {
            up.write(out);
        }
        match self.1 {
            Step::Root => {}
            Step::Key(k) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(k);
            }
            Step::Index(i) => out.push_str(&format!("[{i}]")),
        }
    }

    fn error(&self, what: &str) -> JsonError {
        let mut path = String::new();
        self.write(&mut path);
        JsonError { path: if path.is_empty() { "$".into() } else { path }, what: what.into() }
    }
}

type Object = Map<String, Json>;

fn object<'j>(json: &'j Json, at: Path<'_>) -> Result<&'j Object, JsonError> {
    json.as_object().ok_or_else(|| at.error("an object is expected"))
}

fn list<T>(
    o: &Object,
    key: &str,
    at: Path<'_>,
    read: impl Fn(&Json, Path<'_>) -> Result<T, JsonError>,
) -> Result<Vec<T>, JsonError> {
    let at = Path(Some(&at), Step::Key(key));
    match o.get(key) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(items)) => {
            items.iter().enumerate().map(|(i, item)| read(item, Path(Some(&at), Step::Index(i)))).collect()
        }
        Some(_) => Err(at.error("an array is expected")),
    }
}

fn field<T>(
    o: &Object,
    key: &str,
    at: Path<'_>,
    what: &str,
    read: impl Fn(&Json) -> Option<T>,
) -> Result<Option<T>, JsonError> {
    match o.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(json) => read(json).map(Some).ok_or_else(|| Path(Some(&at), Step::Key(key)).error(what)),
    }
}

fn text(o: &Object, key: &str, at: Path<'_>) -> Result<String, JsonError> {
    Ok(field(o, key, at, "a string is expected", |j| j.as_str().map(String::from))?.unwrap_or_default())
}

fn count(o: &Object, key: &str, at: Path<'_>) -> Result<u32, JsonError> {
    let read = |j: &Json| integer(j).and_then(|n| u32::try_from(n).ok());
    Ok(field(o, key, at, "a 32-bit integer is expected", read)?.unwrap_or(0))
}

fn nanos(o: &Object, key: &str, at: Path<'_>) -> Result<u64, JsonError> {
    let read = |j: &Json| j.as_u64().or_else(|| j.as_str()?.parse().ok());
    Ok(field(o, key, at, "nanoseconds are expected, as a string or a number", read)?.unwrap_or(0))
}

/// A signed integer, as a number or a string.
pub(super) fn integer(json: &Json) -> Option<i64> {
    json.as_i64().or_else(|| json.as_str()?.parse().ok())
}

fn enumeration(o: &Object, key: &str, at: Path<'_>, names: &[&str]) -> Result<i32, JsonError> {
    let read = |j: &Json| {
        let named = || names.iter().position(|n| Some(*n) == j.as_str()).and_then(|i| i32::try_from(i).ok());
        integer(j).and_then(|n| i32::try_from(n).ok()).or_else(named)
    };
    Ok(field(o, key, at, "an integer is expected", read)?.unwrap_or(0))
}

fn hex(o: &Object, key: &str, at: Path<'_>) -> Result<Vec<u8>, JsonError> {
    let read = |j: &Json| {
        let s = j.as_str()?.as_bytes();
        let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
        let pairs = s.chunks(2).map(|p| match p {
            [a, b] => Some(digit(*a)? << 4 | digit(*b)?),
            _ => None,
        });
        pairs.collect()
    };
    Ok(field(o, key, at, "hexadecimal digits are expected", read)?.unwrap_or_default())
}

fn resource_spans(json: &Json, at: Path<'_>) -> Result<ResourceSpans, JsonError> {
    let o = object(json, at)?;
    let resource = match o.get("resource") {
        None | Some(Json::Null) => None,
        Some(json) => {
            let at = Path(Some(&at), Step::Key("resource"));
            let o = object(json, at)?;
            Some(Resource {
                attributes: list(o, "attributes", at, key_value)?,
                dropped_attributes_count: count(o, "droppedAttributesCount", at)?,
            })
        }
    };
    Ok(ResourceSpans {
        resource,
        scope_spans: list(o, "scopeSpans", at, scope_spans)?,
        schema_url: text(o, "schemaUrl", at)?,
    })
}

fn scope_spans(json: &Json, at: Path<'_>) -> Result<ScopeSpans, JsonError> {
    let o = object(json, at)?;
    let scope = match o.get("scope") {
        None | Some(Json::Null) => None,
        Some(json) => {
            let at = Path(Some(&at), Step::Key("scope"));
            let o = object(json, at)?;
            Some(Scope {
                name: text(o, "name", at)?,
                version: text(o, "version", at)?,
                attributes: list(o, "attributes", at, key_value)?,
                dropped_attributes_count: count(o, "droppedAttributesCount", at)?,
            })
        }
    };
    Ok(ScopeSpans { scope, spans: list(o, "spans", at, span)?, schema_url: text(o, "schemaUrl", at)? })
}

const KINDS: &[&str] = &[
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
];
const CODES: &[&str] = &["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];

fn span(json: &Json, at: Path<'_>) -> Result<Span, JsonError> {
    let o = object(json, at)?;
    let status = match o.get("status") {
        None | Some(Json::Null) => None,
        Some(json) => {
            let at = Path(Some(&at), Step::Key("status"));
            let o = object(json, at)?;
            Some(Status { message: text(o, "message", at)?, code: enumeration(o, "code", at, CODES)? })
        }
    };
    Ok(Span {
        trace_id: hex(o, "traceId", at)?,
        span_id: hex(o, "spanId", at)?,
        trace_state: text(o, "traceState", at)?,
        parent_span_id: hex(o, "parentSpanId", at)?,
        name: text(o, "name", at)?,
        kind: enumeration(o, "kind", at, KINDS)?,
        start_time_unix_nano: nanos(o, "startTimeUnixNano", at)?,
        end_time_unix_nano: nanos(o, "endTimeUnixNano", at)?,
        attributes: list(o, "attributes", at, key_value)?,
        dropped_attributes_count: count(o, "droppedAttributesCount", at)?,
        events: list(o, "events", at, event)?,
        dropped_events_count: count(o, "droppedEventsCount", at)?,
        links: list(o, "links", at, link)?,
        dropped_links_count: count(o, "droppedLinksCount", at)?,
        status,
        flags: count(o, "flags", at)?,
    })
}

fn event(json: &Json, at: Path<'_>) -> Result<Event, JsonError> {
    let o = object(json, at)?;
    Ok(Event {
        time_unix_nano: nanos(o, "timeUnixNano", at)?,
        name: text(o, "name", at)?,
        attributes: list(o, "attributes", at, key_value)?,
        dropped_attributes_count: count(o, "droppedAttributesCount", at)?,
    })
}

fn link(json: &Json, at: Path<'_>) -> Result<Link, JsonError> {
    let o = object(json, at)?;
    Ok(Link {
        trace_id: hex(o, "traceId", at)?,
        span_id: hex(o, "spanId", at)?,
        trace_state: text(o, "traceState", at)?,
        attributes: list(o, "attributes", at, key_value)?,
        dropped_attributes_count: count(o, "droppedAttributesCount", at)?,
        flags: count(o, "flags", at)?,
    })
}

fn key_value(json: &Json, at: Path<'_>) -> Result<KeyValue, JsonError> {
    let o = object(json, at)?;
    let value = match o.get("value") {
        None | Some(Json::Null) => None,
        Some(json) => Some(any(json, Path(Some(&at), Step::Key("value")))?),
    };
    Ok(KeyValue { key: text(o, "key", at)?, value })
}

fn any(json: &Json, at: Path<'_>) -> Result<AnyValue, JsonError> {
    let o = object(json, at)?;
    let mut value = None;
    if let Some(s) = field(o, "stringValue", at, "a string is expected", |j| j.as_str().map(String::from))? {
        value = Some(Value::String(s));
    } else if let Some(b) = field(o, "boolValue", at, "true or false is expected", Json::as_bool)? {
        value = Some(Value::Bool(b));
    } else if let Some(n) = field(o, "intValue", at, "a 64-bit integer is expected", integer)? {
        value = Some(Value::Int(n));
    } else if let Some(x) = field(o, "doubleValue", at, "a number is expected", double)? {
        value = Some(Value::Double(x));
    } else if let Some(b) = field(o, "bytesValue", at, "base64 is expected", |j| unbase64(j.as_str()?))? {
        value = Some(Value::Bytes(b));
    } else if let Some(json) = o.get("arrayValue").filter(|j| !j.is_null()) {
        let at = Path(Some(&at), Step::Key("arrayValue"));
        value = Some(Value::Array(ArrayValue { values: list(object(json, at)?, "values", at, any)? }));
    } else if let Some(json) = o.get("kvlistValue").filter(|j| !j.is_null()) {
        let at = Path(Some(&at), Step::Key("kvlistValue"));
        value = Some(Value::Map(KeyValueList { values: list(object(json, at)?, "values", at, key_value)? }));
    }
    Ok(AnyValue { value })
}

fn double(json: &Json) -> Option<f64> {
    json.as_f64().or_else(|| match json.as_str()? {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        s => s.parse().ok(),
    })
}

/// RFC 4648, both alphabets, with or without padding.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let mut word = 0u32;
        for d in chunk {
            let value = match d {
                b'A'..=b'Z' => d - b'A',
                b'a'..=b'z' => d - b'a' + 26,
                b'0'..=b'9' => d - b'0' + 52,
                b'+' | b'-' => 62,
                b'/' | b'_' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        if chunk.len() == 1 {
            return None;
        }
        word <<= 6 * (4 - chunk.len());
        out.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    Some(out)
}
