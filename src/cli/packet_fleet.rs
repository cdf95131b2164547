//! `wirespan packet FILE.yaml --fleet`: the program runs on the agents of a server, and each tells what it sees.

pub(super) mod between;
mod copy;
mod loss;

use super::client::ClientArgs;
use super::packet::NOTHING_FITTED;
use super::program_file::ProgramFile;
use super::Format;
use crate::config::Config;
use crate::packet::{counted, time, Action, Program};
use crate::stop_signal::StopSignal;
use anyhow::{bail, Context as _, Result};
use copy::Copy;
use serde_json::{json, Value};
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wirespan_journey::KNOWN_AFTER_S;
use wirespan_model::plain;

/// The API of the server.
const PATH: &str = "/api/v1/packets/agents";
/// How often the server is asked.
const ASK_EVERY: Duration = Duration::from_millis(500);
const SHOW_EVERY: Duration = Duration::from_secs(1);
/// The server is tried again for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the user wants.
pub(super) struct Wish<'a> {
    pub(super) program: &'a Path,
    /// Empty: all.
    pub(super) agents: &'a [String],
    pub(super) live: bool,
    /// A copy of what agents record.
    pub(super) pcapng: Option<&'a Path>,
    /// Put the program in the place of the one that runs.
    pub(super) replace: bool,
    pub(super) format: Format,
    pub(super) client: &'a ClientArgs,
}

pub(super) fn run(wish: &Wish<'_>, config: &Config) -> Result<ExitCode> {
    // A wrong program is told with its line before anything is sent.
    let program = Program::read(wish.program)?;
    if wish.pcapng.is_some() && !program.actions.contains(&Action::Record) {
        bail!("--pcapng with --fleet has the packets that agents record: add `record` to the program's `action`");
    }
    let text = std::fs::read_to_string(wish.program).context("reading the program")?;
    if wish.replace {
        return replace(wish, config);
    }
    let mut copy = wish.pcapng.map(Copy::to).transpose()?;
    let mut stop = StopSignal::catch()?;
    let order = json!({"program": text, "agents": wish.agents});
    let mut file = ProgramFile::of(wish.program);
    let mut view = wish.client.post(config, PATH, &order)?;
    let number = view["number"].clone();
    let names: Vec<String> = list(&view["agents"]).map(|agent| shown(&agent["agent"])).collect();
    eprintln!("wirespan: asked {}: {}; Ctrl-C ends", counted(names.len() as u64, "agent"), names.join(", "));

    let wipes = std::io::stdout().is_terminal() && wish.format == Format::Text;
    let shows = wish.format == Format::Text && (wish.live || wipes);
    let (mut had, mut ending, mut showed, mut heard) = (0, false, Instant::now(), Instant::now());
    let (mut changing, mut seeing) = (false, 0);
    loop {
        seeing = say_seeing(&view, seeing);
        if file.was_changed() && !ending {
            match changed(wish, config, &number) {
                Ok(now) => (view, changing) = (now, true),
                Err(why) => eprintln!("wirespan: the program goes on as it was: {why:#}"),
            }
        }
        changing = changing && !say_changed(&view);
        let mut out = String::new();
        let first = view["first_line"].as_u64().unwrap_or(had);
        let lines: Vec<&str> = list(&view["lines"]).filter_map(Value::as_str).collect();
        for (n, line) in (first..).zip(&lines) {
            if n >= had {
                copy.iter_mut().try_for_each(|copy| copy.write(line))?;
                out.push_str(line);
                out.push('\n');
            }
        }
        had = had.max(first + lines.len() as u64);
        let over = view["state"] != "running" && lines.is_empty();
        if shows && !over && showed.elapsed() >= SHOW_EVERY {
            out.push_str(if wipes { "\x1b[H\x1b[J" } else { "" });
            tables(&view, &mut out)?;
            showed = Instant::now();
        }
        if over {
            end(&view, wish.format, &mut out)?;
        }
        // A closed pipe is the reader's wish to end.
        let written = std::io::stdout().write_all(out.as_bytes()).and_then(|()| std::io::stdout().flush());
        if over {
            copy.map(Copy::finish).transpose()?;
            say(&view);
            return Ok(outcome(&view));
        }
        if (stop.came() || written.is_err()) && !ending {
            ending = true;
            wish.client.post(config, PATH, &json!({"program": ""}))?;
        }
        std::thread::sleep(ASK_EVERY);
        match wish.client.get(config, &format!("{PATH}?lines={had}")) {
            Ok(now) => (view, heard) = (now, Instant::now()),
            Err(_) if heard.elapsed() < PATIENCE => {}
            Err(why) => return Err(why.context("the server has gone; its agents end the program by themselves")),
        }
        if view["number"] != number {
            anyhow::bail!("the server has forgotten the program: it was started again, or runs another one");
        }
    }
}

