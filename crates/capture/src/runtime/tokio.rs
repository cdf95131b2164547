//! Tasks of Rust's tokio: where one is made, run and put to sleep, and where a channel wakes its receiver. Symbols
//! carry a hash of the build, so functions are recognised by their names without the hash. A program whose symbols
//! were stripped cannot be probed.
//!
//! The probed functions are not generic, or stand in a table of functions, so they are not inlined into callers. The
//! exception is a program that is optimised as a whole (fat LTO). There the turn of a task ends with its poll function.

use super::Runtime;
use crate::features::Program;
use crate::uprobe::elf::Image;
use crate::uprobe::points::Function;
use crate::uprobe::{Probe, ProbeSet, When};
use crate::wire::contract::{
    TOKIO_ANSWERS as ANSWERS, TOKIO_BORN as BORN, TOKIO_ENDS as ENDS, TOKIO_PERHAPS as PERHAPS, TOKIO_RUNS as RUNS,
    TOKIO_RUNS_ONLY as RUNS_ONLY, TOKIO_SENDS as SENDS, TOKIO_SLEEPS as SLEEPS, TOKIO_WAKES as WAKES,
};
use std::collections::HashSet;

/// Rust programs with tokio.
pub(super) struct Tokio;

const PROGRAM: &str = "tokio";
/// The program that notes when tasks are woken.
const DUE: &str = "tokio_due";
const PROGRAMS: &[Program] = &[
    Program::uprobe(
        PROGRAM,
        "Rust: which task of tokio runs (programs that keep their symbols)",
        "calls of tasks are joined by guess if several requests are served at a time; waits are those of threads",
    ),
    Program::uprobe(
        DUE,
        "Rust: since when a task of tokio was ready for its turn (--threshold)",
        "of a slow request of tokio, the time in which its task was ready, and others ran, is told as blocked",
    ),
];

impl Runtime for Tokio {
    fn tables(&self) -> &'static [&'static str] {
        &["actors", "answers", "carriers", "progress_of"]
    }

    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        let probes = plan(image);
        let wakes = probes.iter().filter(|probe| matches!(probe.cookie, ANSWERS | WAKES)).copied().collect();
        let (always, shared) = probes.into_iter().partition(|probe| probe.cookie != ANSWERS);
        vec![
            ProbeSet::new(PROGRAM, always),
            ProbeSet::new(PROGRAM, shared).only(When::Shares),
            ProbeSet::new(DUE, wakes).only(When::Waits),
        ]
    }
}

/// No cookie of the kernel program: a function that stands for [`ENDS`] where that is inlined into it.
const COMPLETE: u32 = u32::MAX;

/// Bytes of a function in which every `ret` is searched.
const MAX_FUNCTION: u64 = 64 << 10;
/// Bytes of each function that are disassembled.
const LOOKED_AT: usize = 128;

/// Where to probe; nothing unless it suffices.
fn plan(image: &Image<'_>) -> Vec<Probe> {
    // Which registers have the arguments is known for x86-64 only.
    if !image.is_x86_64() {
        return Vec::new();
    }
    let mut found = image.named(cookie);
    let mut seen = HashSet::new();
    found.retain(|(place, _)| seen.insert(place.address)); // equal code has several names
    let has = |cookie| found.iter().any(|f| f.1 == cookie);
    let (sleeps, ends, sends) = (has(SLEEPS), has(ENDS), has(SENDS));
    if !has(RUNS) || !has(BORN) || !(ends || has(COMPLETE)) {
        return Vec::new();
    }
    let mut probes = Vec::new();
    for (place, cookie) in found {
        let Some(bytes) = image.bytes(place.address, place.size.min(MAX_FUNCTION)) else { continue };
        let mut add = |address, cookie| probes.extend(image.offset(address).map(|offset| Probe { offset, cookie }));
        if cookie == RUNS && !sleeps {
            Function::new(bytes, place.address).returns().for_each(|at| add(at, SLEEPS));
        }
        let begin = Function::new(bytes.get(..LOOKED_AT).unwrap_or(bytes), place.address);
        match cookie {
            BORN => add(begin.points(false).enter, BORN),
            COMPLETE if ends => {}
            WAKES if sends => add(begin.first_argument(), ANSWERS),
            RUNS if !sends => add(begin.first_argument(), RUNS_ONLY),
            COMPLETE => add(begin.first_argument(), ENDS),
            _ => add(begin.first_argument(), cookie),
        }
    }
    probes
}

