//! `SimpleQueue` of CPython (module `_queue`) and of gevent, from which the workers of executors take their jobs.
//!
//! The functions of `_queue` have no symbols in most builds. But an extension gives the interpreter its methods in a
//! table (`PyMethodDef`) of names and functions, which the loader fills in: name and function stand next to each other
//! in the relocations of the file.
//!
//! gevent puts a queue of greenlets in its place. Its `get` waits for an item, and another greenlet runs meanwhile on
//! the same stack. A return probe would end in the wrong greenlet there. So the function is probed that takes the item
//! from the list after the wait. Who does not wait calls it from C, and it has no entry in a table; wheels of gevent
//! keep their symbols. Who has waited calls the method `_get`, which holds the same code once more.

use crate::features::Program;
use crate::runtime::Runtime;
use crate::uprobe::elf::Image;
use crate::uprobe::points::{Exits, Function};
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::{PYTHON_GIVEN as GIVEN, PYTHON_GOT as GOT, PYTHON_PUT as PUT, PYTHON_TAKEN as TAKEN};
use std::collections::{BTreeSet, HashMap};

/// The module `_queue`.
pub(in crate::runtime) struct Queues;

const PROGRAM: &str = "python_queue";
const PROGRAMS: &[Program] = &[Program::uprobe(
    PROGRAM,
    "Python: which job an executor's worker takes",
    "a worker acts for the thread that woke it, even if it took the job of another thread",
)];

impl Runtime for Queues {
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
/// Bytes of each function that are disassembled.
const LOOKED_AT: u64 = 64;

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
    let pointers: HashMap<u64, u64> = image.pointers().into_iter().collect();
    let mut queue = Queue::default();
    for (name, cookie) in METHODS {
        let named = |at: u64| {
            image.data(at, name.len() as u64 + 1).is_some_and(|b| b.strip_suffix(&[0]) == Some(name.as_bytes()))
        };
        let address = pointers.iter().find_map(|(at, to)| named(*to).then(|| pointers.get(&(at + 8)))?)?;
        let function = Function::new(image.bytes(*address, LOOKED_AT)?, *address);
        let probe = |address| image.offset(address).map(|offset| Probe { offset, cookie });
        if cookie == PUT {
            queue.put.push(probe(function.points(false).enter)?);
        } else {
            let Exits::Return(at) = function.return_points().exits else { return None };
            queue.got.push(probe(at)?);
        }
    }
    Some(queue)
}

/// The method by which a greenlet that has waited takes its item. Other classes of the module have one, too; their
/// items carry nothing.
const TAKES_AFTER_WAIT: &[u8] = b"_get\0";

/// As above, for gevent's module.
fn gevent(image: &Image<'_>) -> Option<Queue> {
    let symbols = image.functions(&[GEVENT_MODULE, GIVES, TAKES]);
    if !image.is_x86_64() || !symbols.contains_key(GEVENT_MODULE) {
        return None;
    }
    let [gives, takes] = [GIVES, TAKES].map(|name| symbols.get(name).map(|place| place.address));
    let (gives, takes) = (gives?, takes?);
    let function = |address| Some(Function::new(image.bytes(address, LOOKED_AT)?, address));
    let probe = |address, cookie| image.offset(address).map(|offset| Probe { offset, cookie });
    let pointers: HashMap<u64, u64> = image.pointers().into_iter().collect();
    let named = |name: u64| image.data(name, TAKES_AFTER_WAIT.len() as u64) == Some(TAKES_AFTER_WAIT);
    let methods = pointers.iter().filter(|(_, name)| named(**name)).filter_map(|(at, _)| pointers.get(&(at + 8)));
    let takes: BTreeSet<u64> = methods.copied().chain([takes]).collect();
    let mut queue = Queue { put: vec![probe(function(gives)?.points(false).enter, GIVEN)?], got: Vec::new() };
    for address in takes {
        let Exits::Return(at) = function(address)?.return_points().exits else { return None };
        queue.got.push(probe(at, TAKEN)?);
    }
    (queue.got.len() > 1).then_some(queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uprobe::elf;
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
