//! Numbers as the machine compresses them: five bytes at most, the first byte below [`HIGH`] is the last one.

/// Bytes from here on have another one behind them.
const HIGH: u8 = 192;
/// Bits that such a byte adds.
const BITS: u32 = 6;
const MAX_BYTES: u32 = 5;

/// Reads numbers one after the other.
pub(super) struct Numbers<'a> {
    rest: &'a [u8],
    /// Since Java 20 no byte is 0: each is one more than what it stands for.
    without_zero: bool,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(bytes: &'a [u8], without_zero: bool) -> Self {
        Numbers { rest: bytes, without_zero }
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub(super) fn unsigned(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        for n in 0..MAX_BYTES {
            let byte = self.byte()?;
            let own = u32::from(byte).checked_sub(self.without_zero.into())?;
            sum = sum.wrapping_add(own << (BITS * n));
            if byte < HIGH {
                break;
            }
        }
        Some(sum)
    }

    /// The lowest bit is the sign.
    pub(super) fn signed(&mut self) -> Option<i32> {
        let n = self.unsigned()?;
        Some((n >> 1) as i32 ^ -((n & 1) as i32))
    }
}

/// The line of an instruction of a method, by its table of lines; 0 if it is not known.
pub(super) fn line(table: &[u8], without_zero: bool, instruction: u32) -> u32 {
    /// The rest of a pair follows in numbers.
    const LONG: u8 = 0xff;
    let mut numbers = Numbers::new(table, without_zero);
    let (mut at, mut line, mut best) = (0_i64, 0_i64, (-1, 0));
    while let Some(byte) = numbers.byte().filter(|byte| *byte != 0) {
        if byte == LONG {
            let (Some(instructions), Some(lines)) = (numbers.signed(), numbers.signed()) else { break };
            (at, line) = (at + i64::from(instructions), line + i64::from(lines));
        } else {
            (at, line) = (at + i64::from(byte >> 3), line + i64::from(byte & 7));
        }
        if at <= i64::from(instruction) && at >= best.0 {
            best = (at, line);
        }
    }
    u32::try_from(best.1).unwrap_or(0)
}
