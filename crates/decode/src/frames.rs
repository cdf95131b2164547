//! Streams of frames that tell their length: one place for what cuts, gaps and late joins do to them.
//!
//! A protocol says how long the frame is that starts here and how much of it is worth reading ([`Reader::measure`]); it
//! is then handed that much, or less where the rest was not captured, and the remainder is skipped exactly as long as
//! the length says. When a place is lost (bytes were missing behind the end of a frame, or nonsense), the next frame is
//! looked for at the start of the next chunk only: inside of a chunk, any bytes of a payload could look like one.

use crate::text::{at_most, len64};
use wirespan_model::{Chunk, Item, Side};

/// Most bytes of a frame that are kept while it is incomplete.
pub(crate) const MAX_WANTED: usize = 8 * 1024;

pub(crate) type Out<'o> = &'o mut dyn FnMut(Item<'_, '_>);

/// What the start of a frame tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Its length, bytes, and how many of its first bytes are wanted (at most [`MAX_WANTED`]).
    Frame { len: u64, want: u64 },
    /// Too few bytes to tell.
    More,
    /// No frame starts here.
    Bad,
}

/// A frame, as far as it was wanted and captured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// Sender.
    pub(crate) side: Side,
    /// Offset of its first byte.
    pub(crate) offset: u64,
    /// Length in all; of a [`broken`](Reader::broken) one, what was captured of it.
    pub(crate) len: u64,
    /// Its first bytes.
    pub(crate) bytes: &'a [u8],
}

/// A protocol made of frames.
pub(crate) trait Reader {
    /// Counter of bytes that no frame starts with.
    const BAD: &'static str;
    /// Counter of losses: messages of a side may not have been seen.
    const GAP: &'static str;

