//! Where each side of an HTTP/1 connection is, and the requests that wait for their responses.

use super::emit::Framing;
use crate::semantics::Peek;

/// A request that waits for its response.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) asked: Asked,
    /// Reads its body, and later that of its response.
    pub(super) peek: Option<Box<Peek>>,
}

/// The facts about a request that its response needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asked {
    Head,
    Connect,
    /// Sends its body only after a `100`.
    Expecting,
    #[default]
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Offset of the first byte that was not taken; buffered bytes start here.
    pub(super) offset: u64,
    pub(super) state: State,
    /// Beginning of a head.
    pub(super) buf: Vec<u8>,
    /// Start line of the buffered head is valid.
    pub(super) line_ok: bool,
    /// How far the buffer was searched for the end of the head.
    pub(super) searched: usize,
}

/// Where a side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// At the start of a line that may start a message; in search of one if `lost`.
    Head { lost: bool },
    /// In a line that starts no message.
    SkipLine,
    /// In a body of known length; `end` asks for an [`Item::End`], `unsure` if the request was not seen.
    Length { left: u64, end: bool, unsure: bool },
    /// In a chunk size; `digits` read so far, `rest` if behind them.
    ChunkSize { value: u64, digits: u8, rest: bool },
    /// In the data of a chunk.
    ChunkData { left: u64 },
    /// Behind the data of a chunk.
    ChunkEnd,
    /// In a chunked body of which bytes are missing; how much of its end the last bytes may be.
    SomeChunk { tail: Tail },
    /// In the trailer section; `blank` if the line is empty so far.
    Trailer { blank: bool },
    /// In a head of which the beginning was emitted.
    LongHead { blank: bool, framing: Framing },
    /// In a body that the close ends.
    UntilClose,
}

/// The last chunk, behind the data of another one.
pub(super) const LAST: &[u8] = b"\r\n0\r\n\r\n";

/// How many of the last bytes of a body may be the beginning of [`LAST`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tail(u8);

impl Tail {
    /// Looks for the end of the body: `Ok` with the number of bytes up to behind it.
    pub(super) fn end(self, bytes: &[u8]) -> Result<usize, Tail> {
        let mut seen = usize::from(self.0);
        for (i, byte) in bytes.iter().enumerate() {
            seen = match LAST.get(seen) == Some(byte) {
                true => seen.saturating_add(1),
                // The line end behind a 0 may be the one before the last chunk.
                false if seen == 5 && *byte == b'0' => 3,
                false => usize::from(*byte == b'\r'),
            };
            if seen == LAST.len() {
                return Ok(i.saturating_add(1));
            }
        }
        Err(Tail(u8::try_from(seen).unwrap_or(0)))
    }
}

impl Default for State {
    fn default() -> Self {
        State::Head { lost: false }
    }
}

pub(super) const LOST: State = State::Head { lost: true };
pub(super) const READY: State = State::Head { lost: false };

/// State behind a head. `end` asks for an [`Item::End`] of a body of known length.
pub(super) fn after_head(framing: Framing, end: bool) -> State {
    match framing {
        Framing::None | Framing::Upgrade(_) | Framing::Length(0) | Framing::LengthUnsure(0) => READY,
        Framing::Length(left) => State::Length { left, end, unsure: false },
        Framing::LengthUnsure(left) => State::Length { left, end, unsure: true },
        Framing::Chunked => State::ChunkSize { value: 0, digits: 0, rest: false },
        Framing::UntilClose => State::UntilClose,
        Framing::Unknown => LOST,
    }
}
