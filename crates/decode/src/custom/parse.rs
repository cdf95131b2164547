//! Frames of a described protocol → messages.

use super::{Rules, MAX_HEAD};
use crate::framing::calls::{CallParser, Format, Frame, Reasons, Start, Walked};
use crate::framing::Out;
use crate::text::len64;
use crate::Parser;
use std::borrow::Cow;
use std::sync::Arc;
use wirespan_model::{AttrVal, Item, Kind, Late, Message, Outcome, Side, Transport};

const MAX_FRAME: u64 = 16 << 20;

/// What tells the kind of a frame.
pub(super) enum Kinds {
    By(Kind),
    /// The side that sends it.
    BySide,
    /// Its field has a value that no list names.
    Unknown,
    /// Its field is not there yet.
    More,
}

impl Rules {
    /// Where the frame that these bytes start ends.
    pub(super) fn start(&self, bytes: &[u8]) -> Start {
        let mut more = bytes.is_empty();
        for pattern in &self.magic {
            match pattern.is_in(bytes) {
                Some(true) => {}
                Some(false) => return Start::Bad,
                None => more = true,
            }
        }
        if !self.delimiter.is_empty() {
            return match find(bytes.get(..MAX_HEAD).unwrap_or(bytes), &self.delimiter) {
                Some(len) if !more => Start::Frame { len: len64(len), want: len },
                // A frame shorter than its magic is invalid.
                Some(_) => Start::Bad,
                None if bytes.len() >= MAX_HEAD => Start::Walk { head: MAX_HEAD },
                None => Start::More,
            };
        }
        let f = &self.definition.frame;
        let Some(n) = super::field::number(bytes, f.length_offset, f.length_size, f.endian) else { return Start::More };
        let len = i128::from(n).saturating_add(i128::from(f.adjust));
        let limit = if f.max_bytes == 0 { MAX_FRAME } else { f.max_bytes };
        let header = u64::from(f.length_offset).saturating_add(u64::from(f.length_size));
        match u64::try_from(len) {
            Ok(len) if len >= header && len <= limit => match more {
                true if len64(bytes.len()) < len => Start::More,
                true => Start::Bad,
                false => Start::Frame { len, want: self.head },
            },
            _ => Start::Bad,
        }
    }

    /// The kind of a frame.
    pub(super) fn kind(&self, frame: &[u8]) -> Kinds {
        let Some(by) = &self.definition.kind else { return Kinds::BySide };
        let Some(value) = by.field.value(frame) else { return Kinds::More };
        let is_in = |list: &[String]| list.iter().any(|v| *v == value);
        if is_in(&by.request) {
            Kinds::By(Kind::Request)
        } else if is_in(&by.response) {
            Kinds::By(Kind::Response)
        } else if is_in(&by.one_way) {
            Kinds::By(Kind::OneWay)
        } else {
            Kinds::Unknown
        }
    }
}

/// Length up to and with the delimiter.
fn find(bytes: &[u8], delimiter: &[u8]) -> Option<usize> {
    let at = memchr::memmem::find(bytes, delimiter)?;
    at.checked_add(delimiter.len())
}

pub(super) fn parser(rules: &Arc<Rules>, transport: Transport) -> Box<dyn Parser> {
    Box::new(CallParser::new(CustomFormat { custom: Arc::clone(rules), tails: Default::default() }, transport))
}

/// The last bytes of a line whose end has not been seen, and its id.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    id: Option<u64>,
}

struct CustomFormat {
    custom: Arc<Rules>,
    tails: [Tail; 2],
}

impl CustomFormat {
    fn tail(&mut self, side: Side) -> &mut Tail {
        let [client, server] = &mut self.tails;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }
}

impl Format for CustomFormat {
    fn reasons(&self) -> Reasons {
        self.custom.reasons
    }

    fn start(&mut self, _: Side, bytes: &[u8], _lost: bool) -> Start {
        self.custom.start(bytes)
    }

    fn start_cut(&mut self, _: Side, bytes: &[u8]) -> Start {
        match self.custom.delimiter.is_empty() {
            false if !bytes.is_empty() => Start::Walk { head: bytes.len() },
            _ => Start::More,
        }
    }

    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let custom = Arc::clone(&self.custom);
        let d = &custom.definition;
        let kind = match custom.kind(frame.bytes) {
            Kinds::By(kind) => kind,
            Kinds::Unknown => return out(Item::Malformed { side: frame.side, reason: custom.reasons.bad }),
            _ if frame.side == Side::Client => Kind::Request,
            _ => Kind::Response,
        };
        let operation = d.operation.as_ref().and_then(|s| s.named(frame.bytes)).unwrap_or_default();
        let mut m = Message::new(custom.name, frame.side, kind, 0);
        frame.place(&mut m);
        m.id = d.id.as_ref().and_then(|s| s.id(frame.bytes));
        // An operation belongs to what asks: in a response the same place holds something else, unless a field tells.
        if kind != Kind::Response || d.kind.is_some() {
            m.operation = &operation;
            m.target = d.target.as_ref().and_then(|s| s.named(frame.bytes)).unwrap_or_default();
        }
        for (key, attribute) in custom.attributes.iter().zip(&d.attribute) {
            if let Some(value) = attribute.field.named(frame.bytes) {
                m.attrs.push((key, AttrVal::Str(value)));
            }
        }
        if kind == Kind::Response {
            custom.status(frame.bytes, &mut m);
        }
        if frame.len.is_none() {
            let keep = custom.delimiter.len().saturating_sub(1);
            let from = frame.bytes.len().saturating_sub(keep);
            let tail = self.tail(frame.side);
            tail.bytes.clear();
            tail.bytes.extend_from_slice(frame.bytes.get(from..).unwrap_or_default());
            tail.id = m.id;
        }
        out(Item::Message(&m));
    }

    fn walk(&mut self, side: Side, bytes: &[u8]) -> Walked {
        let custom = Arc::clone(&self.custom);
        let keep = custom.delimiter.len().saturating_sub(1);
        let tail = &mut self.tail(side).bytes;
        let before = tail.len();
        // The delimiter may lie across the border.
        let border: Vec<u8> = tail.iter().chain(bytes.iter().take(keep)).copied().collect();
        if let Some(end) = find(&border, &custom.delimiter) {
            return Walked::End(end.saturating_sub(before));
        }
        if let Some(end) = find(bytes, &custom.delimiter) {
            return Walked::End(end);
        }
        tail.extend_from_slice(bytes.get(bytes.len().saturating_sub(keep)..).unwrap_or_default());
        tail.drain(..tail.len().saturating_sub(keep));
        Walked::On
    }

    fn walked(&mut self, side: Side, offset: u64, out: Out<'_>) {
        let id = self.tail(side).id;
        out(Item::End { side, id, offset, late: &Late::default() });
    }
}

impl Rules {
    fn status<'a>(&'a self, frame: &'a [u8], m: &mut Message<'a>) {
        let Some(by) = &self.definition.status else { return };
        let Some(value) = by.field.value(frame) else { return };
        m.status_code = value.parse().ok();
        if by.ok.iter().any(|v| *v == value) {
            m.outcome = Outcome::Ok;
            return;
        }
        let client = by.client_error.iter().any(|v| *v == value);
        m.outcome = if client { Outcome::ClientError } else { Outcome::ServerError };
        let name = by.field.names.get(value.as_ref()).map(|n| Cow::Borrowed(n.as_str())).unwrap_or(value);
        m.error = name.clone();
        m.attrs.push(("error.type", AttrVal::Str(name)));
    }
}
