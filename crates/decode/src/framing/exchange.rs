//! Reads a connection message by message, for protocols in which requests and responses explain each other: their
//! messages have a header with a length, and both sides share one state.
//!
//! A [`Session`] says how long a message is and how many of its bytes it wants. [`SessionParser`] gathers those bytes,
//! hands them on once, and skips the rest, also where it was not captured. Only heads that a chunk broke off are
//! copied.

use super::Out;
use crate::text::{at_most, len64};
use crate::{Parser, MAX_BUFFERED};
use wirespan_model::{Body, Chunk, Item, Side};

/// What the session found at the start of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The session needs at least so many bytes to tell.
    More(usize),
    /// A message.
    Frame {
        /// Its whole length, at least 1.
        len: u64,
        /// Number of its first bytes that the session wants to see, at most [`MAX_BUFFERED`].
        keep: usize,
    },
    /// No message starts here.
    Bad,
}

/// A message, or the beginning of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// Sender.
    pub(crate) side: Side,
    /// Offset of its first byte.
    pub(crate) offset: u64,
    /// Its whole length.
    pub(crate) len: u64,
    /// Its first bytes: those that the session asked for, as far as they were captured.
    pub(crate) bytes: &'a [u8],
}

impl Frame<'_> {
    /// Offset behind the shown bytes. Items must not name offsets of bytes that have not come.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.shown())
    }

    /// Number of shown bytes.
    pub(crate) fn shown(&self) -> u64 {
        len64(self.bytes.len())
    }

    /// The body: the bytes of the message behind the shown ones.
    pub(crate) fn body(&self) -> Body {
        match self.len.saturating_sub(self.shown()) {
            0 => Body::None,
            n => Body::Length(n),
        }
    }
}

/// The meaning of the messages of both sides.
pub(crate) trait Session: Send {
    /// Reason for bytes that are no message.
    const BAD: &'static str;
    /// Reason for messages that were not captured.
    const GAP: &'static str;

    /// Reads the length of the message that begins with `bytes` (at least one).
    fn measure(&self, side: Side, bytes: &[u8]) -> Measure;
    /// Takes a message.
    fn frame(&mut self, frame: &Frame<'_>, out: Out<'_>);
    /// Whether a message may begin with these bytes, the first of a chunk, after the place was lost.
    fn resumes(&self, side: Side, bytes: &[u8]) -> bool;
    /// The place in the bytes of a side was lost. True if messages may have been lost, so that pairing has to start
    /// afresh.
    fn lost(&mut self, side: Side, out: Out<'_>) -> bool;
    /// Whether the place in the server's bytes is known again because the client has sent a new request. True once for
    /// each such request.
    fn realigns(&mut self) -> bool {
        false
    }
    /// Whether the connection speaks something else now.
    fn is_over(&self) -> bool {
        false
    }
    /// The connection ended.
    fn finish(&mut self, _out: Out<'_>) {}
    /// Bytes that the session keeps of messages that are not emitted yet.
    fn buffered(&self) -> usize {
        0
    }
}

/// Where a side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start of a message.
    Head,
    /// Inside of one: so many bytes are left.
    Skip(u64),
    /// Unknown, until a chunk starts like a message.
    Lost,
}

/// One direction.
#[derive(Debug)]
struct Stream {
    /// Offset of the first byte that was not taken; buffered bytes start here.
    offset: u64,
    state: State,
    buf: Vec<u8>,
}

impl Default for Stream {
    fn default() -> Self {
        Stream { offset: 0, state: State::Head, buf: Vec::new() }
    }
}

impl Stream {
    fn pass(&mut self, n: u64) {
        self.offset = self.offset.saturating_add(n);
    }
}

/// Parser of one connection for a [`Session`].
#[derive(Debug, Default)]
pub(crate) struct SessionParser<S> {
    client: Stream,
    server: Stream,
    session: S,
}

impl<S> SessionParser<S> {
    /// A parser with this session.
    pub(crate) fn of(session: S) -> Self {
        SessionParser { client: Stream::default(), server: Stream::default(), session }
    }
}

impl<S: Session> Parser for SessionParser<S> {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let side = chunk.side;
        let mut rest = chunk.bytes;
        let mut first = true;
        while !rest.is_empty() && !self.session.is_over() {
            let state = self.stream(side).state;
            let taken = match state {
                State::Skip(left) => {
                    let taken = at_most(left, rest.len());
                    self.skip(side, left, len64(taken));
                    taken
                }
                State::Lost if !first || !self.session.resumes(side, rest) => {
                    self.stream(side).pass(len64(rest.len()));
                    rest.len()
                }
                State::Head | State::Lost => {
                    self.stream(side).state = State::Head;
                    self.head(side, rest, out)
                }
            };
            rest = rest.get(taken.max(1)..).unwrap_or_default();
            first = false;
        }
        if self.session.is_over() {
            let stream = self.stream(side);
            let kept = len64(std::mem::take(&mut stream.buf).len());
            stream.pass(kept.saturating_add(len64(rest.len())).saturating_add(chunk.missing));
        } else if chunk.missing > 0 {
            self.gap(side, chunk.missing, out);
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        for side in [Side::Client, Side::Server] {
            self.broken_off(side, out);
        }
        self.session.finish(out);
        self.client.buf = Vec::new();
        self.server.buf = Vec::new();
    }

