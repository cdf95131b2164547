//! Reads a connection frame by frame, for RPC protocols: their frames have a header with a length, or end where a walk
//! over their fields ends, and come on TCP or in datagrams.
//!
//! A [`Format`] says where a frame ends ([`Format::start`]) and reads its head ([`Format::head`]). If the messages of a
//! format have no length ([`Start::Walk`]), [`Format::walk`] goes on in their bytes until it finds the end.

use super::Out;
use crate::text::{at_most, len64};
use crate::{Parser, MAX_BUFFERED};
use wirespan_model::{Body, Chunk, Item, Message, Side, Transport};

/// Answer of a format to the bytes at the start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Too few to tell.
    More,
    /// No frame starts here.
    Bad,
    /// A frame of `len` bytes; [`Format::head`] wants its first `want` bytes, if they were captured.
    Frame {
        /// Bytes of the frame.
        len: u64,
        /// Bytes of its head.
        want: usize,
    },
    /// A message without a length; [`Format::walk`] finds its end behind the head.
    Walk {
        /// Bytes of its head.
        head: usize,
    },
}

/// Answer of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// All bytes belong to the message.
    On,
    /// The message ends behind this many bytes.
    End(usize),
    /// The bytes are no message of this format.
    Bad,
}

/// Why bytes could not be read; the names of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// No frame where one has to start.
    pub bad: &'static str,
    /// Bytes were not captured; ends in `_gap`.
    pub gap: &'static str,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Sender.
    pub side: Side,
    /// Offset of its first byte.
    pub offset: u64,
    /// Its first bytes: the wanted ones, as far as they were captured.
    pub bytes: &'a [u8],
    /// Its whole length; `None` if only the walk will tell.
    pub len: Option<u64>,
}

impl Frame<'_> {
    /// Writes place and length of the frame into a message.
    pub fn place(&self, m: &mut Message<'_>) {
        m.offset = self.offset;
        m.head_len = len64(self.bytes.len());
        m.body = match self.len.map(|len| len.saturating_sub(m.head_len)) {
            Some(0) => Body::None,
            Some(rest) => Body::Length(rest),
            None => Body::Open,
        };
    }
}

