//! A head → a message, and how its body is framed.

use super::head::{Fields, Length, Transfer};
use super::parse::Asked;
use super::reason;
use super::start::{cut_request_line, request_line, status_line, target, METHODS};
use crate::text::{clean, decimal, len64};
use memchr::memchr;
use std::collections::VecDeque;
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Longest path that is kept, bytes.
const MAX_PATH: usize = 2048;
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
pub(super) fn request(head: &[u8], offset: u64, seen: Seen, out: &mut dyn FnMut(Item<'_>)) -> (Framing, Asked) {
    let (line, block) = split(head);
    // The caller has checked the line; a cut one has no version.
    let Some(start) = request_line(line).or_else(|| cut_request_line(line)) else {
        return (Framing::Unknown, Asked::Other);
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
    let path = clean(parts.path, MAX_PATH);
    let known = METHODS.contains(&start.method);

    let mut m = Message::new("http", Side::Client, Kind::Request, offset);
    m.head_len = len64(head.len());
    m.body = body(framing, seen);
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
    out(Item::Message(m));
    (framing, asked)
}

/// Emits a response, and takes the request that it answers off the queue. Also says whether it refuses a body that the
/// client would send only after a `100`.
pub(super) fn response(
    head: &[u8],
    offset: u64,
    seen: Seen,
    asked: &mut VecDeque<Asked>,
    out: &mut dyn FnMut(Item<'_>),
) -> (Framing, bool) {
    let (line, block) = split(head);
    let Some(start) = status_line(line) else { return (Framing::Unknown, false) };
    let fields = Fields::read(block);
    let status = start.status;
    let interim = (100..200).contains(&status) && status != 101;
    let request = if interim { None } else { asked.pop_front() };
    let success = (200..300).contains(&status);
    let bodyless = interim || matches!(status, 204 | 304) || request == Some(Asked::Head);
    let framing = match (fields.transfer, fields.length) {
        _ if status == 101 => Framing::Upgrade(upgrade_name(fields.upgrade)),
        _ if success && request == Some(Asked::Connect) => Framing::Upgrade("tunnel"),
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
    if seen != Seen::Whole {
        m.attrs.push(("wirespan.truncated", AttrVal::Bool(true)));
    }
    m.carried = fields.context.finish();
    out(Item::Message(m));
    (framing, request == Some(Asked::Expecting) && status >= 300)
}

/// Protocol behind a `101`.
fn upgrade_name(value: &[u8]) -> &'static str {
    const KNOWN: [&str; 3] = ["websocket", "h2c", "tcp"];
    let name = value.split(|b| matches!(b, b',' | b'/')).next().unwrap_or_default().trim_ascii();
    KNOWN.into_iter().find(|k| name.eq_ignore_ascii_case(k.as_bytes())).unwrap_or("unknown")
}

/// `host[:port]` → host (brackets of IPv6 taken off) and port. Nothing if it is neither a name nor an address.
fn host_port(authority: &[u8]) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix(b"[") {
        Some(v6) => {
            let (host, rest) = v6.split_at_checked(memchr(b']', v6)?)?;
            (host, rest.strip_prefix(b"]:"))
        }
        None => match memchr(b':', authority) {
            Some(i) => (authority.get(..i)?, authority.get(i.checked_add(1)?..)),
            None => (authority, None),
        },
    };
    let named = |b: &u8| b.is_ascii_alphanumeric() || b"-._:%".contains(b);
    if host.is_empty() || host.len() > 255 || !host.iter().all(named) {
        return None;
    }
    let port = port.and_then(decimal).and_then(|n| u16::try_from(n).ok());
    Some((std::str::from_utf8(host).ok()?, port))
}
