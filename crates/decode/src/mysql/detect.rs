//! Recognises MySQL by the server's greeting, or from the middle by a command and its answer.
//!
//! Bias: against. From the middle one end decides only with a statement of SQL whose length fits exactly (or was cut);
//! everything else needs an answer whose packets count from 1 and have a form of MySQL.

use super::packet::{com, name, Header};
use crate::framing::Cursor;
use crate::mask::{Masker, Rules};
use crate::text::at_most;
use crate::{Detect, Probe};

/// How much one end's bytes look like MySQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Looks {
    Other,
    Silent,
    /// Could be.
    Shaped,
    /// Nothing else looks so.
    Sure,
}

/// The header, and the payload as far as it is there.
fn split(bytes: &[u8]) -> Option<(Header, &[u8], bool)> {
    let header = Header::read(bytes)?;
    let payload = bytes.get(4..)?;
    let len = at_most(u64::from(header.len), usize::MAX);
    Some((header, payload.get(..len).unwrap_or(payload), payload.len() >= len))
}

/// A server that refuses in the place of its greeting: too many connections, a blocked host.
fn refusal(bytes: &[u8]) -> bool {
    let Some((header, payload, true)) = split(bytes) else { return false };
    let [0xff, low, high, text @ ..] = payload else { return false };
    let text = text.strip_prefix(b"#").and_then(|t| t.get(5..)).unwrap_or(text);
    let code = u16::from_le_bytes([*low, *high]);
    let alone = bytes.len() == payload.len().saturating_add(4);
    let words = text.len() >= 8 && !text.iter().any(u8::is_ascii_control) && text.contains(&b' ');
    alone && header.seq <= 1 && (1000..5000).contains(&code) && words
}

/// The server's greeting.
fn greeting(bytes: &[u8]) -> Looks {
    if bytes.len() < 5 {
        // Three bytes of a length below 512, then 0 and 10.
        let fits = bytes.iter().zip([0xff, 1, 0, 0]).enumerate().all(|(i, (b, max))| i == 0 || *b <= max);
        return if fits { Looks::Silent } else { Looks::Other };
    }
    let Some((header, payload, whole)) = split(bytes) else { return Looks::Other };
    if header.seq != 0 || !(30..=400).contains(&header.len) || payload.first() != Some(&0x0a) {
        return Looks::Other;
    }
    let mut view = Cursor::new(payload.get(1..).unwrap_or_default());
    let Some(version) = view.cstr() else { return if whole { Looks::Other } else { Looks::Silent } };
    let shaped = version.len() <= 80
        && version.first().is_some_and(u8::is_ascii_digit)
        && version.contains(&b'.')
        && version.iter().all(|b| b.is_ascii_graphic() || *b == b' ');
    // Thread, salt, and a zero behind it.
    match (shaped, view.take(12), view.u8()) {
        (false, _, _) => Looks::Other,
        (true, Some(_), Some(0)) if whole => Looks::Sure,
        (true, Some(_), Some(_)) => Looks::Other,
        _ if whole => Looks::Other,
        _ => Looks::Silent,
    }
}

/// Most packets behind the first that are looked at.
const MAX_DEPTH: u32 = 3;

/// A command: the only packet, or the first of several, from the client.
fn command(bytes: &[u8]) -> Looks {
    command_at(bytes, 0)
}

fn command_at(bytes: &[u8], depth: u32) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    if is_compressed(bytes) {
        let inner = bytes.get(7..).unwrap_or_default();
        let plain = bytes.get(4..7) == Some(&[0, 0, 0]);
        return if plain { command_at(inner, MAX_DEPTH) } else { Looks::Shaped };
    }
    let Some((header, payload, whole)) = split(bytes) else { return Looks::Other };
    let Some((&number, body)) = payload.split_first() else { return Looks::Other };
    // The next bytes are a command as well (the next command, if answers came between).
    let behind = bytes.get(payload.len().saturating_add(4)..).unwrap_or_default();
    let exact = whole
        && (behind.is_empty() || (depth < MAX_DEPTH && command_at(behind, depth.saturating_add(1)) != Looks::Other));
    if header.seq != 0 || name(number).is_empty() || number >= com::LOGIN && number != com::BULK_EXECUTE {
        return Looks::Other;
    }
    match number {
        com::QUERY | com::STMT_PREPARE => {
            let text = body.strip_prefix(&[0, 1]).unwrap_or(body);
            match is_statement(text) {
                true if exact || !whole => Looks::Sure,
                true => Looks::Shaped,
                false => Looks::Other,
            }
        }
        com::STMT_EXECUTE => {
            let mut view = Cursor::new(body);
            let (_, flags, count) = (view.u32_le(), view.u8(), view.u32_le());
            let fits = flags.is_some_and(|f| f <= 15) && count == Some(1);
            if fits && (exact || !whole) {
                Looks::Shaped
            } else {
                Looks::Other
            }
        }
        com::STMT_CLOSE | com::STMT_RESET if exact && header.len == 5 => Looks::Shaped,
        com::STMT_FETCH if exact && header.len == 9 => Looks::Shaped,
        0x0e | com::STATISTICS | com::RESET_CONNECTION if exact && header.len == 1 => Looks::Shaped,
        com::INIT_DB if exact && (2..=65).contains(&header.len) && body.iter().all(|b| b.is_ascii_graphic()) => {
            Looks::Shaped
        }
        0x1b if exact && header.len == 3 => Looks::Shaped,
        _ => Looks::Other,
    }
}

