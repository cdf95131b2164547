//! What is probed in one file: the probes that TLS and the runtimes ask for.

use super::elf;
use super::programs::Programs;
use crate::runtime::{Learn, RUNTIMES};
use crate::tls;
use std::fs::File;
use std::path::Path;

/// A place to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Offset in the file, bytes.
    pub(crate) offset: u64,
    /// Number that the kernel program receives: it tells the probes of one program apart. An enumerator of the
    /// contract; 0 if the program has no use for it.
    pub(crate) cookie: u32,
}

/// When probes are in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// As long as the process is traced.
    Always,
    /// Once the process takes messages from a queue, because the functions are called often.
    Takes,
    /// Once requests of the process share a connection, one send of which may be for several, for the same reason.
    Shares,
    /// While waits are asked for, for the same reason.
    Waits,
}

/// Probes of one kernel program in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeSet {
    /// Name of the kernel program.
    pub(crate) program: &'static str,
    /// Where it runs; nothing is attached if this is empty.
    pub(crate) probes: Vec<Probe>,
    /// Whether it runs when the probed functions return, not where the probes are.
    pub(crate) at_return: bool,
    /// Another program without which this one is of no use; the program itself if there is none.
    pub(crate) needs: &'static str,
    /// When they are in place.
    pub(crate) when: When,
}

impl ProbeSet {
    /// Probes that run at their own addresses.
    pub(crate) fn new(program: &'static str, probes: Vec<Probe>) -> Self {
        ProbeSet { program, probes, at_return: false, needs: program, when: When::Always }
    }

    /// Probes that run when the functions at these addresses return.
    pub(crate) fn at_return(program: &'static str, probes: Vec<Probe>) -> Self {
        ProbeSet { at_return: true, ..ProbeSet::new(program, probes) }
    }

    /// The same set, attached only if that program is loaded as well.
    pub(crate) fn with(self, needs: &'static str) -> Self {
        ProbeSet { needs, ..self }
    }

    /// The same set, in place only then.
    pub(crate) fn only(self, when: When) -> Self {
        ProbeSet { when, ..self }
    }
}

/// Where a process has mapped the code of a file: memory address and file offset, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) start: u64,
    pub(crate) offset: u64,
}

impl Mapped {
    /// The number to add to an address of the file to get the address in the process. `segment` is file offset and
    /// address of the file's code.
    pub(crate) fn bias(self, segment: (u64, u64)) -> u64 {
        let (at, address) = segment;
        self.start.wrapping_add(at.wrapping_sub(self.offset)).wrapping_sub(address)
    }
}

/// The work for each process that maps a certain file.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) sets: Vec<ProbeSet>,
    /// Facts about the process that runtimes want in the kernel.
    pub(super) facts: Vec<Learn>,
    /// The kind of TLS in the file that cannot be probed, as an index into [`tls::UNREAD`].
    pub(super) unread: Option<usize>,
    /// Whether a new process of this program must be probed before anything else is done.
    pub(super) is_urgent: bool,
    /// Tables that the kernel programs need for such a process.
    pub(super) tables: Vec<&'static str>,
    /// Whether a process that has mapped the file can be given an agent.
    pub(super) takes_agent: bool,
}

impl Plan {
    /// Whether some probes are in place only then.
    pub(super) fn has(&self, when: When) -> bool {
        self.sets.iter().any(|set| set.when == when)
    }

    /// Whether there are programs for these probes, and the file has places for them.
    pub(super) fn probes(&self, program: &str, programs: &Programs) -> bool {
        self.sets.iter().any(|s| s.program == program && !s.probes.is_empty() && programs.has(s))
    }
}

/// Looks into an open file; `None` if there is nothing to do. `follows_actors` is false if only TLS is wanted.
pub(super) fn plan(file: File, path: &Path, follows_actors: bool) -> Option<Plan> {
    elf::of(file, |image| {
        let sets = tls::plan(image);
        let unread = if sets.is_empty() { tls::unread(image, path) } else { None };
        let facts = tls::facts(&sets).into_iter().collect();
        let mut plan = Plan { sets, facts, unread, is_urgent: false, tables: Vec::new(), takes_agent: false };
        plan.tables.extend(tls::tables(&plan.sets));
        for runtime in RUNTIMES {
            let mut sets = if follows_actors { runtime.plan(image) } else { Vec::new() };
            sets.retain(|set| !set.probes.is_empty());
            let facts = runtime.facts(image, &sets);
            if facts.is_some() || !sets.is_empty() {
                plan.tables.extend(runtime.tables());
            }
            plan.facts.extend(facts);
            plan.sets.extend(sets);
            plan.is_urgent |= runtime.is_urgent(image);
            plan.takes_agent |= runtime.takes_agent(image);
        }
        let is_empty = plan.sets.is_empty() && plan.facts.is_empty() && unread.is_none() && !plan.takes_agent;
        (!is_empty).then_some(plan)
    })
}

/// Whether a new process of this program must be probed before anything else is done.
pub(super) fn is_urgent(path: &Path) -> bool {
    elf::with(path, |image| RUNTIMES.iter().any(|runtime| runtime.is_urgent(image)).then_some(())).is_some()
}
