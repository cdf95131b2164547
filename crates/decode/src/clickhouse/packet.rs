//! Packets at the start of a turn. Numbers are of variable length, texts have their length in front.

use crate::framing::Cursor;
use crate::text::at_most;

/// Why a packet cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// More bytes are needed.
    More,
    /// No packet starts here.
    Bad,
}

/// Packets of the client.
pub(super) mod client {
    pub(in super::super) const HELLO: u64 = 0;
    pub(in super::super) const QUERY: u64 = 1;
    pub(in super::super) const CANCEL: u64 = 3;
    pub(in super::super) const PING: u64 = 4;
}

/// Packets of the server.
pub(super) mod server {
    pub(in super::super) const HELLO: u64 = 0;
    pub(in super::super) const EXCEPTION: u64 = 2;
    pub(in super::super) const PONG: u64 = 4;
    pub(in super::super) const END: u64 = 5;
    /// The last number that is known.
    pub(in super::super) const LAST: u64 = 18;
}

/// A number of seven bits per byte.
pub(super) fn number(view: &mut Cursor<'_>) -> Result<u64, Stop> {
    let mut n = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = view.u8().ok_or(Stop::More)?;
        n |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(n);
        }
    }
    Err(Stop::Bad)
}

/// Bytes with their length in front, at most `max`.
pub(super) fn text<'a>(view: &mut Cursor<'a>, max: u64) -> Result<&'a [u8], Stop> {
    let len = number(view)?;
    if len > max {
        return Err(Stop::Bad);
    }
    view.take(at_most(len, usize::MAX)).ok_or(Stop::More)
}

fn byte(view: &mut Cursor<'_>) -> Result<u8, Stop> {
    view.u8().ok_or(Stop::More)
}

/// The first packet of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello<'a> {
    pub(super) revision: u64,
    pub(super) database: &'a [u8],
}

/// Reads the client's hello behind its number.
pub(super) fn hello<'a>(view: &mut Cursor<'a>) -> Result<Hello<'a>, Stop> {
    let name = text(view, 256)?;
    if name.is_empty() || name.iter().any(u8::is_ascii_control) {
        return Err(Stop::Bad);
    }
    let (major, minor, revision) = (number(view)?, number(view)?, number(view)?);
    if major > 1000 || minor > 1000 || !(50_000..60_000).contains(&revision) {
        return Err(Stop::Bad);
    }
    let database = text(view, 256)?;
    text(view, 256)?;
    text(view, 4096)?;
    Ok(Hello { revision, database })
}

/// Reads the server's hello behind its number, as far as every revision has it.
pub(super) fn server_hello(view: &mut Cursor<'_>) -> Result<u64, Stop> {
    let name = text(view, 256)?;
    if name.is_empty() || name.iter().any(u8::is_ascii_control) {
        return Err(Stop::Bad);
    }
    let (major, minor, revision) = (number(view)?, number(view)?, number(view)?);
    if major > 1000 || minor > 1000 || !(50_000..60_000).contains(&revision) {
        return Err(Stop::Bad);
    }
    Ok(revision)
}

/// A query, as far as it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Query<'a> {
    pub(super) trace: Option<([u8; 16], [u8; 8], u8)>,
    pub(super) text: &'a [u8],
}

/// Longest text of a query that is believed.
const MAX_QUERY: u64 = 1 << 28;

/// Reads a query behind its number. `cut` says that the rest will not come; then half a text is better than none.
pub(super) fn query<'a>(view: &mut Cursor<'a>, revision: u64, cut: bool) -> Result<Query<'a>, Stop> {
    let id = text(view, 512)?;
    if id.iter().any(u8::is_ascii_control) {
        return Err(Stop::Bad);
    }
    let mut query = Query::default();
    // Origin of the query: 0 none, 1 a user, 2 another server.
    let kind = byte(view)?;
    if kind > 2 {
        return Err(Stop::Bad);
    }
    if kind > 0 {
        info(view, revision, &mut query)?;
    }
    settings(view)?;
    // Roles, then the secret of servers among each other.
    if revision >= 54_472 {
        text(view, 1 << 16)?;
    }
    if revision >= 54_441 {
        text(view, 4096)?;
    }
    let (stage, compression) = (number(view)?, number(view)?);
    if stage > 10 || compression > 1 {
        return Err(Stop::Bad);
    }
    let len = number(view)?;
    if len > MAX_QUERY {
        return Err(Stop::Bad);
    }
    let len = at_most(len, usize::MAX);
    let there = view.rest().len();
    query.text = match view.take(len) {
        Some(text) => text,
        None if cut || there >= MAX_TEXT => view.take(there.min(MAX_TEXT)).unwrap_or_default(),
        None => return Err(Stop::More),
    };
    Ok(query)
}

