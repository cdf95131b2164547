//! `wirespan packet --from`: a program on packets that were recorded before, on this machine or by a fleet's agents.

use super::packet::{copy_to, TELL_EVERY};
use super::packet_fleet::between;
use super::Format;
use crate::packet::{counted, Joined, Machine, Names, Program, Recorded, Report, Subject};
use anyhow::{Context as _, Result};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What was recorded, and what is wanted of it.
pub(super) struct Recording<'a> {
    pub(super) file: &'a Path,
    /// Namespaces, beside those of the program.
    pub(super) netns: &'a [String],
    /// The connections that the filter names by spans.
    pub(super) subject: Option<&'a Subject>,
    pub(super) pcapng: Option<&'a PathBuf>,
    pub(super) format: Format,
}

/// What is told of one machine.
struct Part<'a> {
    machine: &'a Machine,
    report: Report,
    first_ns: u64,
    last_ns: u64,
    told_ns: u64,
}

impl<'a> Part<'a> {
    fn of(machine: &'a Machine, report: Report) -> Self {
        Part { machine, report, first_ns: u64::MAX, last_ns: 0, told_ns: 0 }
    }
}

/// Carries out the actions.
pub(super) fn evaluate(of: &Recording<'_>, program: &Program) -> Result<ExitCode> {
    let options = program.options_in(Vec::new())?;
    let recorded = Recorded::read(of.file, &options, &program.netns_names(of.netns), of.subject)?;
    let mut copy = copy_to(of.pcapng)?;
    let report = |machine: &Machine| Report::new(&program.actions, of.format).of(&machine.agent);
    let mut parts: Vec<Part<'_>> = recorded.machines.iter().map(|machine| Part::of(machine, report(machine))).collect();
    let agents: Vec<&str> = recorded.machines.iter().map(|machine| machine.agent.as_str()).collect();
    let mut joined = Joined::of(&agents, &program.actions);
    let reason = |number| recorded.reason(number);
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    let mut out = String::new();
    for (n, sighting) in &recorded.sightings {
        let Some(part) = parts.get_mut(*n) else { continue };
        let Machine { agent, names } = part.machine;
        if let Some(copy) = &mut copy {
            copy.write_of(agent, sighting, names, &reason).context("writing the pcapng file")?;
        }
        part.first_ns = part.first_ns.min(sighting.time_ns);
        part.last_ns = part.last_ns.max(sighting.time_ns);
        part.report.see(sighting, names, &reason, &mut out)?;
        joined.iter_mut().for_each(|joined| joined.see(*n, sighting));
        if sighting.time_ns.saturating_sub(part.told_ns.max(part.first_ns)) >= TELL_EVERY.as_nanos() as u64 {
            part.told_ns = sighting.time_ns;
            let journeys = part.report.due(names, &reason, false, &mut out)?;
            joined.iter_mut().for_each(|joined| joined.add(*n, &journeys, names, false));
        }
        // A closed pipe is the reader's wish to end.
        if stdout.write_all(out.as_bytes()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        out.clear();
    }
    for (n, part) in parts.iter_mut().enumerate() {
        let names: &Names = &part.machine.names;
        let journeys = part.report.due(names, &reason, true, &mut out)?;
        joined.iter_mut().for_each(|joined| joined.add(n, &journeys, names, true));
        let took = Duration::from_nanos(part.last_ns.saturating_sub(part.first_ns));
        part.report.end(took, names, &reason, &mut out)?;
    }
    if let Some(joined) = joined.filter(|joined| joined.any()) {
        between::told(&joined.show(), of.format, &mut out)?;
    }
    let _ = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush());
    if let Some(copy) = copy {
        copy.finish().context("writing the pcapng file")?;
    }
    let (selected, other) = (recorded.sightings.len(), recorded.not_selected);
    eprintln!("wirespan: {selected} recorded sightings selected, {other} not");
    if recorded.foreign_lines > 0 {
        eprintln!("wirespan: {} left out: wirespan did not write them", counted(recorded.foreign_lines, "line"));
    }
    if recorded.at_limit {
        eprintln!("wirespan: ended early, because `at_most` is {}", options.at_most);
    }
    let not_kept: u64 = parts.iter().map(|part| part.report.not_kept()).sum();
    if not_kept > 0 {
        eprintln!("wirespan: {not_kept} sightings belong to no journey, because too many were under way");
    }
    Ok(ExitCode::SUCCESS)
}
