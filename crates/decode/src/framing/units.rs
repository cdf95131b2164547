//! Reads a connection unit by unit (a message, a line, a record), for protocols that know where the head of a unit ends
//! only when they have read it.
//!
//! A protocol implements [`Reader`]. It gets the bytes from the start of a unit, and answers how many of them are its
//! head and how many bytes to skip behind it. [`Units`] does the rest. It puts pieces together up to
//! [`Reader::MAX_HEAD`]. It skips bytes that were not captured, as long as they lie inside one unit. Behind a gap or
//! nonsense it asks the reader again at the start of each chunk.
//!
//! Cutting the bytes otherwise must change nothing. Therefore a reader answers [`Step::More`] until it has seen all of
//! its unit or `MAX_HEAD` bytes of it, whichever is less. It may read less of a unit that is `cut`; such a unit is
//! taken to its end.

use super::{Out, PerSide};
use crate::text::{at_most, len64};
use crate::{Handover, Parser};
use wirespan_model::{Attr, Chunk, Item, Side};

/// The bytes from the start of a unit on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// Sender.
    pub(crate) side: Side,
    /// At most [`Reader::MAX_HEAD`] bytes, at least one.
    pub(crate) bytes: &'a [u8],
    /// Offset of the first of them.
    pub(crate) offset: u64,
    /// The bytes behind them were not captured, or the connection ended.
    pub(crate) cut: bool,
    /// The place is a guess: the start of a chunk behind a gap. Answer [`Step::Took`] only if the bytes cannot be
    /// anything else.
    pub(crate) lost: bool,
}

/// Answer of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The unit was read: its head has `head` bytes, and `skip` bytes follow that need not be read.
    Took { head: usize, skip: u64 },
    /// The head goes on behind the bytes.
    More,
    /// No unit starts here.
    Bad,
}

/// A protocol, unit by unit.
pub(crate) trait Reader: Default + Send {
    /// Longest head, bytes; at most [`MAX_BUFFERED`](crate::MAX_BUFFERED).
    const MAX_HEAD: usize;
    /// Reason to count when bytes between units were not captured; ends in `_gap`.
    const GAP: &'static str;
    /// Reason to count when no unit starts where one has to.
    const BAD: &'static str;
    /// Where the next protocol starts after an [`Item::Upgrade`]: behind the last unit, or else behind all bytes that
    /// were fed.
    const NEXT_STARTS_BEHIND_UNIT: bool = true;

    /// Reads the unit at the start of the bytes and emits what it says.
    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step;

    /// Units of this side may have been lost.
    fn lost(&mut self, _side: Side, _out: Out<'_>) {}

    /// Bytes behind the last unit of this side were not captured, up to `offset`. `Some(skip)` says that no message was
    /// among them, and that `skip` more bytes hold none either.
    fn tolerates(&self, _side: Side, _offset: u64) -> Option<u64> {
        None
    }

    /// Whether the connection speaks another protocol now ([`Item::Upgrade`] was emitted). Then nothing more is read.
    fn is_over(&self) -> bool {
        false
    }

    /// See [`Parser::needs_whole`].
    fn needs_whole(&self) -> bool {
        false
    }

    /// Attributes for the later spans of the connection, see [`Handover::attrs`].
    fn handover(&mut self) -> Vec<Attr> {
        Vec::new()
    }

    /// The connection ended.
    fn finish(&mut self, _out: Out<'_>) {}

    /// Bytes that the reader itself keeps, for the memory account.
    fn buffered(&self) -> usize {
        0
    }
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
            rest = rest.get(taken..).unwrap_or_default();
            first = false;
        }
        if chunk.missing > 0 && !reader.is_over() {
            self.gap(chunk.side, chunk.missing, reader, out);
        }
    }

    /// Shows the reader the unit that starts in the buffer, or else in `bytes`. Returns how many of `bytes` were taken;
    /// 0 only if buffered bytes were taken, or bytes to skip follow.
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
                // An empty unit would be read for ever.
                let head = if skip == 0 { head.max(1) } else { head };
                self.pass(len64(head));
                (self.skip, self.lost) = (skip, false);
                if head < before {
                    // The peer's bytes have changed the meaning of the buffered ones: they are more than one unit.
                    buf.truncate(before);
                    buf.drain(..head);
                    // Bytes to skip may be among them.
                    let passed = at_most(self.skip, buf.len());
                    buf.drain(..passed);
                    self.skip = self.skip.saturating_sub(len64(passed));
                    self.pass(len64(passed));
                    self.buf = buf;
                    return 0;
                }
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
                // If the captured bytes end in a head, the missing ones will be counted as a gap.
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
        reader.lost(side, out);
        out(Item::Malformed { side, reason });
    }

    /// The rest of a buffered head will not come. Reads the part that is there.
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
        let end = self.offset.saturating_add(missing);
        if missing <= self.skip {
            self.skip = self.skip.saturating_sub(missing);
        } else if !self.lost && !reader.is_over() {
            match reader.tolerates(side, end) {
                Some(skip) => self.skip = skip,
                None => self.lose(side, R::GAP, reader, out),
            }
        }
        self.offset = end;
    }
}

/// Parser of one connection for a [`Reader`].
#[derive(Debug, Default)]
pub(crate) struct Units<R> {
    lanes: PerSide<Lane>,
    reader: R,
}

impl<R: Reader> Units<R> {
    /// A parser with this reader.
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
        let lanes = self.lanes.client.buf.len().saturating_add(self.lanes.server.buf.len());
        lanes.saturating_add(self.reader.buffered())
    }

    fn needs_whole(&self) -> bool {
        self.reader.needs_whole()
    }

    fn handover(&mut self) -> Handover {
        let behind_units = [self.lanes.client.offset, self.lanes.server.offset];
        Handover { at: R::NEXT_STARTS_BEHIND_UNIT.then_some(behind_units), attrs: self.reader.handover() }
    }
}
