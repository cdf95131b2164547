//! Recognises TDS by its first exchange, or by a statement in UTF-16 and its answer.
//!
//! Bias: against. The header alone is weak: one end decides only with a pre-login whose list of options is consistent,
//! or with a batch whose headers and text fit.

use super::token::{behind_headers, kind, utf16, Packet, HEADER};
use crate::mask::{Dialect, Masker, Rules};
use crate::{Detect, Probe};
use wirespan_model::{Side, Transport};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Looks {
    Other,
    Silent,
    Shaped,
    Sure,
}

/// Whether the list of options of a pre-login is consistent: the version first, offsets inside, an end.
fn is_prelogin(body: &[u8], whole: bool) -> bool {
    let mut rest = body;
    let mut last = None;
    let mut count = 0usize;
    loop {
        match rest {
            [0xff, ..] => break,
            [option, a, b, c, d, more @ ..] => {
                let (at, len) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
                let end = usize::from(at).saturating_add(usize::from(len));
                if *option > 8
                    || last.is_none_or(|l| *option <= l) && last.is_some()
                    || (whole && end > body.len())
                    || at < 6
                {
                    return false;
                }
                last = Some(*option);
                count = count.saturating_add(1);
                rest = more;
            }
            _ => return false,
        }
    }
    // Version (six bytes) and encryption are always there.
    count >= 2 && body.starts_with(&[0]) && body.get(3..5) == Some(&[0, 6])
}

fn looks(side: Side, bytes: &[u8]) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    if bytes.len() < HEADER {
        return match bytes.first() {
            Some(1 | 3 | 4 | 0x0e | 0x10 | 0x12) => Looks::Silent,
            _ => Looks::Other,
        };
    }
    let Some(packet) = Packet::read(bytes) else { return Looks::Other };
    let whole = bytes.len() == usize::from(packet.len);
    let cut = bytes.len() < usize::from(packet.len);
    let body = bytes.get(HEADER..).unwrap_or_default();
    let body = body.get(..usize::from(packet.len).saturating_sub(HEADER)).unwrap_or(body);
    match (side, packet.kind) {
        (Side::Client, kind::PRELOGIN) if packet.last && (whole || cut) => {
            if is_prelogin(body, whole) {
                Looks::Sure
            } else {
                Looks::Other
            }
        }
        (Side::Server, kind::ANSWER) if is_prelogin(body, whole) && packet.last => Looks::Sure,
        (Side::Server, kind::ANSWER) => match body.first() {
            Some(0x81 | 0xaa | 0xab | 0xe3 | 0xfd..=0xff | 0x79 | 0xa9 | 0xad) => Looks::Shaped,
            _ => Looks::Other,
        },
        (Side::Client, kind::BATCH) if packet.number <= 1 && (whole || cut) => {
            // Up to TDS 7.1 there are no headers before the text.
            let text = behind_headers(body);
            if (text.len() < body.len() || is_ascii(text, 8)) && is_statement(text) {
                Looks::Sure
            } else {
                Looks::Other
            }
        }
        (Side::Client, kind::RPC) if packet.number <= 1 && (whole || cut) && names_procedure(behind_headers(body)) => {
            Looks::Sure
        }
        (Side::Client, kind::RPC | kind::TRANSACTION | kind::LOGIN) if packet.number <= 1 && (whole || cut) => {
            Looks::Shaped
        }
        _ => Looks::Other,
    }
}

/// Whether text begins with so many characters of UTF-16 that ASCII has, and can be seen.
fn is_ascii(text: &[u8], chars: usize) -> bool {
    let mut pairs = text.chunks_exact(2).take(chars);
    text.len() >= chars.saturating_mul(2)
        && pairs.all(|p| matches!(p, [b, 0] if b.is_ascii_graphic() || b.is_ascii_whitespace()))
}

/// Whether a call begins with the name of its procedure: a length, and letters that a name may have.
fn names_procedure(body: &[u8]) -> bool {
    let Some((count, text)) = body.split_first_chunk::<2>() else { return false };
    let count = usize::from(u16::from_le_bytes(*count));
    let Some(name) = text.get(..count.saturating_mul(2)).filter(|_| (4..=256).contains(&count)) else { return false };
    let letter = |b: u8| b.is_ascii_alphanumeric() || b"_.[]@$#;".contains(&b);
    name.chunks_exact(2).all(|p| matches!(p, [b, 0] if letter(*b)))
}

fn is_statement(text: &[u8]) -> bool {
    let mut utf8 = String::new();
    utf16(text.get(..512).unwrap_or(text), &mut utf8);
    if utf8.chars().any(|c| c.is_control() && !c.is_whitespace()) {
        return false;
    }
    let mut masker = Masker::default();
    masker.read(utf8.as_bytes(), Rules::of(Dialect::MsSql));
    !masker.operation().is_empty()
}

/// Whether a side may go on here after a gap.
pub(super) fn resumes(side: Side, bytes: &[u8]) -> bool {
    bytes.len() >= HEADER && looks(side, bytes) >= Looks::Shaped
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if probe.transport != Transport::Tcp {
        return Detect::No;
    }
    let ask = |client: &[u8], server: &[u8]| match (looks(Side::Client, client), looks(Side::Server, server)) {
        (Looks::Sure, answer) => answer != Looks::Other,
        (Looks::Shaped, Looks::Shaped) => probe.server_port == Some(1433) || is_call(client),
        _ => false,
    };
    if probe.first_is_client != Some(false) && ask(probe.first, probe.second) {
        return Detect::Yes { first_is_client: true };
    }
    if probe.first_is_client != Some(true) && ask(probe.second, probe.first) {
        return Detect::Yes { first_is_client: false };
    }
    // Joined in the middle of an answer, whose bytes then tell nothing: the next request decides.
    let rows = !probe.first.is_empty() && looks(Side::Client, probe.first) == Looks::Other;
    if rows && probe.first_is_client != Some(true) && looks(Side::Client, probe.second) == Looks::Sure {
        return Detect::Yes { first_is_client: false };
    }
    let half = |client: &[u8], server: &[u8]| {
        !(client.is_empty() && server.is_empty())
            && looks(Side::Client, client) != Looks::Other
            && looks(Side::Server, server) != Looks::Other
    };
    if half(probe.first, probe.second) || half(probe.second, probe.first) {
        Detect::Maybe
    } else {
        Detect::No
    }
}

/// A call or transaction request that begins with the headers of TDS 7.2 and newer.
fn is_call(client: &[u8]) -> bool {
    let body = client.get(HEADER..).unwrap_or_default();
    body.starts_with(&[0x16, 0, 0, 0, 0x12, 0, 0, 0, 2, 0])
}