    fn buffered(&self) -> usize {
        self.client.buf.len().saturating_add(self.server.buf.len()).saturating_add(self.session.buffered())
    }
}

impl<S: Session> SessionParser<S> {
    fn stream(&mut self, side: Side) -> &mut Stream {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn skip(&mut self, side: Side, left: u64, n: u64) {
        let stream = self.stream(side);
        stream.pass(n);
        stream.state = match left.saturating_sub(n) {
            0 => State::Head,
            left => State::Skip(left),
        };
    }

    /// Reads at the start of a message, or goes on with one that was broken off; returns how many bytes were taken.
    fn head(&mut self, side: Side, rest: &[u8], out: Out<'_>) -> usize {
        let mut buf = std::mem::take(&mut self.stream(side).buf);
        let mut taken = 0usize;
        loop {
            let view = if buf.is_empty() { rest } else { buf.as_slice() };
            let target = match self.session.measure(side, view) {
                Measure::More(n) => n.max(view.len().saturating_add(1)),
                Measure::Frame { len, keep } => {
                    let want = at_most(len.max(1), keep.max(1)).min(MAX_BUFFERED);
                    if let Some(bytes) = view.get(..want) {
                        let from_chunk = if buf.is_empty() { want } else { taken };
                        let offset = self.offset(side);
                        self.deliver(&Frame { side, offset, len: len.max(1), bytes }, out);
                        buf.clear();
                        self.stream(side).buf = buf;
                        return from_chunk;
                    }
                    want
                }
                Measure::Bad => 0,
            };
            if target == 0 || target > MAX_BUFFERED {
                let kept = len64(buf.len().saturating_sub(taken));
                buf.clear();
                let stream = self.stream(side);
                stream.buf = buf;
                stream.state = State::Lost;
                stream.pass(kept.saturating_add(len64(rest.len())));
                self.session.lost(side, out);
                out(Item::Malformed { side, reason: S::BAD });
                return rest.len();
            }
            let more = rest.get(taken..).unwrap_or_default();
            let more = more.get(..target.saturating_sub(buf.len())).unwrap_or(more);
            if more.is_empty() {
                self.stream(side).buf = buf;
                return rest.len();
            }
            buf.extend_from_slice(more);
            taken = taken.saturating_add(more.len());
        }
    }

    fn offset(&mut self, side: Side) -> u64 {
        self.stream(side).offset
    }

    /// Hands a message on, and moves behind its shown bytes.
    fn deliver(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let stream = self.stream(frame.side);
        stream.pass(frame.shown());
        stream.state = match frame.len.saturating_sub(frame.shown()) {
            0 => State::Head,
            left => State::Skip(left),
        };
        self.session.frame(frame, out);
        if self.session.realigns() && self.server.state == State::Lost {
            self.server.state = State::Head;
        }
    }

    /// The rest of a buffered message will not come: hands its beginning on if its length is known.
    fn broken_off(&mut self, side: Side, out: Out<'_>) {
        let buf = std::mem::take(&mut self.stream(side).buf);
        if buf.is_empty() || self.session.is_over() {
            return;
        }
        let offset = self.offset(side);
        match self.session.measure(side, &buf) {
            Measure::Frame { len, .. } if len >= len64(buf.len()) => {
                self.deliver(&Frame { side, offset, len, bytes: &buf }, out);
            }
            _ => {
                let stream = self.stream(side);
                stream.pass(len64(buf.len()));
                stream.state = State::Lost;
            }
        }
    }

    /// `missing` bytes of a side were not captured.
    fn gap(&mut self, side: Side, missing: u64, out: Out<'_>) {
        let was_lost = self.stream(side).state == State::Lost;
        self.broken_off(side, out);
        let stream = self.stream(side);
        match stream.state {
            State::Skip(left) if missing <= left => self.skip(side, left, missing),
            _ => {
                stream.pass(missing);
                stream.state = State::Lost;
                if !was_lost && self.session.lost(side, out) {
                    out(Item::Malformed { side, reason: S::GAP });
                }
            }
        }
    }
}
