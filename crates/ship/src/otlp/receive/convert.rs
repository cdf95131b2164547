//! OTLP spans → [`Span`]s with [`TapSide::App`]. A span that cannot be used is rejected with a reason; the other spans
//! of the request are taken.

use crate::otlp::proto::{self, AnyValue, ExportRequest, KeyValue, STATUS_ERROR, STATUS_OK};
use crate::otlp::INSTANCE_KEY;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use wirespan_model::{
    semconv, Attr, Endpoint, FiveTuple, Resource, SdkEvent, SdkLink, SdkTold, Span, SpanId, SpanKind, Status, TapSide,
    TraceId, Transport, Value,
};

/// Attributes that name the remote system of a span, newest conventions first.
const SYSTEM: [&str; 6] =
    ["db.system.name", "db.system", "messaging.system.name", "messaging.system", "rpc.system.name", "rpc.system"];
/// Most attributes of a span or resource that are kept.
const MAX_ATTRS: usize = 128;
/// Longest value kept, bytes; longer text is cut.
const MAX_VALUE: usize = 4096;
/// Most events, and most links, of a span that are kept.
const MAX_TOLD: usize = 64;
/// Most attributes of an event or link that are kept.
const MAX_TOLD_ATTRS: usize = 32;
/// Most text of all events and links of a span, bytes.
const MAX_TOLD_TEXT: usize = 64 * 1024;
/// Longest key kept, bytes.
const MAX_KEY: usize = 256;

/// The outcome of a request.
#[derive(Debug, Default)]
pub(crate) struct Converted {
    pub(crate) spans: Vec<Arc<Span>>,
    /// Rejected spans, by reason.
    pub(crate) rejected: Vec<(&'static str, u64)>,
    /// Span events that were left out: more of a span than are kept.
    pub(crate) events_dropped: u64,
    /// Span links that were left out.
    pub(crate) links_dropped: u64,
}

impl Converted {
    fn reject(&mut self, reason: &'static str) {
        match self.rejected.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, n)) => *n += 1,
            None => self.rejected.push((reason, 1)),
        }
    }

    /// Number of rejected spans, and the reasons.
    pub(crate) fn rejection(&self) -> (u64, String) {
        let why: Vec<String> = self.rejected.iter().map(|(reason, n)| format!("{n} spans: {reason}")).collect();
        (self.rejected.iter().map(|(_, n)| n).sum(), why.join(", "))
    }
}

/// Converts a request; spans that `own_instance` exported are rejected.
pub(crate) fn convert(request: ExportRequest, own_instance: &str) -> Converted {
    let mut out = Converted::default();
    for group in request.resource_spans {
        let (resource, pid) = resource(group.resource.unwrap_or_default());
        if resource.extra.iter().any(|(k, v)| &**k == INSTANCE_KEY && &**v == own_instance) {
            let n = group.scope_spans.iter().map(|s| s.spans.len() as u64).sum();
            out.rejected.push(("exported by this wirespan itself: it must not be its own collector", n));
            continue;
        }
        for scope_spans in group.scope_spans {
            let scope = scope_spans.scope.unwrap_or_default();
            for span in scope_spans.spans {
                match self::span(span, &scope, &resource, pid, &mut out) {
                    Ok(span) => out.spans.push(Arc::new(span)),
                    Err(reason) => out.reject(reason),
                }
            }
        }
    }
    out
}

fn resource(from: proto::Resource) -> (Arc<Resource>, u32) {
    let mut to = Resource::default();
    let mut pid = 0;
    for KeyValue { key, value } in from.attributes.into_iter().take(MAX_ATTRS) {
        let Some(value) = value.and_then(value_of) else { continue };
        if key == "process.pid" {
            if let Value::Int(n) = value {
                pid = u32::try_from(n).unwrap_or(0);
            }
            continue;
        }
        let text: Box<str> = value.to_string().into();
        match key.as_str() {
            "service.name" => to.service = text,
            "host.name" => to.host = text,
            "process.executable.path" => to.executable = text,
            "container.id" => to.container = text,
            _ if key.len() <= MAX_KEY && !key.is_empty() => to.extra.push((key.into(), text)),
            _ => {}
        }
    }
    if to.service.is_empty() {
        to.service = "unknown_service".into();
    }
    to.extra.sort_unstable();
    to.extra.dedup_by(|a, b| a.0 == b.0);
    (Arc::new(to), pid)
}

