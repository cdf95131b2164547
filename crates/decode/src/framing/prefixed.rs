//! Reads one side of a connection whose messages begin with their length, and whose messages may have holes.
//!
//! A frame is handed on once: when [`Framing::keep`] bytes of it (or all of it) are there, or when no more of it will
//! come. If bytes in the middle of a frame were not captured, the frame ends there, unless the protocol puts the frame
//! together with the hole in it ([`Framing::bridges`]).
//!
//! A connection starts in the middle of anything. There, and after bytes that were not captured, reading begins at the
//! next chunk that [`Framing::start`] recognises; until then nothing is reported.

use super::{Out, PerSide};
use crate::text::{at_most, len64};
use crate::Parser;
use wirespan_model::{Chunk, Item, Side};

/// Most bytes that a [`Framing::start`] may ask for before it decides.
const MAX_START: usize = 1024;

/// Answer to the bytes at the start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// A frame of so many bytes on the wire, its length field included.
    Frame(u64),
    /// So many bytes without a message.
    Silent(u64),
    /// Too few bytes to tell. Never the answer when a whole frame is there.
    More,
    /// No frame of this protocol.
    Bad,
}

/// A hole: its place in the captured bytes, and the number of bytes that were not captured there.
pub(crate) type Hole = (usize, u64);

/// Most holes of one frame.
const MAX_HOLES: usize = 64;

fn missing(holes: &[Hole]) -> u64 {
    holes.iter().fold(0, |sum, (_, len)| sum.saturating_add(*len))
}

/// A frame, or its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) side: Side,
    /// Its bytes, the length field included.
    pub(crate) bytes: &'a [u8],
    /// Bytes between them that were not captured.
    pub(crate) holes: &'a [Hole],
    /// Offset of its first byte.
    pub(crate) offset: u64,
    /// Length on the wire.
    pub(crate) len: u64,
}

impl Frame<'_> {
    /// Length of its handed-on part: the bytes, and the holes between them.
    pub(crate) fn head_len(&self) -> u64 {
        len64(self.bytes.len()).saturating_add(missing(self.holes))
    }

    /// Length of the part that was not handed on.
    pub(crate) fn rest(&self) -> u64 {
        self.len.saturating_sub(self.head_len())
    }
}

/// The frames of a protocol.
pub(crate) trait Framing {
    /// Counter for bytes that are no frame.
    const BAD: &'static str;
    /// Counter for bytes between frames that were not captured; ends in `_gap`.
    const GAP: &'static str;
    /// Bytes of a frame that are wanted.
    const KEEP: usize;
    /// The same for the frame that begins so. No fewer than [`Self::KEEP`].
    fn keep(&self, _side: Side, _bytes: &[u8]) -> usize {
        Self::KEEP
    }
    /// Whether a frame of this side goes on behind bytes in its middle that were not captured.
    fn bridges(&self, _side: Side) -> bool {
        false
    }
    /// What begins with `bytes`; `lost` asks for certainty, since they may be the middle of anything.
    fn start(&self, side: Side, bytes: &[u8], lost: bool) -> Start;
    /// Takes a frame.
    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>);
}

/// One side.
#[derive(Debug)]
struct Stream {
    /// Offset of the first byte that was not taken; buffered bytes start here.
    offset: u64,
    /// Beginning of a frame.
    buf: Vec<u8>,
    /// Bytes missing in it.
    holes: Vec<Hole>,
    /// Bytes of a frame that was handed on which are still to come.
    skip: u64,
    /// Looks for a frame at the start of a chunk.
    lost: bool,
}

impl Default for Stream {
    fn default() -> Self {
        Stream { offset: 0, buf: Vec::new(), holes: Vec::new(), skip: 0, lost: true }
    }
}

impl Stream {
    fn pass(&mut self, n: usize) {
        self.offset = self.offset.saturating_add(len64(n));
    }

    /// Takes the next bytes of this side.
    fn feed<F: Framing>(&mut self, chunk: Chunk<'_>, framing: &mut F, out: Out<'_>) {
        let mut rest = chunk.bytes;
        let mut first = true;
        while !rest.is_empty() {
            if self.lost && !first && self.buf.is_empty() {
                self.pass(rest.len());
                break;
            }
            let taken = self.step(chunk.side, rest, framing, out);
            rest = rest.get(taken..).unwrap_or_default();
            first &= taken == 0;
        }
        if chunk.missing > 0 {
            self.gap(chunk.side, chunk.missing, framing, out);
        }
    }

