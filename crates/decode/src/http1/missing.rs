//! Bytes that were not captured: where a side stands behind them.

use super::parse::Http1Parser;
use super::reason;
use super::state::{State, Tail, LAST, LOST, READY};
use crate::framing::Out;
use crate::text::len64;
use wirespan_model::{Item, Side};

impl Http1Parser {
    /// `missing` bytes of a side were not captured.
    pub(super) fn gap(&mut self, side: Side, missing: u64, out: Out<'_>) {
        if let Some(peek) = self.peeks(side) {
            peek.missing(side, missing);
        }
        let stream = self.stream(side);
        let (mut lost, mut ended) = (None, None);
        let was = stream.state;
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
        let in_chunks = side == Side::Server && ended.is_none();
        if let Some(offset) = ended {
            self.end(side, offset, out);
        }
        if let Some(reason) = lost {
            out(Item::Malformed { side, reason });
            self.lose(side);
            if in_chunks && matches!(was, State::ChunkData { .. } | State::ChunkSize { .. } | State::ChunkEnd) {
                self.stream(side).state = State::SomeChunk { tail: Tail::default() };
            }
        }
        let stream = self.stream(side);
        stream.offset = stream.offset.saturating_add(missing);
    }
}
