//! A span as JSON.

use super::attributes;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use utoipa::ToSchema;
use wirespan_model::{waits_for_work, ParentLink, Span, SpanKind, SpanLink, Transport};

/// One request and its response at one observation point.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SpanView {
    /// 16 hex digits.
    pub id: String,
    /// Trace id that the message carried, 32 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried_trace_id: Option<String>,
    /// Name of the span: `GET /cart`, `SET`, `A example.org`.
    pub name: String,
    /// `service.name`; empty if not known.
    pub service: String,
    /// `server`, `client`, `producer`, `consumer` or `internal`.
    pub kind: &'static str,
    /// Observation point: `client-process`, `server-process`, …
    pub tap: &'static str,
    /// `http`, `redis`, …; `tcp`, `udp` or `unix` where the bytes were not understood.
    pub protocol: String,
    /// First byte of the request, Unix ns.
    pub start_ns: String,
    /// First byte of the response, Unix ns; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_ns: Option<String>,
    /// Last byte seen, Unix ns.
    pub end_ns: String,
    /// From the first byte of the request to the last byte seen, ns.
    pub duration_ns: u64,
    /// `ok`, `client-error`, `server-error`, `no-response`, `reset`, `one-way`, `no-request`, `closed` or `unset`.
    pub status: &'static str,
    /// Whether the status counts as an error.
    pub error: bool,
    /// Numeric status of the protocol; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
    /// Error text, masked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error_text: String,
    /// Operation: `GET`, `SET`, `A`.
    pub operation: String,
    /// Target of the operation: `/cart`, a DNS name.
    pub target: String,
    /// Bytes of the request.
    pub request_bytes: u64,
    /// Bytes of the response.
    pub response_bytes: u64,
    /// `address:port` of the end that sent the request; empty for Unix sockets.
    pub client: String,
    /// `address:port` of the end that sent the response; empty for Unix sockets.
    pub server: String,
    /// Process id, 0 if not known.
    pub pid: u32,
    /// Thread id, 0 if not known.
    pub tid: u32,
    /// Goroutine or coroutine, decimal; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coroutine: Option<String>,
    /// Value of the X-Request-ID header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Span id that the message carried as its parent, 16 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried_parent_id: Option<String>,
    /// TCP facts of the connection.
    pub tcp: TcpView,
    /// It waits for work by its nature (a poll of a broker, a stream): how long it takes is no speed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_work: bool,
    /// All attributes, OpenTelemetry names.
    #[schema(value_type = std::collections::HashMap<String, AttributeValue>)]
    pub attributes: Map<String, Json>,
}

/// A value of an attribute.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the values of `SpanView::attributes` in the OpenAPI description")]
pub(crate) enum AttributeValue {
    /// Text.
    Text(String),
    /// Number.
    Number(f64),
    /// Truth value.
    Bool(bool),
}

/// TCP facts of the connection at the end of the span.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TcpView {
    /// Smoothed round-trip time, ns; 0 if unknown.
    pub srtt_ns: u64,
    /// Number of retransmitted segments with bytes that this end sent for the span.
    pub retransmits: u32,
    /// Number of resets that ended the connection before the span was over.
    pub resets: u32,
    /// Handshake time, ns, on the first span of a connection; 0 if unknown.
    pub connect_ns: u64,
    /// How long the received bytes waited in the socket until they were read, ns; 0 if unknown.
    pub queue_ns: u64,
    /// Sequence number of the request's first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_seq: Option<u32>,
    /// Sequence number of the response's first byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_seq: Option<u32>,
}

/// Link from a span to its parent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LinkView {
    /// Span id of the parent, 16 hex digits.
    pub span_id: String,
    /// Evidence that it is the parent: `carried`, `wire`, `thread`, …
    pub evidence: &'static str,
    /// Probability that it is the parent, 0–1.
    pub confidence: f32,
}

impl From<&ParentLink> for LinkView {
    fn from(link: &ParentLink) -> Self {
        LinkView {
            span_id: link.parent.to_string(),
            evidence: link.evidence.as_str(),
            confidence: (link.confidence * 1000.0).round() / 1000.0,
        }
    }
}

/// Link to a span of another trace that moved the same message through a broker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SpanLinkView {
    /// Id of the other span, 16 hex digits.
    pub span_id: String,
    /// Id of the other span's trace, 32 hex digits; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// `from-producer`: this span received the message that the other one sent. `to-consumer`: the other way round.
    pub way: &'static str,
    /// Evidence for the link: `broker`.
    pub evidence: &'static str,
    /// Probability that the link is right, 0–1.
    pub confidence: f32,
}

impl From<&SpanLink> for SpanLinkView {
    fn from(link: &SpanLink) -> Self {
        SpanLinkView {
            span_id: link.span.to_string(),
            trace_id: link.trace.map(|t| t.to_string()),
            way: if link.sent { "from-producer" } else { "to-consumer" },
            evidence: link.evidence.as_str(),
            confidence: (link.confidence * 1000.0).round() / 1000.0,
        }
    }
}

/// Spans found by a search.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SpanList {
    /// The spans, in the order that the search asked for.
    pub(crate) spans: Vec<SpanView>,
    /// Whether the limit was reached, so that there may be more.
    pub(crate) limited: bool,
}

/// Name of a span kind in JSON.
pub(crate) fn kind(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Internal => "internal",
        SpanKind::Server => "server",
        SpanKind::Client => "client",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
    }
}

impl From<&Span> for SpanView {
    fn from(span: &Span) -> Self {
        let end = |end: wirespan_model::Endpoint| match span.tuple.transport {
            Transport::Tcp | Transport::Udp if end.port != 0 => end.to_string(),
            _ => String::new(),
        };
        SpanView {
            id: span.id.to_string(),
            carried_trace_id: span.trace_id.map(|t| t.to_string()),
            name: span.name(),
            service: span.resource.service.to_string(),
            kind: kind(span.kind),
            tap: span.tap.as_str(),
            protocol: span.protocol.to_string(),
            start_ns: span.start_ns.to_string(),
            response_ns: (span.response_ns != 0).then(|| span.response_ns.to_string()),
            end_ns: span.end_ns.to_string(),
            duration_ns: span.duration_ns(),
            status: span.status.as_str(),
            error: span.status.is_error(span.kind),
            status_code: span.status_code,
            error_text: span.error.to_string(),
            operation: span.operation.to_string(),
            target: span.target.to_string(),
            request_bytes: span.request_bytes,
            response_bytes: span.response_bytes,
            client: end(span.tuple.client),
            server: end(span.tuple.server),
            pid: span.pid,
            tid: span.tid,
            coroutine: (span.coroutine != 0).then(|| span.coroutine.to_string()),
            request_id: span.request_id.as_ref().map(ToString::to_string),
            carried_parent_id: span.parent_span_id.map(|p| p.to_string()),
            tcp: TcpView {
                srtt_ns: span.tcp.srtt_ns,
                retransmits: span.tcp.retransmits,
                resets: span.tcp.resets,
                connect_ns: span.tcp.connect_ns,
                queue_ns: u64::from(span.tcp.queue_us) * 1000,
                request_seq: span.request_seq,
                response_seq: span.response_seq,
            },
            waits_for_work: waits_for_work(span),
            attributes: attributes(span),
        }
    }
}
