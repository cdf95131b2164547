//! The mechanics that protocols of messages with a head share: find the head, skip what follows it, survive gaps.
//!
//! A protocol implements [`Reader`]: it is shown the bytes from the start of a unit (a message, a line, a record) and
//! says how much of them is its head and how many bytes to skip behind it. Everything else is done here, the same for
//! all: pieces are put together up to [`Reader::MAX_HEAD`], bytes that were not captured are skipped exactly as long as
//! they lie inside one unit, and behind a gap or nonsense the reader is asked again at the start of each chunk.
//!
//! For that cutting bytes otherwise changes nothing, a reader answers [`Step::More`] until it has seen all of its unit
//! or `MAX_HEAD` bytes of it, whichever is less. Only a unit that is `cut` may be read from less; it is taken to the
//! end.

use crate::text::{at_most, len64};
use crate::{Handover, Parser};
use wirespan_model::{Attr, Chunk, Item, Side};

/// Where items go.
pub(crate) type Out<'o> = &'o mut dyn FnMut(Item<'_, '_>);

/// The bytes from the start of a unit on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// Who sent them.
    pub(crate) side: Side,
    /// At most [`Reader::MAX_HEAD`] bytes, at least one.
    pub(crate) bytes: &'a [u8],
    /// Offset of the first of them.
    pub(crate) offset: u64,
    /// Bytes behind them were not captured, or the connection ended.
    pub(crate) cut: bool,
    /// The place is a guess: the start of a chunk behind a gap. Read only what cannot be anything else.
    pub(crate) lost: bool,
}

/// One thing for each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerSide<T> {
    client: T,
    server: T,
}

impl<T> PerSide<T> {
    /// That of a side.
    pub(crate) fn of(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

/// What a reader made of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read: this many bytes of it, and as many more to be skipped.
    Took { head: usize, skip: u64 },
    /// It goes on behind the bytes.
    More,
    /// It is none.
    Bad,
}

/// A protocol, unit by unit.
pub(crate) trait Reader: Default + Send {
    /// Longest head, bytes; at most [`MAX_BUFFERED`](crate::MAX_BUFFERED).
    const MAX_HEAD: usize;
    /// Reason to count when bytes between units were not captured; ends in `_gap`.
    const GAP: &'static str;
    /// Reason to count when something that is no unit stands where one has to start.
    const BAD: &'static str;

    /// Reads the unit at the start of the bytes and emits what it says.
    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step;

