//! Bytes that were not captured: where a side stands behind them.

use super::parse::Http1Parser;
use super::reason;
use super::scan::chunk_size;
use super::state::{State, Tail, LAST, LOST, READY};
use crate::framing::Out;
use crate::text::len64;
use memchr::memchr;
use wirespan_model::{Chunk, Item, Side};

/// Longest line of a chunk's size that is believed at the start of a call.
const SIZE_LINE: usize = 32;

impl Http1Parser {
    /// `missing` bytes of a side were not captured.
    pub(super) fn gap(&mut self, side: Side, missing: u64, out: Out<'_>) {
        if let Some(peek) = self.peeks(side) {
            peek.missing(side, missing);
        }
        let stream = self.stream(side);
        let (mut lost, mut ended) = (None, None);
        let state = stream.state;
        let in_chunks = matches!(state, State::ChunkSize { .. } | State::ChunkData { .. } | State::ChunkEnd);
        match stream.state {
            State::Head { lost: false } if stream.buf.is_empty() => lost = Some(reason::GAP),
            State::Head { lost: already } => {
                let buf = std::mem::take(&mut stream.buf);
                if !buf.is_empty() {
                    self.cut_head(side, &buf, already, out);
                    let stream = self.stream(side);
                    stream.offset = stream.offset.saturating_add(len64(buf.len()));
                    self.keep(side, buf);
                }
                self.lose(side);
            }
            State::SkipLine => stream.state = LOST,
            State::Length { left, end, unsure } => {
                if missing < left {
                    stream.state = State::Length { left: left.saturating_sub(missing), end, unsure };
                } else {
                    ended = end.then(|| stream.offset.saturating_add(left));
                    stream.state = READY;
                    lost = (missing > left).then_some(reason::GAP);
                }
            }
            State::ChunkData { left } => match missing.checked_sub(left) {
                Some(0) => stream.state = State::ChunkEnd,
                // The call ends with the line end of its only chunk: the usual call of a stream.
                Some(2) => stream.state = State::ChunkSize { value: 0, digits: 0, rest: false },
                Some(beyond) => {
                    if beyond == len64(LAST.len()) {
                        // Exactly the last chunk fits: the usual end of a body written with one call.
                        ended = Some(stream.offset.saturating_add(missing));
                    }
                    lost = Some(reason::GAP);
                }
                None => stream.state = State::ChunkData { left: left.saturating_sub(missing) },
            },
            State::ChunkSize { .. } | State::ChunkEnd | State::Trailer { .. } | State::LongHead { .. } => {
                lost = Some(reason::GAP);
            }
            State::SomeChunk { .. } => stream.state = State::SomeChunk { tail: Tail::default() },
            State::UntilClose => {}
        }
        let goes_on = in_chunks && side == Side::Server && ended.is_none();
        if let Some(offset) = ended {
            self.end(side, offset, out);
        }
        if let Some(reason) = lost {
            if !goes_on || !self.chunks_missing {
                out(Item::Malformed { side, reason });
            }
            self.lose(side);
            if goes_on {
                self.chunks_missing = true;
                self.stream(side).state = State::SomeChunk { tail: Tail::default() };
            }
        }
        let stream = self.stream(side);
        stream.offset = stream.offset.saturating_add(missing);
    }

    /// Finds the place again in an answer of which chunks are missing: a call usually begins with a chunk.
    pub(super) fn resume(&mut self, call: &Chunk<'_>) {
        let stream = self.stream(call.side);
        if !matches!(stream.state, State::SomeChunk { .. }) {
            return;
        }
        if call.bytes.starts_with(b"HTTP/1.") {
            stream.state = LOST;
        } else if begins_chunk(call) {
            stream.state = State::ChunkSize { value: 0, digits: 0, rest: false };
        }
    }
}

/// True if a call begins with the size of a chunk, and what is seen behind that chunk fits.
fn begins_chunk(call: &Chunk<'_>) -> bool {
    let line = memchr(b'\n', call.bytes.get(..SIZE_LINE).unwrap_or(call.bytes));
    let line = line.and_then(|end| call.bytes.get(..=end)).filter(|line| line.ends_with(b"\r\n"));
    match line.map(|line| chunk_size(line, 0, 0, false)) {
        Some(Ok((taken, State::ChunkData { left }))) => {
            let behind = usize::try_from(left).ok().and_then(|left| call.bytes.get(taken.saturating_add(left)..));
            behind.is_none_or(|b| b.is_empty() || b == b"\r" || b.starts_with(b"\r\n"))
        }
        Some(Ok((taken, State::Trailer { .. }))) => call.bytes.get(taken..).is_some_and(|b| b.starts_with(b"\r\n")),
        _ => false,
    }
}
