//! Names of Ruby's functions: code, as it lies in the memory of Ruby, and the tables that give the lines of its
//! instructions.

use super::super::{Code, Function, MAX_NAME};
use super::{LAST_NAME, NAMES};
use crate::memory::Memory;
use crate::wire::contract::InterpreterLayout;

/// The type of an object, in its first word; that of what only the interpreter uses has a kind above it.
const TYPE: u64 = 0x1f;
const KIND: u32 = 12;
const STRING: u64 = 0x05;
const ARRAY: u64 = 0x07;
const INTERNAL: u64 = 0x1a;
const METHOD: u64 = 6;
const CODE: u64 = 7;
/// Bits of the first word of a string or an array: its parts lie elsewhere; lie within it.
const ELSEWHERE: u64 = 1 << 13;
const WITHIN: u64 = 1 << 13;
/// In a method: address of its definition. In that: the number of its name.
const DEFINITION: u64 = 16;
const NUMBER: u64 = 32;
/// Names of operators have numbers of their own; those of other names have four bits more, which say what is named.
const OPERATORS: u64 = 256;
/// Names in each part of the table, and words of a name.
const PART: u64 = 512;
const WORDS: u64 = 2;
/// In how lines are told: address of the entries, their number, and address of the table of their instructions.
const COUNT: u64 = 16;
const INDEX: u64 = 24;
/// Longer code has no lines.
const MOST_INSTRUCTIONS: u32 = 1 << 16;

/// The function at this address: code, or a method in C.
pub(in super::super) fn read(memory: &impl Memory, layout: &InterpreterLayout, at: u64) -> Option<Function> {
    let first = memory.word(at)?;
    (first & TYPE == INTERNAL).then_some(())?;
    let kind = first >> KIND & 0xf;
    if kind == METHOD {
        let definition = memory.word(at.checked_add(DEFINITION)?)?;
        return Some(Function::new(&of_number(memory, layout, memory.word(definition.checked_add(NUMBER)?)?)?, ""));
    }
    if kind != CODE {
        return Some(Function::default()); // a block in C
    }
    let body = memory.word(at.checked_add(layout.body.into())?)?;
    let field = |offset: u16| memory.word(body.checked_add(offset.into())?);
    let name = text(memory, layout, field(layout.name)?)?;
    // The path, or an array of the path and the real path.
    let path = field(layout.file)?;
    let path = element(memory, path, 0).unwrap_or(path);
    let size = (memory.word(body)? >> 32) as u32;
    let lines = Lines::read(memory, layout, body, size);
    // A frame has the number of the instruction that comes next.
    let code = Code {
        first: field(layout.instructions)? >> layout.unit_bits,
        count: (size < MOST_INSTRUCTIONS).then_some(size + 1),
        line: Box::new(move |instruction| lines.as_ref()?.of(instruction)),
    };
    Some(Function { code: Some(code), ..Function::new(&name, &text(memory, layout, path)?) })
}

/// A string. Until Ruby 3.1, the length of a short one is in its first word.
fn text(memory: &impl Memory, layout: &InterpreterLayout, at: u64) -> Option<String> {
    let word = |offset: u64| memory.word(at.checked_add(offset)?);
    let first = word(0)?;
    (first & TYPE == STRING && at.is_multiple_of(8)).then_some(())?;
    let (length, letters) = match (first & ELSEWHERE, layout.text) {
        (0, 16) => (first >> 14 & 0x1f, at.checked_add(16)?),
        (0, _) => (word(16)?, at.checked_add(24)?),
        _ => (word(16)?, word(24)?),
    };
    let letters = memory.bytes(letters, length.min(MAX_NAME) as usize)?;
    Some(String::from_utf8_lossy(&letters).into_owned())
}

