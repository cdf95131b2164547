//! Headers of messages, and of the segments that carry them in version 5.

use crate::framing::Cursor;
use crate::text::{at_most, len64};
use wirespan_model::{Outcome, Side};

/// Header of a message: version, flags, stream, operation, length.
pub(super) const HEADER: usize = 9;
/// Longest body that is believed.
const MAX_BODY: u32 = 256 << 20;
/// Header of a segment: its length, a flag, and their checksum.
pub(super) const SEGMENT: usize = 6;
/// Length of the head of a segment on a connection with compression.
const PACKED_SEGMENT: usize = 8;
/// Checksum behind a segment.
pub(super) const TRAILER: u64 = 4;

pub(super) mod op {
    pub(in super::super) const ERROR: u8 = 0;
    pub(in super::super) const STARTUP: u8 = 1;
    pub(in super::super) const READY: u8 = 2;
    pub(in super::super) const AUTHENTICATE: u8 = 3;
    pub(in super::super) const OPTIONS: u8 = 5;
    pub(in super::super) const SUPPORTED: u8 = 6;
    pub(in super::super) const QUERY: u8 = 7;
    pub(in super::super) const RESULT: u8 = 8;
    pub(in super::super) const PREPARE: u8 = 9;
    pub(in super::super) const EXECUTE: u8 = 10;
    pub(in super::super) const REGISTER: u8 = 11;
    pub(in super::super) const EVENT: u8 = 12;
    pub(in super::super) const BATCH: u8 = 13;
    pub(in super::super) const AUTH_CHALLENGE: u8 = 14;
    pub(in super::super) const AUTH_RESPONSE: u8 = 15;
    pub(in super::super) const AUTH_SUCCESS: u8 = 16;
}

/// Name of an operation of the client.
pub(super) fn name(op: u8) -> &'static str {
    match op {
        op::STARTUP => "STARTUP",
        op::OPTIONS => "OPTIONS",
        op::QUERY => "QUERY",
        op::PREPARE => "PREPARE",
        op::EXECUTE => "EXECUTE",
        op::REGISTER => "REGISTER",
        op::BATCH => "BATCH",
        op::AUTH_RESPONSE => "AUTH RESPONSE",
        _ => "",
    }
}

/// A message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) version: u8,
    pub(super) flags: u8,
    pub(super) stream: u16,
    pub(super) op: u8,
    /// Length of the body.
    pub(super) len: u32,
}

impl Envelope {
    /// Reads a header that this side could have sent.
    pub(super) fn read(side: Side, bytes: &[u8]) -> Option<Envelope> {
        let mut view = Cursor::new(bytes);
        let (first, flags, stream, op, len) = (view.u8()?, view.u8()?, view.u16()?, view.u8()?, view.u32()?);
        let (version, answer) = (first & 0x7f, first & 0x80 != 0);
        let known = match side {
            Side::Client => !name(op).is_empty(),
            Side::Server => matches!(
                op,
                op::ERROR
                    | op::READY
                    | op::AUTHENTICATE
                    | op::SUPPORTED
                    | op::RESULT
                    | op::EVENT
                    | op::AUTH_CHALLENGE
                    | op::AUTH_SUCCESS
            ),
        };
        // Streams of requests are not negative; that of events is -1.
        let streams = if op == op::EVENT { stream == 0xffff } else { stream <= 0x7fff };
        let empty = matches!(op, op::OPTIONS | op::READY);
        let fits = (3..=5).contains(&version)
            && answer == (side == Side::Server)
            && known
            && streams
            && flags & 0xe0 == 0
            && len <= MAX_BODY
            && (!empty || len == 0 || flags != 0);
        fits.then_some(Envelope { version, flags, stream, op, len })
    }

    pub(super) fn compressed(&self) -> bool {
        self.flags & 0x01 != 0
    }

    /// Bytes of the body that are read.
    pub(super) fn keep(&self) -> usize {
        HEADER.saturating_add(match self.op {
            op::QUERY | op::PREPARE | op::BATCH => 4096,
            op::RESULT => 2048,
            op::ERROR => 600,
            op::EXECUTE | op::STARTUP => 256,
            _ => 0,
        })
    }

    /// The body behind the fields that flags put in front of it.
    pub(super) fn body<'a>(&self, side: Side, bytes: &'a [u8]) -> Option<Cursor<'a>> {
        let mut view = Cursor::new(bytes);
        if side == Side::Server && self.flags & 0x02 != 0 {
            view.take(16)?;
        }
        if side == Side::Server && self.flags & 0x08 != 0 {
            for _ in 0..view.u16()? {
                string(&mut view)?;
            }
        }
        if self.flags & 0x04 != 0 {
            for _ in 0..view.u16()? {
                string(&mut view)?;
                let len = view.u32()?;
                if len <= MAX_BODY {
                    view.take(at_most(u64::from(len), usize::MAX))?;
                }
            }
        }
        Some(view)
    }
}

