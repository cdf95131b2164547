//! krpc (bruceran/krpc): `KR`, two lengths, a protobuf header. Services and messages have numbers, no names.
//!
//! | concern | what is done |
//! |---|---|
//! | pairing | by the sequence number |
//! | names | service and message numbers, as they are |
//! | errors | the return code: negative is a failure |
//! | context | the trace id of the header, as a foreign trace id |
//! | detection | the magic, lengths that fit, and a header that says request or response; from the middle too |

#[cfg(test)]
mod tests;

use crate::framing::calls::{CallParser, Format, Frame, Reasons, Start};
use crate::framing::{
    decide,
    protobuf::{self, Field},
    Cursor, Looks, Out,
};
use crate::rpc;
use crate::text::visible;
use crate::{Detect, Pairing, Parser, Probe, Protocol};
use std::borrow::Cow;
use wirespan_model::{AttrVal, Item, Kind, Outcome, Side, Transport, L7};

const HEADER: usize = 8;
/// Longest frame that is believed, bytes.
const MAX_LEN: u32 = 64 << 20;
const REASONS: Reasons = Reasons { bad: "krpc_bad_frame", gap: "krpc_gap" };

/// krpc.
#[derive(Clone, Copy, Debug)]
pub struct Krpc;

impl Protocol for Krpc {
    fn name(&self) -> L7 {
        "krpc"
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
        Box::new(CallParser::new(KrpcFormat, transport))
    }
}

/// The header's fields.
#[derive(Clone, Copy, Debug, Default)]
struct Meta<'a> {
    direction: u64,
    service: i32,
    message: i32,
    sequence: u32,
    code: i32,
    trace: Option<&'a str>,
}

/// Lengths of header and all: `Err` if it is no frame, `Ok(None)` if it is not complete.
fn lengths(bytes: &[u8]) -> Result<Option<(u16, u32)>, ()> {
    if bytes.iter().zip(b"KR").any(|(b, m)| b != m) {
        return Err(());
    }
    let mut r = Cursor::new(bytes.get(2..).unwrap_or_default());
    match r.u16().zip(r.u32()) {
        None => Ok(None),
        Some((header, all)) if header >= 4 && u32::from(header) <= all && all <= MAX_LEN => Ok(Some((header, all))),
        Some(_) => Err(()),
    }
}

/// Reads as far as the bytes go.
fn meta(bytes: &[u8], len: u16) -> Option<Meta<'_>> {
    let all = bytes.get(HEADER..).unwrap_or_default();
    let mut r = Cursor::new(all.get(..usize::from(len)).unwrap_or(all));
    let mut meta = Meta::default();
    while let Some((key, value)) = protobuf::field(&mut r) {
        match (key, value) {
            (1, Field::Int(n @ 1..=2)) => meta.direction = n,
            (2, Field::Int(_)) => meta.service = value.int32(),
            (3, Field::Int(_)) => meta.message = value.int32(),
            (4, Field::Int(_)) => meta.sequence = value.int32().cast_unsigned(),
            (6, Field::Int(_)) => meta.code = value.int32(),
            (7, Field::Bytes(trace)) => {
                let mut inner = Cursor::new(trace);
                while let Some((key, value)) = protobuf::field(&mut inner) {
                    if key == 2 {
                        meta.trace = visible(value.bytes(), 128);
                    }
                }
            }
            (1..=4 | 6 | 7, _) => return None,
            _ => {}
        }
    }
    let whole = all.len() >= usize::from(len);
    (meta.direction != 0 && (!whole || r.is_empty())).then_some(meta)
}

fn looks(bytes: &[u8]) -> Looks {
    match lengths(bytes) {
        Ok(None) => Looks::More,
        Err(()) => Looks::Other,
        Ok(Some((len, _))) => match meta(bytes, len) {
            Some(m) if m.service != 0 && m.message != 0 => Looks::Certain(Some(m.direction == 1)),
            Some(m) => Looks::Likely(Some(m.direction == 1)),
            None if bytes.len() < HEADER.saturating_add(usize::from(len)) => Looks::More,
            None => Looks::Other,
        },
    }
}

struct KrpcFormat;

impl Format for KrpcFormat {
    fn reasons(&self) -> Reasons {
        REASONS
    }

    fn start(&mut self, _: Side, bytes: &[u8], _lost: bool) -> Start {
        match lengths(bytes) {
            Ok(Some((header, all))) => Start::Frame {
                len: u64::from(all).saturating_add(8),
                want: usize::from(header).min(2048).saturating_add(HEADER),
            },
            Ok(None) => Start::More,
            Err(()) => Start::Bad,
        }
    }

    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Ok(Some((len, _))) = lengths(frame.bytes) else { return };
        let Some(meta) = meta(frame.bytes, len) else {
            return out(Item::Malformed { side: frame.side, reason: "krpc_bad_meta" });
        };
        let (service, method) = (meta.service.to_string(), meta.message.to_string());
        let kind = if meta.direction == 1 { Kind::Request } else { Kind::Response };
        let mut m = rpc::call("krpc", "krpc", frame.side, kind, &service, &method);
        frame.place(&mut m);
        m.id = Some(u64::from(meta.sequence));
        m.carried.foreign_trace_id = meta.trace.map(Cow::Borrowed);
        if kind == Kind::Response {
            m.status_code = Some(meta.code);
            m.outcome = Outcome::Ok;
            if meta.code < 0 {
                rpc::fail(&mut m, Outcome::ServerError, Cow::Owned(meta.code.to_string()), Cow::Borrowed(""));
            }
        } else {
            m.attrs.push(("wirespan.krpc.sequence", AttrVal::Int(i64::from(meta.sequence))));
        }
        out(Item::Message(&m));
    }
}
