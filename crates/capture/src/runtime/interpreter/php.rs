//! Where PHP keeps the functions that it runs, and their names: PHP 8.1 to 8.5, builds without threads (CLI, FPM).
//!
//! The frames begin at a variable that each build exports. Offsets are those of the headers; no release of a version
//! has changed them.

use super::super::{Learn, Process, Runtime};
use super::{Code, Function, LAYOUTS, MAX_NAME, NOTHING};
use crate::memory::{self, Memory};
use crate::uprobe::elf::Image;
use crate::uprobe::ProbeSet;
use crate::wire::contract::{InterpreterLayout, INTERPRETER_PHP};

/// The functions that PHP runs.
pub(in crate::runtime) struct Php;

/// `executor_globals`, of builds without threads.
const GLOBALS: &str = "executor_globals";
/// A text of each build, which its version follows.
const VERSION: &[u8] = b"X-Powered-By: PHP/";
/// The first two values of `executor_globals` and their types: null, and "error".
const FIRST_TYPES: [(u64, u32); 2] = [(8, 1), (24, 15)];
/// Types of functions: part of the interpreter; of a file; of `eval()`.
const INTERNAL: u8 = 1;
const OF_PROGRAM: [u8; 2] = [2, 4];
/// Of a function: its name, its class. Of a class: its name. Of an instruction: its size, its line.
const NAME: u64 = 8;
const CLASS: u64 = 16;
const NAME_OF_CLASS: u64 = 8;
const INSTRUCTION: usize = 32;
const LINE: usize = 24;
/// Instructions lie at multiples of 8.
const UNIT_BITS: u8 = 3;
const UNITS: u32 = INSTRUCTION as u32 >> UNIT_BITS;
/// Functions with more instructions have no lines.
const MOST_INSTRUCTIONS: u32 = (1 << 16) / UNITS;
/// Name of what a file does outside of functions, as PHP writes it.
const MAIN: &str = "{main}";

/// Of a version: the innermost frame in `executor_globals`; in a function: the number of its instructions, their
/// address, the name of the file.
fn offsets(version: (u8, u8)) -> Option<[u16; 4]> {
    Some(match version {
        (8, 1) => [488, 68, 72, 144],
        (8, 2) => [488, 80, 88, 152],
        (8, 3) => [488, 76, 80, 144],
        (8, 4) => [488, 96, 104, 168],
        (8, 5) => [512, 96, 104, 168],
        _ => return None,
    })
}

impl Runtime for Php {
    fn maps(&self) -> &'static [&'static str] {
        &[LAYOUTS]
    }

    fn facts(&self, image: &Image<'_>, _: &[ProbeSet]) -> Option<Learn> {
        let globals = image.functions(&[GLOBALS]).get(GLOBALS)?.address;
        let segment = image.code().filter(|_| image.is_x86_64())?;
        let version = version(image)?;
        let Some([frame, count, instructions, file]) = offsets(version) else {
            tracing::warn!("functions of PHP {}.{} have no names: 8.1 to 8.5 are known", version.0, version.1);
            return None;
        };
        let learn = move |process: &Process<'_>| {
            let from = globals.wrapping_add(process.mapped?.bias(segment));
            let memory = memory::of(process.pid).ok()?;
            let is = |(at, kind)| memory.word(from.checked_add(at)?).map(|word| word as u32 == kind);
            FIRST_TYPES.into_iter().all(|first| is(first) == Some(true)).then_some(InterpreterLayout {
                from,
                language: INTERPRETER_PHP as u8,
                unit_bits: UNIT_BITS,
                steps: 1,
                path: [frame, 0, 0, 0],
                code: 24,
                instruction: 0,
                caller: 48,
                instructions,
                file,
                lines: count,
                text: 24,
                ..NOTHING
            })
        };
        Some(Learn::value(LAYOUTS, learn))
    }
}

/// The version of the interpreter in a file.
fn version(image: &Image<'_>) -> Option<(u8, u8)> {
    let (_, constants) = image.section(".rodata")?;
    let at = memchr::memmem::find(constants, VERSION)? + VERSION.len();
    let text = constants.get(at..)?.split(|byte| *byte == 0).next()?;
    let mut numbers = std::str::from_utf8(text).ok()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The function that is described at this address.
pub(super) fn read(memory: &impl Memory, layout: &InterpreterLayout, at: u64) -> Option<Function> {
    let word = |offset: u64| memory.word(at.checked_add(offset)?);
    let kind = word(0)? as u8;
    let text = |at: u64| text(memory, layout, at);
    let name = match word(NAME)? {
        0 if kind == INTERNAL => return Some(Function::default()), // the first frame of a fiber
        0 => MAIN.into(),
        at => text(at)?,
    };
    let name = match word(CLASS)? {
        0 => name,
        class => format!("{}::{name}", text(memory.word(class.checked_add(NAME_OF_CLASS)?)?)?),
    };
    if kind == INTERNAL {
        return Some(Function::new(&name, ""));
    }
    OF_PROGRAM.contains(&kind).then_some(())?;
    let path = text(word(layout.file.into())?)?;
    let count = word(layout.lines.into())? as u32;
    let first = word(layout.instructions.into())?;
    let line = |instruction: &[u8]| instruction.get(LINE..)?.first_chunk().copied().map(u32::from_ne_bytes);
    let read = || memory.bytes(first, count as usize * INSTRUCTION);
    let instructions = (count < MOST_INSTRUCTIONS).then(read).flatten().unwrap_or_default();
    let lines: Vec<u32> = instructions.chunks_exact(INSTRUCTION).filter_map(line).collect();
    let line = move |unit: u32| lines.get((unit / UNITS) as usize).copied();
    let count = (count < MOST_INSTRUCTIONS).then_some(count * UNITS);
    let code = Code { first: first >> UNIT_BITS, count, line: Box::new(line) };
    Some(Function { code: Some(code), ..Function::new(&name, &path) })
}

/// A string: a count of its users, what it is, a hash, its length, its letters.
fn text(memory: &impl Memory, layout: &InterpreterLayout, at: u64) -> Option<String> {
    const STRING: u64 = 6;
    (memory.word(at)? >> 32 & 0xf == STRING).then_some(())?;
    let letters = u64::from(layout.text);
    let length = memory.word(at.checked_add(letters - 8)?)?.min(MAX_NAME);
    let letters = memory.bytes(at.checked_add(letters)?, length as usize)?;
    // The class of a class without a name goes on with its place, behind a byte 0.
    let name = letters.split(|letter| *letter == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}
