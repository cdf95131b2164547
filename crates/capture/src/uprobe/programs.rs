//! The programs of probes. Most processes need few of them, and the kernel takes its time to verify each: so they are
//! loaded when one is needed, or when there is nothing else to do.

use super::plan::ProbeSet;
use crate::features::Program;
use crate::prepared::Prepared;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

#[derive(Debug)]
enum State {
    /// It was loaded with the object, which outlives the watcher.
    Lent(RawFd),
    Later(Prepared),
    Loaded(OwnedFd),
}

/// Uprobe programs by name, without those that the kernel refused.
#[derive(Debug, Default)]
pub(crate) struct Programs(BTreeMap<&'static str, (&'static Program, State)>);

impl Programs {
    pub(crate) fn new(
        loaded: impl Iterator<Item = (&'static Program, RawFd)>,
        later: impl Iterator<Item = (&'static Program, Prepared)>,
    ) -> Self {
        let loaded = loaded.map(|(program, fd)| (program.name, (program, State::Lent(fd))));
        let later = later.map(|(program, prepared)| (program.name, (program, State::Later(prepared))));
        Programs(loaded.chain(later).collect())
    }

    /// Whether the kernel has, or may take, the program of this set and the one that it needs.
    pub(super) fn has(&self, set: &ProbeSet) -> bool {
        self.0.contains_key(set.needs) && self.0.contains_key(set.program)
    }

    /// Descriptor of the program of this set; `None` if the kernel refuses that program, or the one that it needs.
    pub(super) fn of(&mut self, set: &ProbeSet) -> Option<RawFd> {
        self.load(set.needs)?;
        self.load(set.program)
    }

    fn next(&self) -> Option<&'static str> {
        self.0.values().find(|(_, state)| matches!(state, State::Later(_))).map(|(program, _)| program.name)
    }

    /// Whether some are not loaded.
    pub(super) fn are_left(&self) -> bool {
        self.next().is_some()
    }

    /// Loads one of those that are not loaded.
    pub(super) fn load_next(&mut self) {
        if let Some(name) = self.next() {
            self.load(name);
        }
    }

    fn load(&mut self, name: &str) -> Option<RawFd> {
        let (program, state) = self.0.get_mut(name)?;
        let prepared = match state {
            State::Lent(fd) => return Some(*fd),
            State::Loaded(fd) => return Some(fd.as_raw_fd()),
            State::Later(prepared) => prepared,
        };
        match prepared.load() {
            Ok(fd) => {
                let number = fd.as_raw_fd();
                *state = State::Loaded(fd);
                Some(number)
            }
            Err(error) => {
                let Program { feature, lost, .. } = program;
                tracing::warn!(program = name, %error, feature, lost, "the kernel refused it: see wirespan check");
                self.0.remove(name);
                None
            }
        }
    }
}
