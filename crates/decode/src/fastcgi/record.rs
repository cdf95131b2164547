//! Records (specification, section 3.3), and the pairs in their parameters.

use wirespan_model::Side;

/// Bytes of a record header.
pub(super) const HEADER: usize = 8;

pub(super) const BEGIN: u8 = 1;
const ABORT: u8 = 2;
pub(super) const END: u8 = 3;
pub(super) const PARAMS: u8 = 4;
pub(super) const STDIN: u8 = 5;
pub(super) const STDOUT: u8 = 6;
pub(super) const STDERR: u8 = 7;
const DATA: u8 = 8;
const GET_VALUES: u8 = 9;
const VALUES: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;

/// A record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: u8,
    pub(super) id: u16,
    pub(super) len: u16,
    pub(super) padding: u8,
}

impl Record {
    /// Reads a header that this side may send.
    pub(super) fn read(side: Side, bytes: &[u8]) -> Option<Record> {
        let [1, kind, a, b, c, d, padding, _] = *bytes.first_chunk::<HEADER>()? else { return None };
        let record = Record { kind, id: u16::from_be_bytes([a, b]), len: u16::from_be_bytes([c, d]), padding };
        let fits = match (kind, side) {
            (BEGIN, Side::Client) | (END, Side::Server) => record.id != 0 && record.len == 8,
            (ABORT, Side::Client) => record.id != 0 && record.len == 0,
            (PARAMS | STDIN | DATA, Side::Client) | (STDOUT | STDERR, Side::Server) => record.id != 0,
            (GET_VALUES, Side::Client) | (VALUES, Side::Server) => record.id == 0,
            (UNKNOWN_TYPE, Side::Server) => record.id == 0 && record.len == 8,
            _ => false,
        };
        fits.then_some(record)
    }
}

/// Whether the bytes begin with a whole BEGIN_REQUEST: nothing else looks like it. `None` if they are too short to say.
pub(super) fn begins(bytes: &[u8]) -> Option<bool> {
    let ok = |at: usize, fits: &dyn Fn(u8) -> bool| bytes.get(at).is_none_or(|b| fits(*b));
    let fits = ok(0, &|b| b == 1)
        && ok(1, &|b| b == BEGIN)
        && ok(4, &|b| b == 0)
        && ok(5, &|b| b == 8)
        && ok(7, &|b| b == 0)
        && ok(8, &|b| b == 0)
        && ok(9, &|b| (1..=3).contains(&b))
        && ok(10, &|b| b <= 1)
        && (11..16).all(|at| ok(at, &|b| b == 0))
        && bytes.get(2..4).is_none_or(|id| id != [0, 0]);
    match (fits, bytes.len()) {
        (false, _) => Some(false),
        (true, 16..) => Some(true),
        (true, _) => None,
    }
}

/// Calls `each` with the pairs (section 3.4) of which both halves are there.
pub(super) fn pairs<'a>(mut bytes: &'a [u8], mut each: impl FnMut(&'a [u8], &'a [u8])) {
    let length = |bytes: &mut &'a [u8]| -> Option<usize> {
        let (first, rest) = bytes.split_first()?;
        if first & 0x80 == 0 {
            *bytes = rest;
            return Some(usize::from(*first));
        }
        let long = u32::from_be_bytes(*bytes.first_chunk()?) & 0x7fff_ffff;
        *bytes = bytes.get(4..)?;
        usize::try_from(long).ok()
    };
    while !bytes.is_empty() {
        let Some((name_len, value_len)) = length(&mut bytes).zip(length(&mut bytes)) else { return };
        let Some((name, rest)) = bytes.split_at_checked(name_len) else { return };
        let Some((value, rest)) = rest.split_at_checked(value_len) else { return };
        each(name, value);
        bytes = rest;
    }
}
