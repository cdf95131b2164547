//! The beginning of a Zstandard frame (RFC 8878): up to the end of its first compressed block.
//!
//! Libraries take as much memory as a frame's head asks for, and unpack whole blocks; here no more is made than is
//! wanted. A block is packed from its end, so that one which was captured in part says nothing. Frames that need a
//! dictionary are not read.

use super::entropy::{Bits, Fse, Huffman};
use super::{copy, literal};
use crate::framing::Cursor;

const MAGIC: u32 = 0xfd2f_b528;
/// What repeated offsets are at the start of a frame.
const RECENT: [usize; 3] = [1, 4, 8];

/// A kind of codes: how often they occur by default and in how many states, the states that they may have, and what
/// each stands for: a first value, and how many bits are added to it.
struct Codes {
    usual: &'static [i16],
    usual_log: u32,
    max_log: u32,
    first: &'static [(u32, u32)],
}

const LITERALS: Codes = Codes {
    usual: &[
        4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1,
    ],
    usual_log: 6,
    max_log: 9,
    #[rustfmt::skip]
    first: &[
        (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (11, 0), (12, 0),
        (13, 0), (14, 0), (15, 0), (16, 1), (18, 1), (20, 1), (22, 1), (24, 2), (28, 2), (32, 3), (40, 3), (48, 4),
        (64, 6), (128, 7), (256, 8), (512, 9), (1024, 10), (2048, 11), (4096, 12), (8192, 13), (16384, 14),
        (32768, 15), (65536, 16),
    ],
};

const MATCHES: Codes = Codes {
    usual: &[
        1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
    ],
    usual_log: 6,
    max_log: 9,
    #[rustfmt::skip]
    first: &[
        (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (11, 0), (12, 0), (13, 0), (14, 0), (15, 0),
        (16, 0), (17, 0), (18, 0), (19, 0), (20, 0), (21, 0), (22, 0), (23, 0), (24, 0), (25, 0), (26, 0), (27, 0),
        (28, 0), (29, 0), (30, 0), (31, 0), (32, 0), (33, 0), (34, 0), (35, 1), (37, 1), (39, 1), (41, 1), (43, 2),
        (47, 2), (51, 3), (59, 3), (67, 4), (83, 4), (99, 5), (131, 7), (259, 8), (515, 9), (1027, 10), (2051, 11),
        (4099, 12), (8195, 13), (16387, 14), (32771, 15), (65539, 16),
    ],
};

const OFFSETS: Codes = Codes {
    usual: &[1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1],
    usual_log: 5,
    max_log: 8,
    first: &OFFSET_CODES,
};

/// A power of two, and as many bits.
const OFFSET_CODES: [(u32, u32); 32] = {
    let mut codes = [(0, 0); 32];
    let mut code = 0u32;
    #[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
    while code < 32 {
        codes[code as usize] = (1 << code, code);
        code += 1;
    }
    codes
};

impl Codes {
    /// The table of a block, by its mode. One like that of the block before (3) cannot be in the first.
    fn table(&self, mode: u8, at: &mut Cursor<'_>) -> Option<Fse> {
        match mode & 3 {
            0 => Fse::of(self.usual, self.usual_log),
            1 => Some(Fse::single(at.u8()?)),
            2 => Fse::read(at, self.max_log, self.first.len()),
            _ => None,
        }
    }

    fn value(&self, code: u8, bits: &mut Bits<'_>) -> Option<usize> {
        let (first, more) = *self.first.get(usize::from(code))?;
        usize::try_from(first.checked_add(bits.read(more))?).ok()
    }
}

/// Unpacks up to `max` bytes of a frame of Zstandard and appends them to `out`.
pub(crate) fn zstd(packed: &[u8], out: &mut Vec<u8>, max: usize) {
    let start = out.len();
    let _ = frame(&mut Cursor::new(packed), out, start, max);
    out.truncate(start.saturating_add(max));
}

fn frame(at: &mut Cursor<'_>, out: &mut Vec<u8>, start: usize, max: usize) -> Option<()> {
    if at.u32_le()? != MAGIC {
        return None;
    }
    let head = at.u8()?;
    let single = head & 0x20 != 0;
    at.take(usize::from(!single))?;
    let dictionary = at.take(match head & 3 {
        3 => 4,
        n => usize::from(n),
    })?;
    if dictionary.iter().any(|b| *b != 0) {
        return None;
    }
    at.take(match head >> 6 {
        0 => usize::from(single),
        1 => 2,
        2 => 4,
        _ => 8,
    })?;
    while out.len().saturating_sub(start) < max {
        let head = number(at, 3)?;
        let size = usize::try_from(head >> 3).ok()?;
        match head >> 1 & 3 {
            0 => literal(at, out, size, max)?,
            1 => {
                let byte = at.u8()?;
                out.extend(std::iter::repeat_n(byte, size.min(max)));
            }
            2 => return block(&mut Cursor::new(at.take(size)?), out, start, max),
            _ => return None,
        }
        if head & 1 == 1 {
            break;
        }
    }
    Some(())
}

/// A number of so many bytes, at most 8, the lowest first.
fn number(at: &mut Cursor<'_>, bytes: usize) -> Option<u64> {
    Some(at.take(bytes)?.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
}

fn block(at: &mut Cursor<'_>, out: &mut Vec<u8>, start: usize, max: usize) -> Option<()> {
    let literals = literals(at, max)?;
    sequences(at, &mut Cursor::new(&literals), out, start, max)
}

/// The first `max` literals of a block.
fn literals(at: &mut Cursor<'_>, max: usize) -> Option<Vec<u8>> {
    let first = *at.rest().first()?;
    let format = first >> 2 & 3;
    if first & 3 < 2 {
        let (bytes, shift) = match format {
            1 => (2, 4),
            3 => (3, 4),
            _ => (1, 3),
        };
        let n = usize::try_from(number(at, bytes)? >> shift).ok()?;
        if first & 3 == 1 {
            return Some(vec![at.u8()?; n.min(max)]);
        }
        let all = at.take(n)?;
        return Some(all.get(..max).unwrap_or(all).to_vec());
    }
    // 3 has the codes of the block before.
    if first & 3 == 3 {
        return None;
    }
    let (bytes, width) = match format {
        0 | 1 => (3, 10),
        2 => (4, 14),
        _ => (5, 18),
    };
    let head = number(at, bytes)?;
    let size = |n: u64| usize::try_from(n & 1u64.wrapping_shl(width).wrapping_sub(1)).ok();
    let all = size(head >> 4)?;
    let mut at = Cursor::new(at.take(size((head >> 4).wrapping_shr(width))?)?);
    let codes = Huffman::read(&mut at)?;
    let want = all.min(max);
    let mut out = Vec::with_capacity(want);
    if format > 0 {
        for size in [at.u16_le()?, at.u16_le()?, at.u16_le()?].map(usize::from) {
            // Each of the first three holds a quarter, rounded up.
            let n = want.saturating_sub(out.len()).min(all.div_ceil(4));
            codes.unpack(at.take(size)?, n, &mut out)?;
        }
    }
    codes.unpack(at.rest(), want.saturating_sub(out.len()), &mut out)?;
    Some(out)
}

/// Puts literals and repetitions together.
fn sequences(
    at: &mut Cursor<'_>,
    literals: &mut Cursor<'_>,
    out: &mut Vec<u8>,
    start: usize,
    max: usize,
) -> Option<()> {
    let n = match at.u8()? {
        n @ 0..128 => u32::from(n),
        255 => u32::from(at.u16_le()?).saturating_add(0x7f00),
        n => u32::from(n & 0x7f) << 8 | u32::from(at.u8()?),
    };
    if n > 0 {
        let modes = at.u8()?;
        let literal_codes = LITERALS.table(modes >> 6, at)?;
        let offset_codes = OFFSETS.table(modes >> 4, at)?;
        let match_codes = MATCHES.table(modes >> 2, at)?;
        let mut bits = Bits::new(at.rest())?;
        let mut literal_state = literal_codes.start(&mut bits);
        let mut offset_state = offset_codes.start(&mut bits);
        let mut match_state = match_codes.start(&mut bits);
        let mut recent = RECENT;
        for left in (0..n).rev() {
            let (l, o, m) =
                (literal_codes.cell(literal_state)?, offset_codes.cell(offset_state)?, match_codes.cell(match_state)?);
            let offset = OFFSETS.value(o.symbol, &mut bits)?;
            let repeated = MATCHES.value(m.symbol, &mut bits)?;
            let fresh = LITERALS.value(l.symbol, &mut bits)?;
            if bits.left() < 0 {
                return None;
            }
            literal(literals, out, fresh, max)?;
            copy(out, start, distance(&mut recent, offset, fresh == 0)?, repeated.min(max))?;
            if out.len().saturating_sub(start) >= max {
                return Some(());
            }
            if left > 0 {
                literal_state = l.next(&mut bits);
                match_state = m.next(&mut bits);
                offset_state = o.next(&mut bits);
            }
        }
    }
    literal(literals, out, literals.rest().len(), max)
}

/// How far back an offset points; the first three are those that were used last.
fn distance(recent: &mut [usize; 3], offset: usize, no_literals: bool) -> Option<usize> {
    let [a, b, c] = *recent;
    let last = match offset.saturating_add(usize::from(no_literals)) {
        _ if offset > 3 => offset.saturating_sub(3),
        0 | 1 => return Some(a),
        2 => {
            *recent = [b, a, c];
            return Some(b);
        }
        3 => c,
        _ => a.checked_sub(1)?,
    };
    *recent = [last, a, b];
    Some(last)
}
