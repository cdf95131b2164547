//! Ruby's threads: with which mutex one waits.
//!
//! A thread waits for the machine's lock and for results at one condition variable. Which of the two it waits for is
//! told by the mutex that it took before (`bpf/runtime/ruby/threads.h`). The function that takes it is for extensions,
//! too, so that the library exports it, and calls it itself.

use super::Runtime;
use crate::features::Program;
use crate::uprobe::elf::Image;
use crate::uprobe::points::entry;
use crate::uprobe::{Probe, ProbeSet};

/// The threads of a program in Ruby.
pub(super) struct Threads;

const PROGRAM: &str = "ruby_mutex_lock";
const PROGRAMS: &[Program] = &[Program::uprobe(
    PROGRAM,
    "Ruby: what a thread waits for",
    "the lock of Ruby's machine looks like a hand-over: calls of further threads of a request are joined by guess",
)];
/// `rb_native_mutex_lock(mutex)`.
const LOCKS: &str = "rb_native_mutex_lock";
/// Bytes of it that are disassembled.
const LOOKED_AT: u64 = 64;

impl Runtime for Threads {
    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        vec![ProbeSet::new(PROGRAM, plan(image).into_iter().collect())]
    }
}

/// Where to probe, before the first argument has left its register.
fn plan(image: &Image<'_>) -> Option<Probe> {
    if !image.is_x86_64() {
        return None;
    }
    let place = *image.functions(&[LOCKS]).get(LOCKS)?;
    Some(Probe { offset: entry(image, place.address, place.size.min(LOOKED_AT))?, cookie: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uprobe::elf;
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn the_probe_lies_in_the_function_that_takes_a_mutex() {
        let asked = Command::new("ruby").args(["-e", "puts File.read('/proc/self/maps')[/\\S*libruby\\S*/]"]).output();
        let file = asked.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default();
        if file.is_empty() {
            println!("skipped: no ruby with a shared library");
            return;
        }
        let (probe, function) = elf::with(Path::new(&file), |image| {
            let function = *image.functions(&[LOCKS]).get(LOCKS)?;
            Some((plan(image)?, image.offset(function.address)?..image.offset(function.address)? + function.size))
        })
        .expect("an ELF file that exports the function");
        assert!(function.contains(&probe.offset), "{:x} is not in {function:x?}", probe.offset);
    }
}
