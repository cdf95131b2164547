//! `wirespan packet FILE.yaml`: where packets went, and where they waited.

use super::client::ClientArgs;
use super::packet_fleet::{self, Wish};
use super::program_file::ProgramFile;
use super::Format;
use crate::clock::now_ns;
use crate::config::Config;
use crate::packet::{count, duration, Action, Awaited, Names, Pcapng, Program, Recorded, Report, Subject, Taps};
use crate::stop_signal::StopSignal;
use anyhow::{bail, Context as _, Result};
use clap::Args;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wirespan_capture::packet::{PacketOptions, Packets};
use wirespan_model::packet::Sighting;

/// How often the ring is read, and the journeys are told.
const DRAIN_EVERY: Duration = Duration::from_millis(5);
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How often the servers of a service are asked for.
const ASK_EVERY: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct PacketArgs {
    /// The program (YAML, see docs/packets.md). It may be changed while it runs: save the file
    #[arg(value_name = "FILE")]
    program: PathBuf,
    /// Only packets of this network namespace, beside those that the program names: a name of `ip netns`, a path, an
    /// inode, or pid:N (repeatable)
    #[arg(long, value_name = "NS", num_args = 1..)]
    netns: Vec<String>,
    /// How long; overrides the program's `for` (500ms, 10s, 2m)
    #[arg(long = "for", value_name = "TIME")]
    time: Option<String>,
    /// Allow a program that selects every packet of this machine
    #[arg(long)]
    all_traffic: bool,
    /// Evaluate packets that were recorded before (`action: [record]`, --format json), not those of this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "all_traffic"])]
    from: Option<PathBuf>,
    /// Write the packets to a pcapng file, too: a comment says at which point each was seen. Headers are made again,
    /// payload is left out
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    /// Show the tables each second, also if the output is no terminal. On a terminal they are shown unless the program
    /// has `record` or `journeys`
    #[arg(long, conflicts_with = "from")]
    live: bool,
    /// Run the program on the agents of the server at --server, not on this machine. They obey if they have
    /// --packet-programs
    #[arg(long, conflicts_with_all = ["netns", "time", "all_traffic", "from"])]
    fleet: bool,
    /// As --fleet, on this agent only: the name of its host, or HOST/PID (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["netns", "time", "all_traffic", "from"])]
    agent: Vec<String>,
    /// With --fleet: put this program in the place of the one that another command runs on the agents, without a gap
    #[arg(long, requires = "fleet", conflicts_with_all = ["agent", "pcapng"])]
    replace: bool,
    /// Form of the answer; json is JSON lines
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The wirespan that is asked for `trace`, `service` and `endpoint` of a filter; with --fleet, the server
    #[command(flatten)]
    client: ClientArgs,
}

/// Tables that are shown again each second.
struct Screen {
    /// The last table is wiped off.
    wipes: bool,
}

impl Screen {
    /// `None` if the tables come once, at the end.
    fn of(args: &PacketArgs, actions: &[Action]) -> Option<Self> {
        let wipes = std::io::stdout().is_terminal();
        let has_lines = actions.iter().any(|a| matches!(a, Action::Record | Action::Journeys));
        let shown = args.live || (wipes && !has_lines);
        (shown && args.format == Format::Text).then_some(Screen { wipes })
    }

    fn begin(&self, took: Duration, limit: Duration, out: &mut String) {
        if self.wipes {
            out.push_str("\x1b[H\x1b[J");
        }
        out.push_str(&format!("after {} of {} s\n", took.as_secs(), limit.as_secs()));
    }
}

/// Spans of a trace that ended longer ago than this are its last ones, ns.
const OVER_NS: u64 = 10_000_000_000;
/// How often the wirespan is asked once more for a trace, when the program ends.
const LAST_ASKS: u32 = 3;

