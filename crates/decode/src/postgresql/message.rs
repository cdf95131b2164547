//! Headers and the few bodies that are read.

use crate::framing::exchange::Measure;
use crate::framing::Cursor;
use crate::mask;
use crate::text::visible;
use std::borrow::Cow;
use wirespan_model::Outcome;

/// Bytes of a message that may carry a statement that are read.
pub(super) const MAX_QUERY: usize = 4096;
/// Longest message that is believed (the server's own limit is 1 GiB).
const MAX_MESSAGE: u32 = 1 << 30;

/// The request of the first message, which has no type.
pub(super) const SSL: u32 = 80_877_103;
pub(super) const GSS: u32 = 80_877_104;
pub(super) const CANCEL: u32 = 80_877_102;

/// Whether a startup code is a version of the protocol.
pub(super) fn is_version(code: u32) -> bool {
    code >> 16 == 3 && code & 0xffff < 100
}

/// A message without a type: the start of a connection.
pub(super) fn startup(bytes: &[u8]) -> Measure {
    let mut view = Cursor::new(bytes);
    let (Some(len), Some(code)) = (view.u32(), view.u32()) else {
        // The length is below 65,536 and its code a known one: the first two bytes say so already.
        let fits = bytes.iter().take(2).all(|b| *b == 0);
        return if fits { Measure::More(8) } else { Measure::Bad };
    };
    match (code, len) {
        (SSL | GSS, 8) | (CANCEL, 16..=272) => Measure::Frame { len: u64::from(len), keep: 8 },
        (code, 9..=10_000) if is_version(code) => Measure::Frame { len: u64::from(len), keep: MAX_QUERY },
        _ => Measure::Bad,
    }
}

/// A message of the client.
pub(super) fn client(bytes: &[u8]) -> Measure {
    let keep = match bytes.first() {
        Some(0) => return startup(bytes),
        Some(b'Q' | b'P') => MAX_QUERY,
        Some(b'B' | b'E' | b'D' | b'C') => 160,
        Some(b'S' | b'H' | b'X' | b'c' | b'd' | b'f' | b'p' | b'F') => 5,
        _ => return Measure::Bad,
    };
    typed(bytes, keep)
}

/// A message of the server.
pub(super) fn server(bytes: &[u8]) -> Measure {
    let keep = match bytes.first() {
        Some(
            b'D' | b'd' | b'T' | b't' | b'V' | b'v' | b'K' | b'G' | b'H' | b'W' | b'c' | b'1' | b'2' | b'3' | b'n'
            | b's' | b'I',
        ) => 5,
        Some(b'E') => 2048,
        Some(b'R') => 9,
        Some(b'Z') => 6,
        Some(b'C' | b'A' | b'S') => 128,
        Some(b'N') => 5,
        _ => return Measure::Bad,
    };
    typed(bytes, keep)
}

fn typed(bytes: &[u8], keep: usize) -> Measure {
    let mut view = Cursor::new(bytes);
    let kind = view.u8().unwrap_or_default();
    let Some(len) = view.u32() else { return Measure::More(5) };
    let fits = match kind {
        b'1' | b'2' | b'3' | b'n' | b's' | b'I' | b'c' => len == 4,
        b'Z' => len == 5,
        b'Q' | b'C' | b'A' => len >= 5,
        _ => (4..=MAX_MESSAGE).contains(&len),
    };
    if !fits || len > MAX_MESSAGE {
        return Measure::Bad;
    }
    Measure::Frame { len: u64::from(len).saturating_add(1), keep }
}

/// An error of the server.
#[derive(Debug, Default)]
pub(super) struct Failure<'a> {
    /// SQLSTATE.
    pub(super) code: &'a str,
    /// Masked text.
    pub(super) text: Cow<'a, str>,
    /// It ends the connection.
    pub(super) fatal: bool,
}

impl<'a> Failure<'a> {
    /// Reads the fields behind the header.
    pub(super) fn read(body: &'a [u8]) -> Self {
        let mut failure = Failure::default();
        let mut view = Cursor::new(body);
        while let Some(field) = view.u8().filter(|f| *f != 0) {
            let (value, whole) = match view.cstr() {
                Some(value) => (value, true),
                None => (view.take(view.rest().len()).unwrap_or_default(), false),
            };
            match field {
                b'C' if value.iter().all(u8::is_ascii_alphanumeric) => {
                    failure.code = visible(value, 5).unwrap_or_default()
                }
                b'M' => failure.text = mask::text(value, whole),
                b'S' | b'V' => failure.fatal |= matches!(value, b"FATAL" | b"PANIC"),
                _ => {}
            }
        }
        failure
    }

    /// Whose fault it is, by the class of the code.
    pub(super) fn outcome(&self) -> Outcome {
        match self.code.get(..2) {
            _ if self.code == "57014" => Outcome::ClientError,
            Some("08" | "40" | "53" | "54" | "57" | "58" | "F0" | "XX") => Outcome::ServerError,
            _ => Outcome::ClientError,
        }
    }
}

/// What `CommandComplete` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Returned(i64),
    Affected(i64),
    Nothing,
}

/// Reads a command tag (`SELECT 5`, `INSERT 0 2`).
pub(super) fn tag(body: &[u8]) -> Count {
    let Some(tag) = Cursor::new(body).cstr() else { return Count::Nothing };
    let mut words = tag.split(|b| *b == b' ');
    let verb = words.next().unwrap_or_default();
    let count = words.next_back().and_then(crate::text::decimal).and_then(|n| i64::try_from(n).ok());
    match (verb, count) {
        (b"SELECT" | b"FETCH", Some(n)) => Count::Returned(n),
        (b"INSERT" | b"UPDATE" | b"DELETE" | b"MERGE" | b"COPY" | b"MOVE", Some(n)) => Count::Affected(n),
        _ => Count::Nothing,
    }
}
