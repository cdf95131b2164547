//! A span: one request and its response at one tap side.

use crate::attr::{Attr, Text, Value};
use crate::key::{hash64, Key, KeyKind};
use crate::listed::listed_enum;
use crate::net::FiveTuple;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Id of a span: 64 bits, unique over hosts with overwhelming probability, never 0. Written as 16 hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpanId(pub u64);

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Id of a trace: 128 bits (W3C Trace Context). Written as 32 hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TraceId(pub [u8; 16]);

/// Attribute with a trace id that is not 128-bit hexadecimal (SkyWalking's and others), as the message carried it.
pub const FOREIGN_TRACE_ID: &str = "wirespan.foreign_trace_id";

impl TraceId {
    /// The id for a trace whose own id is not 128-bit hexadecimal: a hash.
    pub fn of_foreign(text: &str) -> Self {
        let mut id = [0u8; 16];
        id[..8].copy_from_slice(&hash64(&[b"foreign", text.as_bytes()]).to_be_bytes());
        id[8..].copy_from_slice(&hash64(&[text.as_bytes(), b"foreign"]).to_be_bytes());
        TraceId(id)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

listed_enum! {
    /// OpenTelemetry span kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum SpanKind {
        /// Inside a process (SDK spans only).
        #[default]
        Internal = 1,
        /// Observed at the end that answers.
        Server = 2,
        /// Observed at the end that asks.
        Client = 3,
        /// Sends a message to a broker.
        Producer = 4,
        /// Receives a message from a broker.
        Consumer = 5,
    }
}

listed_enum! {
    /// Tap side: where on its path a request was observed. The codes from `App` to `ServerProcess` follow the path.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum TapSide {
        /// SDK span of the caller, received by OTLP.
        App = 0,
        /// Sockets of the calling process.
        #[default]
        ClientProcess = 1,
        /// Network interface of the calling container or VM.
        ClientNic = 2,
        /// Node of the caller.
        ClientNode = 3,
        /// A gateway, tunnel or load balancer between caller and callee.
        Gateway = 4,
        /// Node of the called process.
        ServerNode = 5,
        /// Network interface of the called container or VM.
        ServerNic = 6,
        /// Sockets of the called process.
        ServerProcess = 7,
        /// A capture file. The process is not known.
        Capture = 8,
    }
}

impl TapSide {
    /// Short name, as shown and as written to JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            TapSide::App => "app",
            TapSide::ClientProcess => "client-process",
            TapSide::ClientNic => "client-nic",
            TapSide::ClientNode => "client-node",
            TapSide::Gateway => "gateway",
            TapSide::ServerNode => "server-node",
            TapSide::ServerNic => "server-nic",
            TapSide::ServerProcess => "server-process",
            TapSide::Capture => "capture",
        }
    }
}

listed_enum! {
    /// Outcome of a request, as far as it was observed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Status {
        /// Answered. The protocol says success.
        Ok = 1,
        /// Answered. The protocol blames the asker.
        ClientError = 2,
        /// Answered. The protocol blames the answerer.
        ServerError = 3,
        /// No response came within the window.
        NoResponse = 4,
        /// The connection was reset or failed before the response.
        Reset = 5,
        /// A message that asks for no response.
        OneWay = 6,
        /// A response whose request was not observed.
        NoRequest = 7,
        /// The connection closed in order before the response.
        Closed = 8,
        /// Answered. The protocol does not tell the outcome.
        #[default]
        Unset = 9,
    }
}

impl Status {
    /// Short name, as shown and as written to JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::ClientError => "client-error",
            Status::ServerError => "server-error",
            Status::NoResponse => "no-response",
            Status::Reset => "reset",
            Status::OneWay => "one-way",
            Status::NoRequest => "no-request",
            Status::Closed => "closed",
            Status::Unset => "unset",
        }
    }

    /// True if a span of this kind counts as failed. A client error is a failure of the client's span only, as in
    /// OpenTelemetry.
    pub fn is_error(self, kind: SpanKind) -> bool {
        match self {
            Status::ServerError | Status::NoResponse | Status::Reset | Status::Closed => true,
            Status::ClientError => kind != SpanKind::Server,
            _ => false,
        }
    }
}