    /// Takes bytes, or learns how many to skip.
    fn step<F: Framing>(&mut self, side: Side, bytes: &[u8], framing: &mut F, out: Out<'_>) -> usize {
        if self.skip > 0 {
            let taken = at_most(self.skip, bytes.len());
            self.skip = self.skip.saturating_sub(len64(taken));
            self.pass(taken);
            return taken;
        }
        if self.buf.is_empty() {
            return match framing.start(side, bytes, self.lost) {
                Start::Frame(len) => {
                    self.lost = false;
                    let want = at_most(len, framing.keep(side, bytes));
                    let Some(view) = bytes.get(..want) else {
                        self.buf.extend_from_slice(bytes);
                        return bytes.len();
                    };
                    self.emit(side, view, len, framing, out);
                    want
                }
                Start::Silent(len) => {
                    self.lost = false;
                    self.ignore(len.max(1))
                }
                Start::More if bytes.len() < MAX_START => {
                    self.buf.extend_from_slice(bytes);
                    bytes.len()
                }
                Start::More | Start::Bad => self.bad::<F>(side, bytes.len(), out),
            };
        }
        let before = self.buf.len();
        let wanted = match framing.start(side, &self.buf, self.lost) {
            Start::Frame(len) => at_most(len.saturating_sub(missing(&self.holes)), framing.keep(side, &self.buf)),
            _ => before.saturating_add(MAX_START),
        };
        let piece = bytes.get(..wanted.saturating_sub(before)).unwrap_or(bytes);
        self.buf.extend_from_slice(piece);
        let buf = std::mem::take(&mut self.buf);
        let taken = match framing.start(side, &buf, self.lost) {
            Start::Frame(len) => {
                self.lost = false;
                let want = at_most(len.saturating_sub(missing(&self.holes)), framing.keep(side, &buf));
                match buf.get(..want) {
                    Some(view) => {
                        self.emit(side, view, len, framing, out);
                        want.saturating_sub(before)
                    }
                    None => {
                        self.buf = buf;
                        return piece.len();
                    }
                }
            }
            Start::Silent(len) => {
                let len = self.ignore_buffered(len.max(1), before);
                at_most(len, piece.len())
            }
            Start::More if buf.len() < MAX_START => {
                self.buf = buf;
                return piece.len();
            }
            Start::More | Start::Bad if self.lost => {
                // The kept bytes were no frame; a frame may begin with this chunk.
                self.pass(before);
                0
            }
            Start::More | Start::Bad => {
                self.pass(before);
                self.bad::<F>(side, bytes.len(), out)
            }
        };
        self.put_back(buf);
        taken
    }

    fn put_back(&mut self, mut buf: Vec<u8>) {
        buf.clear();
        buf.shrink_to(1024);
        self.buf = buf;
        self.holes.clear();
    }

    /// Skips `len` bytes from here on.
    fn ignore(&mut self, len: u64) -> usize {
        self.skip = len;
        0
    }

    /// Skips `len` bytes, of which `before` were taken already; returns how many of the others to take now.
    fn ignore_buffered(&mut self, len: u64, before: usize) -> u64 {
        self.pass(before);
        self.skip = len.saturating_sub(len64(before));
        0
    }

    fn bad<F: Framing>(&mut self, side: Side, n: usize, out: Out<'_>) -> usize {
        self.pass(n);
        if !self.lost {
            self.lost = true;
            out(Item::Malformed { side, reason: F::BAD });
        }
        n
    }

    fn emit<F: Framing>(&mut self, side: Side, bytes: &[u8], len: u64, framing: &mut F, out: Out<'_>) {
        let holes = std::mem::take(&mut self.holes);
        let frame = Frame { side, bytes, holes: &holes, offset: self.offset, len };
        self.skip = frame.rest();
        self.offset = self.offset.saturating_add(frame.head_len());
        framing.frame(frame, out);
    }

    /// The rest of a buffered frame will not come. Hands on the part that is there.
    fn broken_off<F: Framing>(&mut self, side: Side, framing: &mut F, out: Out<'_>) {
        if self.buf.is_empty() {
            return;
        }
        let buf = std::mem::take(&mut self.buf);
        match framing.start(side, &buf, self.lost) {
            Start::Frame(len) => {
                self.lost = false;
                self.emit(side, &buf, len, framing, out);
            }
            Start::Silent(len) => {
                self.ignore_buffered(len, buf.len());
            }
            Start::More | Start::Bad => self.pass(buf.len()),
        }
        self.put_back(buf);
    }

    /// Notes bytes that are missing in the middle of a frame, if it is to go on behind them.
    fn bridge<F: Framing>(&mut self, side: Side, gap: u64, framing: &F) -> bool {
        if !framing.bridges(side) || self.lost || self.buf.is_empty() || self.holes.len() >= MAX_HOLES {
            return false;
        }
        let Start::Frame(len) = framing.start(side, &self.buf, false) else { return false };
        let seen = len64(self.buf.len()).saturating_add(missing(&self.holes)).saturating_add(gap);
        if seen < len {
            self.holes.push((self.buf.len(), gap));
        }
        seen < len
    }

    fn gap<F: Framing>(&mut self, side: Side, missing: u64, framing: &mut F, out: Out<'_>) {
        if self.bridge(side, missing, framing) {
            return;
        }
        self.broken_off(side, framing, out);
        self.offset = self.offset.saturating_add(missing);
        if missing <= self.skip {
            self.skip = self.skip.saturating_sub(missing);
            return;
        }
        self.skip = 0;
        if !self.lost {
            self.lost = true;
            out(Item::Malformed { side, reason: F::GAP });
        }
    }
}

/// Parser of one connection for a [`Framing`].
#[derive(Debug, Default)]
pub(crate) struct PrefixedParser<F> {
    streams: PerSide<Stream>,
    framing: F,
}

impl<F: Framing + Send> Parser for PrefixedParser<F> {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        self.streams.of(chunk.side).feed(chunk, &mut self.framing, out);
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        for side in [Side::Client, Side::Server] {
            self.streams.of(side).broken_off(side, &mut self.framing, out);
        }
    }

    fn buffered(&self) -> usize {
        self.streams.client.buf.len().saturating_add(self.streams.server.buf.len())
    }
}