    /// How long is the frame that starts here? After a loss (`lost`) only what is certain may be believed. With more
    /// bytes the answer may change from [`Measure::More`] only.
    fn measure(&mut self, side: Side, bytes: &[u8], lost: bool) -> Measure;
    /// Reads a frame.
    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>);
    /// The start of a frame, of which not even the length was captured.
    fn broken(&mut self, _frame: Frame<'_>, _out: Out<'_>) {}
    /// The place in the stream of this side is lost: what was begun will not be continued.
    fn lost(&mut self, _side: Side, _out: Out<'_>) {}
    /// The frames of this side up to this offset are known to hold nothing that has to be read.
    fn known_until(&self, _side: Side) -> u64 {
        0
    }
    /// The connection speaks something else from here on.
    fn over(&self) -> bool {
        false
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Stream {
    /// Offset of the first byte that was not taken; buffered bytes start here.
    offset: u64,
    /// The beginning of an incomplete frame.
    buf: Vec<u8>,
    /// Bytes of the last frame that have to pass.
    skip: u64,
    lost: bool,
}

impl Stream {
    fn pass(&mut self, n: u64) {
        self.offset = self.offset.saturating_add(n);
    }
}

/// Both directions of a connection.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    client: Stream,
    server: Stream,
}

impl Frames {
    /// Bytes kept.
    pub(crate) fn buffered(&self) -> usize {
        self.client.buf.len().saturating_add(self.server.buf.len())
    }

    fn stream(&mut self, side: Side) -> &mut Stream {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Cuts a chunk into frames.
    pub(crate) fn feed<R: Reader>(&mut self, chunk: Chunk<'_>, reader: &mut R, out: Out<'_>) {
        let stream = self.stream(chunk.side);
        let mut rest = chunk.bytes;
        let mut first = true;
        while !rest.is_empty() {
            if reader.over() {
                break;
            }
            let taken = if stream.skip > 0 {
                let taken = at_most(stream.skip, rest.len());
                stream.skip = stream.skip.saturating_sub(len64(taken));
                stream.pass(len64(taken));
                taken
            } else if stream.lost && !first && stream.buf.is_empty() {
                break;
            } else {
                stream.start(chunk.side, rest, chunk.missing > 0, reader, out)
            };
            rest = rest.get(taken..).unwrap_or_default();
            first = false;
        }
        // What is left belongs to nothing that can be told.
        stream.pass(len64(rest.len()));
        if chunk.missing == 0 {
            return;
        }
        stream.pass(chunk.missing);
        if reader.over() {
            return;
        }
        match (stream.skip.checked_sub(chunk.missing), reader.known_until(chunk.side).checked_sub(stream.offset)) {
            (Some(left), _) if stream.skip > 0 => stream.skip = left,
            (_, Some(left)) if !stream.lost => {
                stream.buf.clear();
                stream.skip = left;
            }
            _ => stream.lose(chunk.side, R::GAP, reader, out),
        }
    }

    /// The connection is over: what can be read of incomplete frames is worth reading.
    pub(crate) fn finish<R: Reader>(&mut self, reader: &mut R, out: Out<'_>) {
        for side in [Side::Client, Side::Server] {
            let stream = self.stream(side);
            let buf = std::mem::take(&mut stream.buf);
            if buf.is_empty() || reader.over() {
                continue;
            }
            let mut frame = Frame { side, offset: stream.offset, len: len64(buf.len()), bytes: &buf };
            match reader.measure(side, &buf, stream.lost) {
                Measure::Frame { len, .. } => {
                    frame.len = len;
                    reader.frame(frame, out);
                }
                Measure::More if !stream.lost => reader.broken(frame, out),
                _ => {}
            }
        }
    }
}

impl Stream {
    /// Looks for a frame. Returns how many of the bytes were taken, at least one unless buffered bytes were taken
    /// instead.
    fn start<R: Reader>(&mut self, side: Side, bytes: &[u8], missing: bool, reader: &mut R, out: Out<'_>) -> usize {
        let before = self.buf.len();
        let window = bytes.get(..MAX_WANTED.saturating_sub(before)).unwrap_or(bytes);
        let cut = missing && window.len() == bytes.len();
        let mut buf = std::mem::take(&mut self.buf);
        if before > 0 {
            buf.extend_from_slice(window);
        }
        let view = if before > 0 { buf.as_slice() } else { window };
        let frame = Frame { side, offset: self.offset, len: len64(view.len()), bytes: view };
        let taken = match reader.measure(side, view, self.lost) {
            Measure::Frame { len, want } => {
                let (len, max) = (len.max(1), view.len());
                let want = at_most(want.min(len), MAX_WANTED).max(1);
                if want > max && !cut {
                    self.keep(buf, window);
                    return window.len();
                }
                self.lost = false;
                reader.frame(Frame { len, bytes: view.get(..want).unwrap_or(view), ..frame }, out);
                let taken = at_most(len, max);
                self.skip = len.saturating_sub(len64(taken));
                taken
            }
            Measure::More if !cut && view.len() < MAX_WANTED => {
                self.keep(buf, window);
                return window.len();
            }
            stop => {
                if !self.lost && stop == Measure::More && cut {
                    // The loss itself is told when the missing bytes are counted.
                    reader.broken(frame, out);
                } else if !self.lost {
                    self.lose(side, R::BAD, reader, out);
                }
                self.pass(len64(before.saturating_add(bytes.len())));
                return bytes.len();
            }
        };
        self.pass(len64(taken));
        if let Some(of_these) = taken.checked_sub(before) {
            buf.clear();
            self.buf = buf;
            return of_these;
        }
        // What the peer said since has changed the meaning of buffered bytes: they are more than one frame.
        buf.truncate(before);
        buf.drain(..taken);
        self.buf = buf;
        0
    }

    fn keep(&mut self, mut buf: Vec<u8>, window: &[u8]) {
        if buf.is_empty() {
            buf.extend_from_slice(window);
        }
        self.buf = buf;
    }

    fn lose<R: Reader>(&mut self, side: Side, reason: &'static str, reader: &mut R, out: Out<'_>) {
        self.skip = 0;
        self.buf.clear();
        if !self.lost {
            self.lost = true;
            reader.lost(side, out);
            out(Item::Malformed { side, reason });
        }
    }
}

/// Reads fields from the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(all: &'a [u8]) -> Self {
        Fields { all, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.all.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.all.len()
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n)?;
        let bytes = self.all.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[b]| b)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes behind a length of one byte.
    pub(crate) fn short(&mut self) -> Option<&'a [u8]> {
        let n = self.u8()?;
        self.take(usize::from(n))
    }

    /// Bytes behind a length of two bytes.
    pub(crate) fn medium(&mut self) -> Option<&'a [u8]> {
        let n = self.u16()?;
        self.take(usize::from(n))
    }

    /// Bytes behind a length of four bytes.
    pub(crate) fn long(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()?;
        self.take(usize::try_from(n).ok()?)
    }
}
