//! Gives the kernel programs the facts about a process that only user space can find.
//!
//! Each runtime keeps its facts in a map of its own. The map `processes` has the set of runtimes of a process, so that
//! nothing is looked up in other processes. The set is written last: a program that finds a bit finds the facts.

use crate::runtime::RUNTIMES;
use crate::wire::contract::ProcessFacts;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object};
use std::collections::HashMap;

/// Facts of one runtime about one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Name of the map that keeps them.
    pub(super) map: &'static str,
    /// Bit in the set of the process; 0 if the map alone says everything.
    pub(super) bit: u32,
    /// The value: a struct of the contract; empty if the bit says everything.
    pub(super) bytes: Vec<u8>,
}

/// The maps in which user space writes about processes.
#[derive(Debug)]
pub(crate) struct FactMaps {
    processes: MapHandle,
    epoch: MapHandle,
    /// Processes that take messages from a queue. The kernel programs write it.
    takers: MapHandle,
    /// Processes on whose connections several requests share a send. The kernel programs write it, too.
    sharers: MapHandle,
    /// Maps of runtimes, by name.
    own: HashMap<&'static str, MapHandle>,
}

/// Whether the kernel programs have noted a process here.
fn has(map: &MapHandle, pid: u32) -> bool {
    matches!(map.lookup(&pid.to_ne_bytes(), MapFlags::ANY), Ok(Some(_)))
}

impl FactMaps {
    /// Opens the maps of a loaded object.
    pub(crate) fn open(object: &Object) -> libbpf_rs::Result<Self> {
        let find = |name: &str| object.maps().find(|map| map.name() == name);
        let required = |name: &str| {
            let missing = || libbpf_rs::Error::from(std::io::Error::other(format!("there is no map {name}")));
            find(name).ok_or_else(missing).and_then(|map| MapHandle::try_from(&map))
        };
        let processes = required("processes")?;
        let mut own = HashMap::new();
        for name in RUNTIMES.iter().flat_map(|runtime| runtime.maps()) {
            own.insert(*name, required(name)?);
        }
        Ok(FactMaps {
            processes,
            epoch: required("facts_epoch")?,
            takers: required("takers")?,
            sharers: required("sharers")?,
            own,
        })
    }

    /// A map that a runtime has named ([`crate::runtime::Runtime::maps`]).
    pub(crate) fn of_runtime(&self, name: &str) -> Option<&MapHandle> {
        self.own.get(name)
    }

    /// Whether a process was seen to take messages from a queue.
    pub(super) fn takes(&self, pid: u32) -> bool {
        has(&self.takers, pid)
    }

    /// Whether a process was seen to send for several requests on one connection.
    pub(super) fn shares(&self, pid: u32) -> bool {
        has(&self.sharers, pid)
    }

    /// Writes new facts about a process; `all` holds them as well.
    pub(super) fn tell(&self, pid: u32, new: &Facts, all: &[Facts]) {
        if let Some(own) = self.own.get(new.map) {
            let _ = own.update(&pid.to_ne_bytes(), &new.bytes, MapFlags::ANY);
        }
        if new.bit == 0 {
            return;
        }
        if self.processes.update(&pid.to_ne_bytes(), &set(all).to_bytes(), MapFlags::ANY).is_ok() {
            self.changed();
        }
    }

    /// Removes the facts of a process that has ended, or become another program.
    pub(super) fn forget(&self, pid: u32, all: &[Facts]) {
        if self.processes.delete(&pid.to_ne_bytes()).is_ok() {
            self.changed();
        }
        for own in all.iter().filter_map(|facts| self.own.get(facts.map)) {
            let _ = own.delete(&pid.to_ne_bytes());
        }
    }

    /// Makes the kernel programs read the facts again.
    fn changed(&self) {
        let zero = 0u32.to_ne_bytes();
        let epoch = self.epoch.lookup(&zero, MapFlags::ANY).ok().flatten();
        let epoch = epoch.and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let _ = self.epoch.update(&zero, &epoch.wrapping_add(1).to_ne_bytes(), MapFlags::ANY);
    }
}

/// Runtimes of a process.
fn set(all: &[Facts]) -> ProcessFacts {
    ProcessFacts { runtimes: all.iter().fold(0, |set, facts| set | facts.bit) }
}
