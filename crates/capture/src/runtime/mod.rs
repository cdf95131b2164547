//! Runtimes: what executes on behalf of a request (an *actor*) inside a process, where the threads of the kernel do
//! not tell.
//!
//! To add a runtime: a module here with a type that implements [`Runtime`], one line in [`RUNTIMES`], a folder in
//! `bpf/runtime/` with its lines in `bpf/runtime/runtimes.h`, and a kind in `bpf/wire.h`. Nothing else names a runtime.
//! Cookies of its probes and its facts stand in `contract.h` of its folder, and are used here as Rust constants and
//! types ([`crate::wire::contract`]).

mod asyncio;
mod go;
mod haproxy;
mod interpreter;
mod java;
mod node;
mod python;
mod ruby;
mod sdk;
mod tokio;

pub(crate) use interpreter::Functions;
pub(crate) use java::functions as hotspot;
pub(crate) use node::functions as v8;

use crate::features::Program;
use crate::uprobe::elf::Image;
use crate::uprobe::{FactMaps, Mapped, ProbeSet};
use crate::wire::WireStruct;
use std::path::{Path, PathBuf};

/// Every runtime that is looked for in the files of processes.
pub(crate) const RUNTIMES: &[&dyn Runtime] = &[
    &go::Go,
    &go::Reasons,
    &node::Node,
    &python::queue::Queues,
    &python::heap::Heaps,
    &python::context::Contexts,
    &python::greenlet::Greenlets,
    &ruby::Threads,
    &haproxy::HaProxy,
    &asyncio::Asyncio,
    &tokio::Tokio,
    &python::Interpreter,
    &interpreter::Python,
    &interpreter::Ruby,
    &interpreter::Php,
    &java::Java,
    &java::agent::Agent,
    &sdk::Context,
];

/// A runtime: which of its functions are probed, and what the kernel programs must know about a process of it.
pub(crate) trait Runtime: Sync {
    /// Its kernel programs: what each one gives, and what is lost without it.
    fn programs(&self) -> &'static [Program] {
        &[]
    }

    /// Where to probe a file; nothing if the file does not hold this runtime.
    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        let _ = image;
        Vec::new()
    }

    /// How to learn the facts of a process that has mapped the file; `None` if there are none to learn. `probes` is
    /// what [`Runtime::plan`] has found, nothing if actors are not followed.
    fn facts(&self, image: &Image<'_>, probes: &[ProbeSet]) -> Option<Learn> {
        let _ = (image, probes);
        None
    }

    /// Maps that user space writes for this runtime: that of its facts, and those that [`Runtime::ended`] cleans.
    fn maps(&self) -> &'static [&'static str] {
        &[]
    }

    /// Large tables that the kernel programs need for processes of this runtime (`WS_TABLE` in bpf/core/maps.h).
    fn tables(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a new process of this program must be probed before anything else is done: its first message would be
    /// given to the wrong actor.
    fn is_urgent(&self, image: &Image<'_>) -> bool {
        let _ = image;
        false
    }

    /// Whether a process that has mapped the file is a machine into which an agent can be loaded
    /// ([`crate::attach`]).
    fn takes_agent(&self, image: &Image<'_>) -> bool {
        let _ = image;
        false
    }

    /// Files that a new process is likely to map soon, and that are probed; `root` is its root folder.
    fn expected(&self, pid: u32, root: &Path) -> Vec<PathBuf> {
        let _ = (pid, root);
        Vec::new()
    }

    /// Removes what the kernel programs keep about a process beside its facts, once it has ended.
    fn ended(&self, maps: &FactMaps, pid: u32) {
        let _ = (maps, pid);
    }
}

/// How to learn something about a process that the kernel programs must know.
pub(crate) struct Learn {
    /// Name of the map that keeps it, by process id (thread group id of the root namespace).
    pub(crate) map: &'static str,
    /// Bit in the set of the process's runtimes; 0 if the map alone says everything.
    pub(crate) bit: u32,
    /// The value for one process.
    pub(crate) bytes: FactBytes,
    /// Right whether probes are in place or not, so it is told before they are attached.
    pub(crate) at_once: bool,
}

/// Gives the value of a facts map: a struct of the contract. The value is empty if the bit says everything. `None`: not
/// known yet.
type FactBytes = Box<dyn Fn(&Process<'_>) -> Option<Vec<u8>> + Send + Sync>;

impl Learn {
    /// Facts of a runtime whose actors are of this kind (`enum ws_actor_kind`).
    fn runtime<T: WireStruct>(
        kind: u32,
        map: &'static str,
        facts: impl Fn(&Process<'_>) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        Learn { bit: 1 << kind, ..Learn::value(map, facts) } // has_runtime() in bpf/core/task_state.h reads the bit
    }

    /// A value that says everything.
    fn value<T: WireStruct>(
        map: &'static str,
        value: impl Fn(&Process<'_>) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        Learn { map, bit: 0, bytes: Box::new(move |process| Some(value(process)?.to_vec())), at_once: false }
    }

    /// The same, needing no probe.
    fn at_once(self) -> Self {
        Learn { at_once: true, ..self }
    }

    /// A bit that says everything (`enum ws_process_bit`), under a name that no map has.
    pub(crate) fn bit(
        name: &'static str,
        bit: u32,
        is_set: impl Fn(&Process<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Learn { map: name, bit, bytes: Box::new(move |process| is_set(process).then(Vec::new)), at_once: false }
    }
}

/// A process that has mapped a file with facts.
pub(crate) struct Process<'a> {
    pub(crate) pid: u32,
    /// Where the code of the file is; `None` if the process has not been seen to map it yet.
    pub(crate) mapped: Option<Mapped>,
    /// Whether the user wants actors to be followed at all.
    pub(crate) follows_actors: bool,
    /// Whether a kernel program of this name runs at probes in this file.
    pub(crate) is_probed: &'a dyn Fn(&str) -> bool,
    /// Whether the machine of this process has said that it has loaded the agent ([`crate::attach`]).
    pub(crate) has_agent: bool,
}
