//! Messages as a parser reads them from a byte stream. They borrow from the stream's bytes, so that parsing allocates
//! nothing.

use crate::attr::{Attr, Value};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Cow;

/// Name of an application protocol as OpenTelemetry writes it (`http`, `redis`, `dns`, …); see `decode::REGISTRY`.
pub type L7 = &'static str;

/// An end of a connection, by its part in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    /// The end that asks.
    Client,
    /// The end that answers.
    Server,
}

impl Side {
    /// The other end.
    pub fn peer(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// Part of a message in its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Asks for a response.
    Request,
    /// Answers a request.
    Response,
    /// Neither asks for a response nor answers a request (a publish, a push).
    OneWay,
    /// Precedes the response proper (HTTP 1xx). It belongs to the response, and does not end it.
    Interim,
}

/// The end of a message, as far as it is known when its head was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The message is complete: nothing follows its head.
    None,
    /// Exactly this many bytes follow the head.
    Length(u64),
    /// Not known. An [`Item::End`] comes if the bytes can be read; else the next message or the close ends it.
    Open,
}

/// Outcome of a request by its protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The message tells no outcome (a request, for example).
    #[default]
    Unset,
    /// Success.
    Ok,
    /// The protocol blames the asker (HTTP 4xx, NXDOMAIN, a wrong Redis command).
    ClientError,
    /// The protocol blames the answerer (HTTP 5xx, SERVFAIL).
    ServerError,
}

/// A borrowed attribute value, masked by the parser.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrVal<'a> {
    /// Text.
    Str(Cow<'a, str>),
    /// Integer.
    Int(i64),
    /// Truth value.
    Bool(bool),
}

impl AttrVal<'_> {
    /// An owned copy.
    pub fn to_value(&self) -> Value {
        match self {
            AttrVal::Str(s) => Value::Str(s.as_ref().into()),
            AttrVal::Int(n) => Value::Int(*n),
            AttrVal::Bool(b) => Value::Bool(*b),
        }
    }
}

impl<'a> From<&'a str> for AttrVal<'a> {
    fn from(s: &'a str) -> Self {
        AttrVal::Str(Cow::Borrowed(s))
    }
}
impl From<i64> for AttrVal<'_> {
    fn from(n: i64) -> Self {
        AttrVal::Int(n)
    }
}
impl From<bool> for AttrVal<'_> {
    fn from(b: bool) -> Self {
        AttrVal::Bool(b)
    }
}

/// Attributes of one message. Up to twelve are kept in place.
pub type AttrList<'a> = SmallVec<[(&'static str, AttrVal<'a>); 12]>;

/// Trace context that a message carries (rung 1 of the causality ladder).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried<'a> {
    /// 128-bit trace id (W3C `traceparent`, B3; 64-bit B3 ids are left-padded with zeros).
    pub trace_id: Option<[u8; 16]>,
    /// Span id of the sender.
    pub span_id: Option<[u8; 8]>,
    /// Sampling flag, if stated.
    pub sampled: Option<bool>,
    /// Trace id that is not 128-bit hexadecimal (SkyWalking `sw8`), decoded to text.
    pub foreign_trace_id: Option<Cow<'a, str>>,
    /// `X-Request-ID` or a similar header (`X-Request-Id`, `X-Correlation-ID`).
    pub request_id: Option<&'a str>,
}

/// The head of one message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message<'a> {
    /// Name of the protocol.
    pub protocol: L7,
    /// The side that sent it.
    pub side: Side,
    /// Part in the exchange.
    pub kind: Kind,
    /// Offset of its first byte in the stream of its side (see [`Item`]).
    pub offset: u64,
    /// Length of the head, bytes.
    pub head_len: u64,
    /// Pairing id in protocols that answer out of order (DNS id, HTTP/2 stream); `None` pairs by order.
    pub id: Option<u64>,
    /// Its end, as far as it is known.
    pub body: Body,
    /// Operation: HTTP method, Redis command, DNS query type. Empty if not known.
    pub operation: &'a str,
    /// Target, without secrets: URL path, DNS name, database. Empty if not known.
    pub target: Cow<'a, str>,
    /// Numeric status (HTTP status, DNS rcode), if the message has one.
    pub status_code: Option<i32>,
    /// Outcome, for responses.
    pub outcome: Outcome,
    /// Error text, masked. Empty if there is none.
    pub error: Cow<'a, str>,
    /// Trace context.
    pub carried: Carried<'a>,
    /// Further attributes, OpenTelemetry names.
    pub attrs: AttrList<'a>,
}

impl<'a> Message<'a> {
    /// A message of which only the place is known.
    pub fn new(protocol: L7, side: Side, kind: Kind, offset: u64) -> Self {
        Message {
            protocol,
            side,
            kind,
            offset,
            head_len: 0,
            id: None,
            body: Body::None,
            operation: "",
            target: Cow::Borrowed(""),
            status_code: None,
            outcome: Outcome::Unset,
            error: Cow::Borrowed(""),
            carried: Carried::default(),
            attrs: AttrList::new(),
        }
    }

    /// Owned copies of the attributes.
    pub fn owned_attrs(&self) -> Vec<Attr> {
        self.attrs.iter().map(|(k, v)| (Cow::Borrowed(*k), v.to_value())).collect()
    }
}

/// Facts that only the end of a message tells (gRPC trailers, the row count behind a result). The default changes
/// nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Late<'a> {
    /// Numeric status; `None` leaves the head's.
    pub status_code: Option<i32>,
    /// Outcome; [`Outcome::Unset`] leaves the head's.
    pub outcome: Outcome,
    /// Error text, masked; empty leaves the head's.
    pub error: Cow<'a, str>,
    /// Further attributes of the span.
    pub attrs: AttrList<'a>,
}

/// An item that a parser emits. Offsets count the bytes of one side since the parser was made, bytes that were not
/// captured included.
///
/// A message takes about 700 bytes, most of them room for attributes. So it stays where the parser made it, and is
/// lent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'m, 'a> {
    /// A message begins at [`Message::offset`], and its head is complete.
    Message(&'m Message<'a>),
    /// The message of this side (with this id) ended at `offset` (exclusive).
    End {
        /// Sender of the message.
        side: Side,
        /// Its pairing id.
        id: Option<u64>,
        /// Offset behind its last byte.
        offset: u64,
        /// Facts that only the end tells.
        late: &'m Late<'a>,
    },
    /// From here on the connection speaks the protocol with this name (`websocket`, `h2c`, `tunnel` after an HTTP
    /// CONNECT). An empty name (SOCKS, the PROXY header) asks for a new guess from the bytes that follow.
    Upgrade(&'static str),
    /// Bytes that this protocol forbids, or a message too long to keep. They are counted by reason, and the parser
    /// resynchronises.
    Malformed {
        /// Sender.
        side: Side,
        /// Counter name, like `http_bad_chunk_size`.
        reason: &'static str,
    },
}

/// Consecutive bytes of one side: `bytes`, and `missing` more bytes that followed and were not captured.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The side that sent them.
    pub side: Side,
    /// Captured bytes.
    pub bytes: &'a [u8],
    /// Number of bytes behind them that were moved but not captured.
    pub missing: u64,
}