/// Exchange ids of one socket that one span owns: `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExchangeRange {
    /// First id.
    pub first: u64,
    /// Last id. Greater than the first if the direction changed several times between the request's first byte and the
    /// response's last byte.
    pub last: u64,
}

impl ExchangeRange {
    /// True if the id is in the range.
    pub fn contains(self, id: u64) -> bool {
        (self.first..=self.last).contains(&id)
    }
}

/// The process behind a span, as OpenTelemetry resource attributes. All spans of a process share one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// `service.name`.
    pub service: Box<str>,
    /// `host.name`.
    pub host: Box<str>,
    /// `process.executable.path`.
    pub executable: Box<str>,
    /// `container.id`; empty if the process is in no container.
    pub container: Box<str>,
    /// Further resource attributes, sorted by key.
    pub extra: Vec<(Box<str>, Box<str>)>,
}

/// TCP facts of a span's bytes, as observed at its tap side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpHealth {
    /// Smoothed round-trip time when the last message of the span was sent or read, ns; 0 if not known.
    pub srtt_ns: u64,
    /// Retransmitted segments that held bytes which this end sent for the span. The first span of a connection also
    /// counts retransmissions of the handshake.
    pub retransmits: u32,
    /// Handshake time on the first span of a connection, ns; 0 on later spans, and if not known.
    pub connect_ns: u64,
    /// Time for which received bytes lay in the socket before the process read the first of them, µs; 0 if not known.
    pub queue_us: u32,
    /// Resets that ended the connection before the span was over, sent or received.
    pub resets: u32,
}

/// One request and its response at one tap side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Id.
    pub id: SpanId,
    /// Tap side.
    pub tap: TapSide,
    /// OpenTelemetry span kind.
    pub kind: SpanKind,
    /// Protocol name (`http`, `redis`, …); `tcp`, `udp` or `unix` if the protocol was not recognised.
    pub protocol: Cow<'static, str>,
    /// Time of the request's first byte (of the response's, if the request was not observed), Unix ns.
    pub start_ns: u64,
    /// Time of the response's first byte, Unix ns; 0 if there was no response.
    pub response_ns: u64,
    /// Time of the last byte observed, Unix ns.
    pub end_ns: u64,
    /// Outcome.
    pub status: Status,
    /// Numeric status of the protocol (HTTP status, gRPC code, …).
    pub status_code: Option<i32>,
    /// Error text, masked.
    pub error: Text,
    /// Operation (`GET`, `SET`, `A`); empty if not known.
    pub operation: Text,
    /// Target (`/cart/7`, a DNS name), without secrets; empty if not known.
    pub target: Text,
    /// Length of the request, bytes.
    pub request_bytes: u64,
    /// Length of the response, bytes.
    pub response_bytes: u64,
    /// Ends of the connection.
    pub tuple: FiveTuple,
    /// Socket cookie; 0 if not known.
    pub socket: u64,
    /// Process id in the root pid namespace; 0 for a capture file.
    pub pid: u32,
    /// Id of the thread that sent or read the request's first byte.
    pub tid: u32,
    /// Goroutine or coroutine id; 0 if there is none.
    pub coroutine: u64,
    /// Thread name (`task_struct.comm`).
    pub comm: Text,
    /// Inode of the socket's network namespace.
    pub netns: u32,
    /// Cgroup v2 id.
    pub cgroup_id: u64,
    /// Host id: hash of machine id and boot id. Exchange ids are unique per host id.
    pub host_id: u64,
    /// Exchanges that this span owns.
    pub exchange: Option<ExchangeRange>,
    /// Cause (client spans): id of the exchange on whose behalf the request was sent.
    pub cause: Option<u64>,
    /// Evidence for the cause. `Some(Inferred)` without a cause means: one of several requests, left to the solver.
    pub cause_evidence: Option<crate::trace::Evidence>,
    /// TCP sequence number of the request's first byte.
    pub request_seq: Option<u32>,
    /// TCP sequence number of the response's first byte.
    pub response_seq: Option<u32>,
    /// Id by which the protocol pairs request and response (DNS id, HTTP/2 stream id).
    pub message_id: Option<u64>,
    /// Trace id that the message carried.
    pub trace_id: Option<TraceId>,
    /// Parent span id that the message carried: the sender's span. An SDK span's own id is in `id`.
    pub parent_span_id: Option<SpanId>,
    /// X-Request-ID of the request; of the response if the request had none.
    pub request_id: Option<Text>,
    /// Further attributes, by their OpenTelemetry names.
    pub attrs: Vec<Attr>,
    /// TCP facts of the span's bytes.
    pub tcp: TcpHealth,
    /// The process.
    pub resource: Arc<Resource>,
}

