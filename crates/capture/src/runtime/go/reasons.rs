//! Why Go parks a goroutine, in the words of its runtime: `chan receive`, `sync.Mutex.Lock`, `sleep`, `IO wait`. The
//! number stands in `runtime.g`; what it means differs from version to version. The program itself has the texts, in an
//! array of strings of which only the first ones are the same in all versions (Go 1.17 to 1.26).

use super::super::{Learn, Process, Runtime};
use super::{version, Layout};
use crate::uprobe::elf::Image;
use crate::uprobe::go_functions;
use crate::wire::contract::{GO_REASONS, GO_REASON_NAME};
use std::collections::HashMap;

/// Where goroutines are parked, and the texts of why.
pub(in super::super) struct Reasons;

/// The map that has them by process.
const REASONS: &str = "go_reasons";

/// Where a goroutine leaves its thread to wait.
const PARK: &str = "runtime.gopark";
/// The texts with the numbers 1 and 2; 0 is none.
const FIRST: &str = "GC assist marking";
const SECOND: &str = "IO wait";
/// Bytes of a string: its address and its length.
const STRING: u64 = 16;
const LENGTH: u64 = 8;

impl Runtime for Reasons {
    fn maps(&self) -> &'static [&'static str] {
        &[REASONS]
    }

    fn facts(&self, image: &Image<'_>, _: &[crate::uprobe::ProbeSet]) -> Option<Learn> {
        if !image.is_x86_64() {
            return None;
        }
        Layout::of(version(image)?)?;
        let (texts, segment) = (texts(image)?, image.code()?);
        let (_, park) = go_functions::functions(image, &[PARK]).into_iter().next()?;
        let bytes = move |process: &Process<'_>| {
            let at = park.address.wrapping_add(process.mapped?.bias(segment));
            Some([&at.to_ne_bytes()[..], &park.size.to_ne_bytes(), &texts].concat())
        };
        Some(Learn { map: REASONS, bit: 0, bytes: Box::new(bytes), at_once: true })
    }
}

/// The texts by their numbers, each in a place of its own.
fn texts(image: &Image<'_>) -> Option<Vec<u8>> {
    let (constants, bytes) = image.section(".rodata")?;
    let found = memchr::memmem::find_iter(bytes, FIRST).map(|at| constants + at as u64);
    let firsts: Vec<u64> = found.collect();
    let pointers: HashMap<u64, u64> = image.pointers().into_iter().collect();
    let text = |place: u64| {
        let address = *pointers.get(&place)?;
        let length = u64::from_le_bytes(image.data(place + LENGTH, 8)?.try_into().ok()?);
        let is_short = (1..u64::from(GO_REASON_NAME)).contains(&length);
        image.data(address, length).filter(|text| is_short && text.iter().all(|b| matches!(b, 0x20..0x7f)))
    };
    let is_first =
        |place: u64| text(place) == Some(FIRST.as_bytes()) && text(place + STRING) == Some(SECOND.as_bytes());
    let places = pointers.iter().filter(|(_, to)| firsts.contains(to)).map(|(place, _)| *place);
    let first = places.into_iter().find(|place| is_first(*place))?;
    let mut all = vec![0; (GO_REASONS * GO_REASON_NAME) as usize];
    let rooms = all.chunks_exact_mut(GO_REASON_NAME as usize).skip(1);
    for (room, place) in rooms.zip((first..).step_by(STRING as usize)) {
        // Texts of the same array follow each other; a number that is not in use has none.
        if let Some(text) = text(place) {
            room[..text.len()].copy_from_slice(text);
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// The texts of a program, built by the Go that is here.
    fn of_program(mode: &str) -> Option<Vec<String>> {
        let dir = tempfile::tempdir().expect("a folder");
        let (source, program) = (dir.path().join("main.go"), dir.path().join("main"));
        std::fs::write(&source, "package main\n\nfunc main() { select {} }\n").expect("a file");
        let mut build = Command::new("go");
        build.args(["build", "-ldflags=-s -w", mode, "-o"]).arg(&program).arg(&source);
        let done = build.env("GO111MODULE", "off").output().ok()?;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let texts = crate::uprobe::elf::with(Path::new(&program), texts).expect("texts");
        let read = |room: &[u8]| String::from_utf8_lossy(room).trim_end_matches('\0').to_owned();
        Some(texts.chunks_exact(GO_REASON_NAME as usize).map(read).collect())
    }

    #[test]
    fn a_stripped_program_says_why_it_parks() {
        for mode in ["-buildmode=exe", "-buildmode=pie"] {
            let Some(texts) = of_program(mode) else {
                println!("skipped: needs go");
                return;
            };
            assert_eq!([&*texts[0], &*texts[1], &*texts[2]], ["", FIRST, SECOND], "{mode}");
            for text in ["chan receive", "chan send", "select", "sleep", "semacquire", "sync.Mutex.Lock"] {
                assert_eq!(texts.iter().filter(|t| *t == text).count(), 1, "{mode}: {text}: {texts:?}");
            }
        }
    }
}