/// Bytes of the text of a query that are enough.
const MAX_TEXT: usize = 4096;

/// The client's description of itself and of the first query of a distributed one.
fn info(view: &mut Cursor<'_>, revision: u64, query: &mut Query<'_>) -> Result<(), Stop> {
    for _ in 0..3 {
        text(view, 1024)?;
    }
    if revision >= 54_449 {
        view.take(8).ok_or(Stop::More)?;
    }
    // Interface 1 is the native protocol. It also names the user's machine and program.
    if byte(view)? != 1 {
        return Err(Stop::Bad);
    }
    for _ in 0..3 {
        text(view, 1024)?;
    }
    for _ in 0..3 {
        number(view)?;
    }
    if revision >= 54_060 {
        text(view, 1024)?;
    }
    if revision >= 54_448 {
        number(view)?;
    }
    if revision >= 54_401 {
        number(view)?;
    }
    if revision >= 54_442 && byte(view)? == 1 {
        let mut trace: [u8; 16] = view.array().ok_or(Stop::More)?;
        let mut span: [u8; 8] = view.array().ok_or(Stop::More)?;
        text(view, 1024)?;
        let flags = byte(view)?;
        // Two little-endian words, the high one first.
        let (high, low) = trace.split_at_mut(8);
        high.reverse();
        low.reverse();
        span.reverse();
        query.trace = Some((trace, span, flags));
    }
    if revision >= 54_453 {
        for _ in 0..3 {
            number(view)?;
        }
    }
    if revision >= 54_475 {
        number(view)?;
        number(view)?;
    }
    if revision >= 54_476 && byte(view)? != 0 {
        text(view, 1 << 16)?;
    }
    Ok(())
}

/// Steps over settings: names, flags, values; a name without letters ends them.
fn settings(view: &mut Cursor<'_>) -> Result<(), Stop> {
    for _ in 0..1000 {
        let name = text(view, 256)?;
        if name.is_empty() {
            return Ok(());
        }
        if !name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')) {
            return Err(Stop::Bad);
        }
        number(view)?;
        text(view, 1 << 16)?;
    }
    Err(Stop::Bad)
}

/// An exception of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exception<'a> {
    pub(super) code: i32,
    /// The part of the text that describes the error, without the statement.
    pub(super) text: &'a [u8],
}

/// Reads an exception behind its number; its text as far as it is there if `cut`.
pub(super) fn exception<'a>(view: &mut Cursor<'a>, cut: bool) -> Result<Exception<'a>, Stop> {
    let code = view.u32_le().ok_or(Stop::More)?;
    let code = i32::from_le_bytes(code.to_le_bytes());
    let name = text(view, 256)?;
    if !(0..100_000).contains(&code) || !name.starts_with(b"DB::") {
        return Err(Stop::Bad);
    }
    let len = at_most(number(view)?, usize::MAX);
    let there = view.rest().len();
    if there < len && there < 256 && !cut {
        return Err(Stop::More);
    }
    let whole = view.take(len.min(256).min(there)).unwrap_or_default();
    // The query follows: behind a colon, in brackets, in quotes.
    let body = whole.strip_prefix(b"DB::Exception: ").unwrap_or(whole);
    let end = body.iter().position(|b| matches!(b, b':' | b'\'' | b'"' | b'`' | b'(')).unwrap_or(body.len());
    Ok(Exception { code, text: body.get(..end).unwrap_or_default().trim_ascii() })
}