/// Most exchange ids of one span that are indexed.
pub const MAX_EXCHANGES: u64 = 8;

impl Span {
    /// Duration, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Name by the rules of OpenTelemetry: `GET /cart`, `SET`, `A example.org`; the protocol if neither operation nor
    /// target is known.
    pub fn name(&self) -> String {
        match (self.operation.is_empty(), self.target.is_empty()) {
            (false, false) => format!("{} {}", self.operation, self.target),
            (false, true) => self.operation.to_string(),
            (true, false) => format!("{} {}", self.protocol, self.target),
            (true, true) => self.protocol.to_string(),
        }
    }

    /// Causal id of this request by its HTTP/2 stream (see [`crate::event::BY_STREAM`]). `None` unless this is the
    /// server's span of a protocol with streams.
    pub fn stream_exchange(&self) -> Option<u64> {
        let named = self.tap == TapSide::ServerProcess && crate::order::has_streams(&self.protocol);
        crate::event::by_stream(self.socket, self.message_id.filter(|_| named && self.exchange.is_some())?)
    }

    /// Whether the trace id that the message carried was made from that of another system. The parent that it names is
    /// then a hash, too.
    pub fn carries_foreign_trace(&self) -> bool {
        self.text(FOREIGN_TRACE_ID).is_some_and(|text| self.trace_id == Some(TraceId::of_foreign(text)))
    }

    /// The text of an attribute.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.attrs.iter().find_map(|(k, v)| match v {
            Value::Str(text) if k == key => Some(text.as_str()),
            _ => None,
        })
    }

    /// Every causal id of this request: its first [`MAX_EXCHANGES`] exchanges, and its stream.
    pub fn exchanges(&self) -> impl Iterator<Item = u64> + use<> {
        let own = self.exchange.map(|e| (e.first..=e.last).take(MAX_EXCHANGES as usize));
        own.into_iter().flatten().chain(self.stream_exchange())
    }

    /// Key of an exchange on this span's host.
    pub fn exchange_key(&self, exchange: u64) -> Key {
        let value = hash64(&[&self.host_id.to_le_bytes(), &exchange.to_le_bytes()]);
        Key { kind: KeyKind::Exchange, value }
    }

    /// Every key of this span, sorted, without duplicates.
    pub fn keys(&self) -> SmallVec<[Key; 8]> {
        let mut keys: SmallVec<[Key; 8]> = SmallVec::new();
        keys.push(Key { kind: KeyKind::Span, value: self.id.0 });
        if let Some(t) = self.trace_id {
            keys.push(Key { kind: KeyKind::Trace, value: hash64(&[&t.0]) });
        }
        if let Some(p) = self.parent_span_id {
            keys.push(Key { kind: KeyKind::Parent, value: p.0 });
        }
        if let Some(r) = &self.request_id {
            keys.push(Key { kind: KeyKind::RequestId, value: hash64(&[r.as_bytes()]) });
        }
        keys.extend(self.exchanges().map(|x| self.exchange_key(x)));
        if let Some(c) = self.cause {
            keys.push(self.exchange_key(c));
        }
        keys.extend(self.wire_keys());
        keys.extend(crate::broker::message_ranges(self).iter().flat_map(|p| p.keys().collect::<SmallVec<[Key; 2]>>()));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}
