//! Functions of CPython and its modules that have no symbol, found by name.
//!
//! The interpreter gets methods and types in tables (`PyMethodDef`, `PyTypeObject`, `PyType_Spec`), which the loader
//! fills in: a name and its function stand next to each other in the relocations of the file.

use crate::uprobe::elf::Image;
use crate::uprobe::points::{Exits, Function};
use crate::uprobe::Probe;
use std::collections::{HashMap, HashSet};

/// `struct PyMethodDef`: its size; the name is followed by the function.
const METHOD: u64 = 32;
/// Bytes of each function that are disassembled.
pub(in crate::runtime) const LOOKED_AT: u64 = 64;

/// The tables of a file, as far as they have to do with some names.
pub(in crate::runtime) struct Tables<'a, 'i> {
    pub(in crate::runtime) image: &'a Image<'i>,
    /// Pointers by their place.
    pub(in crate::runtime) pointers: HashMap<u64, u64>,
    /// Addresses of each name.
    names: HashMap<&'static str, HashSet<u64>>,
}

impl<'a, 'i> Tables<'a, 'i> {
    pub(in crate::runtime) fn of(image: &'a Image<'i>, names: &[&'static str]) -> Self {
        let names = names.iter().map(|name| (*name, image.strings(name).into_iter().collect())).collect();
        Tables { image, pointers: image.pointers().into_iter().collect(), names }
    }

    /// Places of the pointers to a name, in order.
    pub(in crate::runtime) fn to(&self, name: &str) -> Vec<u64> {
        let Some(names) = self.names.get(name) else { return Vec::new() };
        let mut found: Vec<u64> =
            self.pointers.iter().filter(|(_, to)| names.contains(to)).map(|(at, _)| *at).collect();
        found.sort_unstable();
        found
    }

    /// The function to which the pointer at this place leads.
    pub(in crate::runtime) fn code(&self, at: u64) -> Option<u64> {
        self.pointers.get(&at).copied().filter(|to| self.image.offset(*to).is_some())
    }

    /// Methods of this name, of whatever class or module.
    pub(in crate::runtime) fn methods<'t>(&'t self, name: &str) -> impl Iterator<Item = u64> + use<'t, 'a, 'i> {
        self.to(name).into_iter().filter_map(|at| self.code(at + 8))
    }

    /// `context_run`, which runs something in a context: `run` stands behind `copy` in the table of contexts. Both must
    /// be among the names.
    pub(in crate::runtime) fn context_run(&self) -> Option<u64> {
        let copies = self.names.get("copy")?;
        let is_contexts = |at: &u64| self.pointers.get(&at.wrapping_sub(METHOD)).is_some_and(|to| copies.contains(to));
        self.code(self.to("run").into_iter().find(is_contexts)? + 8)
    }

    pub(in crate::runtime) fn probe(&self, address: u64, cookie: u32) -> Option<Probe> {
        Some(Probe { offset: self.image.offset(address)?, cookie })
    }

    pub(in crate::runtime) fn function(&self, address: u64) -> Option<Function> {
        Some(Function::new(self.image.bytes(address, LOOKED_AT)?, address))
    }

    /// At the entry of a function.
    pub(in crate::runtime) fn entry(&self, address: u64, cookie: u32) -> Option<Probe> {
        self.probe(self.function(address)?.points(false).enter, cookie)
    }

    /// At the return of a function.
    pub(in crate::runtime) fn exit(&self, address: u64, cookie: u32) -> Option<Probe> {
        let Exits::Return(at) = self.function(address)?.return_points().exits else { return None };
        self.probe(at, cookie)
    }
}
