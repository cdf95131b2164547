//! SOME/IP over UDP and TCP (AUTOSAR, "SOME/IP Protocol Specification"). Services and methods have numbers, no names.
//!
//! | concern | what is done |
//! |---|---|
//! | pairing | by message id and request id together |
//! | names | service and method numbers in hexadecimal, as tshark and vsomeip write them |
//! | one-way | notifications and requests that ask for no answer |
//! | errors | the return code of responses and error messages |
//! | long messages (SOME/IP-TP) | the first segment is the message; the others are skipped |
//! | detection | a request and the response to it, or a service-discovery message; lengths must fit exactly |

#[cfg(test)]
mod tests;

use crate::framing::calls::{CallParser, Format, Frame, Reasons, Start};
use crate::framing::{Cursor, Out};
use crate::rpc;
use crate::text::len64;
use crate::{Detect, Pairing, Parser, Probe, Protocol};
use std::borrow::Cow;
use wirespan_model::{Item, Kind, Outcome, Side, Transport, L7};

const HEADER: usize = 16;
/// Longest message that is believed, bytes.
const MAX_LEN: u32 = 16 << 20;
const REASONS: Reasons = Reasons { bad: "someip_bad_frame", gap: "someip_gap" };
/// Messages of service discovery.
const DISCOVERY: u32 = 0xffff_8100;

/// SOME/IP.
#[derive(Clone, Copy, Debug)]
pub struct SomeIp;

impl Protocol for SomeIp {
    fn name(&self) -> L7 {
        "someip"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        Box::new(CallParser::new(SomeIpFormat, transport))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    message: u32,
    /// Length from here on, the request id included.
    len: u32,
    request: u32,
    kind: u8,
    code: u8,
}

impl Header {
    fn frame_len(&self) -> u64 {
        u64::from(self.len).saturating_add(8)
    }

    fn is_response(&self) -> bool {
        matches!(self.kind & !0x20, 0x80 | 0x81)
    }
}

/// `Err` if it is no header, `Ok(None)` if it is not complete.
fn header(bytes: &[u8]) -> Result<Option<Header>, ()> {
    let mut r = Cursor::new(bytes);
    let Some(((message, len), request)) = r.u32().zip(r.u32()).zip(r.u32()) else { return Ok(None) };
    let Some([protocol, _interface, kind, code]) = r.take(4).and_then(|b| b.first_chunk().copied()) else {
        return Ok(None);
    };
    let kind_fits = matches!(kind, 0..=2 | 0x20..=0x22 | 0x80 | 0x81 | 0xa0 | 0xa1);
    let code_fits = if kind & 0x80 == 0 { code == 0 } else { code <= 0x5e };
    let ids_fit = message >> 16 != 0 && message & 0xffff != 0;
    if protocol != 1 || !kind_fits || !code_fits || !ids_fit || !(8..=MAX_LEN).contains(&len) {
        return Err(());
    }
    Ok(Some(Header { message, len, request, kind, code }))
}

/// The first message, if messages fill the bytes exactly (of a stream: if one begins them).
fn first_of(bytes: &[u8], datagram: bool) -> Option<Header> {
    let first = header(bytes).ok()??;
    let mut rest = bytes;
    while datagram && !rest.is_empty() {
        let len = usize::try_from(header(rest).ok()??.frame_len()).ok()?;
        rest = rest.get(len..)?;
    }
    Some(first)
}

/// Bias: against. Nothing in a single message is a magic word, so that a request and its response must agree.
fn detect(probe: &Probe<'_>) -> Detect {
    let datagram = match probe.transport {
        Transport::Udp => true,
        Transport::Tcp => false,
        _ => return Detect::No,
    };
    let Some(first) = first_of(probe.first, datagram) else {
        let short = !datagram && probe.first.len() < HEADER && header(probe.first) == Ok(None);
        return if short { Detect::Maybe } else { Detect::No };
    };
    if first.message == DISCOVERY && first.kind == 2 && datagram {
        return Detect::Yes { first_is_client: probe.first_is_client.unwrap_or(true) };
    }
    if probe.second.is_empty() {
        return Detect::Maybe;
    }
    match first_of(probe.second, datagram) {
        Some(second)
            if (second.message, second.request) == (first.message, first.request)
                && first.is_response() != second.is_response() =>
        {
            Detect::Yes { first_is_client: second.is_response() }
        }
        _ => Detect::No,
    }
}

struct SomeIpFormat;

impl Format for SomeIpFormat {
    fn reasons(&self) -> Reasons {
        REASONS
    }

    fn start(&mut self, _: Side, bytes: &[u8], _lost: bool) -> Start {
        match header(bytes) {
            // A segment of a long message has four bytes more.
            Ok(Some(h)) => {
                Start::Frame { len: h.frame_len(), want: if h.kind & 0x20 != 0 { HEADER + 4 } else { HEADER } }
            }
            Ok(None) => Start::More,
            Err(()) => Start::Bad,
        }
    }

    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Ok(Some(h)) = header(frame.bytes) else { return };
        let offset = frame.bytes.get(HEADER..).and_then(|b| b.first_chunk()).map(|b| u32::from_be_bytes(*b) >> 4);
        if h.kind & 0x20 != 0 && offset.is_some_and(|o| o != 0) {
            return;
        }
        let kind = match h.kind & !0x20 {
            0 => Kind::Request,
            0x80 | 0x81 => Kind::Response,
            _ => Kind::OneWay,
        };
        let (service, method) = (format!("0x{:04x}", h.message >> 16), format!("0x{:04x}", h.message & 0xffff));
        let mut m = rpc::call("someip", "someip", frame.side, kind, &service, &method);
        frame.place(&mut m);
        m.id = Some(u64::from(h.message) << 32 | u64::from(h.request));
        if kind == Kind::Response {
            m.status_code = Some(i32::from(h.code));
            m.outcome = Outcome::Ok;
            if h.code != 0 || h.kind & 1 != 0 {
                let (name, outcome) = failure(h.code);
                rpc::fail(&mut m, outcome, Cow::Borrowed(name), Cow::Borrowed(""));
            }
        }
        debug_assert!(m.head_len <= len64(frame.bytes.len()));
        out(Item::Message(&m));
    }
}

/// Return codes; those from 0x20 on are the service's own.
fn failure(code: u8) -> (&'static str, Outcome) {
    match code {
        0x00 | 0x01 => ("E_NOT_OK", Outcome::ServerError),
        0x02 => ("E_UNKNOWN_SERVICE", Outcome::ClientError),
        0x03 => ("E_UNKNOWN_METHOD", Outcome::ClientError),
        0x04 => ("E_NOT_READY", Outcome::ServerError),
        0x05 => ("E_NOT_REACHABLE", Outcome::ServerError),
        0x06 => ("E_TIMEOUT", Outcome::ServerError),
        0x07 => ("E_WRONG_PROTOCOL_VERSION", Outcome::ClientError),
        0x08 => ("E_WRONG_INTERFACE_VERSION", Outcome::ClientError),
        0x09 => ("E_MALFORMED_MESSAGE", Outcome::ClientError),
        0x0a => ("E_WRONG_MESSAGE_TYPE", Outcome::ClientError),
        _ => ("_OTHER", Outcome::ServerError),
    }
}
