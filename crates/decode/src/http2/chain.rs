//! Are these bytes frames? Asked where nobody saw the beginning: of a connection joined in its middle, and behind a
//! gap.
//!
//! The answer is a chain: header after header at the places where the lengths say, each worth points by how unlikely it
//! is in other bytes. One header that cannot be refutes the whole chain. More bytes never take back a *refuted* or an
//! accepted chain, so that the pieces in which bytes arrive do not matter.

use super::frame::{
    self, Frame, CONTINUATION, DATA, END_HEADERS, GOAWAY, HEADER, HEADERS, PING, PRIORITY, PUSH_PROMISE, RST_STREAM,
    SETTINGS, WINDOW_UPDATE,
};
use super::hpack::{Decoder, Ended, Field, Head};
use wirespan_model::Side;

/// The first bytes of a client (RFC 9113, 3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Frames that are looked at.
const MOST: u32 = 16;

/// The findings of a chain so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// Evidence; see [`headers`] and [`walk`].
    pub(super) points: u32,
    /// Headers that were read.
    pub(super) frames: u32,
    /// It cannot be one.
    pub(super) refuted: bool,
    /// Its sender, if its header blocks tell.
    pub(super) sender: Option<Side>,
}

/// Follows the chain that starts with `bytes`, until `enough` points.
pub(super) fn walk(bytes: &[u8], enough: u32) -> Chain {
    let (mut chain, mut rest) = (Chain::default(), bytes);
    let mut decoder = Decoder::default();
    let mut head = Head::default();
    // The stream whose header block goes on, and those named last.
    let (mut continues, mut last) = (None, 0u32);
    while chain.points < enough && chain.frames < MOST {
        let Some(frame) = Frame::read(rest) else {
            // An incomplete header refutes too, by its first bytes.
            chain.refuted |= !rest.is_empty() && !may_begin(rest);
            return chain;
        };
        if !frame.is_usual() || continues.is_some_and(|id| frame.kind != CONTINUATION || frame.stream != id) {
            chain.refuted = true;
            return chain;
        }
        chain.frames = chain.frames.saturating_add(1);
        let behind = rest.get(HEADER..).unwrap_or_default();
        let len = usize::try_from(frame.len).unwrap_or(usize::MAX);
        let payload = behind.get(..len);
        let points = match frame.kind {
            HEADERS | PUSH_PROMISE => {
                continues = (!frame.has(END_HEADERS)).then_some(frame.stream);
                match payload.filter(|_| continues.is_none()) {
                    Some(payload) => headers(frame, payload, &mut decoder, &mut head, &mut chain),
                    None => 1,
                }
            }
            CONTINUATION => {
                // One without the block that it continues.
                chain.refuted |= continues.is_none();
                continues = continues.filter(|_| !frame.has(END_HEADERS));
                1
            }
            // A message of gRPC says its own length, too.
            DATA => payload.map_or(1, |p| if is_envelope(p) { 2 } else { 1 }),
            _ => payload.map_or(1, |payload| control(frame, payload, &mut chain)),
        };
        if chain.refuted {
            return chain;
        }
        chain.points = chain.points.saturating_add(points);
        // Streams are numbered close to each other, on a connection that is used.
        if frame.stream != 0 {
            chain.refuted |= last != 0 && frame.stream.abs_diff(last) > 100_000;
            last = frame.stream;
        }
        match behind.get(len..) {
            Some(next) if !chain.refuted => rest = next,
            _ => return chain,
        }
    }
    chain
}

/// Whether a payload is one message of gRPC: a flag and the length of the rest.
fn is_envelope(payload: &[u8]) -> bool {
    let Some(([0 | 1, length @ ..], rest)) = payload.split_first_chunk::<5>() else { return false };
    !rest.is_empty() && usize::try_from(u32::from_be_bytes(*length)).is_ok_and(|n| n == rest.len())
}

/// Whether an incomplete header may become a usual one.
fn may_begin(bytes: &[u8]) -> bool {
    let [first, rest @ ..] = bytes else { return true };
    let (second, kind) = (rest.first().copied().unwrap_or(0), rest.get(2).copied().unwrap_or(0));
    *first == 0 && second <= 0x40 && kind <= CONTINUATION
}

/// Points of a whole header block: 1 if it can be read, more for pseudo-headers of the static table, which are certain.
fn headers(frame: Frame, payload: &[u8], decoder: &mut Decoder, head: &mut Head, chain: &mut Chain) -> u32 {
    let Some((block, _)) = frame::block(frame, payload, true) else {
        chain.refuted = true;
        return 0;
    };
    if decoder.decode(block, head, &[]) != Ended::Whole || head.disorder || head.fields == 0 {
        chain.refuted = true;
        return 0;
    }
    let asks = [Field::Method, Field::Scheme, Field::Path].into_iter().filter(|f| head.get(*f).is_some()).count();
    let answers = head.get(Field::Status);
    if !plausible(head) || (asks > 0 && answers.is_some()) {
        chain.refuted = true;
        return 0;
    }
    let sender = match (asks, answers) {
        (_, Some(_)) => Some(Side::Server),
        (1.., None) if frame.kind == PUSH_PROMISE => Some(Side::Server),
        (1.., None) => Some(Side::Client),
        _ => None,
    };
    chain.refuted |= sender.is_some() && chain.sender.is_some() && sender != chain.sender;
    chain.sender = chain.sender.or(sender);
    match (asks, answers) {
        (3.., _) => 4,
        (2, _) => 3,
        (1, _) | (_, Some(_)) => 2,
        _ => 1,
    }
}

/// Whether the known fields of a block make sense together.
fn plausible(head: &Head) -> bool {
    let method = head.get(Field::Method).is_none_or(|m| !m.is_empty() && m.iter().all(u8::is_ascii_uppercase));
    let path = head.get(Field::Path).is_none_or(|p| matches!(p.first(), Some(b'/' | b'*')));
    let scheme = head.get(Field::Scheme).is_none_or(|s| !s.is_empty() && s.iter().all(u8::is_ascii_alphanumeric));
    let status = head.get(Field::Status).is_none_or(|s| s.len() == 3 && s.iter().all(u8::is_ascii_digit));
    method && path && scheme && status
}

/// Points of a frame with a fixed form.
fn control(frame: Frame, payload: &[u8], chain: &mut Chain) -> u32 {
    let number = |at: usize| payload.get(at..).and_then(|p| p.first_chunk()).map(|b| u32::from_be_bytes(*b));
    let sound = match frame.kind {
        WINDOW_UPDATE => number(0).is_some_and(|n| n != 0 && n < 1 << 31),
        RST_STREAM => number(0).is_some_and(|code| code <= 0xd),
        GOAWAY => number(0).is_some_and(|id| id < 1 << 31) && number(4).is_some_and(|code| code <= 0xd),
        // Numbers from 0xf000 on are for experiments: servers on gRPC's C library send 0xfe03.
        SETTINGS => payload.chunks(6).all(|s| matches!(s, [0, 1..=9, ..] | [0xf0..=0xff, ..])),
        PRIORITY | PING => true,
        _ => false,
    };
    chain.refuted |= !sound;
    2
}
