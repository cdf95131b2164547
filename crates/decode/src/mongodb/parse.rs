//! Headers and bodies of messages → requests and replies.

use super::bson::{self, int32, Value};
use super::{compressed, emit, reason};
use crate::framing::units::{Reader, Step, Unit};
use crate::framing::Out;
use crate::text::{at_most, len64};
use wirespan_model::{Item, Kind, Side};

/// Bytes of a message that are looked at.
pub const MAX_HEAD: usize = 2048;
/// Bytes that are looked at of a message compressed by Zstandard, which cannot be read in parts.
const MAX_WHOLE: usize = crate::MAX_BUFFERED;
/// Largest message: a server takes 48,000,000 bytes, and a little more from other members of its set.
const MAX_MESSAGE: i32 = 64 * 1024 * 1024;
/// Length of a header.
pub(super) const HEADER: usize = 16;

/// Operation codes.
pub(super) mod op {
    pub(in super::super) const REPLY: i32 = 1;
    pub(in super::super) const UPDATE: i32 = 2001;
    pub(in super::super) const INSERT: i32 = 2002;
    pub(in super::super) const QUERY: i32 = 2004;
    pub(in super::super) const GET_MORE: i32 = 2005;
    pub(in super::super) const DELETE: i32 = 2006;
    pub(in super::super) const KILL_CURSORS: i32 = 2007;
    pub(in super::super) const COMPRESSED: i32 = 2012;
    pub(in super::super) const MSG: i32 = 2013;
}

/// Header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Length of the message, the header included.
    pub(super) len: usize,
    pub(super) request_id: u32,
    pub(super) response_to: u32,
    pub(super) op: i32,
}

/// Reads a header; none if it cannot be one.
pub(super) fn header(bytes: &[u8]) -> Option<Header> {
    let len = int32(bytes, 0).filter(|len| (16..=MAX_MESSAGE).contains(len))?;
    let op = int32(bytes, 12)?;
    let known = matches!(
        op,
        op::REPLY
            | op::UPDATE
            | op::INSERT
            | op::QUERY
            | op::GET_MORE
            | op::DELETE
            | op::KILL_CURSORS
            | op::COMPRESSED
            | op::MSG
    );
    let id = |at| Some(int32(bytes, at)?.cast_unsigned());
    known.then_some(Header { len: usize::try_from(len).ok()?, request_id: id(4)?, response_to: id(8)?, op })
}

/// Flags of `OP_MSG`.
pub(super) const CHECKSUM: u32 = 1;
pub(super) const MORE_TO_COME: u32 = 1 << 1;
pub(super) const EXHAUST_ALLOWED: u32 = 1 << 16;

/// The facts of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Body<'a> {
    /// Document of the command or of the reply; may be cut.
    pub(super) document: Option<&'a [u8]>,
    /// `database.collection` of the older operations.
    pub(super) name: &'a [u8],
    /// Flags of `OP_MSG` or `OP_REPLY`.
    pub(super) flags: u32,
    /// Compressor, of a compressed body.
    pub(super) compressor: Option<u8>,
    /// Operation, inside of a compressed body too.
    pub(super) op: i32,
}

/// Reads the body behind a header, as far as it goes; `unpacked` is the content of a compressed body.
fn body<'a>(op: i32, bytes: &'a [u8], unpacked: &'a [u8]) -> Body<'a> {
    let mut body = Body { op, ..Body::default() };
    match op {
        op::COMPRESSED => {
            let Some((original, compressor, _)) = compressed::head(bytes) else { return body };
            // A compressed body inside of one would be nonsense.
            if original != op::COMPRESSED && !unpacked.is_empty() {
                body = self::body(original, unpacked, b"");
            }
            (body.op, body.compressor) = (original, Some(compressor.unwrap_or(u8::MAX)));
        }
        op::MSG => {
            body.flags = int32(bytes, 0).map_or(0, i32::cast_unsigned);
            body.document = document_of_msg(bytes.get(4..).unwrap_or_default());
        }
        op::REPLY => {
            body.flags = int32(bytes, 0).map_or(0, i32::cast_unsigned);
            body.document = bytes.get(20..).filter(|d| bson::length(d).is_some());
        }
        _ => {
            let text = bytes.get(4..).unwrap_or_default();
            let window = text.get(..256).unwrap_or(text);
            if let Some(end) = memchr::memchr(0, window).filter(|_| op != op::KILL_CURSORS) {
                body.name = text.get(..end).unwrap_or_default();
                let behind = end.saturating_add(9);
                body.document = text.get(behind..).filter(|d| op == op::QUERY && bson::length(d).is_some());
            }
        }
    }
    body
}

