//! Reads a connection frame by frame, for protocols whose frames have their length in a header.
//!
//! A protocol says how long the frame is that starts here and how many of its bytes it wants ([`Reader::measure`]). It
//! then gets that many bytes, or fewer if the rest was not captured; the remainder of the frame is skipped.

use super::units::{self, Step, Unit, Units};
use super::Out;
use crate::text::{at_most, len64};
use wirespan_model::Side;

/// Most bytes of a frame that are kept while it is incomplete.
pub(crate) const MAX_WANTED: usize = 8 * 1024;

/// Answer of a reader to the start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// A frame of `len` bytes; its first `want` bytes are to be read (at most [`MAX_WANTED`]).
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
    /// Its whole length; of a [`broken`](Reader::broken) frame, the captured length.
    pub(crate) len: u64,
    /// Its first bytes.
    pub(crate) bytes: &'a [u8],
}

/// A protocol made of frames.
pub(crate) trait Reader: Default + Send {
    /// Reason to count when no frame starts where one has to.
    const BAD: &'static str;
    /// Reason to count when messages of a side may have been lost; ends in `_gap`.
    const GAP: &'static str;

    /// How long is the frame that starts here? After a loss (`lost`) answer [`Measure::Frame`] only if the bytes cannot
    /// be anything else. More bytes may change the answer only if it was [`Measure::More`].
    fn measure(&mut self, side: Side, bytes: &[u8], lost: bool) -> Measure;
    /// Reads a frame.
    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>);
    /// Reads the start of a frame of which not even the length was captured.
    fn broken(&mut self, _frame: Frame<'_>, _out: Out<'_>) {}
    /// The place in the bytes of this side is lost: nothing that was begun will be continued.
    fn lost(&mut self, _side: Side, _out: Out<'_>) {}
    /// The bytes of this side hold no message up to this offset.
    fn known_until(&self, _side: Side) -> u64 {
        0
    }
    /// Whether the connection speaks another protocol from here on.
    fn is_over(&self) -> bool {
        false
    }
    /// The connection ended.
    fn finish(&mut self, _out: Out<'_>) {}
    /// Bytes that the reader itself keeps, for the memory account.
    fn buffered(&self) -> usize {
        0
    }
}

/// Parser of one connection for a [`Reader`].
pub(crate) type Frames<R> = Units<Measured<R>>;

/// Reads units by measuring them first.
#[derive(Debug, Default)]
pub(crate) struct Measured<R>(R);

impl<R: Reader> units::Reader for Measured<R> {
    const MAX_HEAD: usize = MAX_WANTED;
    const GAP: &'static str = R::GAP;
    const BAD: &'static str = R::BAD;
    const NEXT_STARTS_BEHIND_UNIT: bool = false;

    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        let Unit { side, bytes, offset, cut, lost } = unit;
        let captured = bytes.len();
        match self.0.measure(side, bytes, lost) {
            Measure::Frame { len, want } => {
                let len = len.max(1);
                let want = at_most(want.min(len), MAX_WANTED).max(1);
                if want > captured && !cut {
                    return Step::More;
                }
                self.0.frame(Frame { side, offset, len, bytes: bytes.get(..want).unwrap_or(bytes) }, out);
                let head = at_most(len, captured);
                Step::Took { head, skip: len.saturating_sub(len64(head)) }
            }
            Measure::More => {
                if cut && !lost {
                    self.0.broken(Frame { side, offset, len: len64(captured), bytes }, out);
                }
                Step::More
            }
            Measure::Bad => Step::Bad,
        }
    }

    fn lost(&mut self, side: Side, out: Out<'_>) {
        self.0.lost(side, out);
    }

    fn tolerates(&self, side: Side, offset: u64) -> Option<u64> {
        self.0.known_until(side).checked_sub(offset)
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn finish(&mut self, out: Out<'_>) {
        self.0.finish(out);
    }

    fn buffered(&self) -> usize {
        self.0.buffered()
    }
}
