//! `SimpleQueue` of CPython (module `_queue`) and of gevent, from which the workers of executors take their jobs.
//!
//! The functions of `_queue` have no symbols in most builds, and are found by their names ([`super::tables`]).
//!
//! gevent puts a queue of greenlets in its place. Its `get` waits for an item, and another greenlet runs meanwhile on
//! the same stack. A return probe would end in the wrong greenlet there. So the function is probed that takes the item
//! from the list after the wait. Who does not wait calls it from C, and it has no entry in a table; wheels of gevent
//! keep their symbols. Who has waited calls the method `_get`, which holds the same code once more.

use super::tables::Tables;
use crate::features::Program;
use crate::runtime::Runtime;
use crate::uprobe::elf::Image;
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::{PYTHON_GIVEN as GIVEN, PYTHON_GOT as GOT, PYTHON_PUT as PUT, PYTHON_TAKEN as TAKEN};
use std::collections::BTreeSet;

/// The module `_queue`.
pub(in crate::runtime) struct Queues;

const PROGRAM: &str = "python_queue";
const PROGRAMS: &[Program] = &[Program::uprobe(
    PROGRAM,
    "Python: which job an executor's worker takes",
    "a worker acts for the thread that woke it, even if it took the job of another thread",
)];

impl Runtime for Queues {
    fn tables(&self) -> &'static [&'static str] {
        &["carriers"]
    }

    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        let queue = plan(image).or_else(|| gevent(image)).unwrap_or_default();
        vec![ProbeSet::new(PROGRAM, queue.put), ProbeSet::at_return(PROGRAM, queue.got)]
    }
}

/// Exported by that module, and by no other file.
const MODULE: &str = "PyInit__queue";
/// Methods, and cookies.
const METHODS: [(&str, u32); 4] = [("put", PUT), ("put_nowait", PUT), ("get", GOT), ("get_nowait", GOT)];
/// The same of gevent, and its symbols.
const GEVENT_MODULE: &str = "PyInit__gevent_cqueue";
const GIVES: &str = "__pyx_f_6gevent_14_gevent_cqueue_11SimpleQueue__put";
const TAKES: &str = "__pyx_f_6gevent_14_gevent_cqueue_11SimpleQueue__get";

/// Where to probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Queue {
    /// Entries of the functions that put.
    put: Vec<Probe>,
    /// Functions whose return is that of an item.
    got: Vec<Probe>,
}

/// Looks into a file; nothing unless all methods are found: with one missing, an old job would be taken for the current
/// one.
fn plan(image: &Image<'_>) -> Option<Queue> {
    if !image.is_x86_64() || !image.functions(&[MODULE]).contains_key(MODULE) {
        return None;
    }
    let tables = Tables::of(image, &METHODS.map(|(name, _)| name));
    let mut queue = Queue::default();
    for (name, cookie) in METHODS {
        let method = tables.methods(name).next()?;
        match cookie {
            PUT => queue.put.push(tables.entry(method, cookie)?),
            _ => queue.got.push(tables.exit(method, cookie)?),
        }
    }
    Some(queue)
}

/// The method by which a greenlet that has waited takes its item. Other classes of the module have one, too; their
/// items carry nothing.
const TAKES_AFTER_WAIT: &str = "_get";

/// As above, for gevent's module.
fn gevent(image: &Image<'_>) -> Option<Queue> {
    let symbols = image.functions(&[GEVENT_MODULE, GIVES, TAKES]);
    if !image.is_x86_64() || !symbols.contains_key(GEVENT_MODULE) {
        return None;
    }
    let [gives, takes] = [GIVES, TAKES].map(|name| symbols.get(name).map(|place| place.address));
    let (gives, takes) = (gives?, takes?);
    let tables = Tables::of(image, &[TAKES_AFTER_WAIT]);
    let takes: BTreeSet<u64> = tables.methods(TAKES_AFTER_WAIT).chain([takes]).collect();
    let mut queue = Queue { put: vec![tables.entry(gives, GIVEN)?], got: Vec::new() };
    for address in takes {
        queue.got.push(tables.exit(address, TAKEN)?);
    }
    (queue.got.len() > 1).then_some(queue)
}

#[cfg(test)]
mod tests {
    use super::super::tables::LOOKED_AT;
    use super::*;
    use crate::uprobe::elf;
    use std::collections::HashMap;
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn methods_are_found_by_their_names() {
        let asked =
            Command::new("python3").args(["-c", "import _queue; print(getattr(_queue, '__file__', ''))"]).output();
        let file = asked.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default();
        if file.is_empty() {
            println!("skipped: no python3 whose queue is a module of its own");
            return;
        }
        let (queue, symbols) = elf::with(Path::new(&file), |image| {
            let names = ["put", "put_nowait", "get", "get_nowait"].map(|m| format!("_queue_SimpleQueue_{m}"));
            let wanted = |name: &[u8]| names.iter().position(|n| n.as_bytes() == name);
            let named = image.named(wanted).into_iter();
            let named = named.filter_map(|(place, n)| {
                Some((n, image.offset(place.address)?..image.offset(place.address)? + LOOKED_AT))
            });
            Some((plan(image), named.collect::<HashMap<_, _>>()))
        })
        .expect("an ELF file");
        let queue = queue.expect("all methods");
        let found: Vec<Probe> = queue.put.into_iter().chain(queue.got).collect();
        assert_eq!(found.iter().map(|p| p.cookie).collect::<Vec<_>>(), [PUT, PUT, GOT, GOT]);
        // A build that kept its symbols says whether it is so.
        for (n, range) in symbols {
            assert!(range.contains(&found[n].offset), "{n}: {:?} is not in {range:?}", found[n]);
        }
    }
}