/// Cookie of a function, by its mangled name; `None` if it is not probed.
fn cookie(mangled: &[u8]) -> Option<u32> {
    const PARTS: [&[u8]; 2] = [b"5tokio", b"12futures_core"];
    if !mangled.starts_with(b"_") || !PARTS.iter().any(|part| mangled.windows(part.len()).any(|w| w == *part)) {
        return None;
    }
    let name = rustc_demangle::try_demangle(std::str::from_utf8(mangled).ok()?).ok()?;
    operation(&format!("{name:#}"))
}

/// The same by its demangled name without hashes.
fn operation(name: &str) -> Option<u32> {
    if let Some(of) = name.strip_prefix("tokio::runtime::task::raw::poll") {
        return (of.is_empty() || (of.starts_with("::<") && of.ends_with('>'))).then_some(RUNS);
    }
    let (of, method) = name.rsplit_once("::")?;
    let of = of.strip_prefix('<').map_or(of, |of| of.strip_suffix('>').unwrap_or(of));
    match (of.split('<').next()?, method) {
        ("tokio::runtime::task::state::State", "transition_to_idle") => Some(SLEEPS),
        ("tokio::runtime::task::state::State", "transition_to_complete") => Some(ENDS),
        ("tokio::runtime::task::harness::Harness", "complete") => Some(COMPLETE),
        ("tokio::runtime::task::list::OwnedTasks", "bind_inner") => Some(BORN),
        ("tokio::runtime::blocking::pool::Spawner", "spawn_task") => Some(BORN),
        ("tokio::runtime::task::waker", "wake_by_val" | "wake_by_ref") => Some(WAKES),
        ("tokio::sync::task::atomic_waker::AtomicWaker", "wake") => Some(SENDS),
        ("futures_core::task::__internal::atomic_waker::AtomicWaker", "wake") => Some(PERHAPS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_their_names_in_every_form() {
        for (name, expected) in [
            ("tokio::runtime::task::raw::poll", Some(RUNS)),
            ("tokio::runtime::task::raw::poll::<my::work::{closure#0}, alloc::sync::Arc<a::Handle>>", Some(RUNS)),
            ("tokio::runtime::task::raw::poll::<a::B, c::D>::{closure#0}", None),
            ("tokio::runtime::task::raw::poll_inner", None),
            ("tokio::runtime::task::state::State::transition_to_idle", Some(SLEEPS)),
            ("<tokio::runtime::task::state::State>::transition_to_idle", Some(SLEEPS)),
            ("<tokio::runtime::task::state::State>::transition_to_complete", Some(ENDS)),
            ("tokio::runtime::task::harness::Harness<T,S>::complete", Some(COMPLETE)),
            ("tokio::runtime::task::list::OwnedTasks<S>::bind_inner", Some(BORN)),
            ("tokio::runtime::blocking::pool::Spawner::spawn_task", Some(BORN)),
            ("tokio::runtime::blocking::pool::Spawner::spawn_task::{{closure}}", None),
            ("<tokio::runtime::task::list::OwnedTasks<alloc::sync::Arc<a::b::Handle>>>::bind_inner", Some(BORN)),
            ("tokio::runtime::task::list::OwnedTasks<S>::bind_inner::{{closure}}", None),
            ("tokio::runtime::task::waker::wake_by_ref", Some(WAKES)),
            ("tokio::sync::task::atomic_waker::AtomicWaker::wake", Some(SENDS)),
            ("<futures_core::task::__internal::atomic_waker::AtomicWaker>::wake", Some(PERHAPS)),
            ("<mine::AtomicWaker>::wake", None),
            ("tokio", None),
        ] {
            assert_eq!(operation(name), expected, "{name}");
        }
    }

    #[test]
    fn mangled_names_of_both_kinds_are_read() {
        assert_eq!(cookie(b"_ZN5tokio7runtime4task3raw4poll17h0a6dea97c7ec8996E"), Some(RUNS));
        let part = b"_ZN5tokio7runtime4task3raw4poll17h2834d3b4a8381a5fE.llvm.5608456100807192962";
        assert_eq!(cookie(part), Some(RUNS));
        let v0 = b"_RNvMNtNtNtCsabc_5tokio7runtime4task5stateNtB2_5State18transition_to_idle";
        assert_eq!(cookie(v0), Some(SLEEPS));
        let generic = b"_ZN5tokio7runtime4task4list19OwnedTasks$LT$S$GT$10bind_inner17h293b3109317a9d78E";
        assert_eq!(cookie(generic), Some(BORN));
        assert_eq!(cookie(b"_ZN5tokio4mine4poll17h0a6dea97c7ec8996E"), None);
    }
}
