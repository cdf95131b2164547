//! CPython, and what its modules do for concurrency.
//!
//! | module | concern |
//! |---|---|
//! | here | the interpreter's own locks, and the modules that a program is likely to load |
//! | [`greenlet`] | greenlets (gevent, eventlet) |
//! | [`queue`] | jobs of executors |
//! | [`heap`] | timers, and jobs with a priority |
//! | [`context`] | jobs that run in a copy of their maker's context |
//! | [`tables`] | functions without a symbol, by name |
//! | [`frames`], [`functions`] | which functions a thread runs, and their names |

pub(super) mod context;
pub(super) mod greenlet;
pub(super) mod heap;
pub(super) mod queue;
pub(super) mod tables;

use super::{Learn, Runtime};
use crate::uprobe::elf::{Image, Place};
use crate::uprobe::ProbeSet;
use crate::wire::contract::{PythonFacts, WS_PYTHON_JOB};
use std::path::{Path, PathBuf};

/// The interpreter.
///
/// `_PyRuntime` holds the lock of the interpreter, which wakes threads that are handed no work. Every build exports it.
pub(super) struct Interpreter;

const FACTS: &str = "python_facts";
const RUNTIME: &str = "_PyRuntime";

/// Modules that are probed: their folder below that of the interpreter's version, and how their file names begin.
const MODULES: [(&str, &str); 5] = [
    ("lib-dynload", "_queue."),
    ("lib-dynload", "_heapq."),
    ("lib-dynload", "_contextvars."),
    ("site-packages/greenlet", "_greenlet."),
    ("site-packages/gevent", "_gevent_cqueue."),
];

impl Runtime for Interpreter {
    fn maps(&self) -> &'static [&'static str] {
        &[FACTS]
    }

    /// Needed whether actors are followed or not: a wake-up by the lock is no hand-over between threads.
    fn facts(&self, image: &Image<'_>, _: &[ProbeSet]) -> Option<Learn> {
        let locks = *image.functions(&[RUNTIME]).get(RUNTIME)?;
        let segment = image.code()?;
        let place = move |process: &super::Process<'_>| Some(range(locks, process.mapped?.bias(segment)));
        Some(Learn::runtime(WS_PYTHON_JOB, FACTS, place).at_once())
    }

    fn expected(&self, pid: u32, root: &Path) -> Vec<PathBuf> {
        expected(pid, root, &MODULES)
    }
}

/// Where the locks are in a process.
fn range(locks: Place, bias: u64) -> PythonFacts {
    let locks_from = locks.address.wrapping_add(bias);
    PythonFacts { locks_from, locks_to: locks_from.wrapping_add(locks.size) }
}

/// Modules that are probed and that an interpreter is likely to load: the first requests of a program come soon after.
pub(super) fn expected(pid: u32, root: &Path, modules: &[(&str, &str)]) -> Vec<PathBuf> {
    let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return Vec::new() };
    let version = program.file_name().and_then(|name| name.to_str()).filter(|name| name.starts_with("python3."));
    let Some(version) = version else { return Vec::new() };
    // The name by which it was called leads to its virtual environment.
    let called = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let called = called.split(|b| *b == 0).next().map(|name| PathBuf::from(String::from_utf8_lossy(name).to_string()));
    let mut found = Vec::new();
    for prefix in [Some(&program), called.as_ref()].into_iter().flatten().filter_map(|at| at.parent()?.parent()) {
        let Ok(prefix) = prefix.strip_prefix("/").map(|prefix| root.join(prefix)) else { continue };
        for folder in ["lib", "lib64"].map(|name| prefix.join(name)) {
            found.push(folder.join(format!("lib{version}.so.1.0")));
            for (below, begins) in modules {
                let files = std::fs::read_dir(folder.join(version).join(below)).into_iter().flatten().flatten();
                let is_probed = |file: &std::fs::DirEntry| {
                    let name = file.file_name();
                    let name = name.to_str().unwrap_or_default();
                    name.ends_with(".so") && name.starts_with(begins)
                };
                found.extend(files.filter(is_probed).map(|file| file.path()));
            }
        }
    }
    found
}
