//! Packets, the texts of requests, and the tokens of answers.

use crate::framing::Cursor;
use crate::text::at_most;
use wirespan_model::Outcome;

/// Header of a packet.
pub(super) const HEADER: usize = 8;

/// Types of packets.
pub(super) mod kind {
    pub(in super::super) const BATCH: u8 = 0x01;
    pub(in super::super) const RPC: u8 = 0x03;
    pub(in super::super) const ANSWER: u8 = 0x04;
    pub(in super::super) const ATTENTION: u8 = 0x06;
    pub(in super::super) const BULK: u8 = 0x07;
    pub(in super::super) const TRANSACTION: u8 = 0x0e;
    pub(in super::super) const LOGIN: u8 = 0x10;
    pub(in super::super) const SSPI: u8 = 0x11;
    pub(in super::super) const PRELOGIN: u8 = 0x12;
}

/// Header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) kind: u8,
    /// The message ends with this packet.
    pub(super) last: bool,
    /// Length, header included.
    pub(super) len: u16,
    /// Number within the message, from 1 (0 in answers of old servers).
    pub(super) number: u8,
}

impl Packet {
    pub(super) fn read(bytes: &[u8]) -> Option<Packet> {
        let mut view = Cursor::new(bytes);
        let (kind, status, len, _spid, number, window) =
            (view.u8()?, view.u8()?, view.u16()?, view.u16()?, view.u8()?, view.u8()?);
        let known = matches!(kind, 0x01 | 0x03 | 0x04 | 0x06 | 0x07 | 0x08 | 0x0e | 0x10 | 0x11 | 0x12);
        let fits = known && status & 0xe0 == 0 && window == 0 && (8..=32_767).contains(&len);
        fits.then_some(Packet { kind, last: status & 1 != 0, len, number })
    }
}

/// UTF-16 text → UTF-8, without allocating once `out` is large enough.
pub(super) fn utf16(bytes: &[u8], out: &mut String) {
    out.clear();
    let units =
        bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([*pair.first().unwrap_or(&0), *pair.last().unwrap_or(&0)]));
    out.extend(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)));
}

/// Steps over the headers of a batch or call (TDS 7.2 and newer).
pub(super) fn behind_headers(body: &[u8]) -> &[u8] {
    let total = Cursor::new(body).u32_le().unwrap_or(0);
    let first = body.get(4..8).and_then(|b| b.first_chunk::<4>()).map_or(0, |b| u32::from_le_bytes(*b));
    // Text cannot have such small characters in such an order.
    if (4..=256).contains(&total) && (total == 4 || (first > 5 && first <= total)) {
        body.get(at_most(u64::from(total), usize::MAX)..).unwrap_or_default()
    } else {
        body
    }
}

/// The procedure or statement of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call<'a> {
    /// A procedure, by its UTF-16 name.
    Named(&'a [u8]),
    /// A statement, UTF-16; `executed`: at once.
    Statement { text: &'a [u8], executed: bool },
    /// A statement that was prepared before.
    Prepared,
    /// One of the system's procedures.
    System(&'static str),
}

/// Reads a call behind its headers.
pub(super) fn call(body: &[u8]) -> Option<Call<'_>> {
    let mut view = Cursor::new(body);
    let len = view.u16_le()?;
    if len != 0xffff {
        let name = view.take(usize::from(len).saturating_mul(2))?;
        return Some(Call::Named(name));
    }
    let id = view.u16_le()?;
    view.u16_le()?;
    // sp_prepare and sp_prepexec: the handle and the declaration stand before the statement.
    let (before, executed) = match id {
        10 => (0, true),
        11 => (2, false),
        13 => (2, true),
        12 | 15 => return Some(if id == 12 { Call::Prepared } else { Call::System("sp_unprepare") }),
        1 => return Some(Call::System("sp_cursor")),
        2 => return Some(Call::System("sp_cursoropen")),
        7 => return Some(Call::System("sp_cursorfetch")),
        9 => return Some(Call::System("sp_cursorclose")),
        _ => return Some(Call::System("")),
    };
    for _ in 0..before {
        parameter(&mut view)?;
    }
    let text = parameter(&mut view)?;
    Some(Call::Statement { text, executed })
}

/// The value of a parameter that is an integer or text, as far as it is there.
fn parameter<'a>(view: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let name = view.u8()?;
    view.take(usize::from(name).saturating_mul(2))?;
    view.u8()?;
    let all = |view: &mut Cursor<'a>, n: usize| {
        let n = n.min(view.rest().len());
        view.take(n)
    };
    match view.u8()? {
        // INTN.
        0x26 => {
            view.u8()?;
            let len = view.u8()?;
            view.take(usize::from(len))
        }
        // NVARCHAR, NCHAR, and their 8-bit kin.
        0xe7 | 0xef | 0xa7 | 0xaf => {
            let max = view.u16_le()?;
            view.take(5)?;
            if max == 0xffff {
                // Text in parts; the first is enough.
                if view.u64_le()? == u64::MAX {
                    return Some(&[]);
                }
                let part = view.u32_le()?;
                let text = all(view, at_most(u64::from(part), usize::MAX))?;
                view.u32_le();
                return Some(text);
            }
            let len = view.u16_le()?;
            if len == 0xffff {
                return Some(&[]);
            }
            all(view, usize::from(len))
        }
        // NTEXT, TEXT.
        0x63 | 0x23 => {
            view.take(9)?;
            let len = view.u32_le()?;
            all(view, at_most(u64::from(len), usize::MAX))
        }
        _ => None,
    }
}

