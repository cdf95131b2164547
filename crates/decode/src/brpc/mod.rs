//! bRPC's own protocol, baidu_std (apache/brpc, `docs/cn/baidu_std.md`): `PRPC`, two lengths, a protobuf header.
//!
//! | concern | what is done |
//! |---|---|
//! | pairing | by the correlation id |
//! | names | service (with its package) and method of the request |
//! | errors | the response's error code, its name, and its masked text |
//! | context | bRPC's own trace id is a number: kept as a foreign trace id in hexadecimal, as rpcz shows it |
//! | bodies | payload, attachment and stream frames are skipped and never kept |
//! | need | the configured bytes of every call: the header stands at the start of a frame |
//! | detection | the magic word, lengths that fit, and a header that is a request or a response; from the middle too |

mod meta;

#[cfg(test)]
mod tests;

use crate::framing::calls::{CallParser, Format, Frame, Reasons, Start};
use crate::framing::{decide, Cursor, Looks, Out};
use crate::rpc;
use crate::text::len64;
use crate::{Detect, Pairing, Parser, Probe, Protocol};
use meta::{Meta, Part};
use std::borrow::Cow;
use wirespan_model::{AttrVal, Item, Kind, Message, Outcome, Side, Transport, L7};

const HEADER: usize = 12;
/// Longest meta that is read, bytes.
const MAX_META: usize = 4096;
/// Longest frame that is believed, bytes; bRPC's own limit is 64 MiB unless configured.
const MAX_BODY: u32 = 512 << 20;

const REASONS: Reasons = Reasons { bad: "brpc_bad_frame", gap: "brpc_gap" };

/// bRPC (baidu_std).
#[derive(Clone, Copy, Debug)]
pub struct Brpc;

impl Protocol for Brpc {
    fn name(&self) -> L7 {
        "brpc"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        if !probe.transport.is_stream() {
            return Detect::No;
        }
        decide(probe, looks(probe.first), looks(probe.second))
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        Box::new(CallParser::new(BrpcFormat, transport))
    }
}

/// Lengths of body and meta: `Err` if it is no frame, `Ok(None)` if it is not complete.
fn lengths(bytes: &[u8]) -> Result<Option<(u32, u32)>, ()> {
    if bytes.iter().zip(b"PRPC").any(|(b, m)| b != m) {
        return Err(());
    }
    let mut r = Cursor::new(bytes.get(4..).unwrap_or_default());
    match r.u32().zip(r.u32()) {
        None => Ok(None),
        Some((body, meta)) if meta <= body && body <= MAX_BODY => Ok(Some((body, meta))),
        Some(_) => Err(()),
    }
}

fn meta_of(bytes: &[u8], len: u32) -> (&[u8], bool) {
    let meta = bytes.get(HEADER..).unwrap_or_default();
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    (meta.get(..len).unwrap_or(meta), meta.len() >= len)
}

fn looks(bytes: &[u8]) -> Looks {
    match lengths(bytes) {
        Ok(None) => Looks::More,
        Err(()) => Looks::Other,
        Ok(Some((_, len))) => {
            let (meta, whole) = meta_of(bytes, len);
            match (Meta::read(meta), whole) {
                (Some(Meta { part: Part::Request { .. }, .. }), _) => Looks::Certain(Some(true)),
                (Some(Meta { part: Part::Response { .. }, .. }), _) => Looks::Certain(Some(false)),
                // Frames of a stream: either end sends them.
                (Some(_), true) => Looks::Likely(None),
                (_, false) => Looks::More,
                (None, true) => Looks::Other,
            }
        }
    }
}

struct BrpcFormat;

impl Format for BrpcFormat {
    fn reasons(&self) -> Reasons {
        REASONS
    }

    fn start(&mut self, _: Side, bytes: &[u8], _lost: bool) -> Start {
        match lengths(bytes) {
            Ok(Some((body, meta))) => {
                let want = usize::try_from(meta).unwrap_or(MAX_META).min(MAX_META).saturating_add(HEADER);
                Start::Frame { len: u64::from(body).saturating_add(len64(HEADER)), want }
            }
            Ok(None) => Start::More,
            Err(()) => Start::Bad,
        }
    }

    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Ok(Some((_, len))) = lengths(frame.bytes) else { return };
        let (bytes, _) = meta_of(frame.bytes, len);
        let Some(meta) = Meta::read(bytes) else {
            return out(Item::Malformed { side: frame.side, reason: "brpc_bad_meta" });
        };
        let mut m = match meta.part {
            Part::Request { service, method } => rpc::call("brpc", "brpc", frame.side, Kind::Request, service, method),
            Part::Response { code, text } => response(frame.side, code, text),
            // Frames of a stream belong to no call of their own.
            Part::Neither => rpc::call("brpc", "brpc", frame.side, Kind::OneWay, "", ""),
        };
        frame.place(&mut m);
        m.id = Some(meta.correlation);
        if let Some(log) = meta.log_id {
            m.attrs.push(("wirespan.brpc.log_id", AttrVal::Int(log)));
        }
        m.carried.request_id = meta.request_id;
        m.carried.foreign_trace_id = meta.trace_id.map(|id| Cow::Owned(format!("{id:x}")));
        out(Item::Message(&m));
    }
}

fn response(side: Side, code: i32, text: &[u8]) -> Message<'_> {
    let mut m = rpc::call("brpc", "brpc", side, Kind::Response, "", "");
    m.status_code = Some(code);
    m.outcome = Outcome::Ok;
    if code != 0 {
        // brpc/errno.proto; other numbers are those of the operating system or of the service.
        let (name, outcome) = match code {
            1001 => ("ENOSERVICE", Outcome::ClientError),
            1002 => ("ENOMETHOD", Outcome::ClientError),
            1003 => ("EREQUEST", Outcome::ClientError),
            1004 => ("ERPCAUTH", Outcome::ClientError),
            1008 => ("ERPCTIMEDOUT", Outcome::ServerError),
            1009 => ("EFAILEDSOCKET", Outcome::ServerError),
            1010 => ("EHTTP", Outcome::ServerError),
            1011 => ("EOVERCROWDED", Outcome::ServerError),
            2001 => ("EINTERNAL", Outcome::ServerError),
            2002 => ("ERESPONSE", Outcome::ServerError),
            2003 => ("ELOGOFF", Outcome::ServerError),
            2004 => ("ELIMIT", Outcome::ServerError),
            _ => ("", Outcome::ServerError),
        };
        let name = if name.is_empty() { Cow::Owned(code.to_string()) } else { Cow::Borrowed(name) };
        rpc::fail(&mut m, outcome, name, rpc::error_text(text));
    }
    m
}
