//! Lists in the order of a heap (module `_heapq`), which are Python's queues of timers and of jobs with a priority.
//!
//! Celery keeps a job there until it is due (`countdown`, `eta`, a retry), as does whatever uses `PriorityQueue` or
//! `sched`. Other programs sort by heaps, often millions of times a second. So only processes that take messages from a
//! queue are probed.

use super::tables::Tables;
use crate::runtime::Runtime;
use crate::uprobe::elf::Image;
use crate::uprobe::{Probe, ProbeSet, When};
use crate::wire::contract::{PYTHON_POPPED as POPPED, PYTHON_PUSHED as PUSHED};

/// The module `_heapq`.
pub(in crate::runtime) struct Heaps;

/// The kernel program of queues handles them.
const PROGRAM: &str = "python_queue";
/// Exported by that module, or by an interpreter that has it built in.
const MODULE: &str = "PyInit__heapq";
/// Functions, and cookies.
const FUNCTIONS: [(&str, u32); 2] = [("heappush", PUSHED), ("heappop", POPPED)];

impl Runtime for Heaps {
    fn tables(&self) -> &'static [&'static str] {
        &["carriers"]
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        vec![ProbeSet::new(PROGRAM, plan(image).unwrap_or_default()).only(When::Takes)]
    }
}

/// Looks into a file; nothing unless both functions are found.
fn plan(image: &Image<'_>) -> Option<Vec<Probe>> {
    if !image.is_x86_64() || !image.functions(&[MODULE]).contains_key(MODULE) {
        return None;
    }
    let tables = Tables::of(image, &FUNCTIONS.map(|(name, _)| name));
    FUNCTIONS.iter().map(|(name, cookie)| tables.entry(tables.methods(name).next()?, *cookie)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tables::LOOKED_AT;
    use super::*;
    use crate::uprobe::elf;
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn the_functions_of_heaps_are_found_by_their_names() {
        let script = "import _heapq, sys; print(getattr(_heapq, '__file__', sys.executable))";
        let asked = Command::new("python3").args(["-c", script]).output().expect("python3");
        let file = String::from_utf8_lossy(&asked.stdout).trim().to_string();
        let (found, symbols) = elf::with(Path::new(&file), |image| {
            let wanted = |name: &[u8]| FUNCTIONS.iter().position(|(f, _)| format!("_heapq_{f}").as_bytes() == name);
            let named = image.named(wanted).into_iter();
            let named = named.filter_map(|(place, n)| Some((n, image.offset(place.address)?)));
            Some((plan(image), named.collect::<Vec<_>>()))
        })
        .expect("an ELF file");
        let found = found.expect("both functions");
        assert_eq!(found.iter().map(|p| p.cookie).collect::<Vec<_>>(), [PUSHED, POPPED]);
        // A build that kept its symbols says whether it is so.
        for (n, at) in symbols {
            assert!((at..at + LOOKED_AT).contains(&found[n].offset), "{n}: {:?} is not at {at}", found[n]);
        }
    }
}
