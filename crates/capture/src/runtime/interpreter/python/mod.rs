//! Where the interpreter of Python keeps the functions that its threads run.
//!
//! From Python 3.13 on the interpreter describes itself for debuggers (`_Py_DebugOffsets`, at the begin of
//! `_PyRuntime`). The offsets of 3.8 to 3.12 are those of their headers, which no later release of a version has
//! changed. The place where the C library keeps a thread's `PyThreadState` is learnt from the living threads: each
//! state says to which thread it belongs, and that thread's structure holds the state's address.

mod names;

pub(super) use names::read;

use super::super::{Learn, Process, Runtime};
use super::{LAYOUTS, NOTHING};
use crate::memory::{self, Memory};
use crate::uprobe::elf::Image;
use crate::uprobe::ProbeSet;
use crate::wire::contract::{InterpreterLayout, INTERPRETER_PYTHON};
use std::collections::BTreeSet;

/// The functions that Python runs.
pub(in crate::runtime) struct Python;

/// The interpreter's state, and the type of its code. Every build exports them.
const SYMBOLS: [&str; 2] = ["_PyRuntime", "PyCode_Type"];
/// What says the version: its number, from Python 3.11 on; else functions that are new in 3.10, and in 3.8.
const VERSIONS: [&str; 3] = ["Py_Version", "Py_NewRef", "PyCode_NewWithPosOnlyArgs"];
/// Threads from which the place of their state is learnt.
const LOOKED_AT: usize = 32;
/// The C library's structure of a thread (glibc: 2,304 bytes).
const THREAD_BYTES: usize = 2304;

impl Runtime for Python {
    fn maps(&self) -> &'static [&'static str] {
        &[LAYOUTS]
    }

    fn facts(&self, image: &Image<'_>, _: &[ProbeSet]) -> Option<Learn> {
        let found = image.functions(&[SYMBOLS.as_slice(), &VERSIONS].concat());
        let [runtime, code_type] = SYMBOLS.map(|name| found.get(name).map(|place| place.address));
        let (runtime, code_type) = (runtime?, code_type?);
        let [number, in_3_10, in_3_8] = VERSIONS.map(|name| found.get(name).map(|place| place.address));
        number.or(in_3_10).or(in_3_8)?;
        let segment = image.code().filter(|_| image.is_x86_64())?;
        let learn = move |process: &Process<'_>| {
            let at = |address: u64| Some(address.wrapping_add(process.mapped?.bias(segment)));
            let memory = memory::of(process.pid).ok()?;
            let version = match number {
                Some(number) => Version::numbered(&memory, at(runtime)?, memory.word(at(number)?)?)?,
                None if in_3_10.is_some() => Version::OF_3_10,
                None => Version::OF_3_8,
            };
            learn(&memory, at(runtime)?, at(code_type)?, &version)
        };
        Some(Learn::value(LAYOUTS, learn))
    }
}

/// What is needed to find the states of threads, and the layout without what is learnt.
struct Version {
    /// In the interpreter's state: address of its first interpreter.
    interpreters: u64,
    /// In an interpreter: address of the first state of a thread.
    threads: u64,
    /// In a state: address of the next one, and the thread to which it belongs.
    next: u64,
    thread: u64,
    /// In a state: address of what holds the innermost frame, in Python 3.11 and 3.12; else 0.
    holder: u16,
    /// In the holder, or the state: address of the innermost frame.
    frame: u16,
    layout: InterpreterLayout,
}

fn learn(memory: &impl Memory, runtime: u64, code_type: u64, version: &Version) -> Option<InterpreterLayout> {
    let interpreter = memory.word(runtime.checked_add(version.interpreters)?)?;
    let mut state = memory.word(interpreter.checked_add(version.threads)?)?;
    let mut places: Option<BTreeSet<u16>> = None;
    for _ in 0..LOOKED_AT {
        if state == 0 {
            break;
        }
        let thread = memory.word(state.checked_add(version.thread)?)?;
        // A thread that begins has no place yet.
        let holds = memory.words(thread, THREAD_BYTES).unwrap_or_default();
        let own: BTreeSet<u16> = (0..).step_by(8).zip(holds).filter(|(_, w)| *w == state).map(|(at, _)| at).collect();
        match places.as_mut() {
            Some(places) if !own.is_empty() => places.retain(|at| own.contains(at)),
            None if !own.is_empty() => places = Some(own),
            _ => {}
        }
        state = memory.word(state.checked_add(version.next)?)?;
    }
    let thread = *places?.first()?;
    let (steps, path) = match version.holder {
        0 => (2, [thread, version.frame, 0, 0]),
        holder => (3, [thread, holder, version.frame, 0]),
    };
    Some(InterpreterLayout { known: code_type, steps, path, ..version.layout })
}