/// An element of an array.
fn element(memory: &impl Memory, at: u64, n: u64) -> Option<u64> {
    let word = |offset: u64| memory.word(at.checked_add(offset)?);
    let first = word(0)?;
    (first & TYPE == ARRAY && at.is_multiple_of(8)).then_some(())?;
    let elements = match first & WITHIN {
        0 => {
            (n < word(16)?).then_some(())?;
            word(32)?
        }
        _ => at.checked_add(16)?,
    };
    memory.word(elements.checked_add(n.checked_mul(8)?)?)
}

/// The name of a method that has this number.
pub(super) fn of_number(memory: &impl Memory, layout: &InterpreterLayout, number: u64) -> Option<String> {
    let table = Some(layout.known).filter(|known| *known != 0)?;
    let number = if number < OPERATORS { number } else { number >> 4 };
    let last = memory.word(table.checked_add(LAST_NAME)?)? & u64::from(u32::MAX);
    (number <= last).then_some(())?;
    let part = element(memory, memory.word(table.checked_add(NAMES)?)?, number / PART)?;
    text(memory, layout, element(memory, part, number % PART * WORDS)?)
}

/// How the lines of instructions are told: an entry for each instruction at which the line may change. A table says,
/// for the number of each word of the code, how many entries begin until there.
struct Lines {
    lines: Vec<u32>,
    index: Vec<u64>,
}

impl Lines {
    /// Words of code whose counts stand in the first part of the table: 9 in each of its words, with 7 bits each.
    const FIRST: u32 = 54;
    const FIRST_WORDS: usize = 6;
    /// Then blocks: what was counted before, counts within (9 bits each), and a bit for each word of the code.
    const BLOCK: u32 = 512;
    const BLOCK_WORDS: usize = 10;

    fn read(memory: &impl Memory, layout: &InterpreterLayout, body: u64, size: u32) -> Option<Lines> {
        (size < MOST_INSTRUCTIONS).then_some(())?;
        let field = |offset: u64| memory.word(body.checked_add(u64::from(layout.lines) + offset)?);
        let count = (field(COUNT)? as u32).min(size) as usize;
        let entries = memory.bytes(field(0)?, count * usize::from(layout.line_bytes))?;
        let lines = entries.chunks_exact(layout.line_bytes.max(4).into());
        let lines: Vec<u32> = lines.filter_map(|e| e.first_chunk().copied().map(u32::from_ne_bytes)).collect();
        let blocks = size.saturating_sub(Self::FIRST).div_ceil(Self::BLOCK) as usize;
        let words = if blocks == 0 { (size as usize).div_ceil(9).min(Self::FIRST_WORDS) } else { Self::FIRST_WORDS };
        let words = words + blocks * Self::BLOCK_WORDS;
        let index = if count > 1 { memory.words(field(INDEX)?, 8 * words)? } else { Vec::new() };
        Some(Lines { lines, index })
    }

    /// The line of the instruction before this word of the code: that of a call, to which its frame returns.
    fn of(&self, word: u32) -> Option<u32> {
        let entry = if self.lines.len() > 1 { self.entry(word.saturating_sub(1))? } else { 1 };
        self.lines.get((entry as usize).checked_sub(1)?).copied()
    }

    /// Number of entries until this word.
    fn entry(&self, word: u32) -> Option<u64> {
        let Some(beyond) = word.checked_sub(Self::FIRST) else {
            let counts = self.index.get(word as usize / 9)?;
            return Some(counts >> (7 * (word % 9)) & 0x7f);
        };
        let block = Self::FIRST_WORDS + (beyond / Self::BLOCK) as usize * Self::BLOCK_WORDS;
        let block = self.index.get(block..block + Self::BLOCK_WORDS)?;
        let (word, bit) = (beyond % Self::BLOCK / 64, beyond % 64);
        let within = match word {
            0 => 0,
            n => block.get(1)? >> (9 * (n - 1)) & 0x1ff,
        };
        let bits = block.get(2 + word as usize)? << (63 - bit);
        Some((block.first()? & u64::from(u32::MAX)) + within + u64::from(bits.count_ones()))
    }
}
