//! Sources of data in the kernel. Each one records one kind of facts about targets: messages, flows, waits, or
//! system calls.
//!
//! To add a source: a module here with a type that implements [`Source`], one line in [`SOURCES`], a folder in `bpf/`
//! with its include in `bpf/wirespan.bpf.c`, and its records in `bpf/wire.h`.

pub(crate) mod calls;
mod ends;
pub(crate) mod flow;
mod messages;
pub(crate) mod wait;

use crate::features::Program;
use crate::object::{OpenWirespanSkel, WirespanSkel};
use crate::Options;
use libbpf_rs::MapHandle;
use std::any::Any;

/// Every source.
pub(crate) const SOURCES: &[&dyn Source] =
    &[&messages::Messages, &flow::source::Bundles, &wait::Waits, &calls::SystemCalls, &ends::Ends];

/// A source: its kernel programs, and how to size, open and count them.
pub(crate) trait Source: Sync {
    /// Its kernel programs, each with its feature and what is lost without it.
    fn programs(&self) -> Vec<&'static Program>;

    /// Whether the user wants the data.
    fn is_asked(&self, options: &Options) -> bool;

    /// Programs that user space runs: they hang on no hook, and are loaded if any program of the source is. If the
    /// kernel refuses one of them, the whole source is left out.
    fn run_by_user_space(&self) -> &'static [&'static str] {
        &[]
    }

    /// Programs of `load` that are not loaded because programs of another source do their work.
    fn left_out(&self, load: &[&'static Program]) -> Vec<&'static str> {
        let _ = load;
        Vec::new()
    }

    /// Sizes the maps and sets the constants before `load` is loaded; called also if the data is not wanted.
    fn prepare(
        &self,
        skel: &mut OpenWirespanSkel<'static>,
        options: &Options,
        load: &[&'static Program],
    ) -> libbpf_rs::Result<()> {
        let _ = (skel, options, load);
        Ok(())
    }

    /// Whether its programs are attached only after the self-test of the injection.
    fn attaches_last(&self) -> bool {
        false
    }

    /// Called once everything is attached. Returns a reader if the records do not come in the common ring.
    fn open(
        &self,
        skel: &mut WirespanSkel<'static>,
        loaded: &[&'static str],
    ) -> libbpf_rs::Result<Option<Box<dyn Any + Send>>> {
        let _ = (skel, loaded);
        Ok(None)
    }

    /// Whether the kernel is told the sockets that targets have before they become targets.
    fn adopts(&self, loaded: &[&'static str]) -> bool {
        let _ = loaded;
        false
    }

    /// Tells the kernel the sockets that these processes have already. Called only if [`Source::adopts`].
    fn adopt(&self, skel: &WirespanSkel<'static>, pids: &[u32]) {
        let _ = (skel, pids);
    }

    /// Makes a table that its programs have come to need; `None` if there is no such need. Called about once a second,
    /// and when the kernel was told sockets.
    fn grow(&self, skel: &WirespanSkel<'static>) -> libbpf_rs::Result<Option<MapHandle>> {
        let _ = skel;
        Ok(None)
    }

    /// Counters of its programs since the start.
    fn counters(&self, skel: &WirespanSkel<'static>) -> Vec<(&'static str, u64)> {
        let _ = skel;
        Vec::new()
    }

    /// Whether the program of this name belongs to this source.
    fn owns(&self, program: &str) -> bool {
        self.programs().iter().any(|p| p.name == program)
    }
}

/// Whether the user wants the data of the program. A program that belongs to no source is always wanted.
pub(crate) fn is_asked(program: &Program, options: &Options) -> bool {
    let mut own = SOURCES.iter().filter(|source| source.owns(program.name));
    program.always || own.next().is_none_or(|source| source.is_asked(options))
}

/// Tells the sources the sockets of these processes; once more if there was no room for all of them.
pub(crate) fn adopt(sources: &[&dyn Source], skel: &WirespanSkel<'static>, pids: &[u32], grown: &mut Vec<MapHandle>) {
    for source in sources {
        source.adopt(skel, pids);
        if grow(*source, skel, grown) {
            source.adopt(skel, pids);
        }
    }
}

/// Whether the source has got a further table.
pub(crate) fn grow(source: &dyn Source, skel: &WirespanSkel<'static>, grown: &mut Vec<MapHandle>) -> bool {
    let made = source.grow(skel).unwrap_or_else(|error| {
        tracing::warn!(%error, "no memory for a further table of the kernel programs");
        None
    });
    let has_grown = made.is_some();
    grown.extend(made);
    has_grown
}
