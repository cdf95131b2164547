//! HAProxy: which stream its scheduler runs on a thread, and where a stream is made.
//!
//! The program exports its functions and thread-local variables, so that it can name them when it crashes. `th_ctx`
//! leads to the context of the thread, which has the task that runs; `bpf/runtime/haproxy/haproxy.h` finds where,
//! because the place differs between versions. These names exist since 2.6.

use super::{Learn, Process, Runtime};
use crate::features::Program;
use crate::uprobe::elf::{Image, Place};
use crate::uprobe::points::entry;
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::{HaproxyFacts, WS_HAPROXY_STREAM};
use std::collections::HashMap;

/// HAProxy.
pub(super) struct HaProxy;

const PROGRAM: &str = "haproxy_stream_made";
const PROGRAMS: &[Program] = &[Program::uprobe(
    PROGRAM,
    "HAProxy: which stream its scheduler runs",
    "calls of HAProxy are joined by guess if several requests were read before they were sent on",
)];
const FACTS: &str = "haproxy_facts";

impl Runtime for HaProxy {
    fn tables(&self) -> &'static [&'static str] {
        &["actors"]
    }

    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        let probe = Functions::of(image).and_then(|f| f.probe(image));
        vec![ProbeSet::new(PROGRAM, probe.into_iter().collect())]
    }

    fn maps(&self) -> &'static [&'static str] {
        &[FACTS]
    }

    fn facts(&self, image: &Image<'_>, probes: &[ProbeSet]) -> Option<Learn> {
        let _ = probes.first()?;
        let (functions, segment) = (Functions::of(image)?, image.code()?);
        Some(Learn::runtime(WS_HAPROXY_STREAM, FACTS, move |process| functions.facts(segment, process)))
    }
}

/// The functions that run a stream; that run one end of a stream, where something may be sent for it; and that give a
/// stream its first end.
const NAMES: [&str; 3] = ["process_stream", "sc_conn_io_cb", "sc_attach_strm"];
const CONTEXT: &str = "th_ctx";
/// Bytes of a function that are disassembled.
const LOOKED_AT: u64 = 64;

/// Places found in an executable, as addresses of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Functions {
    stream: u64,
    end: u64,
    made: u64,
    /// Where a thread keeps its context, relative to the C library's structure of the thread.
    context: u64,
}

impl Functions {
    /// `None` if the file is not a supported HAProxy.
    fn of(image: &Image<'_>) -> Option<Self> {
        if !image.is_x86_64() {
            return None;
        }
        let exported = image.exported(|name| NAMES.iter().find(|n| n.as_bytes() == name).copied());
        let found: HashMap<&str, Place> = exported.into_iter().map(|(place, name)| (name, place)).collect();
        let [stream, end, made] = NAMES.map(|name| found.get(name).map(|p| p.address));
        Some(Functions { stream: stream?, end: end?, made: made?, context: image.thread_local(CONTEXT)? })
    }

    /// Where a stream is made.
    fn probe(&self, image: &Image<'_>) -> Option<Probe> {
        Some(Probe { offset: entry(image, self.made, LOOKED_AT)?, cookie: 0 })
    }

    /// Where they are in a process.
    fn facts(&self, segment: (u64, u64), process: &Process<'_>) -> Option<HaproxyFacts> {
        let bias = process.mapped.filter(|_| (process.is_probed)(PROGRAM))?.bias(segment);
        Some(HaproxyFacts {
            stream: self.stream.wrapping_add(bias),
            end: self.end.wrapping_add(bias),
            context: self.context,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uprobe::{elf, Mapped};

    #[test]
    fn addresses_of_a_process_are_those_of_the_file_moved() {
        let functions = Functions { stream: 0xfc6f0, end: 0x1acee0, made: 0, context: 0x180u64.wrapping_sub(0xa850) };
        let mapped = Some(Mapped { start: 0x5555_5559_f000, offset: 0x4f000 });
        let is_probed = |name: &str| name == PROGRAM;
        let process = Process { pid: 1, mapped, follows_actors: true, is_probed: &is_probed, has_agent: false };
        let facts = functions.facts((0x4f000, 0x4f000), &process).expect("facts");
        let HaproxyFacts { stream, end, context } = facts;
        assert_eq!([stream, end, context], [0x5555_5564_c6f0, 0x5555_556f_cee0, functions.context]);
        let unprobed = Process { is_probed: &|_| false, ..process };
        assert_eq!(functions.facts((0x4f000, 0x4f000), &unprobed), None);
    }

    #[test]
    fn other_programs_are_left_alone() {
        let own = std::path::Path::new("/proc/self/exe");
        assert!(elf::with(own, Functions::of).is_none());
    }
}
