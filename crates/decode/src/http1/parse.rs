//! The state machine of one HTTP/1 connection: finds heads and the ends of bodies. `emit` reads the heads.

use super::emit::{self, Framing, Seen};
use super::reason;
use super::scan::{chunk_size, fields_end, find, Found};
use super::start::{cut_request_line, status_line};
use super::state::{after_head, State, Stream, Waiting, LOST, READY};
use crate::framing::Out;
use crate::mask::KeptHttp;
use crate::semantics::Peek;
use crate::text::{at_most, len64};
use crate::{OpenEnd, Parser, MAX_BUFFERED};
use memchr::memchr;
use std::collections::VecDeque;
use std::sync::Arc;
use wirespan_model::{Chunk, Item, Side};

/// Unanswered requests whose method is remembered.
pub const MAX_OUTSTANDING: usize = 1024;
/// Capacity that an empty buffer keeps, so that split heads cost no allocation each.
const KEPT_CAPACITY: usize = 2048;

/// Parser of one connection.
#[derive(Debug, Default)]
pub struct Http1Parser {
    client: Stream,
    server: Stream,
    asked: VecDeque<Waiting>,
    /// Reads the body of the response that is under way.
    answer: Option<Box<Peek>>,
    /// The server side lost its place since the last request: older requests have been answered unseen.
    pub(super) server_lost: bool,
    /// Bytes of the chunks of the present answer are missing, which has been told.
    pub(super) chunks_missing: bool,
    /// The connection speaks another protocol now.
    upgraded: bool,
    /// The values that the user lets through.
    kept: Option<Arc<KeptHttp>>,
}

impl Parser for Http1Parser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        self.resume(&chunk);
        let mut rest = chunk.bytes;
        while !rest.is_empty() && !self.upgraded {
            let taken = self.step(chunk.side, rest, chunk.missing > 0, out).max(1);
            rest = rest.get(taken..).unwrap_or_default();
        }
        if self.upgraded {
            let stream = self.stream(chunk.side);
            stream.offset = stream.offset.saturating_add(len64(rest.len())).saturating_add(chunk.missing);
        } else if chunk.missing > 0 {
            self.gap(chunk.side, chunk.missing, out);
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        for side in [Side::Client, Side::Server] {
            self.unfinished(side, out);
            self.stream(side).buf = Vec::new();
        }
    }

    fn buffered(&self) -> usize {
        self.client.buf.len().saturating_add(self.server.buf.len())
    }

    fn open_end(&self, side: Side) -> OpenEnd {
        use State::{ChunkData, ChunkEnd, ChunkSize, SomeChunk, Trailer, UntilClose};
        match self.server.state {
            _ if side == Side::Client => OpenEnd::Other,
            ChunkSize { .. } | ChunkData { .. } | ChunkEnd | Trailer { .. } | UntilClose => OpenEnd::Comes,
            SomeChunk { .. } => OpenEnd::Lost,
            _ => OpenEnd::Other,
        }
    }
}

impl Http1Parser {
    pub(super) fn keeping(kept: Option<Arc<KeptHttp>>) -> Self {
        Http1Parser { kept, ..Http1Parser::default() }
    }

