//! File descriptors: how many connections each listener may hold, so that the store always has some left.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Kept for everything but connections: the store's files, probes, maps and rings, libraries of targets that are read.
const RESERVED: u64 = 384;
/// Fewest connections of a listener.
const FEWEST: u64 = 16;

/// Connections that each kind of listener may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    pub(crate) ui: usize,
    pub(crate) otlp: usize,
    pub(crate) agents: usize,
}

impl Slots {
    /// The shares of this process, by its limit of open files.
    pub(crate) fn of_this_process() -> Slots {
        Slots::of(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }

    fn of(limit: u64) -> Slots {
        let left = limit.saturating_sub(RESERVED).min(1 << 20);
        let share = |part: u64, most: u64| (left / part).clamp(FEWEST, most) as usize;
        // A connection of an agent has a thread and buffers, so there are fewer.
        Slots { ui: share(4, 256), otlp: share(4, 1024), agents: share(8, 512) }
    }
}

/// Raises the limit of open files as far as it may be. Only for commands that start no command of the user: programs
/// that use `select` do not expect more than 1,024 files.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // A failure costs connections only.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_keeps_its_descriptors() {
        for limit in [1024, 4096, 65_536, 1 << 20] {
            let slots = Slots::of(limit);
            let used = (slots.ui + slots.otlp + 2 * slots.agents) as u64;
            assert!(used + RESERVED <= limit, "{limit}: {slots:?}");
        }
        assert_eq!(Slots::of(u64::MAX), Slots { ui: 256, otlp: 1024, agents: 512 });
        assert_eq!(Slots::of(100), Slots { ui: 16, otlp: 16, agents: 16 });
    }
}
