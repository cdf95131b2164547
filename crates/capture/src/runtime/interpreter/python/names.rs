//! Names of Python's functions: code objects, as they lie in its memory, and the tables that give the lines of their
//! instructions.

use super::super::{Code, Function, MAX_NAME};
use crate::memory::Memory;
use crate::wire::contract::InterpreterLayout;

/// Longer tables are not read.
const MAX_TABLE: u64 = 1 << 16;
/// Name of the code that no program has written, which the interpreter runs below each call from C.
const TRAMPOLINE: &str = "<interpreter trampoline>";
/// Of a string: from its letters back to the type, the length and the state. Until Python 3.11 there is one word more.
const TEXT_OF_3_11: u16 = 48;

/// The function whose code object is at this address.
pub(in super::super) fn read(memory: &impl Memory, layout: &InterpreterLayout, at: u64) -> Option<Function> {
    let objects = Objects { memory, layout };
    // Frames that the interpreter puts between C and Python have other objects; what was code may be gone by now, too.
    if objects.type_of(at)? != layout.known {
        return Some(Function::default());
    }
    let field = |offset: u16| memory.word(at.checked_add(u64::from(offset))?);
    let (name, file) = (objects.text(field(layout.name)?)?, objects.text(field(layout.file)?)?);
    let first_line = field(layout.first_line)? as u32;
    let lines = objects.bytes(field(layout.lines)?).unwrap_or_default();
    let name = if name == TRAMPOLINE { "" } else { &name };
    let code = if layout.line_bytes == 0 {
        let line = move |instruction| line_of(&lines, first_line, instruction);
        let first = at.checked_add(layout.instructions.into())? >> layout.unit_bits;
        Code { first, count: None, line: Box::new(line) }
    } else {
        // Until Python 3.10: another object has the instructions, and a frame has the number of one of them.
        let of: fn(&[u8], u32, u32) -> Option<u32> = if layout.unit_bits == 0 { line_of_3_10 } else { line_of_3_8 };
        let count = objects.size(field(layout.instructions)?)? as u32 / 2;
        Code { first: 0, count: Some(count), line: Box::new(move |instruction| of(&lines, first_line, instruction)) }
    };
    Some(Function { code: Some(code), ..Function::new(name, &file) })
}

/// Objects of an interpreter.
struct Objects<'a, M> {
    memory: &'a M,
    layout: &'a InterpreterLayout,
}

impl<M: Memory> Objects<'_, M> {
    /// Offset of the length in texts and bytes; the type stands before it, the hash behind it.
    fn length(&self) -> u64 {
        let text = u64::from(self.layout.text);
        if self.layout.text == TEXT_OF_3_11 {
            text - 32
        } else {
            text - 24
        }
    }

    fn type_of(&self, at: u64) -> Option<u64> {
        self.memory.word(at.checked_add(self.length() - 8)?)
    }

    fn size(&self, at: u64) -> Option<u64> {
        self.memory.word(at.checked_add(self.length())?)
    }

    fn bytes(&self, at: u64) -> Option<Vec<u8>> {
        let size = self.size(at).filter(|size| *size <= MAX_TABLE)?;
        self.memory.bytes(at.checked_add(self.length() + 16)?, size as usize)
    }

    fn text(&self, at: u64) -> Option<String> {
        let from = at.checked_add(self.length())?;
        let size = self.memory.word(from)?.min(MAX_NAME);
        let state = self.memory.word(from.checked_add(16)?)? as u32;
        let (width, is_ascii) = form(state)?;
        // Texts with other letters have two words before the letters, until 3.11 three.
        let before = match (is_ascii, self.layout.text) {
            (true, _) => 0,
            (false, TEXT_OF_3_11) => 24,
            (false, _) => 16,
        };
        let letters = at.checked_add(u64::from(self.layout.text) + before)?;
        let letters = self.memory.bytes(letters, (size * width) as usize)?;
        let letter = |bytes: &[u8]| {
            let number = bytes.iter().rev().fold(0, |n, byte| n << 8 | u32::from(*byte));
            char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        Some(letters.chunks_exact(width as usize).map(letter).collect())
    }
}

/// Bytes of a letter, and whether all are ASCII, from the state of a text. The bits stand behind the two that say
/// whether the text is interned; in Python 3.14 those take two bytes. `None` if the letters are elsewhere.
fn form(state: u32) -> Option<(u64, bool)> {
    [2, 8, 16].into_iter().find_map(|at| {
        let bits = state >> at;
        let (width, is_compact, is_ascii) = (u64::from(bits & 7), bits & 8 != 0, bits & 16 != 0);
        let is_sound = matches!(width, 1 | 2 | 4) && is_compact && (width == 1 || !is_ascii);
        is_sound.then_some((width, is_ascii))
    })
}