    pub(super) fn stream(&mut self, side: Side) -> &mut Stream {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Takes at least one byte of `bytes`; `cut` says that bytes are missing behind them.
    fn step(&mut self, side: Side, bytes: &[u8], cut: bool, out: Out<'_>) -> usize {
        let (taken, state, end) = match self.stream(side).state {
            State::Head { lost } => return self.head(side, bytes, lost, cut, out),
            State::SkipLine => match memchr(b'\n', bytes) {
                Some(i) => (i.saturating_add(1), LOST, false),
                None => (bytes.len(), State::SkipLine, false),
            },
            State::Length { left, end, unsure } => {
                let taken = at_most(left, bytes.len());
                self.peek(side, bytes.get(..taken).unwrap_or_default());
                match left.saturating_sub(len64(taken)) {
                    0 => (taken, READY, end),
                    left => (taken, State::Length { left, end, unsure }, false),
                }
            }
            State::ChunkSize { value, digits, rest } => match chunk_size(bytes, value, digits, rest) {
                Ok((taken, state)) => (taken, state, false),
                Err((taken, state)) => {
                    out(Item::Malformed { side, reason: reason::BAD_CHUNK_SIZE });
                    (taken, state, false)
                }
            },
            State::ChunkData { left } => {
                let taken = at_most(left, bytes.len());
                self.peek(side, bytes.get(..taken).unwrap_or_default());
                match left.saturating_sub(len64(taken)) {
                    0 => (taken, State::ChunkEnd, false),
                    left => (taken, State::ChunkData { left }, false),
                }
            }
            State::ChunkEnd => match bytes.first() {
                Some(b'\r') => (1, State::ChunkEnd, false),
                Some(b'\n') => (1, State::ChunkSize { value: 0, digits: 0, rest: false }, false),
                _ => {
                    out(Item::Malformed { side, reason: reason::BAD_CHUNK_END });
                    (1, State::SkipLine, false)
                }
            },
            State::SomeChunk { tail } => match tail.end(bytes) {
                Ok(taken) => (taken, READY, true),
                Err(tail) => (bytes.len(), State::SomeChunk { tail }, false),
            },
            State::Trailer { blank } => match fields_end(bytes, blank) {
                Ok(taken) => (taken, READY, true),
                Err(blank) => (bytes.len(), State::Trailer { blank }, false),
            },
            State::LongHead { blank, framing } => match fields_end(bytes, blank) {
                Ok(taken) => {
                    let state = after_head(framing, true);
                    (taken, state, state == READY)
                }
                Err(blank) => (bytes.len(), State::LongHead { blank, framing }, false),
            },
            State::UntilClose => (bytes.len(), State::UntilClose, false),
        };
        let stream = self.stream(side);
        stream.offset = stream.offset.saturating_add(len64(taken));
        stream.state = state;
        if end {
            let offset = stream.offset;
            self.end(side, offset, out);
        }
        taken
    }

    /// Bytes of a body.
    fn peek(&mut self, side: Side, bytes: &[u8]) {
        if let Some(peek) = self.peeks(side) {
            peek.body(side, bytes);
        }
    }

    /// What reads the body that a side sends now.
    pub(super) fn peeks(&mut self, side: Side) -> Option<&mut Peek> {
        match side {
            Side::Client => self.asked.back_mut().and_then(|w| w.peek.as_deref_mut()),
            Side::Server => self.answer.as_deref_mut(),
        }
    }

    /// A body ends.
    pub(super) fn end(&mut self, side: Side, offset: u64, out: Out<'_>) {
        let late = self.peeks(side).map(|p| p.late(side)).unwrap_or_default();
        out(Item::End { side, id: None, offset, late: &late });
        if side == Side::Server {
            self.answer = None;
        }
    }

    /// Looks for a head at the start of `bytes`, or of what is buffered followed by `bytes`.
    fn head(&mut self, side: Side, bytes: &[u8], lost: bool, cut: bool, out: Out<'_>) -> usize {
        let stream = self.stream(side);
        let before = stream.buf.len();
        if before == 0 {
            // Empty lines before a message are skipped (RFC 9112, 2.2).
            let empty = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
            if empty > 0 {
                stream.offset = stream.offset.saturating_add(len64(empty));
                return empty;
            }
            let window = bytes.get(..MAX_BUFFERED).unwrap_or(bytes);
            let (found, searched) = find(side, window, lost, false, 0);
            if found == Found::More && !cut {
                stream.buf.extend_from_slice(window);
                (stream.line_ok, stream.searched) = (searched > 0, searched);
                return window.len();
            }
            return self.found(side, window, found, lost, out);
        }
        let room = MAX_BUFFERED.saturating_sub(before);
        let window = bytes.get(..room).unwrap_or(bytes);
        stream.buf.extend_from_slice(window);
        let (found, searched) = find(side, &stream.buf, lost, stream.line_ok, stream.searched);
        if found == Found::More {
            (stream.line_ok, stream.searched) = (searched > 0, searched);
            return window.len();
        }
        let buf = std::mem::take(&mut stream.buf);
        let taken = self.found(side, &buf, found, lost, out);
        self.keep(side, buf);
        taken.saturating_sub(before)
    }

    /// Gives the buffer back for the next head that comes in pieces.
    pub(super) fn keep(&mut self, side: Side, mut buf: Vec<u8>) {
        let stream = self.stream(side);
        buf.clear();
        buf.shrink_to(KEPT_CAPACITY);
        stream.buf = buf;
        (stream.line_ok, stream.searched) = (false, 0);
    }

    /// Handles `found`, the result of a search in `window`, which starts at the stream's offset. Returns how many bytes
    /// of the window were taken.
    fn found(&mut self, side: Side, window: &[u8], found: Found, lost: bool, out: Out<'_>) -> usize {
        let (taken, state) = match found {
            Found::Head(len) => (len, self.emit(side, window.get(..len).unwrap_or(window), Seen::Whole, out)),
            Found::TooLong => {
                out(Item::Malformed { side, reason: reason::HEAD_TOO_LONG });
                (window.len(), self.emit(side, window, Seen::Part, out))
            }
            // Only where the rest was not captured.
            Found::More => (window.len(), self.cut_head(side, window, lost, out)),
            Found::Bad(len) => {
                if !lost {
                    out(Item::Malformed { side, reason: bad_line(side) });
                    self.server_lost |= side == Side::Server;
                }
                let ended = len.checked_sub(1).and_then(|i| window.get(i)) == Some(&b'\n');
                (len, if ended { LOST } else { State::SkipLine })
            }
        };
        let stream = self.stream(side);
        stream.offset = stream.offset.saturating_add(len64(taken));
        stream.state = state;
        taken
    }

    /// Emits a head that stays incomplete, or is late. The rest of the head is passed over if it still comes.
    fn unfinished(&mut self, side: Side, out: Out<'_>) {
        let stream = self.stream(side);
        if !matches!(stream.state, State::Head { .. }) || stream.buf.is_empty() || !readable(side, &stream.buf) {
            return;
        }
        let buf = std::mem::take(&mut stream.buf);
        out(Item::Malformed { side, reason: reason::HEAD_UNFINISHED });
        let state = self.emit(side, &buf, Seen::Part, out);
        let stream = self.stream(side);
        stream.offset = stream.offset.saturating_add(len64(buf.len()));
        stream.state = state;
        self.keep(side, buf);
    }

    /// The rest of the head in `window` was not captured.
    pub(super) fn cut_head(&mut self, side: Side, window: &[u8], lost: bool, out: Out<'_>) -> State {
        if readable(side, window) {
            out(Item::Malformed { side, reason: reason::HEAD_GAP });
            self.emit(side, window, Seen::Cut, out);
        } else if !lost {
            out(Item::Malformed { side, reason: reason::GAP });
        }
        LOST
    }

    /// Emits the message whose head starts at the stream's offset, and returns the state behind the head.
    fn emit(&mut self, side: Side, head: &[u8], seen: Seen, out: Out<'_>) -> State {
        if side == Side::Server && self.asked.is_empty() {
            // The answer to a request of which the end was lost, or that the server did not wait for.
            self.unfinished(Side::Client, out);
        }
        let offset = self.stream(side).offset;
        let told;
        let framing = match side {
            Side::Client => {
                let (framing, waiting) = emit::request(head, offset, seen, self.kept.as_deref(), out);
                told = waiting.peek.as_ref().is_some_and(|p| p.wants_request());
                self.ask(waiting, out);
                framing
            }
            Side::Server => {
                let answered = emit::response(head, offset, seen, &mut self.asked, self.kept.as_deref(), out);
                told = answered.peek.is_some();
                self.answer = answered.peek;
                self.chunks_missing = false;
                let framing = answered.framing;
                if answered.refused && self.asked.is_empty() && !matches!(self.client.state, State::Head { .. }) {
                    // The body may come all the same (RFC 9110, 10.1.1): the search passes over it.
                    self.client.state = LOST;
                }
                framing
            }
        };
        if let Framing::Upgrade(protocol) = framing {
            self.upgraded = true;
            out(Item::Upgrade(protocol));
        }
        match seen {
            Seen::Whole => after_head(framing, told),
            Seen::Cut => LOST,
            Seen::Part => {
                let blank = head.ends_with(b"\n") || head.ends_with(b"\n\r");
                State::LongHead { blank, framing }
            }
        }
    }

    /// Remembers a request. A client that asks again has read the answers so far unless it pipelines: this puts a
    /// server side that lost its place, or waits for a close that did not come, back on its feet.
    fn ask(&mut self, asked: Waiting, out: Out<'_>) {
        if self.server_lost {
            self.asked.clear();
            self.server_lost = false;
        }
        use State::{Length, SomeChunk, UntilClose};
        let waits = matches!(self.server.state, UntilClose | SomeChunk { .. } | Length { unsure: true, .. });
        if waits && self.asked.is_empty() {
            self.server.state = LOST;
        }
        if self.asked.len() >= MAX_OUTSTANDING {
            self.asked.pop_front();
            out(Item::Malformed { side: Side::Client, reason: reason::TOO_MANY_OUTSTANDING });
        }
        self.asked.push_back(asked);
    }

    pub(super) fn lose(&mut self, side: Side) {
        self.stream(side).state = LOST;
        self.server_lost |= side == Side::Server;
    }
}

/// Whether enough of a head is there to emit it. Its first line was checked, if it is whole.
fn readable(side: Side, head: &[u8]) -> bool {
    match (memchr(b'\n', head), side) {
        (Some(_), _) => true,
        (None, Side::Client) => cut_request_line(head).is_some(),
        (None, Side::Server) => status_line(head).is_some(),
    }
}

fn bad_line(side: Side) -> &'static str {
    match side {
        Side::Client => reason::BAD_REQUEST_LINE,
        Side::Server => reason::BAD_STATUS_LINE,
    }
}