/// Puts the program in the place of the one that another command has started, and that goes on to show what it tells.
fn replace(wish: &Wish<'_>, config: &Config) -> Result<ExitCode> {
    let running = wish.client.get(config, PATH)?;
    if running["state"] != "running" {
        bail!("no program runs on agents of this server: start it without --replace");
    }
    let number = &running["number"];
    let mut view = changed(wish, config, number)?;
    let begun = Instant::now();
    while !say_changed(&view) {
        if begun.elapsed() > PATIENCE {
            bail!("the agents have not said yet whether they run the new program");
        }
        std::thread::sleep(ASK_EVERY);
        view = wish.client.get(config, PATH)?;
        if view["number"] != *number || view["state"] != "running" {
            bail!("the program ended meanwhile");
        }
    }
    let runs = |agent: &Value| agent["view"]["program"] == view["program"];
    Ok(if list(&view["agents"]).any(runs) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Gives the agents the program that the file has now.
fn changed(wish: &Wish<'_>, config: &Config, number: &Value) -> Result<Value> {
    Program::read(wish.program)?;
    let text = std::fs::read_to_string(wish.program).context("reading the program")?;
    wish.client.post(config, PATH, &json!({"program": text, "change": number}))
}

/// Says at how many agents the program has changed, once each has said whether it has.
fn say_changed(view: &Value) -> bool {
    let running = || list(&view["agents"]).filter(|agent| agent["state"] == "running");
    let has = |agent: &&Value| agent["view"]["program"] == view["program"];
    if running().any(|agent| !has(&agent) && agent["why"] == "") {
        return false;
    }
    eprintln!("wirespan: the program has changed at {} agents, without a gap", running().filter(has).count());
    for agent in running().filter(|agent| !has(agent)) {
        eprintln!("wirespan: {}: {}", shown(&agent["agent"]), shown(&agent["why"]));
    }
    true
}

/// Says at how many agents packets are seen, once each has said whether it runs the program, and when one more does.
/// Returns how many that are; at `before` of them they were seen before.
fn say_seeing(view: &Value, before: usize) -> usize {
    let agents = || list(&view["agents"]);
    let seeing = agents().filter(|agent| agent["state"] == "running").count();
    if seeing <= before || agents().any(|agent| agent["state"] == "asked") {
        return before;
    }
    eprintln!("wirespan: packets are seen at {seeing} of {} agents", agents().count());
    seeing
}

fn list(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

/// A text of the server, fit for a terminal.
fn shown(text: &Value) -> String {
    plain::line(text.as_str().unwrap_or_default()).into_owned()
}

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap_or_default()
}

/// Whether an agent has told everything.
fn is_whole(agent: &Value) -> bool {
    agent["state"] == "ended"
        && agent["why"] == ""
        && number(&agent["lost_lines"]) == 0
        && number(&agent["malformed"]) == 0
}

/// A place, as `queue eth0 in web (vxlan)`.
fn place(of: &Value) -> String {
    format!("{}{}", shown(&of["point"]), site(of))
}

/// A place without its point, as ` eth0 in web (vxlan)`.
fn site(of: &Value) -> String {
    let part = |before: &str, key: &str, after: &str| match shown(&of[key]) {
        text if text.is_empty() => text,
        text => format!("{before}{text}{after}"),
    };
    [part(" ", "device", ""), part(" in ", "netns", ""), part(" (", "tunnel", ")")].concat()
}

/// One table of all agents.
fn tables(view: &Value, out: &mut String) -> Result<()> {
    let (elapsed, limit) = (number(&view["elapsed_ms"]), number(&view["limit_ms"]));
    // The agents' last answers come a little after the program's time.
    write!(out, "after {:.1} of {:.1} s", elapsed.min(limit) as f64 / 1e3, limit as f64 / 1e3)?;
    let has_ways = list(&view["agents"]).any(|agent| number(&agent["view"]["journeys"]) > 0);
    match has_ways && view["state"] == "running" {
        true => writeln!(out, ", without the ways of the last {KNOWN_AFTER_S} s; between agents a little more")?,
        false => writeln!(out)?,
    }
    let rows = |key: &'static str| {
        list(&view["agents"]).flat_map(move |agent| list(&agent["view"][key]).map(move |row| (agent, row)))
    };
    if rows("places").next().is_some() {
        writeln!(out, "{:<20} {:<44} {:>9} {:>12} {:>10}", "agent", "place", "packets", "bytes", "Mbit/s")?;
    }
    for (agent, row) in rows("places") {
        let (packets, bytes) = (number(&row["packets"]), number(&row["bytes"]));
        let ms = number(&agent["view"]["elapsed_ms"]).max(1);
        let rate = bytes as f64 * 8.0 / (ms as f64 * 1e3);
        let (agent, at) = (shown(&agent["agent"]), place(&row["place"]));
        writeln!(out, "{agent:<20} {at:<44} {packets:>9} {bytes:>12} {rate:>10.2}")?;
    }
    let mut head = false;
    let mut leg = |agent: &Value, from: &str, to: &str, row: &Value, jitter: String| -> Result<()> {
        if !std::mem::replace(&mut head, true) {
            let (from, to, packets) = ("from", "to", "packets");
            write!(out, "{:<20} {from:<34} {to:<34} {packets:>8} ", "agent")?;
            writeln!(out, "{:>9} {:>9} {:>9} {:>9}", "p50", "p99", "p99.9", "jitter")?;
        }
        let [p50, p99, p999] = ["p50_ns", "p99_ns", "p999_ns"].map(|key| time(number(&row[key])));
        let (agent, packets) = (shown(&agent["agent"]), number(&row["packets"]));
        write!(out, "{agent:<20} {from:<34} {to:<34} {packets:>8} ")?;
        writeln!(out, "{p50:>9} {p99:>9} {p999:>9} {jitter:>9}")?;
        Ok(())
    };
    for agent in list(&view["agents"]) {
        for row in list(&agent["view"]["legs"]) {
            let jitter = time(number(&row["jitter_ns"]));
            leg(agent, &place(&row["from"]), &place(&row["to"]), &row["times"], jitter)?;
        }
        let total = &agent["view"]["total"];
        if number(&total["packets"]) > 0 {
            leg(agent, "first", "last", total, String::new())?;
        }
    }
    for (agent, row) in rows("drops") {
        let (packets, resent) = (number(&row["packets"]), number(&row["resent"]));
        let (agent, site) = (shown(&agent["agent"]), site(&row["place"]));
        write!(out, "{agent:<20} {packets} dropped{site}: {}", shown(&row["reason"]))?;
        match resent {
            0 => writeln!(out)?,
            n => writeln!(out, "; {n} sent again, {} later", time(number(&row["resent_p50_ns"])))?,
        }
    }
    loss::at_agents(view, out)?;
    between::tables(view, out)?;
    loss::flows(view, out)?;
    for agent in list(&view["agents"]) {
        let (sightings, packets) = (number(&agent["view"]["sightings"]), number(&agent["view"]["journeys"]));
        let (name, state) = (shown(&agent["agent"]), shown(&agent["state"]));
        if state == "refused" {
            writeln!(out, "{name:<20} {state}")?;
            continue;
        }
        let (sightings, packets) = (counted(sightings, "sighting"), counted(packets, "packet"));
        writeln!(out, "{name:<20} {state}: {sightings}, {packets} whose way is known")?;
    }
    Ok(())
}

/// The result.
fn end(view: &Value, format: Format, out: &mut String) -> Result<()> {
    if format == Format::Text {
        return tables(view, out);
    }
    for agent in list(&view["agents"]) {
        let mut line = |kind: &str, row: &Value| -> Result<()> {
            let mut row = row.clone();
            row["kind"] = kind.into();
            row["agent"] = agent["agent"].clone();
            Ok(writeln!(out, "{row}")?)
        };
        let view = &agent["view"];
        for (kind, key) in
            [("count", "places"), ("latency", "legs"), ("drops", "drops"), ("loss", "loss"), ("flow", "flows")]
        {
            list(&view[key]).try_for_each(|row| line(kind, row))?;
        }
        if view["total"].is_object() {
            line("total", &json!({"times": view["total"]}))?;
        }
        let mut told = agent.clone();
        let counts = ["elapsed_ms", "sightings", "lost", "journeys", "resent", "notes"];
        told["view"] = counts.iter().map(|key| ((*key).to_owned(), view[*key].clone())).collect();
        line("agent", &told)?;
    }
    between::told(view, format, out)?;
    let complete = list(&view["agents"]).all(is_whole) && number(&view["lost_lines"]) == 0;
    let (lost, ms) = (&view["lost_lines"], &view["elapsed_ms"]);
    writeln!(out, "{}", json!({"kind": "end", "complete": complete, "lost_lines": lost, "elapsed_ms": ms}))?;
    Ok(())
}

/// What is missing, on stderr.
fn say(view: &Value) {
    for agent in list(&view["agents"]) {
        let name = shown(&agent["agent"]);
        match shown(&agent["state"]).as_str() {
            "ended" if shown(&agent["why"]).is_empty() => {}
            "ended" => eprintln!("wirespan: {name}: {}", shown(&agent["why"])),
            "refused" => eprintln!("wirespan: {name} has not run the program: {}", shown(&agent["why"])),
            state => {
                let s = number(&agent["heard_ms"]) as f64 / 1e3;
                let told = number(&agent["view"]["elapsed_ms"]) as f64 / 1e3;
                eprintln!(
                    "wirespan: partial: {name} is {state}, and was heard of last {s:.1} s ago. Its tables are of its \
                     first {told:.1} s; {} packets that were under way are left out",
                    number(&agent["incomplete"])
                );
            }
        }
        let counts =
            [("lost_lines", "lines did not arrive"), ("malformed", "incomplete records and answers were discarded")];
        for (key, what) in counts.iter().filter(|(key, _)| number(&agent[*key]) > 0) {
            eprintln!("wirespan: {name}: {} {what}", number(&agent[*key]));
        }
        if number(&agent["view"]["lost"]) > 0 {
            eprintln!("wirespan: {name}: {} sightings were lost", number(&agent["view"]["lost"]));
        }
        list(&agent["view"]["notes"]).for_each(|note| eprintln!("wirespan: {name}: {}", shown(note)));
    }
    let ran = || list(&view["agents"]).filter(|agent| agent["state"] != "refused");
    if ran().next().is_some() && ran().all(|agent| number(&agent["view"]["sightings"]) == 0) {
        eprintln!("wirespan: {NOTHING_FITTED}");
    }
    if number(&view["lost_lines"]) > 0 {
        eprintln!("wirespan: {} lines found no room in the server", number(&view["lost_lines"]));
    }
}

/// A failure if no agent has run the program.
fn outcome(view: &Value) -> ExitCode {
    match list(&view["agents"]).all(|agent| agent["state"] == "refused") {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