/// A place for packets until their trace is known, if the program names one. An error if the trace is over.
fn awaited(program: &Program, args: &PacketArgs, config: &Config) -> Result<Option<Awaited>> {
    if !program.names_a_trace() {
        return Ok(None);
    }
    // A trace that is not known yet is no error, but a wirespan that does not answer is.
    args.client.get(config, "/api/v1/status")?;
    if let Ok(Some(known)) = subject(program, args, config) {
        if known.end_ns() + OVER_NS < now_ns() {
            bail!("this trace is over: its packets must have been recorded before, so give their file with --from");
        }
    }
    Ok(Some(Awaited::default()))
}

/// Moves the packets that belong to the trace, as its spans are known now.
fn release(awaited: &mut Awaited, program: &Program, args: &PacketArgs, config: &Config, into: &mut Vec<Sighting>) {
    if let Ok(Some(subject)) = subject(program, args, config) {
        awaited.release(&subject, into);
    }
}

/// The same when the program ends: the last spans come a little later than their packets.
fn release_last(awaited: &mut Awaited, program: &Program, args: &PacketArgs, config: &Config) -> Vec<Sighting> {
    let mut last = Vec::new();
    for _ in 0..LAST_ASKS {
        std::thread::sleep(TELL_EVERY);
        release(awaited, program, args, config, &mut last);
    }
    if awaited.is_unknown() {
        eprintln!("wirespan: no span of this trace came, so none of its packets is known");
    }
    if awaited.let_go() > 0 {
        let n = awaited.let_go();
        eprintln!("wirespan: {n} sightings were let go before the trace was known: narrow the filter");
    }
    // Spans do not come in the order of their packets.
    last.sort_by_key(|s| s.time_ns);
    last
}

/// What the filter names by spans.
fn subject(program: &Program, args: &PacketArgs, config: &Config) -> Result<Option<Subject>> {
    let Some((path, is_trace)) = program.asks()? else { return Ok(None) };
    let answer = args.client.get(config, &path)?;
    let subject = if is_trace { Subject::of_trace(answer)? } else { Subject::of_spans(&answer) };
    Ok(Some(subject))
}

/// Chooses the servers that are new. A running wirespan that has ended knows no new ones.
fn choose(packets: &Packets, subject: &Subject, known: &mut BTreeSet<SocketAddr>) -> Result<()> {
    for server in subject.servers() {
        if known.insert(server) {
            packets.choose(server)?;
        }
    }
    Ok(())
}

/// The file of `--pcapng`, if there is one.
type Copy = Option<Pcapng<BufWriter<File>>>;

fn copy_to(path: Option<&PathBuf>) -> Result<Copy> {
    let Some(path) = path else { return Ok(None) };
    let named = || format!("writing {}", path.display());
    let file = File::create(path).with_context(named)?;
    Pcapng::new(BufWriter::new(file)).with_context(named).map(Some)
}

