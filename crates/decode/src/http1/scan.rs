//! Searches in bytes: for a head, through a chunk size, for the end of a section of fields.

use super::head::head_end;
use super::start::{cut_request_line, maybe_request_line, maybe_status_line, request_line, status_line, METHODS};
use super::state::{State, LOST};
use crate::MAX_BUFFERED;
use memchr::memchr;
use wirespan_model::Side;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole head of this length.
    Head(usize),
    /// No end within [`MAX_BUFFERED`].
    TooLong,
    /// Could become one.
    More,
    /// So many bytes are no start line.
    Bad(usize),
}

/// Looks for a head at the start of `window`. The number says how far it was searched; 0 while the start line is
/// incomplete. A place that is `lost` takes only known methods for the start of a request.
pub(super) fn find(side: Side, window: &[u8], lost: bool, line_ok: bool, searched: usize) -> (Found, usize) {
    let mut from = searched;
    if !line_ok {
        let Some(end) = memchr(b'\n', window) else {
            let maybe = match side {
                Side::Client => maybe_request_line(window),
                Side::Server => maybe_status_line(window),
            };
            let found = match (maybe, window.len() >= MAX_BUFFERED) {
                (true, true) if side == Side::Server || cut_request_line(window).is_some() => Found::TooLong,
                (true, false) => Found::More,
                _ => Found::Bad(window.len()),
            };
            return (found, 0);
        };
        let line = window.get(..end).unwrap_or_default();
        let valid = match side {
            Side::Client => request_line(line).is_some_and(|r| !lost || METHODS.contains(&r.method)),
            Side::Server => status_line(line).is_some(),
        };
        if !valid {
            return (Found::Bad(end.saturating_add(1)), 0);
        }
        from = end;
    }
    match head_end(window, from) {
        Some(len) => (Found::Head(len), from),
        None if window.len() >= MAX_BUFFERED => (Found::TooLong, from),
        // A line end may be cut from the empty line behind it.
        None => (Found::More, window.len().saturating_sub(2).max(1)),
    }
}

/// Reads a chunk size, its extension and its line end. Both outcomes say how many bytes were taken, and the next state.
pub(super) fn chunk_size(
    bytes: &[u8],
    mut value: u64,
    mut digits: u8,
    mut rest: bool,
) -> Result<(usize, State), (usize, State)> {
    for (i, b) in bytes.iter().enumerate() {
        let taken = i.saturating_add(1);
        let digit = char::from(*b).to_digit(16).filter(|_| !rest);
        match (b, digit) {
            (_, Some(digit)) => {
                digits = digits.saturating_add(1);
                let next = value.checked_mul(16).and_then(|v| v.checked_add(u64::from(digit)));
                value = next.ok_or((taken, State::SkipLine))?;
            }
            (b'\n', _) if digits == 0 => return Err((taken, LOST)),
            (b'\n', _) if value == 0 => return Ok((taken, State::Trailer { blank: true })),
            (b'\n', _) => return Ok((taken, State::ChunkData { left: value })),
            _ if digits == 0 => return Err((taken, State::SkipLine)),
            (b'\r' | b';' | b' ' | b'\t', _) => rest = true,
            _ if rest => {}
            _ => return Err((taken, State::SkipLine)),
        }
    }
    Ok((bytes.len(), State::ChunkSize { value, digits, rest }))
}

/// Looks for the empty line that ends a section of fields. `Ok` with the bytes up to behind it; `Err` says whether the
/// line that goes on is empty so far.
pub(super) fn fields_end(bytes: &[u8], mut blank: bool) -> Result<usize, bool> {
    let mut start = 0usize;
    for end in memchr::memchr_iter(b'\n', bytes) {
        let line = bytes.get(start..end).unwrap_or_default();
        if blank && matches!(line, b"" | b"\r") {
            return Ok(end.saturating_add(1));
        }
        (blank, start) = (true, end.saturating_add(1));
    }
    let open = bytes.get(start..).unwrap_or_default();
    Err(blank && matches!(open, b"" | b"\r"))
}
