//! One DNS message → one message of the model.

use super::name::{self, BadName};
use super::wire::{self, Header, Record, HEADER};
use super::{reason, types};
use crate::text::len64;
use std::borrow::Cow;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Most answers that are written out.
pub const MAX_ANSWERS: u16 = 8;

/// Memory that is used again for each message.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    name: String,
    answers: String,
    answer: String,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) side: Side,
    /// Offset of its first byte, of the length before it over TCP.
    pub(super) offset: u64,
    /// Its length as far as it was moved, with the length before it over TCP.
    pub(super) len: u64,
    /// Bytes of it that follow.
    pub(super) rest: u64,
    /// Its end was not captured.
    pub(super) cut: bool,
    pub(super) stream: bool,
}

/// Emits the message in `bytes`, or says why not.
pub(super) fn emit(bytes: &[u8], place: Place, scratch: &mut Scratch, out: &mut dyn FnMut(Item<'_, '_>)) {
    let side = place.side;
    let Some(head) = wire::header(bytes) else {
        return out(Item::Malformed { side, reason: if place.cut { reason::GAP } else { reason::BAD_MESSAGE } });
    };
    scratch.name.clear();
    scratch.answers.clear();
    let mut whole = !place.cut;
    let mut at = HEADER;
    let mut qtype = None;
    for i in 0..head.questions {
        let mut ignored = String::new();
        let text = if i == 0 { &mut scratch.name } else { &mut ignored };
        match wire::question(bytes, at, text) {
            Ok(question) => {
                at = question.end;
                qtype = qtype.or(Some(question.qtype));
            }
            Err(BadName::More) if place.cut => {
                scratch.name.clear();
                break;
            }
            Err(_) if i == 0 => return out(Item::Malformed { side, reason: reason::BAD_MESSAGE }),
            Err(_) => {
                out(Item::Malformed { side, reason: reason::BAD_RECORD });
                whole = false;
                break;
            }
        }
    }
    let mut extended = 0u16;
    let behind = if whole && head.response { records(bytes, at, &head, scratch, &mut extended) } else { Ok(()) };
    match behind {
        Err(BadName::More) if place.cut || head.truncated => {}
        Err(_) => out(Item::Malformed { side, reason: reason::BAD_RECORD }),
        Ok(()) => {}
    }
    out(Item::Message(&message(&head, qtype, extended, place, scratch)));
}

fn message<'a>(head: &Header, qtype: Option<u16>, extended: u16, place: Place, scratch: &'a Scratch) -> Message<'a> {
    let rcode = extended << 4 | u16::from(head.rcode);
    let kind = match (head.response, head.questions) {
        (false, _) => Kind::Request,
        // No question: a multicast announcement, or a further message of a zone transfer.
        (true, 0) if rcode == 0 && head.answers > 0 && (place.stream || head.id == 0) => Kind::OneWay,
        (true, _) => Kind::Response,
    };
    let mut m = Message::new("dns", place.side, kind, place.offset);
    m.head_len = place.len;
    if place.rest > 0 {
        m.body = Body::Length(place.rest);
    }
    m.id = Some(u64::from(head.id));
    m.operation = types::opcode(head.opcode).or(qtype.map(types::qtype)).unwrap_or("");
    m.target = Cow::Borrowed(&scratch.name);
    if !scratch.name.is_empty() {
        m.attrs.push(("dns.question.name", AttrVal::from(scratch.name.as_str())));
    }
    if let Some(qtype) = qtype {
        m.attrs.push(("wirespan.dns.question.type", AttrVal::Int(i64::from(qtype))));
    }
    if head.questions > 1 {
        m.attrs.push(("wirespan.dns.questions", AttrVal::Int(i64::from(head.questions))));
    }
    if head.response {
        m.status_code = Some(i32::from(rcode));
        let name = types::rcode(rcode);
        m.outcome = match rcode {
            0 => Outcome::Ok,
            // The question is wrong, or asks for a name that does not exist.
            1 | 3 | 6 | 7 | 8 | 16 => Outcome::ClientError,
            _ => Outcome::ServerError,
        };
        if m.outcome != Outcome::Ok {
            m.error = Cow::Borrowed(name);
            m.attrs.push(("error.type", AttrVal::from(name)));
        }
        if !scratch.answers.is_empty() {
            m.attrs.push(("dns.answers", AttrVal::from(scratch.answers.as_str())));
        }
        if head.answers > 0 {
            m.attrs.push(("wirespan.dns.answer_count", AttrVal::Int(i64::from(head.answers))));
        }
        if head.truncated {
            m.attrs.push(("wirespan.dns.truncated", AttrVal::Bool(true)));
        }
    }
    if place.cut {
        m.attrs.push(("wirespan.truncated", AttrVal::Bool(true)));
    }
    m
}

/// Reads all records: writes out answers, and finds the extended response code.
fn records(bytes: &[u8], mut at: usize, head: &Header, s: &mut Scratch, extended: &mut u16) -> Result<(), BadName> {
    let (answers, others) = (u32::from(head.answers), [head.authorities, head.additionals].map(u32::from));
    let total = others.iter().fold(answers, |sum, n| sum.saturating_add(*n));
    let mut written = 0u16;
    for i in 0..total {
        let record = wire::record(bytes, at)?;
        at = record.end;
        if i < answers && written < MAX_ANSWERS {
            s.answer.clear();
            if answer(bytes, &record, &mut s.answer)? {
                if !s.answers.is_empty() {
                    s.answers.push(',');
                }
                s.answers.push_str(&s.answer);
                written = written.saturating_add(1);
            }
        }
        if record.rtype == 41 && i >= answers {
            *extended = u16::try_from(record.ttl >> 24).unwrap_or(0);
        }
    }
    Ok(())
}

/// Writes out the data of an answer, if it is an address or a name.
fn answer(bytes: &[u8], record: &Record, text: &mut String) -> Result<bool, BadName> {
    let data = bytes.get(record.data..record.end).ok_or(BadName::More)?;
    // Writing to a string cannot fail.
    match record.rtype {
        1 => {
            let octets = <[u8; 4]>::try_from(data).map_err(|_| BadName::Bad)?;
            let _ = write!(text, "{}", Ipv4Addr::from(octets));
        }
        28 => {
            let octets = <[u8; 16]>::try_from(data).map_err(|_| BadName::Bad)?;
            let _ = write!(text, "{}", Ipv6Addr::from(octets));
        }
        2 | 5 | 12 | 39 => {
            name::read(bytes, record.data, text)?;
        }
        // Preference, then the exchange.
        15 => {
            name::read(bytes, record.data.saturating_add(2), text)?;
        }
        // Priority, weight, port, then the target.
        33 => {
            name::read(bytes, record.data.saturating_add(6), text)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

impl Place {
    /// A datagram.
    pub(super) fn datagram(side: Side, offset: u64, len: usize, missing: u64) -> Place {
        Place { side, offset, len: len64(len).saturating_add(missing), rest: 0, cut: missing > 0, stream: false }
    }
}
