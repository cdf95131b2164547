//! CPython's `SimpleQueue` (module `_queue`), from which executors' workers take their jobs.
//!
//! Its functions have no symbols in most builds. But an extension tells the interpreter its methods in a table
//! (`PyMethodDef`) of names and functions, which the loader fills in: the two stand next to each other in the
//! relocations of the file.

use super::elf::Image;
use super::library::Probe;
use super::points::{Exits, Function};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Exported by that module, and by no other file.
const MODULE: &str = "PyInit__queue";
/// Cookies, as in `bpf/runtime/python/queue.h`.
const PUT: u64 = 1;
const GOT: u64 = 2;
const METHODS: [(&str, u64); 4] = [("put", PUT), ("put_nowait", PUT), ("get", GOT), ("get_nowait", GOT)];
/// So much of each function is looked at.
const LOOKED_AT: u64 = 64;

/// Below the folder of the interpreter's version: modules that are probed (also by [`super::asyncio`]), by how their
/// files' names begin.
const MODULES: [(&str, &[&str]); 2] =
    [("lib-dynload", &["_asyncio.", "_queue."]), ("site-packages/uvloop", &["loop."])];

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

/// What an interpreter is likely to load of what is probed: the first requests of a program come soon after. `root` is
/// that of its process.
pub(crate) fn expected(pid: u32, root: &Path) -> Vec<PathBuf> {
    let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return Vec::new() };
    let version = program.file_name().and_then(|name| name.to_str()).filter(|name| name.starts_with("python3."));
    let Some(version) = version else { return Vec::new() };
    // By what it was called tells of its virtual environment.
    let called = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let called = called.split(|b| *b == 0).next().map(|name| PathBuf::from(String::from_utf8_lossy(name).to_string()));
    let mut found = Vec::new();
    for prefix in [Some(&program), called.as_ref()].into_iter().flatten().filter_map(|at| at.parent()?.parent()) {
        let Ok(prefix) = prefix.strip_prefix("/").map(|prefix| root.join(prefix)) else { continue };
        for folder in ["lib", "lib64"].map(|name| prefix.join(name)) {
            found.push(folder.join(format!("lib{version}.so.1.0")));
            for (below, names) in MODULES {
                let files = std::fs::read_dir(folder.join(version).join(below)).into_iter().flatten().flatten();
                let is_probed = |file: &std::fs::DirEntry| {
                    let name = file.file_name();
                    let name = name.to_str().unwrap_or_default();
                    name.ends_with(".so") && names.iter().any(|n| name.starts_with(n))
                };
                found.extend(files.filter(is_probed).map(|file| file.path()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::elf;
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
