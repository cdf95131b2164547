//! Turns of virtual threads on their carriers: where the machine takes the frames of one from a carrier, and where it
//! puts them back. Both functions are made of templates, one for each collector, and have symbols in the file.

use crate::features::Program;
use crate::uprobe::elf::{Image, Place};
use crate::uprobe::points::entry;
use crate::uprobe::{Probe, ProbeSet, When};
use crate::wire::contract::{JAVA_FREEZES, JAVA_THAWS};

const PROGRAM: &str = "java_mounts";
pub(super) const PROGRAMS: &[Program] = &[Program::uprobe(
    PROGRAM,
    "Java: which carrier ran a virtual thread when (--threshold; builds that keep their symbols)",
    "of a slow request of a virtual thread, waits are those of the carrier that moved its messages",
)];

/// `freeze_internal<…>(JavaThread*, …)` and `thaw<…>(JavaThread*, …)`: how their mangled names begin, behind what tells
/// whether the compiler keeps them to the file.
const FUNCTIONS: [(&[u8], u32); 2] = [(b"15freeze_internalI", JAVA_FREEZES), (b"4thawI", JAVA_THAWS)];
const BEGINS: [&[u8]; 2] = [b"_ZL", b"_Z"];
/// Bytes of each function that are disassembled.
const LOOKED_AT: u64 = 64;

/// Where to probe the machine's library; nothing unless both ends of turns are found.
pub(super) fn plan(image: &Image<'_>) -> ProbeSet {
    let cookie = |name: &[u8]| {
        let name = BEGINS.iter().find_map(|begins| name.strip_prefix(*begins))?;
        FUNCTIONS.iter().find(|(begins, _)| name.starts_with(begins)).map(|(_, cookie)| *cookie)
    };
    let probe = |(place, cookie): (Place, u32)| {
        Some(Probe { offset: entry(image, place.address, place.size.min(LOOKED_AT))?, cookie })
    };
    let probes: Vec<Probe> = image.named(cookie).into_iter().filter_map(probe).collect();
    let has = |cookie| probes.iter().any(|probe| probe.cookie == cookie);
    let is_whole = has(JAVA_FREEZES) && has(JAVA_THAWS);
    ProbeSet::new(PROGRAM, if is_whole { probes } else { Vec::new() }).only(When::Waits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uprobe::elf;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    #[test]
    fn both_ends_of_turns_are_found_in_each_machine_with_virtual_threads() {
        let machines = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
        let libraries = machines.map(|machine| machine.path().join("lib/server/libjvm.so"));
        let mut seen = 0;
        for library in libraries.filter_map(|path: PathBuf| path.canonicalize().ok()) {
            let found = elf::with(&library, |image| {
                // A machine before Java 19 has nothing to freeze; one without symbols does not say where it does.
                let of_threads = |name: &[u8]| (name == b"JVM_VirtualThreadMount").then_some(());
                let freezes = !image.exported(of_threads).is_empty() && !image.named(|_| Some(())).is_empty();
                Some((freezes, plan(image)))
            });
            let Some((_, set)) = found.filter(|(freezes, _)| *freezes) else { continue };
            let mut counts = BTreeMap::new();
            set.probes.iter().for_each(|probe| *counts.entry(probe.cookie).or_insert(0) += 1);
            assert!(counts.len() == 2 && counts[&JAVA_FREEZES] == counts[&JAVA_THAWS], "{library:?}: {counts:?}");
            seen += 1;
        }
        if seen == 0 {
            println!("skipped: no machine with virtual threads and symbols");
        }
    }
}