/// The line of an instruction by the table of Python 3.8 and 3.9 (`Objects/lnotab_notes.txt` of CPython): so many bytes
/// of instructions later, the line is another one.
fn line_of_3_8(table: &[u8], first_line: u32, instruction: u32) -> Option<u32> {
    let (mut line, mut end) = (i64::from(first_line), 0);
    for pair in table.chunks_exact(2) {
        end += u32::from(pair[0]);
        if end > instruction.saturating_mul(2) {
            break;
        }
        line += i64::from(pair[1] as i8);
    }
    u32::try_from(line).ok()
}

/// The same of Python 3.10: so many bytes of instructions are on a line that differs so much from the line before.
fn line_of_3_10(table: &[u8], first_line: u32, instruction: u32) -> Option<u32> {
    const NO_LINE: i8 = -128;
    let (mut line, mut end) = (i64::from(first_line), 0);
    for pair in table.chunks_exact(2) {
        let step = pair[1] as i8;
        end += u32::from(pair[0]);
        if step != NO_LINE {
            line += i64::from(step);
        }
        if end > instruction.saturating_mul(2) {
            return if step == NO_LINE { None } else { u32::try_from(line).ok() };
        }
    }
    None
}

/// The same of Python 3.11 and newer, from a table of locations (`Objects/locations.md` of CPython): entries of a few
/// bytes, each of which covers some instructions and says by how much the line differs from the entry before.
fn line_of(table: &[u8], first_line: u32, instruction: u32) -> Option<u32> {
    /// Whether further bytes of a number follow.
    const MORE: u8 = 0x40;
    let mut bytes = table.iter().copied();
    let (mut line, mut end) = (i64::from(first_line), 0);
    while let Some(head) = bytes.next() {
        let mut number = || -> Option<i64> {
            let (mut sum, mut shift) = (0, 0);
            loop {
                let byte = bytes.next()?;
                sum |= i64::from(byte & (MORE - 1)).checked_shl(shift)?;
                shift += 6;
                if byte & MORE == 0 {
                    return Some(sum);
                }
            }
        };
        let signed = |n: i64| if n & 1 == 0 { n >> 1 } else { -(n >> 1) };
        let form = (head >> 3) & 15;
        match form {
            15 => {}
            14 => {
                line = line.checked_add(signed(number()?))?;
                // The last line, and both columns.
                for _ in 0..3 {
                    number()?;
                }
            }
            13 => line = line.checked_add(signed(number()?))?,
            10..=12 => {
                line = line.checked_add(i64::from(form) - 10)?;
                bytes.nth(1)?;
            }
            _ => {
                bytes.next()?;
            }
        }
        end += u32::from(head & 7) + 1;
        if instruction < end {
            return if form == 15 { None } else { u32::try_from(line).ok() };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_instructions_are_those_of_the_table() {
        // Short, one line on, no column, long (three lines back), no place; each of two instructions or more.
        let table = [0x80 | 1, 0, 0x80 | 11 << 3 | 1, 1, 2, 0x80 | 13 << 3, 4, 0x80 | 14 << 3 | 3, 7, 0, 1, 0x41, 1];
        let line = |n| line_of(&table, 20, n);
        assert_eq!([0, 1, 2, 3, 4].map(line), [20, 20, 21, 21, 23].map(Some));
        assert_eq!([5, 8].map(line), [20, 20].map(Some));
        assert_eq!(line(9), None);
        assert_eq!(line_of(&[0x80 | 15 << 3], 20, 0), None);
    }

    #[test]
    fn lines_of_older_versions_are_those_of_their_tables() {
        // def price():      line 7, two instructions
        //     a = 1         line 8, and on line 10 and 8 again the rest
        let table = [4, 1, 2, 2, 2, 254];
        assert_eq!([0, 1, 2, 3, 4, 90].map(|n| line_of_3_8(&table, 7, n)), [7, 7, 8, 10, 8, 8].map(Some));
        // A jump of more than 127 lines, and instructions without a line.
        let table = [4, 1, 0, 127, 2, 3, 2, 128, 2, 255];
        let line = |n| line_of_3_10(&table, 7, n);
        assert_eq!([0, 1, 2, 3, 4, 5].map(line), [Some(8), Some(8), Some(138), None, Some(137), None]);
    }

    #[test]
    fn no_table_panics() {
        for head in 0..=255 {
            for rest in [&[][..], &[0xff; 40], &[0x3f; 3], &[0x7f, 0x7f, 0x7f]] {
                let table = [&[head][..], rest].concat();
                (0..9).chain([u32::MAX]).for_each(|n| {
                    line_of(&table, u32::MAX, n);
                    line_of_3_8(&table, 0, n);
                    line_of_3_10(&table, 0, n);
                });
            }
        }
    }

    #[test]
    fn letters_are_found_by_the_state_of_a_text() {
        // kind 1, compact, ASCII, behind two bits; the same behind two bytes; kind 2; letters elsewhere.
        assert_eq!(form(0b1_1001 << 2 | 1), Some((1, true)));
        assert_eq!(form(0b1_1001 << 16 | 1), Some((1, true)));
        assert_eq!(form((0b0_1010 << 2) | 1), Some((2, false)));
        assert_eq!(form(0b0_0001 << 2), None);
    }
}
