//! Long headers and the frames of Initial packets (RFC 9000, sections 12, 17 and 19).

use super::keys::Version;

/// Longest connection id (RFC 9000, section 17.2).
const MAX_ID: usize = 20;
/// Most ranges of one acknowledgement that are believed.
const MAX_RANGES: u64 = 256;

/// The kind of a packet with a long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Initial,
    Early,
    Handshake,
    Retry,
    /// The server offers other versions.
    Negotiation,
}

/// A long header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Long<'a> {
    pub(super) kind: Kind,
    pub(super) version: u32,
    /// Connection id of the receiver.
    pub(super) to: &'a [u8],
    /// Place of the packet number.
    pub(super) number: usize,
    /// Bytes from there to the end of the packet.
    pub(super) len: usize,
}

impl Long<'_> {
    /// Bytes of the whole packet.
    pub(super) fn total(&self) -> usize {
        self.number.saturating_add(self.len)
    }
}

/// Reads forward through bytes.
#[derive(Clone, Copy, Debug)]
struct View<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> View<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n)?;
        let bytes = self.all.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A number whose first two bits tell its length.
    fn number(&mut self) -> Option<u64> {
        let first = self.u8()?;
        let more = match first >> 6 {
            0 => 0,
            1 => 1,
            2 => 3,
            _ => 7,
        };
        let rest = self.take(more)?;
        Some(rest.iter().fold(u64::from(first & 0x3f), |n, b| n << 8 | u64::from(*b)))
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?;
        self.take(usize::try_from(len).ok()?)
    }
}

/// Reads a long header of a known version.
pub(super) fn long(bytes: &[u8]) -> Option<Long<'_>> {
    let mut view = View { all: bytes, at: 0 };
    let first = view.u8().filter(|b| b & 0x80 != 0)?;
    let version = u32::from_be_bytes(*view.take(4)?.first_chunk()?);
    let mut id = || {
        let len = usize::from(view.u8()?);
        view.take(len).filter(|_| len <= MAX_ID)
    };
    let (to, _from) = (id()?, id()?);
    let rest = |kind, at: usize| Long { kind, version, to, number: at, len: bytes.len().saturating_sub(at) };
    if version == 0 {
        // A list of versions, four bytes each.
        let list = bytes.len().saturating_sub(view.at);
        return (list > 0 && list.is_multiple_of(4)).then(|| rest(Kind::Negotiation, view.at));
    }
    let second = Version::of(version).first()?.second;
    // The fixed bit is one.
    let kind = match (first >> 4 & 7, second) {
        (4, false) | (5, true) => Kind::Initial,
        (5, false) | (6, true) => Kind::Early,
        (6, false) | (7, true) => Kind::Handshake,
        (7, false) | (4, true) => return Some(rest(Kind::Retry, view.at)),
        _ => return None,
    };
    if kind == Kind::Initial {
        view.sized()?;
    }
    let len = usize::try_from(view.number()?).ok()?;
    Some(Long { kind, version, to, number: view.at, len })
}

/// A frame that tells something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A piece of the handshake.
    Crypto { offset: u64, data: &'a [u8] },
    /// The end of the connection, and its reason.
    Close(u64),
}

/// Reads the frames of an Initial packet. False if the text has others, or none: then its key was wrong. `cut`: the end
/// of the packet was not captured.
pub(super) fn frames<'a>(text: &'a [u8], cut: bool, each: &mut dyn FnMut(Frame<'a>)) -> bool {
    let mut view = View { all: text, at: 0 };
    let (mut told, mut any) = (0usize, false);
    while let Some(kind) = view.u8() {
        let read = match kind {
            0 | 1 => Some(()),
            2 | 3 => acknowledgement(&mut view, kind == 3),
            6 => crypto(&mut view, cut).map(|frame| {
                told = told.saturating_add(1);
                each(frame);
            }),
            0x1c => view.number().and_then(|code| {
                view.number()?;
                view.sized()?;
                each(Frame::Close(code));
                Some(())
            }),
            _ => return false,
        };
        if read.is_none() {
            return cut && told > 0;
        }
        any |= kind != 0;
    }
    any
}

fn crypto<'a>(view: &mut View<'a>, cut: bool) -> Option<Frame<'a>> {
    let offset = view.number().filter(|n| *n < 1 << 20)?;
    let mut ahead = *view;
    let data = match ahead.sized() {
        Some(data) => {
            *view = ahead;
            data
        }
        None if cut => {
            view.number()?;
            let rest = view.all.len().checked_sub(view.at)?;
            view.take(rest)?
        }
        None => return None,
    };
    Some(Frame::Crypto { offset, data })
}

fn acknowledgement(view: &mut View<'_>, counts: bool) -> Option<()> {
    let (_largest, _delay) = (view.number()?, view.number()?);
    let ranges = view.number().filter(|n| *n <= MAX_RANGES)?;
    let numbers = ranges.saturating_mul(2).saturating_add(if counts { 4 } else { 1 });
    (0..numbers).try_for_each(|_| view.number().map(|_| ()))
}