/// The facts of the tokens at the beginning of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tokens<'a> {
    /// Number, severity and UTF-16 text of the first error.
    pub(super) error: Option<(i32, u8, &'a [u8])>,
    /// Database that was changed to, UTF-16.
    pub(super) database: Option<&'a [u8]>,
    /// Rows that queries returned.
    pub(super) returned: Option<u64>,
    /// Rows that other statements changed.
    pub(super) affected: Option<u64>,
    /// A statement failed.
    pub(super) failed: bool,
    /// The answer only confirms an attention.
    pub(super) attention: bool,
}

/// Reads the tokens that tell their length, up to a table.
pub(super) fn tokens(body: &[u8]) -> Tokens<'_> {
    let mut said = Tokens::default();
    let mut view = Cursor::new(body);
    while let Some(token) = view.u8() {
        match token {
            0xaa | 0xab => {
                let Some(len) = view.u16_le() else { break };
                let body = view.take(usize::from(len).min(view.rest().len())).unwrap_or_default();
                if token == 0xaa && said.error.is_none() {
                    let mut inner = Cursor::new(body);
                    if let (Some(number), Some(_), Some(class), Some(chars)) =
                        (inner.u32_le(), inner.u8(), inner.u8(), inner.u16_le())
                    {
                        let text = inner.rest().get(..usize::from(chars).saturating_mul(2)).unwrap_or(inner.rest());
                        said.error = Some((i32::from_le_bytes(number.to_le_bytes()), class, text));
                    }
                }
            }
            0xe3 => {
                let Some(body) = view.u16_le().and_then(|len| view.take(usize::from(len))) else { break };
                let mut inner = Cursor::new(body);
                if inner.u8() == Some(1) {
                    said.database = inner.u8().and_then(|chars| inner.take(usize::from(chars).saturating_mul(2)));
                }
            }
            0xad | 0xa9 | 0xed => {
                if view.u16_le().and_then(|len| view.take(usize::from(len))).is_none() {
                    break;
                }
            }
            0x79 => {
                view.take(4);
            }
            0xfd..=0xff => {
                let Some(done) = view.array::<12>() else { break };
                said.done(&done);
            }
            // A table.
            _ => {
                said.tail(view.rest());
                break;
            }
        }
    }
    said
}

/// The facts at the end of an answer's last packet, for answers whose tokens cannot be followed.
pub(super) fn last_token(body: &[u8]) -> Tokens<'_> {
    let mut said = Tokens::default();
    said.tail(body);
    said
}

/// Whether bytes at the end of a message are its last token: nothing more comes, and the statement is a known one.
fn is_final(done: &[u8; 12]) -> bool {
    let status = u16::from_le_bytes([done[0], done[1]]);
    let rows_high = u32::from_le_bytes([done[8], done[9], done[10], done[11]]);
    status & !0x0136 == 0 && rows_high == 0
}

/// Number of `SELECT` in the token that ends a statement.
const SELECT: u16 = 0xc1;

impl Tokens<'_> {
    fn done(&mut self, done: &[u8; 12]) {
        let status = u16::from_le_bytes([done[0], done[1]]);
        let command = u16::from_le_bytes([done[2], done[3]]);
        let count = u32::from_le_bytes([done[4], done[5], done[6], done[7]]);
        self.attention |= status & 0x20 != 0;
        self.failed |= status & 0x102 != 0;
        if status & 0x10 != 0 {
            let sum = if command == SELECT { &mut self.returned } else { &mut self.affected };
            *sum = Some(sum.unwrap_or(0).saturating_add(u64::from(count)));
        }
    }

    /// The last thirteen bytes.
    fn tail(&mut self, rest: &[u8]) {
        if let Some((token, done)) = rest.last_chunk::<13>().and_then(|tail| tail.split_first()) {
            if let (0xfd | 0xfe, Some(done)) = (*token, done.first_chunk::<12>().filter(|d| is_final(d))) {
                self.done(done);
            }
        }
    }
}

/// Whose fault an error of this severity is (Microsoft: 11 to 16 the user can correct, above it is the server).
pub(super) fn outcome(class: u8, number: i32) -> Outcome {
    // Deadlock victim, lock timeout, and a database that is not there yet.
    if class >= 17 || matches!(number, 1205 | 1222 | 4060 | 40613 | 40197 | 40501 | 49918..=49920) {
        Outcome::ServerError
    } else {
        Outcome::ClientError
    }
}
