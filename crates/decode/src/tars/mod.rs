//! Tars (TarsCloud, "Tars protocol"): a length, then a `RequestPacket` or a `ResponsePacket` in Tars coding (JCE).
//!
//! - **pairing**: by the request id
//! - **names**: servant and function of the request
//! - **errors**: the return code (of TUP answers, `STATUS_RESULT_CODE`) and the masked description
//! - **context**: `traceparent` and its kin in the request's context map
//! - **one-way**: packet type 1
//! - **buffers**: stepped over by their lengths, never kept
//! - **need**: [`NEED`] bytes of every call; the context stands behind the buffer, so that of large requests it is not
//!   seen
//! - **detection**: the packet's fields in their order, with a servant or a buffer of the right length; from the middle
//!   too

mod jce;
mod packet;

#[cfg(test)]
mod tests;

use crate::framing::calls::{CallParser, Format, Frame, Reasons, Start};
use crate::framing::{decide, Cursor, Looks, Out};
use crate::rpc;
use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use packet::{Packet, Part};
use std::borrow::Cow;
use wirespan_model::{AttrVal, Item, Kind, Message, Outcome, Side, Transport, L7};

/// Bytes of a call that the kernel should copy.
pub const NEED: u32 = 1024;
const WANT: usize = 4096;
/// Longest packet that is believed, bytes; the framework's own limit is 10 MiB unless configured.
const MAX_LEN: u32 = 64 << 20;
const REASONS: Reasons = Reasons { bad: "tars_bad_frame", gap: "tars_gap" };

/// Tars.
#[derive(Clone, Copy, Debug)]
pub struct Tars;

impl Protocol for Tars {
    fn name(&self) -> L7 {
        "tars"
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

    fn need(&self) -> Need {
        Need::EveryCall(NEED)
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        Box::new(CallParser::new(TarsFormat, transport))
    }
}

/// Length of the packet, itself included: `Err` if no packet starts here.
fn length(bytes: &[u8]) -> Result<Option<u32>, ()> {
    let mut r = Cursor::new(bytes);
    let Some(len) = r.u32() else {
        return if matches!(bytes.first(), None | Some(0..=3)) { Ok(None) } else { Err(()) };
    };
    if !(16..=MAX_LEN).contains(&len) {
        return Err(());
    }
    // The version: tag 1 as a byte, 1 to 3; then the kind of the packet: tag 2, zero or the byte 1.
    let kind_fits = matches!(r.rest(), [] | [0x10] | [0x10, 1..=3] | [0x10, 1..=3, 0x2c, ..] | [0x10, 1..=3, 0x20]);
    let one_way = matches!(r.rest(), [0x10, 1..=3, 0x20, 1, ..]);
    match kind_fits || one_way {
        true if bytes.len() < 8 => Ok(None),
        true => Ok(Some(len)),
        false => Err(()),
    }
}

fn body(bytes: &[u8], len: u32) -> (&[u8], bool) {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let frame = bytes.get(..len).unwrap_or(bytes);
    (frame.get(4..).unwrap_or_default(), frame.len() == len)
}

fn looks(bytes: &[u8]) -> Looks {
    match length(bytes) {
        Ok(None) => Looks::More,
        Err(()) => Looks::Other,
        Ok(Some(len)) => {
            let (body, whole) = body(bytes, len);
            match Packet::read(body) {
                // TUP answers are written as requests.
                Some(Packet { part: Part::Request { .. }, version, .. }) => {
                    Looks::Certain((version == 1).then_some(true))
                }
                Some(p) if p.complete == whole && p.buffered => Looks::Certain(Some(false)),
                Some(_) => Looks::Likely(Some(false)),
                None if !whole && body.len() < 64 => Looks::More,
                None => Looks::Other,
            }
        }
    }
}

struct TarsFormat;

impl Format for TarsFormat {
    fn reasons(&self) -> Reasons {
        REASONS
    }

    fn start(&mut self, _: Side, bytes: &[u8], lost: bool) -> Start {
        match length(bytes) {
            Ok(Some(_)) if lost && !matches!(looks(bytes), Looks::Certain(_)) => Start::Bad,
            Ok(Some(len)) => Start::Frame { len: u64::from(len), want: WANT },
            Ok(None) => Start::More,
            Err(()) => Start::Bad,
        }
    }

    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Some(packet) = Packet::read(frame.bytes.get(4..).unwrap_or_default()) else {
            return out(Item::Malformed { side: frame.side, reason: "tars_bad_packet" });
        };
        let mut m = match packet.part {
            Part::Request { servant, func } if packet.version == 1 || frame.side == Side::Client => {
                let kind = if packet.one_way { Kind::OneWay } else { Kind::Request };
                rpc::call("tars", "tars", frame.side, kind, servant, func)
            }
            Part::Request { .. } => response(frame.side, packet.status_code.unwrap_or(0), b""),
            Part::Response { ret } => response(frame.side, ret, packet.description),
        };
        frame.place(&mut m);
        m.id = Some(u64::from(packet.id));
        m.carried = packet.context.finish();
        if packet.version != 1 {
            m.attrs.push(("wirespan.tars.version", AttrVal::Int(i64::from(packet.version))));
        }
        out(Item::Message(&m));
    }
}

fn response(side: Side, ret: i32, description: &[u8]) -> Message<'_> {
    let mut m = rpc::call("tars", "tars", side, Kind::Response, "", "");
    m.status_code = Some(ret);
    m.outcome = Outcome::Ok;
    if ret != 0 {
        let (name, outcome) = match ret {
            -1 => ("TARSSERVERDECODEERR", Outcome::ClientError),
            -2 => ("TARSSERVERENCODEERR", Outcome::ServerError),
            -3 => ("TARSSERVERNOFUNCERR", Outcome::ClientError),
            -4 => ("TARSSERVERNOSERVANTERR", Outcome::ClientError),
            -5 => ("TARSSERVERRESETGRID", Outcome::ServerError),
            -6 => ("TARSSERVERQUEUETIMEOUT", Outcome::ServerError),
            -7 => ("TARSINVOKETIMEOUT", Outcome::ServerError),
            -8 => ("TARSPROXYCONNECTERR", Outcome::ServerError),
            -9 => ("TARSSERVEROVERLOAD", Outcome::ServerError),
            -99 => ("TARSSERVERUNKNOWNERR", Outcome::ServerError),
            _ => ("", Outcome::ServerError),
        };
        let name = if name.is_empty() { Cow::Owned(ret.to_string()) } else { Cow::Borrowed(name) };
        rpc::fail(&mut m, outcome, name, rpc::error_text(description));
    }
    m
}
