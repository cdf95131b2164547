//! Python's greenlets (the module `greenlet`, on which gevent and eventlet stand): where one is made, and where a
//! switch to one ends.
//!
//! Both are methods of C++ classes. The builds of the module export them, because the compiler exports every method
//! unless it is told otherwise.

use crate::features::Program;
use crate::runtime::Runtime;
use crate::uprobe::elf::Image;
use crate::uprobe::points::entry;
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::{GREENLET_BORN, GREENLET_RUNS};

/// The module `greenlet`.
pub(in crate::runtime) struct Greenlets;

const PROGRAM: &str = "greenlet";
const PROGRAMS: &[Program] = &[Program::uprobe(
    PROGRAM,
    "Python: which greenlet runs (gevent, eventlet)",
    "calls of greenlets are joined by guess if several requests were read together",
)];

impl Runtime for Greenlets {
    fn tables(&self) -> &'static [&'static str] {
        &["actors"]
    }

    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        vec![ProbeSet::new(PROGRAM, plan(image))]
    }
}

/// Exported by that module, and by no other file.
const MODULE: &str = "PyInit__greenlet";
/// Beginnings of mangled names (the type of an argument has changed), and cookies.
const METHODS: [(&str, u32); 2] = [
    ("_ZN8greenlet12UserGreenletC1EP", GREENLET_BORN),
    ("_ZN8greenlet8Greenlet21g_switchstack_successEv", GREENLET_RUNS),
];
/// Bytes of each function that are disassembled.
const LOOKED_AT: u64 = 64;

/// Where to probe; nothing unless both are found.
fn plan(image: &Image<'_>) -> Vec<Probe> {
    // Which registers have the arguments is known for x86-64 only.
    if !image.is_x86_64() || !image.functions(&[MODULE]).contains_key(MODULE) {
        return Vec::new();
    }
    let exported = image.exported(|name| METHODS.iter().find(|m| name.starts_with(m.0.as_bytes())).map(|m| m.1));
    let probe = |cookie| {
        let (place, _) = exported.iter().find(|(_, c)| *c == cookie)?;
        Some(Probe { offset: entry(image, place.address, LOOKED_AT)?, cookie })
    };
    METHODS.iter().map(|(_, cookie)| probe(*cookie)).collect::<Option<_>>().unwrap_or_default()
}