/// Whether text begins with a verb of SQL and has no control characters.
fn is_statement(text: &[u8]) -> bool {
    if text.iter().take(64).any(|b| b.is_ascii_control() && !b.is_ascii_whitespace()) {
        return false;
    }
    let mut masker = Masker::default();
    masker.read(text.get(..256).unwrap_or(text), Rules::default());
    !masker.operation().is_empty()
}

/// An answer: packets that count from 1, the first of a known form.
fn answer(bytes: &[u8]) -> Looks {
    answer_at(bytes, 0)
}

fn answer_at(bytes: &[u8], depth: u32) -> Looks {
    if bytes.is_empty() {
        return Looks::Silent;
    }
    if is_compressed(bytes) {
        let plain = bytes.get(4..7) == Some(&[0, 0, 0]);
        return if plain { answer_at(bytes.get(7..).unwrap_or_default(), MAX_DEPTH) } else { Looks::Sure };
    }
    let Some((header, payload, whole)) = split(bytes) else { return Looks::Other };
    let Some((&first, body)) = payload.split_first() else { return Looks::Other };
    if header.seq != 1 {
        return Looks::Other;
    }
    let behind = bytes.get(payload.len().saturating_add(4)..).unwrap_or_default();
    let alone = whole
        && (behind.is_empty() || (depth < MAX_DEPTH && answer_at(behind, depth.saturating_add(1)) != Looks::Other));
    match first {
        0 if header.len >= 7 && alone => Looks::Shaped,
        // The answer to PREPARE: twelve bytes, then definitions.
        0 if header.len == 12 && is_definition(behind) => Looks::Sure,
        0xff if header.len >= 9 && body.get(2) == Some(&b'#') && (alone || !whole) => {
            let code = Cursor::new(body).u16_le().unwrap_or_default();
            let state = body.get(3..8).is_some_and(|s| s.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()));
            if state && (1000..6000).contains(&code) {
                Looks::Sure
            } else {
                Looks::Other
            }
        }
        0xfe if header.len == 5 && alone => Looks::Shaped,
        1..=0xfa if header.len == 1 => {
            if is_definition(behind) {
                Looks::Sure
            } else {
                Looks::Other
            }
        }
        0xfc if header.len == 3 && is_definition(behind) => Looks::Sure,
        _ => Looks::Other,
    }
}

/// The second packet of an answer, a definition: its catalogue is `def`.
fn is_definition(bytes: &[u8]) -> bool {
    Header::read(bytes).is_some_and(|h| h.seq == 2 && h.len >= 20) && bytes.get(4..8) == Some(b"\x03def")
}

/// Whether a packet has the header of compression: its content is a packet, or begins like zlib's or zstd's data.
pub(super) fn is_compressed(bytes: &[u8]) -> bool {
    let mut view = Cursor::new(bytes);
    let (Some(outer), Some([a, b, c])) = (Header::read(bytes), view.take(4).and_then(|_| view.array::<3>())) else {
        return false;
    };
    let length = u32::from_le_bytes([a, b, c, 0]);
    if outer.len < 5 {
        return false;
    }
    if length == 0 {
        // One packet that fills it, with the same number. (An OK packet may have the same zeros, but not that number.)
        let Some(inner) = Header::read(view.rest()) else { return false };
        return inner.len > 0 && inner.len.saturating_add(4) == outer.len && inner.seq == outer.seq && inner.seq <= 1;
    }
    let zlib = matches!(view.rest(), [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]);
    let zstd = view.rest().starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    length >= outer.len.saturating_sub(16) && (zlib || zstd)
}

/// Whether the client may go on here after a gap.
pub(super) fn resumes_client(bytes: &[u8]) -> bool {
    command(bytes) >= Looks::Shaped
}

/// Whether the server may go on here, the client having asked.
pub(super) fn resumes_server(bytes: &[u8]) -> bool {
    answer(bytes) >= Looks::Shaped
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let ask = |client: &[u8], server: &[u8]| match (command(client), answer(server)) {
        (Looks::Sure, answer) => answer != Looks::Other,
        (Looks::Shaped, Looks::Shaped | Looks::Sure) => true,
        _ => false,
    };
    if probe.first_is_client != Some(true) && greeting(probe.first) == Looks::Sure {
        return Detect::Yes { first_is_client: false };
    }
    if probe.first_is_client != Some(true) && refusal(probe.first) && probe.second.is_empty() {
        return Detect::Yes { first_is_client: false };
    }
    if probe.first_is_client != Some(false) && greeting(probe.second) == Looks::Sure && probe.first.is_empty() {
        return Detect::Yes { first_is_client: true };
    }
    if probe.first_is_client != Some(false) && ask(probe.first, probe.second) {
        return Detect::Yes { first_is_client: true };
    }
    if probe.first_is_client != Some(true) && ask(probe.second, probe.first) {
        return Detect::Yes { first_is_client: false };
    }
    let starting = !probe.first.is_empty() && greeting(probe.first) >= Looks::Silent && probe.second.is_empty();
    let half = |client: &[u8], server: &[u8]| command(client) != Looks::Other && answer(server) != Looks::Other;
    let short = probe.first.len() < 5 && probe.second.is_empty();
    if starting || short || half(probe.first, probe.second) || half(probe.second, probe.first) {
        Detect::Maybe
    } else {
        Detect::No
    }
}
