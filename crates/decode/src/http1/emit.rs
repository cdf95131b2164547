//! A head → a message, and how its body is framed.

use super::head::{Fields, Length, Transfer};
use super::reason;
use super::start::{cut_request_line, request_line, status_line, target, METHODS};
use super::state::{Asked, Waiting};
use crate::mask::KeptHttp;
use crate::semantics::{grpc, Ask, Peek};
use crate::text::{clean, len64};
use crate::url::{host_port, shown, MAX_PATH};
use memchr::memchr;
use std::collections::VecDeque;
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Longest user agent that is kept, bytes.
const MAX_AGENT: usize = 256;

/// How much of the head is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Whole,
    /// Only its beginning; the rest will pass by.
    Part,
    /// The rest was not captured.
    Cut,
}

/// How the body is framed (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    Length(u64),
    /// As above, but the request was not seen: it may have been a `HEAD`, whose response has no body.
    LengthUnsure(u64),
    Chunked,
    UntilClose,
    /// Cannot be read: search for the next message.
    Unknown,
    /// No HTTP from here on.
    Upgrade(&'static str),
}

/// The start line without its line end, and the field lines.
fn split(head: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'\n', head).unwrap_or(head.len());
    let (line, rest) = head.split_at_checked(end).unwrap_or((head, b""));
    (line, rest.get(1..).unwrap_or_default())
}

fn body(framing: Framing, seen: Seen) -> Body {
    match framing {
        _ if seen != Seen::Whole => Body::Open,
        Framing::None | Framing::Upgrade(_) => Body::None,
        Framing::Length(0) | Framing::LengthUnsure(0) => Body::None,
        Framing::Length(n) | Framing::LengthUnsure(n) => Body::Length(n),
        Framing::Chunked | Framing::UntilClose | Framing::Unknown => Body::Open,
    }
}

fn size(n: u64) -> AttrVal<'static> {
    AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Emits a request.
pub(super) fn request(
    head: &[u8],
    offset: u64,
    seen: Seen,
    kept: Option<&KeptHttp>,
    out: &mut dyn FnMut(Item<'_, '_>),
) -> (Framing, Waiting) {
    let (line, block) = split(head);
    // The caller has checked the line; a cut one has no version.
    let Some(start) = request_line(line).or_else(|| cut_request_line(line)) else {
        return (Framing::Unknown, Waiting::default());
    };
    let fields = Fields::read(block);
    let framing = match (fields.transfer, fields.length) {
        _ if start.method == "CONNECT" => Framing::None,
        (Transfer::Chunked, _) => Framing::Chunked,
        (Transfer::Other, _) => {
            out(Item::Malformed { side: Side::Client, reason: reason::BAD_TRANSFER });
            Framing::Unknown
        }
        (Transfer::Absent, Length::Known(n)) => Framing::Length(n),
        // A field that is not there may be in the part that was not seen.
        (Transfer::Absent, Length::Absent) if seen != Seen::Whole => Framing::Unknown,
        (Transfer::Absent, Length::Absent) => Framing::None,
        (Transfer::Absent, Length::Bad) => {
            out(Item::Malformed { side: Side::Client, reason: reason::BAD_LENGTH });
            Framing::Unknown
        }
    };
    let parts = target(start.method, start.target);
    let path = shown(parts.path);
    let known = METHODS.contains(&start.method);
    let peek = Peek::of(&Ask {
        method: start.method.as_bytes(),
        path: parts.path,
        content_type: fields.content_type,
        agent: fields.agent,
        body: matches!(framing, Framing::Length(1..) | Framing::Chunked),
    });

    let mut m = Message::new("http", Side::Client, Kind::Request, offset);
    m.head_len = len64(head.len());
    m.body = body(framing, seen);
    if peek.as_ref().is_some_and(|p| p.wants_request()) {
        // Its end tells more.
        m.body = Body::Open;
    }
    // OpenTelemetry: a span of an unknown method is named `HTTP`.
    m.operation = if known { start.method } else { "HTTP" };
    m.attrs.push(("http.request.method", AttrVal::from(if known { start.method } else { "_OTHER" })));
    if !known {
        m.attrs.push(("http.request.method_original", AttrVal::from(start.method)));
    }
    if parts.path.is_empty() {
        m.target = clean(parts.authority, MAX_PATH);
    } else {
        m.attrs.push(("url.path", AttrVal::Str(path.clone())));
        m.target = path;
    }
    if !parts.scheme.is_empty() {
        m.attrs.push(("url.scheme", AttrVal::from(parts.scheme)));
    }
    let authority = if parts.authority.is_empty() { fields.host } else { parts.authority };
    if let Some((host, port)) = host_port(authority) {
        m.attrs.push(("server.address", AttrVal::from(host)));
        if let Some(port) = port {
            m.attrs.push(("server.port", AttrVal::Int(i64::from(port))));
        }
    }
    if !fields.agent.is_empty() {
        m.attrs.push(("user_agent.original", AttrVal::Str(clean(fields.agent, MAX_AGENT))));
    }
    if let Some(minor) = start.minor {
        m.attrs.push(("network.protocol.version", AttrVal::from(minor.as_str())));
    }
    if let Length::Known(n) = fields.length {
        m.attrs.push(("http.request.body.size", size(n)));
    }
    if let Some(full) = grpc::call(fields.content_type, parts.path) {
        (m.protocol, m.operation, m.target) = ("grpc", full, "".into());
        m.attrs.push(("network.protocol.name", AttrVal::from("http")));
        m.attrs.push(("rpc.system.name", AttrVal::from("grpc")));
        m.attrs.push(("rpc.method", AttrVal::from(full)));
    }
    if let Some(peek) = &peek {
        peek.asked(&mut m.attrs);
    }
    if let Some(kept) = kept {
        kept.fields(true, block, &mut m.attrs);
        kept.query(start.target, &mut m.attrs);
    }
    if seen != Seen::Whole {
        m.attrs.push(("wirespan.truncated", AttrVal::Bool(true)));
    }
    m.carried = fields.context.finish();
    let asked = match start.method {
        "HEAD" => Asked::Head,
        "CONNECT" => Asked::Connect,
        _ if fields.expect && framing != Framing::None => Asked::Expecting,
        _ => Asked::Other,
    };
    out(Item::Message(&m));
    (framing, Waiting { asked, peek })
}

