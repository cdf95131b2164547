//! Recognises HTTP/1 by a whole start line, or by a known method at one end and a status line at the other.
//!
//! Bias: against. A start line names its protocol (`HTTP/1.x`), so a *yes* is as good as certain; a connection that is
//! joined in the middle of a body is recognised only by its next message. Protocols of the same shape name themselves
//! otherwise (`RTSP/1.0`, `SIP/2.0`, `ICAP/1.0`); HTTP/1 shapes in datagrams (SSDP) are not connections and are
//! refused. The end that sends requests is the client, even if the other end connected.

use super::start::{cut_request_line, maybe_request_line, maybe_status_line, request_line, status_line, METHODS};
use crate::{Detect, Probe};

/// What one end's bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    Request,
    Response,
    /// A known method and a target, the version not seen yet.
    CutRequest,
    /// Too few bytes.
    Either,
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    let start = bytes.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(bytes.len());
    let bytes = bytes.get(start..).unwrap_or_default();
    if bytes.is_empty() {
        return Looks::Silent;
    }
    let whole = memchr::memchr(b'\n', bytes).and_then(|end| bytes.get(..end));
    let line = whole.unwrap_or(bytes);
    if status_line(line).is_some() {
        Looks::Response
    } else if whole.is_some() {
        if request_line(line).is_some() {
            Looks::Request
        } else {
            Looks::Other
        }
    } else if cut_request_line(line).is_some() {
        Looks::CutRequest
    } else if maybe_status_line(line) || (maybe_request_line(line) && method_begins(line)) {
        Looks::Either
    } else {
        Looks::Other
    }
}

/// Whether the bytes are the beginning of a known method, or of a known method and a space.
fn method_begins(line: &[u8]) -> bool {
    let token = line.split(|b| *b == b' ').next().unwrap_or_default();
    let whole = token.len() < line.len();
    METHODS.iter().any(|m| if whole { m.as_bytes() == token } else { m.as_bytes().starts_with(token) })
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let (first, second) = (looks(probe.first), looks(probe.second));
    match (first, second) {
        (Looks::Request, _) | (Looks::CutRequest, Looks::Response) => Detect::Yes { first_is_client: true },
        (Looks::Response, _) | (_, Looks::Request) => Detect::Yes { first_is_client: false },
        // The first end was joined in the middle of a message.
        (Looks::Other | Looks::Either | Looks::Silent, Looks::Response) => Detect::Yes { first_is_client: true },
        // Something else talked first: the other end decides.
        (Looks::Other, Looks::Other) => Detect::No,
        _ => Detect::Maybe,
    }
}
