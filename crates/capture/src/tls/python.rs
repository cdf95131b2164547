//! CPython's `SimpleQueue` (module `_queue`), from which executors' workers take their jobs.
//!
//! Its functions have no symbols in most builds. But an extension tells the interpreter its methods in a table (`PyMethodDef`) of
//! names and functions, which the loader fills in: the two stand next to each other in the relocations of the file.

use super::elf::Image;
use super::library::Probe;
use super::points::{Exits, Function};
use std::collections::HashMap;

/// Exported by that module, and by no other file.
const MODULE: &str = "PyInit__queue";
/// Cookies, as in `bpf/python_queue.h`.
const PUT: u64 = 1;
const GOT: u64 = 2;
const METHODS: [(&str, u64); 4] = [("put", PUT), ("put_nowait", PUT), ("get", GOT), ("get_nowait", GOT)];
/// So much of each function is looked at.
const LOOKED_AT: u64 = 64;

/// Where to probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Entries of the functions that put.
    pub(crate) put: Vec<Probe>,
    /// Functions whose return is that of an item.
    pub(crate) got: Vec<Probe>,
}

/// Looks into a file; nothing unless all methods are found: who does not see every item would believe in an old one.
pub(crate) fn plan(image: &Image<'_>) -> Option<Queue> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::elf;
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