/// The section of kind 0. Sections of kind 1 (sequences of documents) may stand before it.
fn document_of_msg(mut sections: &[u8]) -> Option<&[u8]> {
    loop {
        let (kind, rest) = sections.split_first()?;
        match kind {
            0 => return Some(rest).filter(|d| bson::length(d).is_some()),
            1 => sections = rest.get(usize::try_from(int32(rest, 0)?).ok().filter(|n| *n > 4)?..)?,
            _ => return None,
        }
    }
}

/// Whether this is the greeting of a client that offers to pack with zstd: all that follows may be packed.
fn offers_zstd(document: &[u8]) -> bool {
    let greets =
        bson::elements(document).next().is_some_and(|(key, _)| matches!(key, b"hello" | b"ismaster" | b"isMaster"));
    let offered = bson::elements(document).filter_map(|(key, value)| match value {
        Value::Document(names) if key == b"compression" => Some(names),
        _ => None,
    });
    greets && offered.flat_map(bson::elements).any(|(_, name)| name == Value::Text(b"zstd"))
}

/// Reads messages.
#[derive(Debug, Default)]
pub struct Messages {
    /// `requestID` of the last reply that announced another: that one answers nothing new.
    exhaust: Option<u32>,
    /// The user lets these through.
    fields: emit::Fields,
    /// Room for the beginning of a compressed body.
    unpacked: Vec<u8>,
    /// It packs with zstd, or will.
    whole: bool,
}

impl Messages {
    /// Shows what queries compare these fields with.
    pub(super) fn keeping(fields: emit::Fields) -> Self {
        Messages { fields, ..Messages::default() }
    }
}

impl Reader for Messages {
    const MAX_HEAD: usize = MAX_WHOLE;
    const GAP: &'static str = reason::GAP;
    const BAD: &'static str = reason::BAD_MESSAGE;

    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        if unit.bytes.len() < HEADER {
            return Step::More;
        }
        let Some(header) = header(unit.bytes) else { return Step::Bad };
        let compressor = || compressed::head(unit.bytes.get(HEADER..)?)?.1;
        let whole = header.op == op::COMPRESSED && compressor() == Some(compressed::ZSTD);
        self.whole |= whole;
        let want = header.len.min(if whole { MAX_WHOLE } else { MAX_HEAD });
        if unit.bytes.len() < want && !unit.cut {
            return Step::More;
        }
        let seen = unit.bytes.get(..want).unwrap_or(unit.bytes);
        let bytes = seen.get(HEADER..).unwrap_or_default();
        if unit.lost && !super::detect::is_message(&header, bytes) {
            return Step::Bad;
        }
        let mut unpacked = std::mem::take(&mut self.unpacked);
        if header.op == op::COMPRESSED {
            compressed::unpack(bytes, &mut unpacked);
        }
        let body = body(header.op, bytes, &unpacked);
        self.whole |= unit.side == Side::Client && body.document.is_some_and(offers_zstd);
        let more = body.op == op::MSG && body.flags & MORE_TO_COME != 0;
        let kind = match unit.side {
            Side::Client if more => Kind::OneWay,
            Side::Client if matches!(body.op, op::UPDATE | op::INSERT | op::DELETE | op::KILL_CURSORS) => Kind::OneWay,
            Side::Client => Kind::Request,
            Side::Server => {
                let next = self.exhaust.take().is_some_and(|id| id == header.response_to);
                self.exhaust = more.then_some(header.request_id);
                if next {
                    Kind::OneWay
                } else {
                    Kind::Response
                }
            }
        };
        let skip = len64(header.len).saturating_sub(len64(seen.len()));
        let mut message = match unit.side {
            Side::Client => emit::request(&body, unit.offset, kind, &self.fields),
            Side::Server => emit::response(&body, unit.offset, kind),
        };
        message.head_len = len64(seen.len());
        message.body = if skip > 0 { wirespan_model::Body::Length(skip) } else { wirespan_model::Body::None };
        message.id = match kind {
            Kind::Request => Some(u64::from(header.request_id)),
            Kind::Response => Some(u64::from(header.response_to)),
            _ => None,
        };
        out(Item::Message(&message));
        drop(message);
        self.unpacked = unpacked;
        Step::Took { head: at_most(len64(seen.len()), MAX_WHOLE), skip }
    }

    fn lost(&mut self, _side: Side, _out: Out<'_>) {
        self.exhaust = None;
    }

    fn needs_whole(&self) -> bool {
        self.whole
    }
}
