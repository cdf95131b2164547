//! Recognises DNS by a whole message that fits its datagram, or its length over TCP, to the last byte.
//!
//! Bias: against. A first message has to be a plain one (known operation and class, reserved bit zero, every section
//! readable, nothing behind it). NetBIOS names have the same format and are refused by their types; multicast DNS and
//! LLMNR are DNS here. Of a message that was not captured whole, the question has to be readable and the other end has
//! to answer with the same id.

use super::name::BadName;
use super::wire::{self, Header, HEADER};
use crate::{Detect, Probe};

/// Most questions, and most records per section, of a first message.
const MAX_FIRST: u16 = 256;

/// What one end's bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    /// A whole message.
    Whole(Header),
    /// The beginning of one.
    Part(Header),
    Other,
}

fn header_ok(head: &Header) -> bool {
    let sane = |n: u16| n <= MAX_FIRST;
    let counts = sane(head.questions) && sane(head.answers) && sane(head.authorities) && sane(head.additionals);
    let query = head.response || (head.questions >= 1 && head.rcode == 0 && !head.authoritative && !head.truncated);
    let says = head.questions > 0 || head.answers > 0;
    counts && query && says && !head.reserved && matches!(head.opcode, 0 | 4 | 5)
}

/// Whether a name is one that DNS would carry: visible ASCII.
fn name_ok(text: &str) -> bool {
    !text.contains('\\')
}

/// One message in `bytes`; the caller checks the bytes behind it.
fn message(bytes: &[u8]) -> (Looks, usize) {
    let Some(head) = wire::header(bytes).filter(header_ok) else { return (Looks::Other, 0) };
    let mut at = HEADER;
    let mut text = String::new();
    for i in 0..head.questions {
        text.clear();
        match wire::question(bytes, at, &mut text) {
            // 32 and 33 over port 137 are NetBIOS; SRV is 33 too, but its names are not 32 letters A–P.
            Ok(q) if class_ok(q.class) && qtype_ok(q.qtype) && name_ok(&text) && !netbios(&text, q.qtype) => at = q.end,
            // The question has to be there.
            Err(BadName::More) if i > 0 => return (Looks::Part(head), at),
            _ => return (Looks::Other, 0),
        }
    }
    let records = [head.answers, head.authorities, head.additionals].into_iter().map(u32::from).sum::<u32>();
    for _ in 0..records {
        match wire::record(bytes, at) {
            Ok(record) => at = record.end,
            Err(BadName::More) => return (Looks::Part(head), at),
            Err(BadName::Bad) => return (Looks::Other, 0),
        }
    }
    (Looks::Whole(head), at)
}

fn class_ok(class: u16) -> bool {
    // IN, CH, HS, NONE, ANY; the top bit is mDNS's.
    matches!(class & 0x7fff, 1 | 3 | 4 | 254 | 255)
}

fn qtype_ok(qtype: u16) -> bool {
    super::types::qtype(qtype) != "TYPE"
}

fn netbios(name: &str, qtype: u16) -> bool {
    matches!(qtype, 32 | 33) && name.len() == 32 && name.bytes().all(|b| matches!(b, b'a'..=b'p'))
}

fn looks(bytes: &[u8], stream: bool) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    if stream {
        return match bytes.split_first_chunk::<2>() {
            Some((len, rest)) => {
                let len = usize::from(u16::from_be_bytes(*len));
                match message(rest.get(..len).unwrap_or(rest)) {
                    (Looks::Whole(_), end) if end != len => Looks::Other,
                    (Looks::Part(_), _) if rest.len() >= len => Looks::Other,
                    (seen, _) => seen,
                }
            }
            None => Looks::Other,
        };
    }
    match message(bytes) {
        (Looks::Whole(_), end) if end != bytes.len() => Looks::Other,
        (seen, _) => seen,
    }
}

/// Whether a chunk of a stream starts with a whole message.
pub(super) fn whole_stream(bytes: &[u8]) -> bool {
    matches!(looks(bytes, true), Looks::Whole(_))
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    let stream = probe.transport.is_stream();
    let (first, second) = (looks(probe.first, stream), looks(probe.second, stream));
    match (first, second) {
        (Looks::Whole(head), _) => Detect::Yes { first_is_client: !head.response },
        (_, Looks::Whole(head)) => Detect::Yes { first_is_client: head.response },
        (Looks::Part(a), Looks::Part(b)) if a.id == b.id && a.response != b.response => {
            Detect::Yes { first_is_client: !a.response }
        }
        (Looks::Part(_), Looks::Silent) => Detect::Maybe,
        // The two bytes of the length may come alone.
        (_, Looks::Silent) if stream && short(probe.first) => Detect::Maybe,
        _ => Detect::No,
    }
}

/// The length of a message, and less than its header.
fn short(bytes: &[u8]) -> bool {
    let Some((len, rest)) = bytes.split_first_chunk::<2>() else { return false };
    usize::from(u16::from_be_bytes(*len)) >= HEADER && rest.len() < HEADER
}