pub(crate) fn packet(args: &PacketArgs, config: &Config) -> Result<ExitCode> {
    if args.fleet || !args.agent.is_empty() {
        let PacketArgs { program, agent, live, format, client, pcapng, replace, .. } = args;
        let (live, format, replace) = (*live, *format, *replace);
        let wish = Wish { program, agents: agent, live, pcapng: pcapng.as_deref(), replace, format, client };
        return packet_fleet::run(&wish, config);
    }
    let mut program = Program::read(&args.program)?;
    if let Some(file) = &args.from {
        let subject = subject(&program, args, config)?;
        return evaluate(file, &program, subject.as_ref(), args);
    }
    let mut awaited = awaited(&program, args, config)?;
    let servers_of = if awaited.is_none() { subject(&program, args, config)? } else { None };
    let mut limit = limit(&program, args)?;
    let mut options = selective(&program, args)?;
    let mut names = names(&program, args)?;
    let mut copy = copy_to(args.pcapng.as_ref())?;
    let mut stop = StopSignal::catch()?;
    let began = Instant::now();
    let mut file = ProgramFile::of(&args.program);
    let mut packets = Taps::open(&options)?;
    say_missing(packets.packets());
    let mut servers = BTreeSet::new();
    if let Some(subject) = &servers_of {
        choose(packets.packets(), subject, &mut servers)?;
        eprintln!("wirespan: packets of {} servers", servers.len());
    }
    let ready = began.elapsed().as_millis();
    eprintln!("wirespan: packets are seen (after {ready} ms); ends in {limit:?}, or with Ctrl-C");

    let mut report = Report::new(&program.actions, args.format);
    let screen = Screen::of(args, &program.actions);
    let started = Instant::now();
    let (mut told, mut seen, mut asked) = (started, Vec::new(), started);
    let mut out = String::new();
    loop {
        if file.was_changed() {
            match changed(args, config, &mut packets, &mut servers, &mut seen) {
                Ok((new, mut holds)) => {
                    eprintln!("wirespan: the program has changed; packets are seen by the new one, without a gap");
                    limit = self::limit(&new, args)?;
                    options = selective(&new, args)?;
                    names = self::names(&new, args)?;
                    report.act(&new.actions);
                    if let (Some(old), Some(new)) = (awaited.take(), &mut holds) {
                        new.take_over(old);
                    }
                    (program, awaited) = (new, holds);
                }
                Err(why) => eprintln!("wirespan: the program goes on as it was: {why:#}"),
            }
        }
        let ends = stop.came() || started.elapsed() >= limit || packets.at_limit();
        packets.drain(&mut seen);
        let asks = program.asks()?.is_some() && asked.elapsed() >= ASK_EVERY;
        asked = if asks { Instant::now() } else { asked };
        if let Some(awaited) = &mut awaited {
            awaited.hold(seen.drain(..));
            if ends {
                seen = release_last(awaited, &program, args, config);
            } else if asks {
                release(awaited, &program, args, config, &mut seen);
            }
        } else if asks {
            if let Ok(Some(now)) = subject(&program, args, config) {
                choose(packets.packets(), &now, &mut servers)?;
            }
        }
        let reason = |number| packets.reason(number);
        for sighting in seen.drain(..) {
            if let Some(copy) = &mut copy {
                copy.write(&sighting, &names, &reason).context("writing the pcapng file")?;
            }
            report.see(&sighting, &names, &reason, &mut out)?;
        }
        if ends || told.elapsed() >= TELL_EVERY {
            report.due(&names, &reason, ends, &mut out)?;
            told = Instant::now();
            if let Some(screen) = &screen {
                screen.begin(started.elapsed(), limit, &mut out);
                report.end(started.elapsed(), &names, &reason, &mut out)?;
            }
        }
        if ends && screen.is_none() {
            report.end(started.elapsed(), &names, &reason, &mut out)?;
        }
        // A closed pipe is the reader's wish to end.
        let written = std::io::stdout().write_all(out.as_bytes()).and_then(|()| std::io::stdout().flush());
        out.clear();
        if ends || written.is_err() {
            break;
        }
        std::thread::sleep(DRAIN_EVERY);
    }
    if let Some(copy) = copy {
        copy.finish().context("writing the pcapng file")?;
    }
    say_losses(&packets, &report, options.at_most);
    Ok(ExitCode::SUCCESS)
}