    /// Units of this side may have been lost.
    fn lost(&mut self, _side: Side, _out: Out<'_>) {}

    /// Whether this side is in the middle of something whose end nothing announced, so that bytes missing there are no
    /// loss.
    fn is_endless(&self, _side: Side) -> bool {
        false
    }

    /// Whether the connection speaks another protocol now ([`Item::Upgrade`] was emitted): nothing more is read.
    fn is_over(&self) -> bool {
        false
    }

    /// See [`Parser::needs_whole`].
    fn needs_whole(&self) -> bool {
        false
    }

    /// What later spans of the connection are to be told.
    fn handover(&mut self) -> Vec<Attr> {
        Vec::new()
    }

    /// The connection ended.
    fn finish(&mut self, _out: Out<'_>) {}
}

/// One direction.
#[derive(Debug, Default)]
struct Lane {
    /// Offset of the first byte that was not taken; buffered bytes start here.
    offset: u64,
    /// Beginning of a head.
    buf: Vec<u8>,
    /// Bytes of a unit that are still to come.
    skip: u64,
    /// Looks for a unit at the start of a chunk.
    lost: bool,
}

impl Lane {
    fn pass(&mut self, n: u64) {
        self.offset = self.offset.saturating_add(n);
    }

    fn feed<R: Reader>(&mut self, chunk: Chunk<'_>, reader: &mut R, out: Out<'_>) {
        let mut rest = chunk.bytes;
        let mut first = true;
        while !rest.is_empty() && !reader.is_over() {
            let taken = if self.skip > 0 {
                let n = at_most(self.skip, rest.len());
                self.skip = self.skip.saturating_sub(len64(n));
                self.pass(len64(n));
                n
            } else if self.lost && self.buf.is_empty() && !first {
                self.pass(len64(rest.len()));
                rest.len()
            } else {
                self.unit(chunk.side, rest, chunk.missing > 0, reader, out)
            };
            rest = rest.get(taken.max(1)..).unwrap_or_default();
            first = false;
        }
        if chunk.missing > 0 && !reader.is_over() {
            self.gap(chunk.side, chunk.missing, reader, out);
        }
    }

    /// Looks at the unit that the buffer and `bytes` begin; returns how many of `bytes` it took.
    fn unit<R: Reader>(&mut self, side: Side, bytes: &[u8], missing: bool, reader: &mut R, out: Out<'_>) -> usize {
        let before = self.buf.len();
        let window = bytes.get(..R::MAX_HEAD.saturating_sub(before)).unwrap_or(bytes);
        let mut buf = std::mem::take(&mut self.buf);
        if before > 0 {
            buf.extend_from_slice(window);
        }
        let view = if before > 0 { buf.as_slice() } else { window };
        let cut = missing && window.len() == bytes.len() && view.len() < R::MAX_HEAD;
        let unit = Unit { side, bytes: view, offset: self.offset, cut, lost: self.lost };
        let taken = match reader.read(unit, out) {
            Step::Took { head, skip } => {
                self.pass(len64(head));
                (self.skip, self.lost) = (skip, false);
                head.saturating_sub(before)
            }
            Step::More if !cut && view.len() < R::MAX_HEAD => {
                if before == 0 {
                    buf.extend_from_slice(window);
                }
                self.buf = buf;
                return window.len();
            }
            step => {
                self.pass(len64(before.saturating_add(bytes.len())));
                // What the end of a captured prefix broke off will be counted as a gap.
                let broken_off = cut && step == Step::More;
                if !self.lost && !broken_off {
                    self.lose(side, R::BAD, reader, out);
                }
                bytes.len()
            }
        };
        buf.clear();
        buf.shrink_to(1024);
        self.buf = buf;
        taken
    }

    fn lose<R: Reader>(&mut self, side: Side, reason: &'static str, reader: &mut R, out: Out<'_>) {
        (self.skip, self.lost) = (0, true);
        out(Item::Malformed { side, reason });
        reader.lost(side, out);
    }

    /// A buffered head will not be completed; what can be read of it is worth reading.
    fn broken_off<R: Reader>(&mut self, side: Side, reader: &mut R, out: Out<'_>) {
        let mut buf = std::mem::take(&mut self.buf);
        if !buf.is_empty() && !reader.is_over() {
            let unit = Unit { side, bytes: &buf, offset: self.offset, cut: true, lost: self.lost };
            if let Step::Took { skip, .. } = reader.read(unit, out) {
                (self.skip, self.lost) = (skip, false);
            }
        }
        self.pass(len64(buf.len()));
        buf.clear();
        self.buf = buf;
    }

    fn gap<R: Reader>(&mut self, side: Side, missing: u64, reader: &mut R, out: Out<'_>) {
        self.broken_off(side, reader, out);
        if missing <= self.skip {
            self.skip = self.skip.saturating_sub(missing);
        } else if reader.is_endless(side) {
            self.skip = 0;
        } else if !self.lost && !reader.is_over() {
            self.lose(side, R::GAP, reader, out);
        }
        self.pass(missing);
    }
}

/// Parser of one connection for a [`Reader`].
#[derive(Debug, Default)]
pub(crate) struct Units<R> {
    lanes: PerSide<Lane>,
    reader: R,
}

impl<R: Reader> Units<R> {
    /// With a reader that has settings.
    pub(crate) fn of(reader: R) -> Self {
        Units { lanes: PerSide::default(), reader }
    }
}

impl<R: Reader> Parser for Units<R> {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        self.lanes.of(chunk.side).feed(chunk, &mut self.reader, out);
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        for side in [Side::Client, Side::Server] {
            let lane = self.lanes.of(side);
            lane.broken_off(side, &mut self.reader, out);
            lane.buf = Vec::new();
        }
        self.reader.finish(out);
    }

    fn buffered(&self) -> usize {
        self.lanes.client.buf.len().saturating_add(self.lanes.server.buf.len())
    }

    fn needs_whole(&self) -> bool {
        self.reader.needs_whole()
    }

    fn handover(&mut self) -> Handover {
        Handover { at: Some([self.lanes.client.offset, self.lanes.server.offset]), attrs: self.reader.handover() }
    }
}