fn span(
    from: proto::Span,
    scope: &proto::Scope,
    resource: &Arc<Resource>,
    pid: u32,
    out: &mut Converted,
) -> Result<Span, &'static str> {
    let trace_id: [u8; 16] = from.trace_id.as_slice().try_into().map_err(|_| "trace id is not 16 bytes")?;
    let id = span_id(&from.span_id).ok_or("span id is not 8 bytes, or zero")?;
    if trace_id == [0; 16] {
        return Err("trace id is zero");
    }
    if from.start_time_unix_nano == 0 {
        return Err("no start time");
    }
    let mut attrs = attributes(from.attributes);
    let mut told = told(from.events, from.links, (from.dropped_events_count, from.dropped_links_count), out);
    for event in told.events.iter_mut().filter(|event| event.time_ns == 0) {
        event.time_ns = from.start_time_unix_nano;
    }
    // Exceptions are found by a search for attributes of their span.
    for event in told.events.iter().filter(|event| &*event.name == "exception") {
        add_missing(&mut attrs, event.attributes.clone());
    }
    attrs.extend(told.attribute());
    let scope_attrs = [("otel.scope.name", &scope.name), ("otel.scope.version", &scope.version)];
    let told = scope_attrs.into_iter().filter(|(_, v)| !v.is_empty());
    add_missing(&mut attrs, told.map(|(k, v)| (Cow::Borrowed(k), cut(v.clone()))).collect());

    let kind = match from.kind {
        2 => SpanKind::Server,
        3 => SpanKind::Client,
        4 => SpanKind::Producer,
        5 => SpanKind::Consumer,
        _ => SpanKind::Internal,
    };
    let known: FxHashMap<&str, &Value> = attrs.iter().map(|(k, v)| (k.as_ref(), v)).collect();
    let text = |keys: &[&str]| keys.iter().find_map(|k| known.get(k)).map(|v| v.to_string());
    let number = |keys: &[&str]| {
        keys.iter().find_map(|k| match known.get(k) {
            Some(Value::Int(n)) => Some(*n),
            // Some instrumentations write numbers as text.
            Some(Value::Str(s)) => s.parse().ok(),
            _ => None,
        })
    };
    let status_code = number(&["http.response.status_code", "http.status_code", "rpc.grpc.status_code"]);
    let status_code = status_code.or_else(|| {
        let code = text(&["rpc.status_code", "rpc.response.status_code"])?;
        let named = semconv::GRPC_STATUS.iter().position(|name| *name == code);
        named.and_then(|n| i64::try_from(n).ok()).or_else(|| code.parse().ok())
    });
    let status_code = status_code.and_then(|n| i32::try_from(n).ok());
    let http = text(&["http.request.method", "http.method"]);
    let protocol = match http.is_some() {
        true => "http".into(),
        false => text(&SYSTEM).unwrap_or_default(),
    };
    let status = from.status.unwrap_or_default();
    let (operation, target) = split_name(&from.name, http.as_deref());
    Ok(Span {
        id,
        tap: TapSide::App,
        kind,
        protocol: if protocol.is_empty() { "app".into() } else { protocol.into() },
        start_ns: from.start_time_unix_nano,
        response_ns: 0,
        end_ns: from.end_time_unix_nano.max(from.start_time_unix_nano),
        status: outcome(status.code, http.is_some().then_some(status_code).flatten()),
        status_code,
        error: truncated(&status.message).into(),
        operation: operation.into(),
        target: target.into(),
        tuple: ends(kind, &text, &number),
        pid,
        tid: number(&["thread.id"]).and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        trace_id: Some(TraceId(trace_id)),
        parent_span_id: span_id(&from.parent_span_id),
        resource: resource.clone(),
        attrs,
        ..Span::default()
    })
}

fn span_id(bytes: &[u8]) -> Option<SpanId> {
    let id = u64::from_be_bytes(bytes.try_into().ok()?);
    (id != 0).then_some(SpanId(id))
}

/// Splits the SDK's name so that [`Span::name`] gives it back unchanged: `GET /cart` is an operation and a target,
/// every other name is an operation.
fn split_name<'a>(name: &'a str, method: Option<&str>) -> (&'a str, &'a str) {
    let name = truncated(name);
    match name.split_once(' ') {
        Some((verb, target)) if Some(verb) == method && !target.is_empty() => (verb, target),
        _ => (name, ""),
    }
}

fn outcome(code: i32, http_status: Option<i32>) -> Status {
    match (code, http_status) {
        (_, Some(400..=499)) => Status::ClientError,
        (STATUS_ERROR, _) | (_, Some(500..)) => Status::ServerError,
        (STATUS_OK, _) | (_, Some(100..=399)) => Status::Ok,
        _ => Status::Unset,
    }
}

/// Ends of the connection, if the SDK gives addresses rather than names.
fn ends(
    kind: SpanKind,
    text: &impl Fn(&[&str]) -> Option<String>,
    number: &impl Fn(&[&str]) -> Option<i64>,
) -> FiveTuple {
    let end = |address: &[&str], port: &[&str]| -> Option<Endpoint> {
        let ip: IpAddr = text(address)?.parse().ok()?;
        Some(Endpoint::new(ip, number(port).and_then(|p| u16::try_from(p).ok()).unwrap_or(0)))
    };
    let peer = end(
        &["network.peer.address", "net.sock.peer.addr", "net.peer.ip"],
        &["network.peer.port", "net.sock.peer.port", "net.peer.port"],
    );
    let local = end(&["network.local.address"], &["network.local.port"]);
    let client = end(&["client.address"], &["client.port"]);
    let server = end(&["server.address", "net.host.ip"], &["server.port", "net.host.port"]);
    let (client, server) = match kind {
        SpanKind::Server | SpanKind::Consumer => (peer.or(client), local.or(server)),
        _ => (local.or(client), peer.or(server)),
    };
    let transport = match text(&["network.transport", "net.transport"]).as_deref() {
        Some("udp" | "ip_udp") => Transport::Udp,
        Some("unix") => Transport::UnixStream,
        _ => Transport::Tcp,
    };
    FiveTuple { transport, client: client.unwrap_or_default(), server: server.unwrap_or_default() }
}