/// Carries out the actions on packets that were recorded before.
fn evaluate(file: &Path, program: &Program, subject: Option<&Subject>, args: &PacketArgs) -> Result<ExitCode> {
    let (options, mut names) = (program.options_in(Vec::new())?, Names::read());
    let recorded = Recorded::read(file, &options, &program.netns_names(&args.netns), subject, &mut names)?;
    let mut copy = copy_to(args.pcapng.as_ref())?;
    let mut report = Report::new(&program.actions, args.format);
    let reason = |number| recorded.reason(number);
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    let mut out = String::new();
    let times = || recorded.sightings.iter().map(|s| s.time_ns);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let mut told = first;
    for sighting in &recorded.sightings {
        if let Some(copy) = &mut copy {
            copy.write(sighting, &names, &reason).context("writing the pcapng file")?;
        }
        report.see(sighting, &names, &reason, &mut out)?;
        if sighting.time_ns.saturating_sub(told) >= TELL_EVERY.as_nanos() as u64 {
            report.due(&names, &reason, false, &mut out)?;
            told = sighting.time_ns;
        }
        // A closed pipe is the reader's wish to end.
        if stdout.write_all(out.as_bytes()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        out.clear();
    }
    report.due(&names, &reason, true, &mut out)?;
    report.end(Duration::from_nanos(last - first), &names, &reason, &mut out)?;
    let _ = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush());
    if let Some(copy) = copy {
        copy.finish().context("writing the pcapng file")?;
    }
    let (selected, other) = (recorded.sightings.len(), recorded.not_selected);
    eprintln!("wirespan: {selected} recorded sightings selected, {other} not");
    if recorded.other_lines > 0 {
        eprintln!("wirespan: {} lines are no packets", recorded.other_lines);
    }
    if recorded.at_limit {
        eprintln!("wirespan: ended early, because `at_most` is {}", options.at_most);
    }
    if report.not_kept() > 0 {
        eprintln!("wirespan: {} sightings belong to no journey, because too many were under way", report.not_kept());
    }
    Ok(ExitCode::SUCCESS)
}

/// How long the program runs.
fn limit(program: &Program, args: &PacketArgs) -> Result<Duration> {
    args.time.as_deref().map_or(Ok(program.time), duration)
}

/// What to load for the program; an error if it selects everything by accident.
fn selective(program: &Program, args: &PacketArgs) -> Result<PacketOptions> {
    let mut options = program.options(&args.netns)?;
    // Which packets belong to a trace is known later.
    options.only_ends &= !program.names_a_trace();
    if options.filter.is_everything() && !options.only_ends && !args.all_traffic {
        bail!(
            "this program selects every packet of this machine: give it a `filter`, or --netns; --all-traffic if that \
             is meant"
        );
    }
    Ok(options)
}

fn names(program: &Program, args: &PacketArgs) -> Result<Names> {
    let mut names = Names::read();
    program.netns(&args.netns)?.iter().for_each(|(inode, name)| names.call(*inode, name));
    Ok(names)
}

/// Runs the program that the file has now.
fn changed(
    args: &PacketArgs,
    config: &Config,
    taps: &mut Taps,
    servers: &mut BTreeSet<SocketAddr>,
    seen: &mut Vec<Sighting>,
) -> Result<(Program, Option<Awaited>)> {
    let program = Program::read(&args.program)?;
    let options = selective(&program, args)?;
    let awaited = awaited(&program, args, config)?;
    let subject = if awaited.is_none() { subject(&program, args, config)? } else { None };
    let mut chosen = BTreeSet::new();
    let prepare = |packets: &Packets| subject.iter().try_for_each(|subject| choose(packets, subject, &mut chosen));
    taps.change(&options, prepare, seen)?;
    say_missing(taps.packets());
    *servers = chosen;
    Ok((program, awaited))
}

fn say_missing(packets: &Packets) {
    for (point, why) in packets.missing() {
        eprintln!("wirespan: this kernel does not show packets at `{}`: {why}", point.as_str());
    }
}

fn say_losses(packets: &Taps, report: &Report, at_most: u64) {
    let counters = packets.counters();
    let of = |name: &str| count(&counters, name);
    eprintln!("wirespan: {} sightings", of("taken"));
    let said = [
        ("lost", "of these found no room in the ring: sample with `one_flow_of`, or narrow the filter"),
        ("unreadable", "packets had headers that end too early, or that are of no known kind"),
        ("bad_records", "records were not understood"),
    ];
    for (name, what) in said.iter().filter(|(name, _)| of(name) > 0) {
        eprintln!("wirespan: {} {what}", of(name));
    }
    let missed = packets.missed();
    if missed > 0 {
        eprintln!("wirespan: {missed} more were missed: interrupts came while the same point told of another packet");
    }
    if of("limited") > 0 {
        eprintln!("wirespan: ended early, because `at_most` is {at_most}");
    }
    if report.not_kept() > 0 {
        eprintln!("wirespan: {} sightings belong to no journey, because too many were under way", report.not_kept());
    }
}
