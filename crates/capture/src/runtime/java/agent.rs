//! The functions of the agent that `--attach-java` loads ([`crate::attach`]): probed in the file that a process has
//! mapped, as any library.

use crate::features::Program;
use crate::runtime::{Learn, Process, Runtime};
use crate::uprobe::elf::Image;
use crate::uprobe::{Probe, ProbeSet};
use crate::wire::contract::{
    JAVA_BEGINS, JAVA_ENDS, JAVA_GETS, JAVA_IDLE, JAVA_PROCEEDS, JAVA_READS, JAVA_RECEIVES, JAVA_RESUMES, JAVA_SEALS,
    JAVA_SENDS, JAVA_STARTS, JAVA_SUBMITTED, JAVA_SUSPENDS, JAVA_TAKES, JAVA_TURNS, JAVA_WRITES, WS_JAVA_AGENT,
};

/// The agent in a Java machine.
pub(in crate::runtime) struct Agent;

const PROGRAM: &str = "java_agent";
const TLS: &str = "java_tls";
const PROGRAMS: &[Program] = &[
    Program::uprobe(
        PROGRAM,
        "Java: tasks handed over, by the agent of --attach-java",
        "tasks of executors and event loops are found on the stack, or inferred",
    ),
    Program::uprobe(TLS, "Java: TLS in clear text, by the agent of --attach-java", crate::tls::LOST),
];

/// Functions, and cookies.
type Functions<const N: usize> = [(&'static str, u32); N];
const FUNCTIONS: Functions<13> = [
    ("wirespan_java_submitted", JAVA_SUBMITTED),
    ("wirespan_java_begins", JAVA_BEGINS),
    ("wirespan_java_resumes", JAVA_RESUMES),
    ("wirespan_java_sends", JAVA_SENDS),
    ("wirespan_java_gets", JAVA_GETS),
    ("wirespan_java_ends", JAVA_ENDS),
    ("wirespan_java_takes", JAVA_TAKES),
    ("wirespan_java_turns", JAVA_TURNS),
    ("wirespan_java_idle", JAVA_IDLE),
    ("wirespan_java_suspends", JAVA_SUSPENDS),
    ("wirespan_java_proceeds", JAVA_PROCEEDS),
    ("wirespan_java_starts", JAVA_STARTS),
    ("wirespan_java_receives", JAVA_RECEIVES),
];
const TLS_FUNCTIONS: Functions<3> =
    [("wirespan_java_seals", JAVA_SEALS), ("wirespan_java_writes", JAVA_WRITES), ("wirespan_java_reads", JAVA_READS)];

impl Runtime for Agent {
    fn tables(&self) -> &'static [&'static str] {
        &["actors", "carriers", "java_outer", "tls_conns"]
    }

    fn programs(&self) -> &'static [Program] {
        PROGRAMS
    }

    fn plan(&self, image: &Image<'_>) -> Vec<ProbeSet> {
        let tasks = ProbeSet::new(PROGRAM, plan(image, &FUNCTIONS).unwrap_or_default());
        vec![tasks, ProbeSet::new(TLS, plan(image, &TLS_FUNCTIONS).unwrap_or_default())]
    }

    fn facts(&self, _: &Image<'_>, probes: &[ProbeSet]) -> Option<Learn> {
        (!probes.is_empty()).then(|| Learn::bit("java_agent", WS_JAVA_AGENT, speaks))
    }
}

/// Whether the agent of this process can be believed to tell every task. A library that is mapped is not enough: the
/// machine may have refused it, or it was left by an earlier run, and changes no class.
fn speaks(process: &Process<'_>) -> bool {
    process.has_agent && (process.is_probed)(PROGRAM)
}

/// Where to probe; `None` unless all functions are found.
fn plan(image: &Image<'_>, functions: &[(&'static str, u32)]) -> Option<Vec<Probe>> {
    let found = image.exported(|name| functions.iter().find(|f| f.0.as_bytes() == name).map(|f| f.1));
    let probe = |cookie: u32| {
        let (place, _) = found.iter().find(|f| f.1 == cookie)?;
        Some(Probe { offset: image.offset(place.address)?, cookie })
    };
    functions.iter().map(|(_, cookie)| probe(*cookie)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uprobe::elf;

    #[test]
    fn an_agent_is_believed_only_where_the_machine_has_loaded_it_and_its_functions_are_probed() {
        let speaks = |has_agent: bool, program: &'static str| {
            let is_probed = |name: &str| name == program;
            super::speaks(&Process { pid: 1, mapped: None, follows_actors: true, is_probed: &is_probed, has_agent })
        };
        assert!(speaks(true, PROGRAM));
        assert!(!speaks(false, PROGRAM), "mapped, but the machine has not answered, or has refused");
        assert!(!speaks(true, "another"), "not probed");
    }

    #[test]
    fn every_function_of_the_agent_begins_with_what_is_probed() {
        let file = std::env::temp_dir().join(format!("wirespan-agent-{}.so", std::process::id()));
        std::fs::write(&file, crate::attach::JAVA_AGENT).expect("a file");
        let all: Vec<_> = FUNCTIONS.into_iter().chain(TLS_FUNCTIONS).collect();
        let found = elf::with(&file, |image| Some((plan(image, &all)?, image.is_x86_64())));
        let _ = std::fs::remove_file(&file);
        let (probes, is_x86_64) = found.expect("all functions");
        assert!(probes.iter().map(|p| p.cookie).eq(all.iter().map(|f| f.1)));
        for probe in probes.iter().filter(|_| is_x86_64) {
            let at = usize::try_from(probe.offset).expect("an offset");
            assert_eq!(crate::attach::JAVA_AGENT[at..at + 2], [0x90, 0xc3], "nop; ret");
        }
    }
}