/// Bytes with a short length.
pub(super) fn string<'a>(view: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let len = view.u16()?;
    view.take(usize::from(len))
}

/// Text with a long length, as far as it is there; and whether that is all.
pub(super) fn long_string<'a>(view: &mut Cursor<'a>) -> Option<(&'a [u8], bool)> {
    let len = at_most(u64::from(view.u32()?), usize::MAX);
    match view.take(len) {
        Some(text) => Some((text, true)),
        None => Some((view.take(view.rest().len())?, false)),
    }
}

/// A segment of version 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Length of its header.
    pub(super) header: usize,
    /// Length of its payload.
    pub(super) len: u32,
    /// Length of its payload unpacked; 0 if it is not packed.
    pub(super) unpacked: u32,
}

impl Segment {
    /// Its length with header and checksum.
    pub(super) fn whole(&self) -> u64 {
        u64::from(self.len).saturating_add(len64(self.header)).saturating_add(TRAILER)
    }
}

/// Reads the header of a segment, of a connection with compression or without: the checksum tells.
pub(super) fn segment(bytes: &[u8]) -> Option<Segment> {
    let (head, behind) = bytes.split_first_chunk::<3>()?;
    let [a, b, c] = *head;
    let word = u32::from_le_bytes([a, b, c, 0]);
    if word >> 18 == 0 && word & 0x1_ffff > 0 && is_sum(head, behind) {
        return Some(Segment { header: SEGMENT, len: word & 0x1_ffff, unpacked: 0 });
    }
    let (head, behind) = bytes.split_first_chunk::<5>()?;
    let [a, b, c, d, e] = *head;
    let word = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
    let part = |at: u32| u32::try_from(word >> at & 0x1_ffff).unwrap_or(0);
    let (len, unpacked) = (part(0), part(17));
    let fits = word >> 35 == 0 && len > 0 && is_sum(head, behind);
    fits.then_some(Segment { header: PACKED_SEGMENT, len, unpacked })
}

fn is_sum(head: &[u8], behind: &[u8]) -> bool {
    let sum = crc24(head).to_le_bytes();
    behind.get(..3).is_some_and(|said| sum.starts_with(said))
}

/// CRC-24 as the specification defines it.
pub(super) fn crc24(bytes: &[u8]) -> u32 {
    let mut crc: u32 = 0x87_5060;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= 0x197_4f0b;
            }
        }
    }
    crc & 0xff_ffff
}

/// Whose fault an error is.
pub(super) fn outcome(code: u32) -> Outcome {
    match code {
        0x000a | 0x0100 | 0x2000..=0x2500 => Outcome::ClientError,
        _ => Outcome::ServerError,
    }
}

/// Number of rows of a result, if its metadata can be stepped over. `view` stands behind the kind.
pub(super) fn rows(view: &mut Cursor<'_>, version: u8) -> Option<u32> {
    let (flags, columns) = (view.u32()?, view.u32()?);
    if flags & 0x02 != 0 {
        let len = view.u32()?;
        view.take(at_most(u64::from(len), usize::MAX))?;
    }
    if version >= 5 && flags & 0x08 != 0 {
        string(view)?;
    }
    if flags & 0x04 == 0 {
        let global = flags & 0x01 != 0;
        if global {
            string(view)?;
            string(view)?;
        }
        for _ in 0..columns {
            if !global {
                string(view)?;
                string(view)?;
            }
            string(view)?;
            kind(view, 0)?;
        }
    }
    view.u32()
}

/// Steps over a type.
fn kind(view: &mut Cursor<'_>, depth: u32) -> Option<()> {
    if depth > 8 {
        return None;
    }
    let below = depth.saturating_add(1);
    match view.u16()? {
        0x00 => string(view).map(|_| ()),
        0x20 | 0x22 => kind(view, below),
        0x21 => kind(view, below).and_then(|()| kind(view, below)),
        0x30 => {
            string(view)?;
            string(view)?;
            for _ in 0..view.u16()? {
                string(view)?;
                kind(view, below)?;
            }
            Some(())
        }
        0x31 => {
            for _ in 0..view.u16()? {
                kind(view, below)?;
            }
            Some(())
        }
        _ => Some(()),
    }
}
