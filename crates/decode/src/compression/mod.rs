//! Unpacks the beginning of blocks of snappy, LZ4 and Zstandard, as far as it is needed and was captured. The fields
//! that spans need stand at the start of a block.
//!
//! The libraries of these formats need a whole block, and only its beginning is captured. Therefore this code reads the
//! formats itself (google/snappy, `format_description.txt`; lz4/lz4, `doc/lz4_Block_format.md`; RFC 8878). It stops at
//! invalid bytes and keeps the output up to there.

mod entropy;
mod zstd;

pub(crate) use zstd::zstd;

use crate::framing::Cursor;

/// Unpacks up to `max` bytes of a block of snappy and appends them to `out`.
pub(crate) fn snappy(packed: &[u8], out: &mut Vec<u8>, max: usize) {
    let start = out.len();
    let _ = snappy_elements(&mut Cursor::new(packed), out, start, max);
    out.truncate(start.saturating_add(max));
}

fn snappy_elements(at: &mut Cursor<'_>, out: &mut Vec<u8>, start: usize, max: usize) -> Option<()> {
    // The length, seven bits a byte.
    while at.u8()? >= 0x80 {}
    while out.len().saturating_sub(start) < max {
        let tag = at.u8()?;
        let n = usize::from(tag >> 2);
        if tag & 3 == 0 {
            let more = match n.checked_sub(59) {
                None | Some(0) => n,
                Some(bytes) => {
                    let len = at.take(bytes)?.iter().rev().fold(0u32, |sum, b| sum << 8 | u32::from(*b));
                    usize::try_from(len).ok()?
                }
            };
            literal(at, out, more.saturating_add(1), max)?;
            continue;
        }
        let (len, distance) = match tag & 3 {
            1 => ((n & 7).saturating_add(4), usize::from(tag >> 5) << 8 | usize::from(at.u8()?)),
            2 => (n.saturating_add(1), usize::from(at.u16_le()?)),
            _ => (n.saturating_add(1), usize::try_from(at.u32_le()?).ok()?),
        };
        copy(out, start, distance, len)?;
    }
    Some(())
}

/// Unpacks up to `max` bytes of a block of LZ4 and appends them to `out`.
pub(crate) fn lz4(packed: &[u8], out: &mut Vec<u8>, max: usize) {
    let start = out.len();
    let _ = lz4_sequences(&mut Cursor::new(packed), out, start, max);
    out.truncate(start.saturating_add(max));
}

fn lz4_sequences(at: &mut Cursor<'_>, out: &mut Vec<u8>, start: usize, max: usize) -> Option<()> {
    while out.len().saturating_sub(start) < max {
        let token = at.u8()?;
        let literals = length(at, token >> 4)?;
        literal(at, out, literals, max)?;
        let distance = usize::from(at.u16_le()?);
        let len = length(at, token & 15)?.saturating_add(4);
        copy(out, start, distance, len.min(max))?;
    }
    Some(())
}

/// A length of LZ4: 15 goes on with bytes up to one that is not 255.
fn length(at: &mut Cursor<'_>, nibble: u8) -> Option<usize> {
    let mut len = usize::from(nibble);
    if nibble == 15 {
        loop {
            let byte = at.u8()?;
            len = len.saturating_add(usize::from(byte));
            if byte != 255 {
                break;
            }
        }
    }
    Some(len)
}

fn literal(at: &mut Cursor<'_>, out: &mut Vec<u8>, len: usize, max: usize) -> Option<()> {
    let rest = at.rest();
    // Output beyond `max` is wrong; the caller cuts it off.
    out.extend_from_slice(rest.get(..len.min(max).min(rest.len())).unwrap_or_default());
    at.take(len).map(|_| ())
}

/// Repeats earlier output. Source and destination may overlap.
fn copy(out: &mut Vec<u8>, start: usize, distance: usize, len: usize) -> Option<()> {
    let from = out.len().checked_sub(distance).filter(|from| distance > 0 && *from >= start)?;
    for i in from..from.saturating_add(len) {
        let byte = *out.get(i)?;
        out.push(byte);
    }
    Some(())
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 4096;
    type Unpack = fn(&[u8], &mut Vec<u8>, usize);

    fn packed(text: &[u8]) -> [(Unpack, Vec<u8>); 4] {
        let other = snap::raw::Encoder::new().compress_vec(text).unwrap();
        let zstd_at = |level| (zstd as Unpack, ::zstd::bulk::compress(text, level).unwrap());
        [(snappy, other), (lz4, lz4_flex::block::compress(text)), zstd_at(3), zstd_at(19)]
    }

    proptest! {
        #[test]
        fn blocks_of_other_libraries_are_unpacked_even_if_cut(
            words in prop::collection::vec("[a-e]{1,9}", 0..900),
            noise in prop::collection::vec(any::<u8>(), 0..700), at in 0usize..2000,
        ) {
            let text = [words.concat().into_bytes(), noise, words.concat().into_bytes()].concat();
            let shown = &text[..text.len().min(MAX)];
            for (unpack, packed) in packed(&text) {
                let mut out = b"before".to_vec();
                unpack(&packed, &mut out, MAX);
                prop_assert_eq!(&out[6..], shown);
                out.clear();
                unpack(&packed[..at.min(packed.len())], &mut out, MAX);
                prop_assert!(text.starts_with(&out));
            }
        }

        #[test]
        fn nonsense_stays_bounded(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let block = [&b"\x28\xb5\x2f\xfd\x00\x58\xfd\x12\x00"[..], &bytes, &[0; 600]].concat();
            for (unpack, bytes) in [(snappy as Unpack, &bytes), (lz4, &bytes), (zstd, &bytes), (zstd, &block)] {
                let mut out = Vec::new();
                unpack(bytes, &mut out, MAX);
                prop_assert!(out.len() <= MAX);
            }
        }

        /// A byte that is wrong anywhere, so that every part of the format is met.
        #[test]
        fn spoilt_blocks_stay_bounded(
            words in prop::collection::vec("[a-z]{1,9}", 1..400), at in any::<usize>(), with in 1u8..,
        ) {
            for (unpack, mut packed) in packed(words.concat().as_bytes()) {
                let at = at % packed.len();
                packed[at] ^= with;
                let mut out = Vec::new();
                unpack(&packed, &mut out, MAX);
                prop_assert!(out.len() <= MAX);
            }
        }
    }
}
