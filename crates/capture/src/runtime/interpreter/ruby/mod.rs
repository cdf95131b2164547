//! Where Ruby keeps the functions that its threads run: CRuby 3.0 to 3.2.
//!
//! Each thread has a variable with the address of its "execution context". The C library keeps, for each thread, where
//! the variables of each library are, and the library's loader has written which number the library has. Offsets are
//! those of the headers; no release of a version has changed them.

mod names;

pub(super) use names::read;

use super::super::{Learn, Process, Runtime};
use super::{LAYOUTS, NOTHING};
use crate::features::Program;
use crate::memory::{self, Memory};
use crate::uprobe::elf::{Block, Image};
use crate::uprobe::ProbeSet;
use crate::wire::contract::{InterpreterLayout, INTERPRETER_RUBY};

/// The functions that Ruby runs.
pub(in crate::runtime) struct Ruby;

/// The context of a thread, and the machine.
const CONTEXT: &str = "ruby_current_ec";
const SYMBOLS: [&str; 2] = ["ruby_current_vm_ptr", "ruby_version"];
/// In the C library's structure of a thread: address of the places of the variables of each library, 16 bytes each.
const BLOCKS: u16 = 8;
const BLOCK: u64 = 16;
/// In a context: the memory in which its frames stand, its length in words, and the innermost frame.
const STACK: u16 = 0;
const FRAME: u16 = 16;
/// In the machine: address of its first thread.
const FIRST_THREAD: u64 = 40;
/// The table of names of methods: the number of the last name, and from there to the table itself.
pub(super) const LAST_NAME: u64 = 0;
pub(super) const NAMES: u64 = 16;
/// More data of the library is not searched for that table.
const MOST_DATA: u64 = 16 << 20;

/// What differs between versions.
struct Version {
    /// Size of a frame.
    row: u16,
    /// In the body of code: how the lines of instructions are told; size of an entry there.
    lines: u16,
    line_bytes: u16,
    /// In a string: where its letters may be.
    text: u16,
    /// In a thread: address of its context.
    context: u64,
}

impl Version {
    fn of(major: u8, minor: u8) -> Option<Version> {
        let [row, lines, line_bytes, text, context] = match (major, minor) {
            (3, 0) => [56, 120, 8, 16, 40],
            (3, 1) => [64, 120, 12, 16, 40],
            (3, 2) => [64, 112, 12, 24, 48],
            _ => return None,
        };
        Some(Version { row, lines, line_bytes, text, context: context.into() })
    }

    fn layout(&self) -> InterpreterLayout {
        InterpreterLayout {
            language: INTERPRETER_RUBY as u8,
            unit_bits: 3,
            code: 16,
            instruction: 0,
            environment: 32,
            row: self.row,
            row_begin: STACK,
            body: 16,
            instructions: 8,
            name: 80,
            file: 64,
            lines: self.lines,
            line_bytes: self.line_bytes,
            text: self.text,
            ..NOTHING
        }
    }
}

impl Runtime for Ruby {
    fn programs(&self) -> &'static [Program] {
        &[]
    }

    fn plan(&self, _: &Image<'_>) -> Vec<ProbeSet> {
        Vec::new()
    }

    fn maps(&self) -> &'static [&'static str] {
        &[LAYOUTS]
    }

    fn facts(&self, image: &Image<'_>, _: &[ProbeSet]) -> Option<Learn> {
        let found = image.functions(&SYMBOLS);
        let [machine, version] = SYMBOLS.map(|name| found.get(name).map(|place| place.address));
        let version = image.data(version?, 6)?;
        let segment = image.code().filter(|_| image.is_x86_64())?;
        let numbers = version.split(|byte| !byte.is_ascii_digit()).map(|n| std::str::from_utf8(n).ok()?.parse().ok());
        let mut numbers = numbers.map(|n| n.unwrap_or(0));
        let (major, minor) = (numbers.next()?, numbers.next()?);
        let Some(version) = Version::of(major, minor) else {
            tracing::warn!("functions of Ruby {major}.{minor} have no names: 3.0 to 3.2 are known");
            return None;
        };
        let block = image.thread_block(CONTEXT).filter(|_| image.uses_glibc());
        let Some((machine, (block, offset))) = machine.zip(block) else {
            tracing::warn!("functions of Ruby have no names: where its threads keep them is not known");
            return None;
        };
        let data = image.writable()?;
        let learn = move |process: &Process<'_>| {
            let bias = process.mapped?.bias(segment);
            let memory = memory::of(process.pid).ok()?;
            let number = match block {
                Block::OfProgram => 1,
                Block::NumberAt(at) => memory.word(at.wrapping_add(bias))?,
            };
            let block = u16::try_from(number.checked_mul(BLOCK)?).ok().filter(|at| *at > 0)?;
            let layout = InterpreterLayout {
                steps: 4,
                path: [BLOCKS, block, u16::try_from(offset).ok()?, FRAME],
                ..version.layout()
            };
            is_sound(&memory, &layout, &version, memory.word(machine.wrapping_add(bias))?)?;
            let known = table(&memory, &layout, data.0.wrapping_add(bias), data.1).unwrap_or(0);
            Some(InterpreterLayout { known, ..layout })
        };
        Some(Learn::value(LAYOUTS, learn))
    }
}

/// Whether the frames of the first thread are as this layout says: the outermost of the program has code with a name.
fn is_sound(memory: &impl Memory, layout: &InterpreterLayout, version: &Version, machine: u64) -> Option<()> {
    /// Frames that are looked at, from the outermost on.
    const LOOKED_AT: u64 = 8;
    let thread = memory.word(machine.checked_add(FIRST_THREAD)?)?;
    let context = memory.word(thread.checked_add(version.context)?)?;
    let (stack, words) = (memory.word(context)?, memory.word(context.checked_add(8)?)?);
    let innermost = memory.word(context.checked_add(FRAME.into())?)?;
    let end = stack.checked_add(words.checked_mul(8)?)?;
    (stack..end).contains(&innermost).then_some(())?;
    let frames = (1..=LOOKED_AT).map_while(|n| end.checked_sub(n * u64::from(layout.row)));
    let codes = frames.take_while(|at| *at >= innermost).map(|at| memory.word(at + u64::from(layout.code)));
    let mut functions = codes.flatten().filter(|code| *code != 0).map(|code| read(memory, layout, code));
    functions.next().flatten().filter(|function| !function.name.is_empty()).map(|_| ())
}

/// Address of the table of the names of methods. It has no symbol, so the data of the library is searched for what
/// looks like it and gives the name of a method whose number has never changed.
fn table(memory: &impl Memory, layout: &InterpreterLayout, data: u64, size: u64) -> Option<u64> {
    /// Numbers of last names that are believed.
    const SOME: std::ops::Range<u64> = 500..1 << 26;
    const PLUS: u64 = b'+' as u64;
    let words = memory.words(data, usize::try_from(size.min(MOST_DATA)).ok()?)?;
    let candidates = words.iter().zip(words.iter().skip(2)).enumerate().filter(|(_, (last, names))| {
        SOME.contains(&(**last & u64::from(u32::MAX))) && **names > 1 << 16 && **names % 8 == 0
    });
    let mut places = candidates.map(|(n, _)| data + 8 * n as u64);
    places.find(|at| {
        let layout = InterpreterLayout { known: *at, ..*layout };
        names::of_number(memory, &layout, PLUS).is_some_and(|name| name == "+")
    })
}