/// Emits a response, and takes the request that it answers off the queue.
pub(super) fn response(
    head: &[u8],
    offset: u64,
    seen: Seen,
    asked: &mut VecDeque<Waiting>,
    kept: Option<&KeptHttp>,
    out: &mut dyn FnMut(Item<'_, '_>),
) -> Answered {
    let (line, block) = split(head);
    let Some(start) = status_line(line) else { return Answered::default() };
    let fields = Fields::read(block);
    let status = start.status;
    // The request that asked for h2c is answered in HTTP/2, on stream 1 (RFC 7540, 3.2).
    let takes_over = status == 101 && upgrade_name(fields.upgrade) == "http2";
    let interim = (100..200).contains(&status) && (status != 101 || takes_over);
    let waiting = if interim { None } else { asked.pop_front() };
    let request = waiting.as_ref().map(|w| w.asked);
    let peek = waiting.and_then(|w| w.peek);
    let success = (200..300).contains(&status);
    let bodyless = interim || matches!(status, 204 | 304) || request == Some(Asked::Head);
    let framing = match (fields.transfer, fields.length) {
        _ if status == 101 => Framing::Upgrade(upgrade_name(fields.upgrade)),
        _ if success && request == Some(Asked::Connect) => Framing::Upgrade(""),
        _ if bodyless => Framing::None,
        (Transfer::Chunked, _) => Framing::Chunked,
        (Transfer::Other, _) => Framing::UntilClose,
        (Transfer::Absent, Length::Known(n)) if request.is_none() => Framing::LengthUnsure(n),
        (Transfer::Absent, Length::Known(n)) => Framing::Length(n),
        (Transfer::Absent, Length::Absent) if seen != Seen::Whole => Framing::Unknown,
        (Transfer::Absent, Length::Absent) => Framing::UntilClose,
        (Transfer::Absent, Length::Bad) => {
            out(Item::Malformed { side: Side::Server, reason: reason::BAD_LENGTH });
            Framing::Unknown
        }
    };
    let kind = if interim { Kind::Interim } else { Kind::Response };

    let mut m = Message::new("http", Side::Server, kind, offset);
    m.head_len = len64(head.len());
    m.body = body(framing, seen);
    let peek_body = peek.as_ref().is_some_and(|p| p.wants_response());
    if peek_body && matches!(framing, Framing::Length(1..)) {
        m.body = Body::Open;
    }
    m.status_code = Some(i32::from(status));
    m.attrs.push(("http.response.status_code", AttrVal::Int(i64::from(status))));
    m.attrs.push(("network.protocol.version", AttrVal::from(start.minor.as_str())));
    if let Length::Known(n) = fields.length {
        m.attrs.push(("http.response.body.size", size(n)));
    }
    if !interim {
        m.outcome = match status {
            500.. => Outcome::ServerError,
            400..=499 => Outcome::ClientError,
            _ => Outcome::Ok,
        };
    }
    if let Some(peek) = &peek {
        peek.answered(fields.product, fields.search_version, &mut m.attrs);
    }
    if let Some(kept) = kept {
        kept.fields(false, block, &mut m.attrs);
    }
    if seen != Seen::Whole {
        m.attrs.push(("wirespan.truncated", AttrVal::Bool(true)));
    }
    m.carried = fields.context.finish();
    out(Item::Message(&m));
    let refused = request == Some(Asked::Expecting) && status >= 300;
    Answered { framing, refused, peek: peek.filter(|_| peek_body) }
}

/// How a response changes the reading of the bytes behind it.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) framing: Framing,
    /// It refuses a body that the client would send only after a `100`.
    pub(super) refused: bool,
    /// Reads its body.
    pub(super) peek: Option<Box<Peek>>,
}

impl Default for Answered {
    fn default() -> Self {
        Answered { framing: Framing::Unknown, refused: false, peek: None }
    }
}

/// Protocol behind a `101`.
fn upgrade_name(value: &[u8]) -> &'static str {
    const KNOWN: [&str; 2] = ["websocket", "tcp"];
    let name = value.split(|b| matches!(b, b',' | b'/')).next().unwrap_or_default().trim_ascii();
    if name.eq_ignore_ascii_case(b"h2c") {
        return "http2";
    }
    KNOWN.into_iter().find(|k| name.eq_ignore_ascii_case(k.as_bytes())).unwrap_or("unknown")
}
