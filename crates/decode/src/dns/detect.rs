//! Recognises DNS by a whole message that fits its datagram, or its length over TCP, to the last byte.
//!
//! Bias: against. A first message has to be readable in every section, with nothing behind it, and a plain one but for
//! one oddity: a name that is not visible ASCII or the root, an unknown type or class, a rare operation, a flag or a
//! code that a query does not have, the reserved bit. Real traffic has each of them; two together are another protocol.
//! Service names of NetBIOS have the same format and are refused by their form; multicast DNS and LLMNR are DNS here.
//! Of a message that was not captured whole, the question has to be readable and the other end has to answer with the
//! same id.

use super::name::{self, BadName};
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

/// Deviations of a message from a plain one; most protocols that are not DNS have several.
const MAX_ODD: usize = 1;

/// The oddities of a header; `None` if it cannot be one of DNS.
fn header_odd(head: &Header) -> Option<usize> {
    let sane = |n: u16| n <= MAX_FIRST;
    let counts = sane(head.questions) && sane(head.answers) && sane(head.authorities) && sane(head.additionals);
    // An inverse query has an answer that asks for its question.
    let says = head.questions > 0 || head.answers > 0;
    let asks = head.response || head.questions > 0 || head.opcode == INVERSE;
    if !(counts && says && asks) {
        return None;
    }
    let operation = match head.opcode {
        0 | 4 | 5 => false,
        INVERSE | 2 | 6 => true,
        _ => return None,
    };
    // The primary that notifies is an authority; a multicast query may go on in the next datagram.
    let authority = !head.response && head.authoritative && head.opcode != 4;
    let odd =
        [operation, authority, !head.response && head.truncated, !head.response && head.rcode != 0, head.reserved];
    Some(odd.into_iter().filter(|odd| *odd).count())
}

/// The operation code of an inverse query.
const INVERSE: u8 = 1;

/// Whether a name is none that most of DNS carries: it is not visible ASCII, or it is the root, whose name is a zero.
fn name_odd(text: &str) -> bool {
    text.contains('\\') || text.trim_end_matches('.').is_empty()
}

/// One message in `bytes`; the caller checks the bytes behind it.
fn message(bytes: &[u8]) -> (Looks, usize) {
    const NO: (Looks, usize) = (Looks::Other, 0);
    let Some((head, odd)) = wire::header(bytes).and_then(|head| Some((head, header_odd(&head)?))) else {
        return NO;
    };
    let mut at = HEADER;
    let mut text = String::new();
    // Of several questions with odd names, the name is one oddity.
    let mut seen = [false; 3];
    let mut plain = |text: &str, kind: u16, class: u16| {
        seen = [seen[0] || name_odd(text), seen[1] || !qtype_known(kind), seen[2] || !class_ok(class)];
        let more = seen.into_iter().filter(|odd| *odd).count();
        odd.saturating_add(more) <= MAX_ODD && !netbios(text, kind)
    };
    for i in 0..head.questions {
        text.clear();
        match wire::question(bytes, at, &mut text) {
            Ok(q) if plain(&text, q.qtype, q.class) => at = q.end,
            // The question has to be there.
            Err(BadName::More) if i > 0 => return (Looks::Part(head), at),
            _ => return NO,
        }
    }
    let records = [head.answers, head.authorities, head.additionals].into_iter().map(u32::from).sum::<u32>();
    for i in 0..records {
        // Without a question the first record says what the message is about.
        let first = i == 0 && head.questions == 0;
        text.clear();
        match wire::record(bytes, at) {
            Ok(_) if first && name::read(bytes, at, &mut text).is_err() => return NO,
            Ok(record) if first && !plain(&text, record.rtype, record.class) => return NO,
            Ok(record) => at = record.end,
            Err(BadName::More) => return (Looks::Part(head), at),
            Err(BadName::Bad) => return NO,
        }
    }
    (Looks::Whole(head), at)
}

fn class_ok(class: u16) -> bool {
    // IN, CH, HS, NONE, ANY; the top bit is mDNS's.
    matches!(class & 0x7fff, 1 | 3 | 4 | 254 | 255)
}

fn qtype_known(qtype: u16) -> bool {
    super::types::qtype(qtype) != "TYPE"
}

/// NetBIOS writes a name as 32 letters from A to P and may put a scope behind it (RFC 1002, section 4.1). Its types are
/// NULL, NB and NBSTAT. NBSTAT is SRV in DNS; NB is a type that DNS has a name for and nobody uses.
fn netbios(name: &str, qtype: u16) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    let encoded = first.len() == 32 && first.bytes().all(|b| matches!(b, b'a'..=b'p'));
    qtype == 32 || encoded && matches!(qtype, 10 | 33)
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
