//! Contexts of CPython's `contextvars`: where one is copied, and where something is run in one.
//!
//! Neither has a symbol in most builds. They are found by name in tables of methods (`PyMethodDef`): `run` behind
//! `copy` in that of the type, in the interpreter; `copy_context` in that of the module `_contextvars`, which may be a
//! file of its own.

use super::tables::Tables;
use crate::features::Program;
use crate::runtime::Runtime;
use crate::uprobe::elf::Image;
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::{PYTHON_COPIED as COPIED, PYTHON_ENTERS as ENTERS};

/// Contexts of the interpreter.
pub(in crate::runtime) struct Contexts;

const PROGRAM: &str = "python_context";
const PROGRAMS: &[Program] = &[Program::uprobe(
    PROGRAM,
    "Python: in whose context a thread works (anyio, asgiref, asyncio.to_thread)",
    "calls of such threads are joined by which thread woke them",
)];

impl Runtime for Contexts {
    fn tables(&self) -> &'static [&'static str] {
        &["python_copies"]
    }

    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        let (enters, copied) = plan(image);
        let set = |probe: Option<Probe>| probe.into_iter().collect::<Vec<_>>();
        vec![ProbeSet::new(PROGRAM, set(enters)), ProbeSet::at_return(PROGRAM, set(copied))]
    }
}

/// Exported by the interpreter, and by the module; a static interpreter has both.
const INTERPRETER: &str = "_PyRuntime";
const MODULE: &str = "PyInit__contextvars";

/// Where something is run in a context, and where one is copied (at its return), if this file has that.
fn plan(image: &Image<'_>) -> (Option<Probe>, Option<Probe>) {
    let symbols = image.functions(&[INTERPRETER, MODULE]);
    if !image.is_x86_64() || symbols.is_empty() {
        return (None, None);
    }
    let tables = Tables::of(image, &["copy", "run", "copy_context"]);
    let enters = || tables.entry(tables.context_run()?, ENTERS);
    let copied = || tables.exit(tables.methods("copy_context").next()?, COPIED);
    let has = |symbol| symbols.contains_key(symbol);
    (has(INTERPRETER).then(enters).flatten(), has(MODULE).then(copied).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uprobe::elf;
    use std::path::Path;
    use std::process::Command;

    /// The files in which an interpreter has its contexts and their module.
    fn files(python: &str) -> Option<[String; 2]> {
        const ASK: &str = "import sys, _contextvars\n\
            print(next((l.split()[-1] for l in open('/proc/self/maps') if 'libpython3.' in l), sys.executable))\n\
            print(getattr(_contextvars, '__file__', sys.executable))";
        let asked = Command::new(python).args(["-c", ASK]).output().ok()?;
        let text = String::from_utf8(asked.stdout).ok()?;
        let mut lines = text.lines().map(str::to_string);
        Some([lines.next()?, lines.next()?])
    }

    /// Whether the probe lies in this function, as far as the file's symbols tell.
    fn lies_in(file: &str, name: &str, probe: Probe) -> Option<bool> {
        elf::with(Path::new(file), |image| {
            let named = image.named(|n| (n == name.as_bytes()).then_some(()));
            let (place, ()) = named.first()?;
            let start = image.offset(place.address)?;
            Some((start..start + place.size).contains(&probe.offset))
        })
    }

    #[test]
    fn the_functions_of_contexts_are_found_in_the_interpreters_that_are_here() {
        let mut seen = 0;
        for python in ["python3", "/usr/bin/python3"] {
            let Some([interpreter, module]) = files(python) else { continue };
            let of = |file: &str| elf::with(Path::new(file), |image| Some(plan(image))).expect("an ELF file");
            let enters = of(&interpreter).0.unwrap_or_else(|| panic!("{python}: {interpreter}"));
            let copied = of(&module).1.unwrap_or_else(|| panic!("{python}: {module}"));
            assert_eq!((enters.cookie, copied.cookie), (ENTERS, COPIED));
            // A build that kept its symbols says whether it is so.
            assert_ne!(lies_in(&interpreter, "context_run", enters), Some(false), "{python}: {enters:?}");
            assert_ne!(lies_in(&module, "_contextvars_copy_context", copied), Some(false), "{python}: {copied:?}");
            seen += 1;
        }
        if seen == 0 {
            println!("skipped: no python3");
        }
    }
}
