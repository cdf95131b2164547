//! Where Ruby keeps the functions that its threads run: CRuby 3.0 to 3.3.
//!
//! Each thread has a variable with the address of its "execution context". The C library keeps, for each thread,
//! where the variables of each library are, and the library's loader has written which number the library has. Ruby
//! 3.3 does not export the variable: then its place among those of the library is learnt from the first thread.
//! Offsets are those of the headers; no release of a version has changed them.

mod names;

pub(super) use names::read;

use super::super::{Learn, Process, Runtime};
use super::{LAYOUTS, NOTHING};
use crate::memory::{self, Memory};
use crate::uprobe::elf::{Block, Image};
use crate::uprobe::ProbeSet;
use crate::wire::contract::{InterpreterLayout, INTERPRETER_RUBY};

/// The functions that Ruby runs.
pub(in crate::runtime) struct Ruby;

/// The context of a thread, the machine, and the version, which alone is always exported.
const CONTEXT: &str = "ruby_current_ec";
const MACHINE: &str = "ruby_current_vm_ptr";
const VERSION: &str = "ruby_version";
/// In the C library's structure of a thread: address of the places of the variables of each library, 16 bytes each.
const BLOCKS: u16 = 8;
const BLOCK: u64 = 16;
/// In a context: the memory in which its frames stand, its length in words, and the innermost frame.
const STACK: u16 = 0;
const FRAME: u16 = 16;
/// In the machine: address of its first thread. In a thread: address of the machine.
const FIRST_THREAD: u64 = 40;
const OF_MACHINE: u64 = 32;
/// The table of names of methods: the number of the last name, and from there to the table itself.
pub(super) const LAST_NAME: u64 = 0;
pub(super) const NAMES: u64 = 16;
/// More data of the library is not searched.
const MOST_DATA: u64 = 16 << 20;
/// No object has a lower address.
const LOWEST: u64 = 1 << 16;

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
    /// In a thread: address of what says which thread of the C library it is, and where that says it.
    native: Option<[u64; 2]>,
}

impl Version {
    fn of(major: u8, minor: u8) -> Option<Version> {
        let [row, lines, line_bytes, text, context] = match (major, minor) {
            (3, 0) => [56, 120, 8, 16, 40],
            (3, 1) => [64, 120, 12, 16, 40],
            (3, 2) => [64, 112, 12, 24, 48],
            (3, 3) => [56, 112, 12, 24, 48],
            _ => return None,
        };
        let native = ((major, minor) == (3, 3)).then_some([40, 16]);
        Some(Version { row, lines, line_bytes, text, context: context.into(), native })
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
    fn maps(&self) -> &'static [&'static str] {
        &[LAYOUTS]
    }

    fn facts(&self, image: &Image<'_>, _: &[ProbeSet]) -> Option<Learn> {
        let found = image.functions(&[MACHINE, VERSION]);
        let version = image.data(found.get(VERSION)?.address, 6)?;
        let segment = image.code().filter(|_| image.is_x86_64())?;
        let numbers = version.split(|byte| !byte.is_ascii_digit()).map(|n| std::str::from_utf8(n).ok()?.parse().ok());
        let mut numbers = numbers.map(|n| n.unwrap_or(0));
        let (major, minor) = (numbers.next()?, numbers.next()?);
        let Some(version) = Version::of(major, minor) else {
            tracing::warn!("functions of Ruby {major}.{minor} have no names: 3.0 to 3.3 are known");
            return None;
        };
        let exported = image.in_thread_block(CONTEXT);
        let is_found = exported.is_some() || version.native.is_some();
        let block = image.thread_block().filter(|_| is_found && image.uses_glibc());
        let Some((block, size)) = block else {
            tracing::warn!("functions of Ruby have no names: where its threads keep them is not known");
            return None;
        };
        let (machine, data) = (found.get(MACHINE).map(|place| place.address), image.writable()?);
        let learn = move |process: &Process<'_>| {
            let bias = process.mapped?.bias(segment);
            let memory = memory::of(process.pid).ok()?;
            let data = (data.0.wrapping_add(bias), data.1.min(MOST_DATA));
            let machine = match machine {
                Some(at) => memory.word(at.wrapping_add(bias))?,
                None => find_machine(&memory, data)?,
            };
            let thread = memory.word(machine.checked_add(FIRST_THREAD)?)?;
            let number = match block {
                Block::OfProgram => 1,
                Block::NumberAt(at) => memory.word(at.wrapping_add(bias))?,
            };
            let block = u16::try_from(number.checked_mul(BLOCK)?).ok().filter(|at| *at > 0)?;
            let offset = match exported {
                Some(offset) => offset,
                None => find_context(&memory, &version, thread, block, size)?,
            };
            let path = [BLOCKS, block, u16::try_from(offset).ok()?, FRAME];
            let layout = InterpreterLayout { steps: 4, path, ..version.layout() };
            is_sound(&memory, &layout, memory.word(thread.checked_add(version.context)?)?)?;
            Some(InterpreterLayout { known: table(&memory, &layout, data).unwrap_or(0), ..layout })
        };
        Some(Learn::value(LAYOUTS, learn))
    }
}

/// The machine: the library's data have its address, and it is that of its first thread.
fn find_machine(memory: &impl Memory, (data, size): (u64, u64)) -> Option<u64> {
    let words = memory.words(data, usize::try_from(size).ok()?)?;
    let is_machine = |at: &u64| {
        let thread = memory.word(at.checked_add(FIRST_THREAD)?)?;
        (memory.word(thread.checked_add(OF_MACHINE)?)? == *at).then_some(())
    };
    words.into_iter().find(|word| *word > LOWEST && word.is_multiple_of(8) && is_machine(word).is_some())
}

/// Where the first thread has the address of its context, among the variables of the library.
fn find_context(memory: &impl Memory, version: &Version, thread: u64, block: u16, size: u64) -> Option<u64> {
    /// More variables are not searched.
    const MOST: u64 = 1 << 16;
    let [native, own] = version.native?;
    let context = memory.word(thread.checked_add(version.context)?)?;
    let native = memory.word(thread.checked_add(native)?)?;
    let own = memory.word(native.checked_add(own)?)?;
    let blocks = memory.word(own.checked_add(BLOCKS.into())?)?;
    let variables = memory.words(memory.word(blocks.checked_add(block.into())?)?, size.min(MOST) as usize)?;
    variables.iter().position(|word| *word == context).map(|n| 8 * n as u64)
}

/// Whether the frames of the first thread are as this layout says: the outermost of the program has code with a name.
fn is_sound(memory: &impl Memory, layout: &InterpreterLayout, context: u64) -> Option<()> {
    /// Frames that are looked at, from the outermost on.
    const LOOKED_AT: u64 = 8;
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
fn table(memory: &impl Memory, layout: &InterpreterLayout, (data, size): (u64, u64)) -> Option<u64> {
    /// Numbers of last names that are believed.
    const SOME: std::ops::Range<u64> = 500..1 << 26;
    const PLUS: u64 = b'+' as u64;
    let words = memory.words(data, usize::try_from(size).ok()?)?;
    let candidates = words.iter().zip(words.iter().skip(2)).enumerate().filter(|(_, (last, names))| {
        SOME.contains(&(**last & u64::from(u32::MAX))) && **names > LOWEST && names.is_multiple_of(8)
    });
    let mut places = candidates.map(|(n, _)| data + 8 * n as u64);
    places.find(|at| {
        let layout = InterpreterLayout { known: *at, ..*layout };
        names::of_number(memory, &layout, PLUS).is_some_and(|name| name == "+")
    })
}
