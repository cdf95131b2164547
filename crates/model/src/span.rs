//! A span: one request and its response at one observation point.

use crate::attr::{Attr, Text};
use crate::key::{hash64, Key, KeyKind};
use crate::net::{Endpoint, FiveTuple};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Identity of a span, unique over hosts with overwhelming probability; never 0. Written as 16 hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpanId(pub u64);

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Identity of a trace. Written as 32 hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TraceId(pub [u8; 16]);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// OpenTelemetry span kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum SpanKind {
    /// Inside a process (SDK spans only).
    #[default]
    Internal = 1,
    /// Seen at the end that answers.
    Server = 2,
    /// Seen at the end that asks.
    Client = 3,
    /// Sends a message to a broker.
    Producer = 4,
    /// Receives a message from a broker.
    Consumer = 5,
}

/// Where on its path the request was seen, in the order of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
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
    /// A gateway, tunnel or load balancer between.
    Gateway = 4,
    /// Node of the called process.
    ServerNode = 5,
    /// Network interface of the called container or VM.
    ServerNic = 6,
    /// Sockets of the called process.
    ServerProcess = 7,
    /// A capture file: no process known.
    Capture = 8,
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

/// What became of the request: honest about what was not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Status {
    /// Answered; the protocol says success.
    Ok = 1,
    /// Answered; the asker's fault.
    ClientError = 2,
    /// Answered; the answerer's fault.
    ServerError = 3,
    /// No response within the window.
    NoResponse = 4,
    /// The connection was reset or failed before the response.
    Reset = 5,
    /// Asks for no response.
    OneWay = 6,
    /// A response whose request was not seen.
    NoRequest = 7,
    /// The connection closed in order before the response.
    Closed = 8,
    /// Answered, and the protocol does not say how.
    #[default]
    Unset = 9,
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

    /// Whether people would call it an error. A 4xx is an error for the client only, as in OpenTelemetry.
    pub fn is_error(self, kind: SpanKind) -> bool {
        match self {
            Status::ServerError | Status::NoResponse | Status::Reset | Status::Closed => true,
            Status::ClientError => kind != SpanKind::Server,
            _ => false,
        }
    }
}

/// Exchange ids of one socket that belong to one span: `first..=last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExchangeRange {
    /// First id.
    pub first: u64,
    /// Last id; more than the first when a request and its response flipped the direction several times.
    pub last: u64,
}

impl ExchangeRange {
    /// Whether the id is one of the range.
    pub fn contains(self, id: u64) -> bool {
        (self.first..=self.last).contains(&id)
    }
}

/// Who made the span: shared by all spans of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// `service.name`.
    pub service: Box<str>,
    /// `host.name`.
    pub host: Box<str>,
    /// `process.executable.path`.
    pub executable: Box<str>,
    /// `container.id`, empty if none.
    pub container: Box<str>,
    /// Further resource attributes, sorted by key.
    pub extra: Vec<(Box<str>, Box<str>)>,
}

/// What TCP did for the bytes of a span, as its observation point saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpHealth {
    /// Smoothed RTT when the last of the span's messages was sent or read, ns; 0 if unknown.
    pub srtt_ns: u64,
    /// Segments sent again that held bytes which this end sent for the span (of a connection's first, its SYN too).
    pub retransmits: u32,
    /// Handshake time, ns, on the first span of a connection; 0 if unknown.
    pub connect_ns: u64,
    /// How long the bytes that this end received had lain in the socket when their first was read, µs; 0 if unknown.
    pub queue_us: u32,
    /// Resets that ended the connection before the span was over, sent or received.
    pub resets: u32,
}