/// What all versions have in common: an instruction has two bytes.
const COMMON: InterpreterLayout = InterpreterLayout { language: INTERPRETER_PYTHON as u8, unit_bits: 1, ..NOTHING };

impl Version {
    /// 3.8 and 3.9. A frame has the number of a byte, and each entry of the table of lines has two bytes.
    const OF_3_8: Version = Version {
        interpreters: 32,
        threads: 8,
        next: 8,
        thread: 176,
        holder: 0,
        frame: 24,
        layout: InterpreterLayout {
            code: 32,
            caller: 24,
            instruction: 104,
            instructions: 48,
            name: 112,
            file: 104,
            lines: 120,
            first_line: 40,
            line_bytes: 2,
            text: 48,
            ..COMMON
        },
    };
    /// A frame has the number of an instruction.
    const OF_3_10: Version = Version {
        layout: InterpreterLayout { instruction: 96, unit_bits: 0, ..Version::OF_3_8.layout },
        ..Version::OF_3_8
    };
    const OF_3_11: Version = Version {
        interpreters: 40,
        threads: 16,
        next: 8,
        thread: 152,
        holder: 56,
        frame: 8,
        layout: InterpreterLayout {
            code: 32,
            caller: 48,
            instruction: 56,
            instructions: 184,
            name: 128,
            file: 112,
            lines: 136,
            first_line: 72,
            text: 48,
            suspended: 80,
            values: 72,
            top: 64,
            ..COMMON
        },
    };
    const OF_3_12: Version = Version {
        interpreters: 40,
        threads: 72,
        next: 8,
        thread: 136,
        holder: 56,
        frame: 0,
        layout: InterpreterLayout {
            code: 0,
            caller: 8,
            instruction: 56,
            instructions: 192,
            name: 128,
            file: 112,
            lines: 136,
            first_line: 68,
            text: 40,
            suspended: 72,
            values: 72,
            top: 64,
            ..COMMON
        },
    };

    /// 0x030d00f0 is 3.13.0.
    fn numbered(memory: &impl Memory, runtime: u64, number: u64) -> Option<Version> {
        match ((number >> 24) as u8, (number >> 16) as u8) {
            (3, 11) => Some(Version::OF_3_11),
            (3, 12) => Some(Version::OF_3_12),
            (3, 13) => Version::described(memory, runtime, [9, 19, 28, 34], 72),
            (3, 14) => Version::described(memory, runtime, [9, 22, 31, 39], 0),
            _ => None,
        }
    }

    /// As the interpreter describes itself. `places`: numbers of the words of `_Py_DebugOffsets` that say where the
    /// first thread of an interpreter is, and of those at which the descriptions of a thread's state, of a frame and of
    /// code begin. `values`: see [`InterpreterLayout::values`].
    fn described(memory: &impl Memory, runtime: u64, places: [usize; 4], values: u16) -> Option<Version> {
        const COOKIE: [u8; 8] = *b"xdebugpy";
        const WORDS: usize = 96;
        let words = memory.words(runtime, 8 * WORDS)?;
        (words.first()?.to_ne_bytes() == COOKIE).then_some(())?;
        let word = |at: usize| words.get(at).copied();
        let short = |at: usize| word(at).and_then(|offset| u16::try_from(offset).ok());
        let [first, state, frame, code] = places;
        // The object header of a build without the interpreter's lock has two words more.
        let header = if word(2)? == 0 { 0 } else { 16 };
        let layout = InterpreterLayout {
            code: short(frame + 2)?,
            caller: short(frame + 1)?,
            instruction: short(frame + 3)?,
            instructions: short(code + 9)?,
            name: short(code + 3)?,
            file: short(code + 1)?,
            lines: short(code + 4)?,
            first_line: short(code + 5)?,
            text: 40 + header,
            suspended: if header == 0 { 72 } else { 0 },
            values,
            top: 64,
            ..COMMON
        };
        Some(Version {
            interpreters: word(5)?,
            threads: word(first)?,
            next: word(state + 2)?,
            thread: word(state + 5)?,
            holder: 0,
            frame: short(state + 4)?,
            layout,
        })
    }
}
