//! The entropy coding of Zstandard (RFC 8878, sections 4.1 and 4.2): bits that are read backwards, FSE, Huffman.

use crate::framing::Cursor;

/// Longest code of a Huffman table, bits.
const MAX_CODE: u32 = 11;
/// Largest log of the size of the table that weights of Huffman codes are packed with.
const MAX_WEIGHTS_LOG: u32 = 6;
/// Codes of bytes.
const BYTES: usize = 256;

/// Up to 32 bits from bit `at` on; behind the end there are zeros.
fn window(bytes: &[u8], at: usize, n: u32) -> u32 {
    let near = bytes.get(at / 8..).unwrap_or_default().iter().take(5).enumerate();
    let word = near.fold(0u64, |word, (i, b)| word | u64::from(*b).wrapping_shl(bit_of(i)));
    let mask = 1u64.wrapping_shl(n).wrapping_sub(1);
    u32::try_from(word.wrapping_shr(u32::try_from(at % 8).unwrap_or(0)) & mask).unwrap_or(0)
}

/// First bit of byte `i`, which is less than 8.
fn bit_of(i: usize) -> u32 {
    u32::try_from(i & 7).unwrap_or(0).saturating_mul(8)
}

/// Bits that are read from the end of their bytes to the start, before which there are zeros.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Not read yet; negative if more were read than there are.
    left: i64,
}

impl<'a> Bits<'a> {
    /// The highest bit that is set in the last byte marks the end.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let mark = bytes.last()?.checked_ilog2()?;
        let whole = i64::try_from(bytes.len()).ok()?.checked_sub(1)?.checked_mul(8)?;
        Some(Bits { bytes, left: whole.checked_add(i64::from(mark))? })
    }

    pub(super) fn left(&self) -> i64 {
        self.left
    }

    /// The next `n` bits, at most 31.
    pub(super) fn read(&mut self, n: u32) -> u32 {
        self.left = self.left.saturating_sub(i64::from(n));
        let lacking = u32::try_from(self.left.saturating_neg().clamp(0, i64::from(n))).unwrap_or(n);
        let at = usize::try_from(self.left).unwrap_or(0);
        window(self.bytes, at, n.saturating_sub(lacking)).wrapping_shl(lacking)
    }
}

/// One state of an FSE table: its meaning, and how to compute the next state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) symbol: u8,
    bits: u32,
    base: u32,
}

impl Cell {
    pub(super) fn next(self, bits: &mut Bits<'_>) -> u32 {
        self.base.saturating_add(bits.read(self.bits))
    }
}

/// A table of finite state entropy.
#[derive(Debug)]
pub(super) struct Fse {
    cells: Vec<Cell>,
    log: u32,
}

impl Fse {
    /// Of one symbol, which takes no bits.
    pub(super) fn single(symbol: u8) -> Self {
        Fse { cells: vec![Cell { symbol, ..Cell::default() }], log: 0 }
    }

    /// Reads a table's description: how often each of at most `symbols` occurs, in `2^max_log` at most.
    pub(super) fn read(at: &mut Cursor<'_>, max_log: u32, symbols: usize) -> Option<Self> {
        let bytes = at.rest();
        let log = window(bytes, 0, 4).saturating_add(5);
        if log > max_log {
            return None;
        }
        let mut bit = 4usize;
        let mut counts: Vec<i16> = Vec::with_capacity(symbols);
        let mut left = 1u32.wrapping_shl(log);
        while left > 0 {
            let width = left.saturating_add(1).ilog2().saturating_add(1);
            let value = window(bytes, bit, width);
            let low = 1u32.wrapping_shl(width.saturating_sub(1)).saturating_sub(1);
            // As many values as this need one bit less.
            let short = low.saturating_mul(2).saturating_sub(left);
            let (value, width) = match value & low {
                v if v < short => (v, width.saturating_sub(1)),
                _ if value > low => (value.saturating_sub(short), width),
                _ => (value, width),
            };
            bit = bit.saturating_add(usize::try_from(width).ok()?);
            // 0 stands for "less than one", which takes one state.
            let count = i16::try_from(value).ok()?.checked_sub(1)?;
            left = left.checked_sub(u32::from(count.unsigned_abs()))?;
            counts.push(count);
            let mut zeros = if count == 0 { 3 } else { 0 };
            while zeros == 3 && counts.len() <= symbols {
                zeros = window(bytes, bit, 2);
                bit = bit.saturating_add(2);
                counts.extend((0..zeros).map(|_| 0));
            }
            if counts.len() > symbols {
                return None;
            }
        }
        at.take(bit.div_ceil(8))?;
        Fse::of(&counts, log)
    }