/// One request and its response at one observation point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Identity.
    pub id: SpanId,
    /// Observation point.
    pub tap: TapSide,
    /// Kind.
    pub kind: SpanKind,
    /// Protocol name (`http`, `redis`, …); `tcp`, `udp` or `unix` where the bytes were not understood.
    pub protocol: Cow<'static, str>,
    /// First byte of the request (of the response, if the request was not seen), Unix ns.
    pub start_ns: u64,
    /// First byte of the response, Unix ns; 0 if there was none.
    pub response_ns: u64,
    /// Last byte seen, Unix ns.
    pub end_ns: u64,
    /// Outcome.
    pub status: Status,
    /// Numeric status of the protocol.
    pub status_code: Option<i32>,
    /// Error text, masked.
    pub error: Text,
    /// Operation (`GET`, `SET`, `A`).
    pub operation: Text,
    /// Target (`/cart/7`, a DNS name).
    pub target: Text,
    /// Bytes of the request.
    pub request_bytes: u64,
    /// Bytes of the response.
    pub response_bytes: u64,
    /// Ends of the connection.
    pub tuple: FiveTuple,
    /// Socket cookie; 0 if unknown.
    pub socket: u64,
    /// Process.
    pub pid: u32,
    /// Thread that handled the request's first byte.
    pub tid: u32,
    /// Goroutine or coroutine, 0 if none.
    pub coroutine: u64,
    /// Thread name.
    pub comm: Text,
    /// Network namespace inode.
    pub netns: u32,
    /// Cgroup v2 id.
    pub cgroup_id: u64,
    /// Host identity: hash of machine id and boot id. Makes exchange ids global.
    pub host_id: u64,
    /// Exchanges that this span owns.
    pub exchange: Option<ExchangeRange>,
    /// Exchange for which the thread acted when it sent the request (client spans).
    pub cause: Option<u64>,
    /// How the kernel knew the cause.
    pub cause_evidence: Option<crate::trace::Evidence>,
    /// TCP sequence number of the request's first byte.
    pub request_seq: Option<u32>,
    /// TCP sequence number of the response's first byte.
    pub response_seq: Option<u32>,
    /// Pairing id of the protocol (DNS id, stream id).
    pub message_id: Option<u64>,
    /// Carried trace id.
    pub trace_id: Option<TraceId>,
    /// Carried parent span id (of the sender), for spans that saw a carried context; the span's own id for SDK spans is
    /// `id`.
    pub parent_span_id: Option<SpanId>,
    /// X-Request-ID of the request, or of the response if the request had none.
    pub request_id: Option<Text>,
    /// Further attributes, OpenTelemetry names.
    pub attrs: Vec<Attr>,
    /// TCP facts.
    pub tcp: TcpHealth,
    /// Who made it.
    pub resource: Arc<Resource>,
}

/// An end as bytes to hash: formatting it as text would cost more than all other keys of a span together.
fn end_bytes(end: Endpoint) -> [u8; 18] {
    let mut bytes = [0; 18];
    let ip = match end.ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&end.port.to_be_bytes());
    bytes
}

/// Longest run of exchange ids that is indexed per span.
pub const MAX_EXCHANGES: u64 = 8;

impl Span {
    /// Duration, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Name as OpenTelemetry would give it: `GET /cart`, `SET`, `A example.org`; the protocol if nothing is known.
    pub fn name(&self) -> String {
        match (self.operation.is_empty(), self.target.is_empty()) {
            (false, false) => format!("{} {}", self.operation, self.target),
            (false, true) => self.operation.to_string(),
            (true, false) => format!("{} {}", self.protocol, self.target),
            (true, true) => self.protocol.to_string(),
        }
    }

    /// The name of this request by its stream, where a program may have told for which stream it acts.
    pub fn stream_exchange(&self) -> Option<u64> {
        let named = self.tap == TapSide::ServerProcess && matches!(&*self.protocol, "http2" | "grpc");
        crate::event::by_stream(self.socket, self.message_id.filter(|_| named && self.exchange.is_some())?)
    }

    /// Every name by which a cause may call this request: its exchanges, as many as are indexed, and its stream.
    pub fn exchanges(&self) -> impl Iterator<Item = u64> + use<> {
        let own = self.exchange.map(|e| (e.first..=e.last).take(MAX_EXCHANGES as usize));
        own.into_iter().flatten().chain(self.stream_exchange())
    }

    /// Key of an exchange on this span's host.
    pub fn exchange_key(&self, exchange: u64) -> Key {
        let value = hash64(&[&self.host_id.to_le_bytes(), &exchange.to_le_bytes()]);
        Key { kind: KeyKind::Exchange, value }
    }

    /// Keys that say "the same bytes": the pair of TCP sequence numbers (NAT does not change it), and the
    /// five-tuple with the first sequence number or the message id (for half-seen or datagram exchanges).
    pub fn wire_keys(&self) -> SmallVec<[Key; 2]> {
        let mut keys = SmallVec::new();
        let mut push = |value| keys.push(Key { kind: KeyKind::Wire, value });
        if let (Some(req), Some(resp)) = (self.request_seq, self.response_seq) {
            push(hash64(&[b"seq", &req.to_le_bytes(), &resp.to_le_bytes()]));
        }
        let id = match (self.request_seq, self.response_seq, self.message_id) {
            (Some(req), _, _) => Some((b'q', u64::from(req))),
            (None, Some(resp), _) => Some((b'r', u64::from(resp))),
            (None, None, Some(id)) => Some((b'i', id)),
            _ => None,
        };
        if let Some((tag, id)) = id {
            let t = &self.tuple;
            push(hash64(&[
                &[tag],
                &id.to_le_bytes(),
                &end_bytes(t.client),
                &end_bytes(t.server),
                &[t.transport as u8],
            ]));
        }
        keys
    }

    /// Every key by which this span can be found, duplicates removed.
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
        keys.extend(crate::broker::passages(self).iter().flat_map(|p| p.keys().collect::<SmallVec<[Key; 2]>>()));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}
