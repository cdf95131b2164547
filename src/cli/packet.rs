//! `wirespan packet FILE.yaml`: where packets went, and where they waited.

use super::client::ClientArgs;
use super::packet_fleet::{self, Wish};
use super::packet_recorded::{self, Recording};
use super::packet_replace::{self, Door};
use super::packet_spans::{choose, Spans};
use super::program_file::ProgramFile;
use super::Format;
use crate::config::Config;
use crate::packet::{count, counted, duration, Action, Awaited, Names, Pcapng, Program, Report, Taps};
use crate::stop_signal::StopSignal;
use anyhow::{bail, Context as _, Result};
use clap::Args;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wirespan_capture::packet::{PacketOptions, Packets};
use wirespan_journey::KNOWN_AFTER_S;
use wirespan_model::packet::Sighting;

pub(super) const TELL_EVERY: Duration = Duration::from_secs(1);
pub(super) const NOTHING_FITTED: &str =
    "no packet fitted: look at the addresses, ports, devices and namespaces of the filter";
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
    /// Write the packets to a pcapng file, too: a comment says at which point each was seen. Payload is left out;
    /// headers are made again, unless the program has `snap`
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
    /// Put this program in the place of the one that another command runs on this machine (PID, if several do) or, with
    /// --fleet, on the agents, without a gap. That command goes on to show what is told
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true)]
    #[arg(conflicts_with_all = ["agent", "pcapng", "netns", "time", "all_traffic", "from", "live"])]
    replace: Option<Option<u32>>,
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

    /// `joins`: the tables have ways of packets, which are known a little later than packets are seen.
    fn begin(&self, took: Duration, limit: Duration, joins: bool, out: &mut String) {
        if self.wipes {
            out.push_str("\x1b[H\x1b[J");
        }
        let late = if joins { format!(", without the ways of the last {KNOWN_AFTER_S} s") } else { String::new() };
        out.push_str(&format!("after {} of {} s{late}\n", took.as_secs(), limit.as_secs()));
    }
}

/// The file of `--pcapng`, if there is one.
pub(super) type Copy = Option<Pcapng<BufWriter<File>>>;

pub(super) fn copy_to(path: Option<&PathBuf>) -> Result<Copy> {
    let Some(path) = path else { return Ok(None) };
    let named = || format!("writing {}", path.display());
    let file = File::create(path).with_context(named)?;
    Pcapng::new(BufWriter::new(file)).with_context(named).map(Some)
}

pub(crate) fn packet(args: &PacketArgs, config: &Config) -> Result<ExitCode> {
    if args.fleet || !args.agent.is_empty() {
        let PacketArgs { program, agent, live, format, client, pcapng, replace, .. } = args;
        if let Some(Some(pid)) = replace {
            bail!("--replace={pid}: a program of a fleet has no process here; leave the number out");
        }
        let (live, format, replace) = (*live, *format, replace.is_some());
        let wish = Wish { program, agents: agent, live, pcapng: pcapng.as_deref(), replace, format, client };
        return packet_fleet::run(&wish, config);
    }
    if let Some(pid) = args.replace {
        return packet_replace::replace(&args.program, pid);
    }
    let spans = Spans { client: &args.client, config };
    let mut program = Program::read(&args.program)?;
    if let Some(file) = &args.from {
        if let Some(name) = program.workloads().first() {
            bail!("filter.workload: recorded packets have addresses, and no `{name}`: give its `address`");
        }
        let subject = spans.subject(&program)?;
        let PacketArgs { netns, pcapng, format, .. } = args;
        let (subject, pcapng, format) = (subject.as_ref(), pcapng.as_ref(), *format);
        return packet_recorded::evaluate(&Recording { file, netns, subject, pcapng, format }, &program);
    }
    let mut awaited = spans.awaited(&program)?;
    let servers_of = if awaited.is_none() { spans.subject(&program)? } else { None };
    let mut limit = limit(&program, args)?;
    let mut options = selective(&program, args)?;
    let mut names = names(&program, args)?;
    let mut copy = copy_to(args.pcapng.as_ref())?;
    let mut stop = StopSignal::catch()?;
    let began = Instant::now();
    let mut file = ProgramFile::of(&args.program);
    let mut packets = Taps::open(&options)?;
    let door = Door::open();
    say_missing(packets.packets());
    let mut servers = BTreeSet::new();
    if let Some(subject) = &servers_of {
        choose(packets.packets(), subject, &mut servers)?;
        eprintln!("wirespan: packets of {}", counted(servers.len() as u64, "server"));
    }
    let ready = began.elapsed().as_millis();
    eprintln!("wirespan: packets are seen (after {ready} ms); ends in {limit:?}, or with Ctrl-C");

    let mut report = Report::new(&program.actions, args.format);
    let screen = Screen::of(args, &program.actions);
    let started = Instant::now();
    let (mut told, mut seen, mut asked) = (started, Vec::new(), started);
    let mut out = String::new();
    loop {
        let wanted = door.as_ref().and_then(Door::wanted);
        if wanted.is_some() || file.was_changed() {
            let next = wanted.as_ref().map_or_else(|| Program::read(&args.program), |other| Ok(other.program.clone()));
            let done = next.and_then(|next| changed(next, args, spans, &mut packets, &mut servers, &mut seen));
            if let Some(wanted) = wanted {
                wanted.answer(done.as_ref().map(|_| ()));
            }
            match done {
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
        if ends {
            report.end_at(packets.packets().time());
            packets.detach();
        }
        packets.drain(&mut seen);
        let asks = program.asks()?.is_some() && asked.elapsed() >= ASK_EVERY;
        asked = if asks { Instant::now() } else { asked };
        if let Some(awaited) = &mut awaited {
            awaited.hold(seen.drain(..));
            if ends {
                seen = spans.release_last(awaited, &program, &mut stop);
            } else if asks {
                spans.release(awaited, &program, &mut seen);
            }
        } else if asks {
            if let Ok(Some(now)) = spans.subject(&program) {
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
            // What is held back comes late.
            if awaited.is_none() {
                report.pass(packets.read_up_to_ns());
            }
            report.due(&names, &reason, ends, &mut out)?;
            told = Instant::now();
            if let Some(screen) = &screen {
                screen.begin(started.elapsed(), limit, report.joins() && !ends, &mut out);
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
        std::thread::sleep(packets.rest());
    }
    if let Some(copy) = copy {
        copy.finish().context("writing the pcapng file")?;
    }
    say_losses(&packets, &report, options.at_most);
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

/// Runs this program instead.
fn changed(
    program: Program,
    args: &PacketArgs,
    spans: Spans<'_>,
    taps: &mut Taps,
    servers: &mut BTreeSet<SocketAddr>,
    seen: &mut Vec<Sighting>,
) -> Result<(Program, Option<Awaited>)> {
    let options = selective(&program, args)?;
    let awaited = spans.awaited(&program)?;
    let subject = if awaited.is_none() { spans.subject(&program)? } else { None };
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
    eprintln!("wirespan: {}", counted(of("taken"), "sighting"));
    if of("taken") == 0 {
        eprintln!("wirespan: {NOTHING_FITTED}");
    }
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