    /// Of symbols that occur as often as `counts` says, which are `2^log` in all; -1 is rarely.
    pub(super) fn of(counts: &[i16], log: u32) -> Option<Self> {
        let size = 1usize.checked_shl(log)?;
        let mut symbols = vec![0u8; size];
        let mut high = size;
        let named = || counts.iter().enumerate().filter_map(|(s, n)| Some((u8::try_from(s).ok()?, *n)));
        for (symbol, _) in named().filter(|(_, n)| *n < 0) {
            high = high.checked_sub(1)?;
            *symbols.get_mut(high)? = symbol;
        }
        // Odd, so that it comes to every place.
        let step = (size >> 1).saturating_add(size >> 3).saturating_add(3);
        let mut place = 0usize;
        for (symbol, n) in named().filter(|(_, n)| *n > 0) {
            for _ in 0..n {
                *symbols.get_mut(place)? = symbol;
                place = place.wrapping_add(step) & size.saturating_sub(1);
                while place >= high && high > 0 {
                    place = place.wrapping_add(step) & size.saturating_sub(1);
                }
            }
        }
        let mut seen: Vec<u32> = counts.iter().map(|n| u32::from(n.unsigned_abs())).collect();
        let cell = |symbol: u8| {
            let nth = seen.get_mut(usize::from(symbol))?;
            let bits = log.checked_sub(nth.checked_ilog2()?)?;
            let base = nth.wrapping_shl(bits).checked_sub(u32::try_from(size).ok()?)?;
            *nth = nth.saturating_add(1);
            Some(Cell { symbol, bits, base })
        };
        Some(Fse { cells: symbols.into_iter().map(cell).collect::<Option<_>>()?, log })
    }

    pub(super) fn start(&self, bits: &mut Bits<'_>) -> u32 {
        bits.read(self.log)
    }

    pub(super) fn cell(&self, state: u32) -> Option<Cell> {
        self.cells.get(usize::try_from(state).ok()?).copied()
    }
}

/// A table of Huffman codes: by as many bits as the longest has, the byte and the length of its code.
#[derive(Debug)]
pub(super) struct Huffman {
    cells: Vec<(u8, u32)>,
    log: u32,
}

impl Huffman {
    pub(super) fn read(at: &mut Cursor<'_>) -> Option<Self> {
        let head = usize::from(at.u8()?);
        let mut weights = match head.checked_sub(127) {
            Some(n @ 1..) => {
                let pairs = at.take(n.div_ceil(2))?.iter().flat_map(|b| [b >> 4, b & 15]);
                pairs.take(n).collect()
            }
            _ => packed_weights(at.take(head)?)?,
        };
        let share = |weight: u8| 1u32.wrapping_shl(u32::from(weight)) >> 1;
        if weights.iter().any(|w| u32::from(*w) > MAX_CODE) {
            return None;
        }
        // The last one is what lacks to a power of two.
        let sum = weights.iter().fold(0u32, |sum, w| sum.saturating_add(share(*w)));
        let log = sum.checked_ilog2()?.saturating_add(1);
        let rest = 1u32.checked_shl(log)?.checked_sub(sum)?;
        if log > MAX_CODE || !rest.is_power_of_two() || weights.len() >= BYTES {
            return None;
        }
        weights.push(u8::try_from(rest.ilog2()).ok()?.saturating_add(1));
        let mut cells = Vec::with_capacity(1usize.checked_shl(log)?);
        for weight in 1..=u8::try_from(log).ok()? {
            let length = log.saturating_add(1).saturating_sub(u32::from(weight));
            for (symbol, _) in weights.iter().enumerate().filter(|(_, w)| **w == weight) {
                let symbol = u8::try_from(symbol).ok()?;
                cells.extend((0..share(weight)).map(|_| (symbol, length)));
            }
        }
        Some(Huffman { cells, log })
    }

    /// Unpacks the first `n` bytes of a stream.
    pub(super) fn unpack(&self, stream: &[u8], n: usize, out: &mut Vec<u8>) -> Option<()> {
        if n == 0 {
            return Some(());
        }
        let mut bits = Bits::new(stream)?;
        let mask = 1u32.wrapping_shl(self.log).saturating_sub(1);
        let mut state = bits.read(self.log);
        for _ in 0..n {
            let (byte, length) = *self.cells.get(usize::try_from(state).ok()?)?;
            out.push(byte);
            state = (state.wrapping_shl(length) | bits.read(length)) & mask;
            // The state itself may be what lies before the start.
            if bits.left() < i64::from(self.log).saturating_neg() {
                return None;
            }
        }
        Some(())
    }
}

/// Weights of Huffman codes that were packed by two states in turn.
fn packed_weights(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut at = Cursor::new(bytes);
    let table = Fse::read(&mut at, MAX_WEIGHTS_LOG, BYTES)?;
    let mut bits = Bits::new(at.rest())?;
    let (mut state, mut other) = (table.start(&mut bits), table.start(&mut bits));
    let mut weights = Vec::new();
    while weights.len() < BYTES {
        let cell = table.cell(state)?;
        weights.push(cell.symbol);
        (state, other) = (other, cell.next(&mut bits));
        if bits.left() < 0 {
            weights.push(table.cell(state)?.symbol);
            return Some(weights);
        }
    }
    None
}
