//! The programs of probes. Most processes need few of them, and the kernel takes its time to verify each: so they are
//! loaded when one is needed, or when there is nothing else to do.

use super::plan::ProbeSet;
use crate::prepared::Prepared;
use crate::refused::Refused;
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
pub(crate) struct Programs {
    known: BTreeMap<&'static str, State>,
    refused: Refused,
}

impl Programs {
    pub(crate) fn new(
        loaded: impl Iterator<Item = (&'static str, RawFd)>,
        later: impl Iterator<Item = (&'static str, Prepared)>,
        refused: Refused,
    ) -> Self {
        let loaded = loaded.map(|(name, fd)| (name, State::Lent(fd)));
        let later = later.map(|(name, prepared)| (name, State::Later(prepared)));
        Programs { known: loaded.chain(later).collect(), refused }
    }

    /// Whether the kernel has, or may take, the program of this set and the one that it needs.
    pub(super) fn has(&self, set: &ProbeSet) -> bool {
        self.known.contains_key(set.needs) && self.known.contains_key(set.program)
    }

    /// Descriptor of the program of this set; `None` if the kernel refuses that program, or the one that it needs.
    pub(super) fn of(&mut self, set: &ProbeSet) -> Option<RawFd> {
        self.load(set.needs)?;
        self.load(set.program)
    }

    fn next(&self) -> Option<&'static str> {
        self.known.iter().find(|(_, state)| matches!(state, State::Later(_))).map(|(name, _)| *name)
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
        let state = self.known.get_mut(name)?;
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
                self.refused.add(name, &error);
                self.known.remove(name);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::features;

    #[test]
    fn a_program_that_the_kernel_refuses_after_the_start_is_told() {
        let refused = Refused::default();
        let program = features::programs().find(|program| program.is_uprobe()).unwrap();
        let later = std::iter::once((program.name, Prepared::refused(program.name)));
        let mut programs = Programs::new(std::iter::empty(), later, refused.clone());
        assert!(programs.are_left());
        assert!(refused.notes().is_empty());
        programs.load_next();
        assert!(!programs.are_left());
        let notes = refused.notes();
        assert!(notes[0].starts_with(&format!("{}: {}", program.feature, program.lost)), "{notes:?}");
        assert!(notes[0].contains(program.name), "{notes:?}");
    }
}