/// The frames of a protocol. A value holds the state of one connection.
pub trait Format: Send {
    /// Names of the counters.
    fn reasons(&self) -> Reasons;
    /// Looks at the start of a frame. After a loss (`lost`) the place is a guess: answer [`Start::Frame`] only if the
    /// bytes cannot be anything else.
    fn start(&mut self, side: Side, bytes: &[u8], lost: bool) -> Start;
    /// Asked after [`Format::start`] answered [`Start::More`], if no more bytes will come.
    fn start_cut(&mut self, _side: Side, _bytes: &[u8]) -> Start {
        Start::More
    }
    /// Reads the head of a frame and emits what it says.
    fn head(&mut self, frame: &Frame<'_>, out: Out<'_>);
    /// Goes on in a message without a length.
    fn walk(&mut self, _side: Side, _bytes: &[u8]) -> Walked {
        Walked::Bad
    }
    /// Bytes of a message without a length were not captured; false if the walk cannot go on behind them.
    fn walk_gap(&mut self, _side: Side, _missing: u64) -> bool {
        false
    }
    /// A message without a length ended before `offset`.
    fn walked(&mut self, _side: Side, _offset: u64, _out: Out<'_>) {}
    /// Frames of this side may have been lost.
    fn lost(&mut self, _side: Side) {}
    /// See [`Parser::needs_whole`].
    fn needs_whole(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start of a frame; if `lost`, only at the start of a chunk.
    Start {
        lost: bool,
    },
    Skip {
        left: u64,
    },
    Walk,
}

#[derive(Debug)]
struct Stream {
    offset: u64,
    state: State,
    /// Beginning of a head.
    buf: Vec<u8>,
}

impl Stream {
    fn new() -> Self {
        Stream { offset: 0, state: State::Start { lost: false }, buf: Vec::new() }
    }

    fn pass(&mut self, n: u64) {
        self.offset = self.offset.saturating_add(n);
    }
}

/// A parser made of a [`Format`].
pub struct CallParser<F> {
    format: F,
    sides: [Stream; 2],
    datagrams: bool,
}

impl<F: Format> CallParser<F> {
    /// A parser for one connection.
    pub fn new(format: F, transport: Transport) -> Self {
        let datagrams = matches!(transport, Transport::Udp | Transport::UnixDgram);
        CallParser { format, sides: [Stream::new(), Stream::new()], datagrams }
    }

    fn stream(&mut self, side: Side) -> &mut Stream {
        let [client, server] = &mut self.sides;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }

    fn lose(&mut self, side: Side, reason: &'static str, out: Out<'_>) {
        self.stream(side).state = State::Start { lost: true };
        self.format.lost(side);
        out(Item::Malformed { side, reason });
    }

    /// At the start of a frame, or in its head; takes at least one byte.
    fn start(&mut self, side: Side, bytes: &[u8], lost: bool, place: Place, out: Out<'_>) -> usize {
        let stream = self.stream(side);
        let before = stream.buf.len();
        if before == 0 && lost && !place.first {
            stream.pass(len64(bytes.len()));
            return bytes.len();
        }
        let window = bytes.get(..MAX_BUFFERED.saturating_sub(before)).unwrap_or(bytes);
        let cut = place.cut && window.len() == bytes.len();
        let mut buf = std::mem::take(&mut stream.buf);
        if before > 0 {
            buf.extend_from_slice(window);
        }
        let view = if before > 0 { buf.as_slice() } else { window };
        let read = self.frame(side, view, before, lost, cut, out);
        let stream = self.stream(side);
        let taken = match read {
            Read::Taken(n) => {
                buf.clear();
                n.saturating_sub(before)
            }
            Read::More if view.len() < MAX_BUFFERED && !cut => {
                if before == 0 {
                    buf.extend_from_slice(window);
                }
                window.len()
            }
            Read::More | Read::Bad => {
                stream.pass(len64(before.saturating_add(bytes.len())));
                buf.clear();
                // If the captured bytes end in a head, the missing ones will be counted as a gap.
                let broken_off = cut && read == Read::More;
                if !lost && !broken_off {
                    let bad = self.format.reasons().bad;
                    self.lose(side, bad, out);
                }
                bytes.len()
            }
        };
        self.stream(side).buf = buf;
        taken
    }

    /// Reads a frame's head from `view`, which begins at the stream's offset.
    fn frame(&mut self, side: Side, view: &[u8], before: usize, lost: bool, cut: bool, out: Out<'_>) -> Read {
        let offset = self.stream(side).offset;
        let start = match self.format.start(side, view, lost) {
            Start::More if cut && !lost => self.format.start_cut(side, view),
            start => start,
        };
        match start {
            Start::More => Read::More,
            Start::Bad => Read::Bad,
            Start::Frame { len, .. } if len == 0 || len < len64(before) => Read::Bad,
            Start::Frame { len, want } => {
                let want = at_most(len, want.clamp(1, MAX_BUFFERED)).max(before);
                let Some(bytes) = view.get(..want).or_else(|| Some(view).filter(|_| cut)) else {
                    return Read::More;
                };
                if bytes.is_empty() {
                    return Read::Bad;
                }
                let taken = len64(bytes.len());
                self.format.head(&Frame { side, offset, bytes, len: Some(len) }, out);
                let stream = self.stream(side);
                stream.pass(taken);
                stream.state = match len.saturating_sub(taken) {
                    0 => State::Start { lost: false },
                    left => State::Skip { left },
                };
                Read::Taken(bytes.len())
            }
            Start::Walk { head } => {
                let Some(bytes) = view.get(..head.max(before)).filter(|b| !b.is_empty()) else { return Read::Bad };
                self.format.head(&Frame { side, offset, bytes, len: None }, out);
                let stream = self.stream(side);
                stream.pass(len64(bytes.len()));
                stream.state = State::Walk;
                Read::Taken(bytes.len())
            }
        }
    }

    fn walk(&mut self, side: Side, bytes: &[u8], out: Out<'_>) -> usize {
        match self.format.walk(side, bytes) {
            Walked::On => {
                self.stream(side).pass(len64(bytes.len()));
                bytes.len()
            }
            Walked::End(n) => {
                let stream = self.stream(side);
                stream.pass(len64(n));
                stream.state = State::Start { lost: false };
                let offset = stream.offset;
                self.format.walked(side, offset, out);
                n
            }
            Walked::Bad => {
                self.stream(side).pass(len64(bytes.len()));
                let bad = self.format.reasons().bad;
                self.lose(side, bad, out);
                bytes.len()
            }
        }
    }

    /// The rest of a buffered head will not come. Reads the part that is there.
    fn broken_off(&mut self, side: Side, out: Out<'_>) {
        let stream = self.stream(side);
        let State::Start { lost } = stream.state else { return };
        let buf = std::mem::take(&mut stream.buf);
        if !buf.is_empty() {
            let taken = match self.frame(side, &buf, buf.len(), lost, true, out) {
                Read::Taken(n) => n,
                Read::More | Read::Bad => 0,
            };
            self.stream(side).pass(len64(buf.len().saturating_sub(taken)));
        }
    }

    /// Bytes of this side were not captured.
    fn gap(&mut self, side: Side, missing: u64, out: Out<'_>) {
        self.broken_off(side, out);
        let gap = self.format.reasons().gap;
        let state = self.stream(side).state;
        match state {
            State::Skip { left } if missing < left => {
                self.stream(side).state = State::Skip { left: left.saturating_sub(missing) };
            }
            State::Skip { left } if missing == left => self.stream(side).state = State::Start { lost: false },
            State::Walk if self.format.walk_gap(side, missing) => {}
            State::Start { lost: true } => {}
            _ => self.lose(side, gap, out),
        }
        self.stream(side).pass(missing);
    }

    /// One datagram: whole frames, one behind the other.
    fn datagram(&mut self, chunk: Chunk<'_>, out: Out<'_>) {
        let side = chunk.side;
        let mut rest = chunk.bytes;
        self.stream(side).state = State::Start { lost: false };
        while !rest.is_empty() {
            let taken = match self.frame(side, rest, 0, false, true, out) {
                Read::Taken(n) => match self.stream(side).state {
                    State::Skip { left } => {
                        let more = at_most(left, rest.len().saturating_sub(n));
                        self.stream(side).pass(len64(more));
                        n.saturating_add(more)
                    }
                    _ => n,
                },
                Read::More | Read::Bad => {
                    self.stream(side).pass(len64(rest.len()));
                    let bad = self.format.reasons().bad;
                    out(Item::Malformed { side, reason: bad });
                    rest.len()
                }
            };
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
        let stream = self.stream(side);
        stream.pass(chunk.missing);
        stream.state = State::Start { lost: false };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Taken(usize),
    More,
    Bad,
}

/// Where the bytes of a step lie.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// They start a chunk.
    first: bool,
    /// Bytes are missing behind them.
    cut: bool,
}

impl<F: Format> Parser for CallParser<F> {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        if self.datagrams {
            return self.datagram(chunk, out);
        }
        let side = chunk.side;
        let mut rest = chunk.bytes;
        let mut place = Place { first: true, cut: chunk.missing > 0 };
        while !rest.is_empty() {
            let taken = match self.stream(side).state {
                State::Start { lost } => self.start(side, rest, lost, place, out),
                State::Walk => self.walk(side, rest, out),
                State::Skip { left } => {
                    let n = at_most(left, rest.len());
                    let stream = self.stream(side);
                    stream.pass(len64(n));
                    stream.state = match left.saturating_sub(len64(n)) {
                        0 => State::Start { lost: false },
                        left => State::Skip { left },
                    };
                    n
                }
            };
            // A walk may end before it took anything.
            rest = rest.get(taken..).unwrap_or_default();
            place.first = false;
        }
        if chunk.missing > 0 {
            self.gap(side, chunk.missing, out);
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        for side in [Side::Client, Side::Server] {
            self.broken_off(side, out);
            self.stream(side).buf = Vec::new();
        }
    }

    fn needs_whole(&self) -> bool {
        self.format.needs_whole()
    }

    fn buffered(&self) -> usize {
        self.sides.iter().fold(0, |n, s| n.saturating_add(s.buf.len()))
    }
}
