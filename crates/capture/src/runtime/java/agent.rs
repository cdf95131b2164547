//! The functions of the agent that `--attach-java` loads ([`crate::attach`]): probed in the file that a process has
//! mapped, as any library.

use crate::features::Program;
use crate::runtime::{Learn, Process, Runtime};
use crate::uprobe::elf::Image;
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::{
    JAVA_BEGINS, JAVA_ENDS, JAVA_GETS, JAVA_RESUMES, JAVA_SENDS, JAVA_SUBMITTED, WS_JAVA_AGENT,
};

/// The agent in a Java machine.
pub(in crate::runtime) struct Agent;

const PROGRAM: &str = "java_agent";
const PROGRAMS: &[Program] = &[Program::uprobe(
    PROGRAM,
    "Java: tasks handed over, by the agent of --attach-java",
    "tasks of executors and event loops are found on the stack, or inferred",
)];

/// Functions, and cookies.
const FUNCTIONS: [(&str, u32); 6] = [
    ("wirespan_java_submitted", JAVA_SUBMITTED),
    ("wirespan_java_begins", JAVA_BEGINS),
    ("wirespan_java_resumes", JAVA_RESUMES),
    ("wirespan_java_sends", JAVA_SENDS),
    ("wirespan_java_gets", JAVA_GETS),
    ("wirespan_java_ends", JAVA_ENDS),
];

impl Runtime for Agent {
    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        vec![ProbeSet::new(PROGRAM, plan(image).unwrap_or_default())]
    }

    fn facts(&self, _: &Image<'_>, probes: &[ProbeSet]) -> Option<Learn> {
        let is_probed = |process: &Process<'_>| (process.is_probed)(PROGRAM);
        (!probes.is_empty()).then(|| Learn::bit("java_agent", WS_JAVA_AGENT, is_probed))
    }
}

/// Where to probe; `None` unless all functions are found.
fn plan(image: &Image<'_>) -> Option<Vec<Probe>> {
    let found = image.exported(|name| FUNCTIONS.iter().find(|f| f.0.as_bytes() == name).map(|f| f.1));
    let probe = |cookie: u32| {
        let (place, _) = found.iter().find(|f| f.1 == cookie)?;
        Some(Probe { offset: image.offset(place.address)?, cookie })
    };
    FUNCTIONS.iter().map(|(_, cookie)| probe(*cookie)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uprobe::elf;

    #[test]
    fn every_function_of_the_agent_begins_with_what_is_probed() {
        let file = std::env::temp_dir().join(format!("wirespan-agent-{}.so", std::process::id()));
        std::fs::write(&file, crate::attach::JAVA_AGENT).expect("a file");
        let found = elf::with(&file, |image| Some((plan(image)?, image.is_x86_64())));
        let _ = std::fs::remove_file(&file);
        let (probes, is_x86_64) = found.expect("all functions");
        assert_eq!(probes.iter().map(|p| p.cookie).collect::<Vec<_>>(), FUNCTIONS.map(|f| f.1));
        for probe in probes.iter().filter(|_| is_x86_64) {
            let at = usize::try_from(probe.offset).expect("an offset");
            assert_eq!(crate::attach::JAVA_AGENT[at..at + 2], [0x90, 0xc3], "nop; ret");
        }
    }
}