fn attributes(from: Vec<KeyValue>) -> Vec<Attr> {
    let usable = from.into_iter().filter(|a| !a.key.is_empty() && a.key.len() <= MAX_KEY);
    usable.filter_map(|a| Some((Cow::Owned(a.key), value_of(a.value?)?))).take(MAX_ATTRS).collect()
}

/// What is kept of events and links; `left_out` by the SDK.
fn told(events: Vec<proto::Event>, links: Vec<proto::Link>, left_out: (u32, u32), out: &mut Converted) -> SdkTold {
    let mut room = MAX_TOLD_TEXT;
    let mut fits = |text: usize, attributes: &[Attr]| {
        let of = |(key, value): &Attr| key.len() + if let Value::Str(text) = value { text.len() } else { 8 };
        let all = text + attributes.iter().map(of).sum::<usize>();
        let fits = all <= room;
        room -= if fits { all } else { 0 };
        fits
    };
    let few = |from: Vec<KeyValue>| {
        let mut kept = attributes(from);
        kept.truncate(MAX_TOLD_ATTRS);
        kept
    };
    let (all_events, all_links) = (events.len(), links.len());
    let events = events.into_iter().take(MAX_TOLD).map(|event| SdkEvent {
        time_ns: event.time_unix_nano,
        name: truncated(&event.name).into(),
        attributes: few(event.attributes),
    });
    let events: Vec<SdkEvent> = events.filter(|event| fits(event.name.len(), &event.attributes)).collect();
    let links = links.into_iter().take(MAX_TOLD).filter_map(|link| {
        let trace = TraceId(link.trace_id.as_slice().try_into().ok().filter(|id| *id != [0; 16])?);
        Some(SdkLink { trace, span: span_id(&link.span_id)?, attributes: few(link.attributes) })
    });
    let links: Vec<SdkLink> = links.filter(|link| fits(32, &link.attributes)).collect();
    let (events_dropped, links_dropped) = (all_events - events.len(), all_links - links.len());
    out.events_dropped += events_dropped as u64;
    out.links_dropped += links_dropped as u64;
    let sum = |by_sdk: u32, here: usize| by_sdk.saturating_add(u32::try_from(here).unwrap_or(u32::MAX));
    SdkTold {
        events,
        links,
        events_left_out: sum(left_out.0, events_dropped),
        links_left_out: sum(left_out.1, links_dropped),
    }
}

fn add_missing(attrs: &mut Vec<Attr>, more: Vec<Attr>) {
    for (key, value) in more {
        if attrs.len() < MAX_ATTRS && !attrs.iter().any(|(k, _)| *k == key) {
            attrs.push((key, value));
        }
    }
}

/// Lists and maps become JSON text, bytes hexadecimal.
fn value_of(value: AnyValue) -> Option<Value> {
    Some(match value.value? {
        proto::Value::String(s) => cut(s),
        proto::Value::Bool(b) => Value::Bool(b),
        proto::Value::Int(n) => Value::Int(n),
        proto::Value::Double(x) => Value::Float(x),
        other => cut(plain_json(&other).to_string()),
    })
}

fn plain_json(value: &proto::Value) -> serde_json::Value {
    let inner = |v: Option<&AnyValue>| v.and_then(|v| v.value.as_ref()).map_or(serde_json::Value::Null, plain_json);
    match value {
        proto::Value::String(s) => s.as_str().into(),
        proto::Value::Bool(b) => (*b).into(),
        proto::Value::Int(n) => (*n).into(),
        proto::Value::Double(x) => (*x).into(),
        proto::Value::Bytes(b) => b.iter().map(|b| format!("{b:02x}")).collect::<String>().into(),
        proto::Value::Array(a) => a.values.iter().map(|v| inner(Some(v))).collect(),
        proto::Value::Map(m) => {
            m.values.iter().map(|a| (a.key.clone(), inner(a.value.as_ref()))).collect::<serde_json::Map<_, _>>().into()
        }
    }
}

fn cut(s: String) -> Value {
    if s.len() <= MAX_VALUE {
        return s.into();
    }
    truncated(&s).into()
}

fn truncated(s: &str) -> &str {
    if s.len() <= MAX_VALUE {
        return s;
    }
    let end = (0..=MAX_VALUE).rev().find(|i| s.is_char_boundary(*i)).unwrap_or(0);
    &s[..end]
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
