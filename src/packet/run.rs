//! A packet program that runs for somebody who is elsewhere: a page of the UI, or a server.

use super::board::{place, Board};
use super::fleet::{Gathered, Stays};
use super::report::{journey_line, packet_line};
use super::{count, Action, Names, Program, Taps};
use crate::clock::Skew;
use anyhow::{bail, Result};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wirespan_model::packet::Sighting;
use wirespan_view::packets::{PacketsState, PacketsView};
use wirespan_view::Whose;

/// Longest time for which a program runs.
const LONGEST: Duration = Duration::from_secs(3600);
/// Bytes of a program at most.
pub(super) const LONGEST_PROGRAM: usize = 64 << 10;
/// Servers that one program chooses at most.
const MOST_SERVERS: usize = 1000;

/// A program as it is ordered.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered {
    pub(super) text: String,
    /// The servers that its `trace`, `service` or `endpoint` means.
    pub(super) servers: Vec<SocketAddr>,
    /// Whether somebody joins its packets with those of other machines.
    pub(super) meets: bool,
}

/// A program that may run for somebody elsewhere. Nothing is asked of this machine: its network namespaces may be
/// those of another one.
pub(super) fn checked(text: &str) -> Result<Program> {
    if text.len() > LONGEST_PROGRAM {
        bail!("the program is longer than {} KiB", LONGEST_PROGRAM >> 10);
    }
    let program = Program::parse(text)?;
    if program.time > LONGEST {
        bail!("`for`: here a program runs for at most an hour");
    }
    if program.names_functions() {
        bail!("`where`: `kprobe` and `uprobe` can be named on the machine itself only, with `wirespan packet`");
    }
    let chooses = !program.netns_names(&[]).is_empty() || !program.workloads().is_empty() || program.whose().is_some();
    if program.options_in(Vec::new())?.filter.is_everything() && !chooses {
        bail!("this program selects every packet of the machine: give it a `filter`");
    }
    Ok(program)
}

/// What the program means by `trace`, `service` and `endpoint`; an error if the program is wrong.
pub(super) fn whose(text: &str) -> Result<Option<Whose>> {
    // No text is the order to end a program.
    if text.trim().is_empty() {
        return Ok(None);
    }
    Ok(checked(text)?.whose())
}

/// A running program.
pub(super) struct Run {
    ordered: Ordered,
    program: Program,
    taps: Taps,
    board: Board,
    names: Names,
    /// Lines of `record` and `journeys` since the last look; `None`: nobody wants them.
    lines: Option<Vec<String>>,
    /// How packets came and went; `None`: nobody joins them with those of other machines.
    gathered: Option<Gathered>,
    skew: Option<Skew>,
    started: Instant,
    pub(super) limit: Duration,
    changes: u32,
}

impl Run {
    pub(super) fn start(ordered: Ordered, wants_lines: bool) -> Result<Self> {
        let program = checked(&ordered.text)?;
        let taps = Taps::open(&program.options(&[])?)?;
        choose(&program, &ordered.servers, taps.packets())?;
        let (board, limit, names) = (Board::new(&program.actions), program.time, names(&program));
        let (started, lines) = (Instant::now(), wants_lines.then(Vec::new));
        let (gathered, skew) = (ordered.meets.then(Gathered::default), Skew::of_test()?);
        Ok(Run { ordered, program, taps, board, names, lines, gathered, skew, started, limit, changes: 0 })
    }

    /// Runs another program instead, without a gap. If the kernel refuses it, this one goes on.
    pub(super) fn change(&mut self, ordered: Ordered) -> Result<()> {
        let mut seen = Vec::new();
        let program = checked(&ordered.text)?;
        let options = program.options(&[])?;
        let changed = self.taps.change(&options, |packets| choose(&program, &ordered.servers, packets), &mut seen);
        self.take(seen);
        changed?;
        self.board.act(&program.actions);
        self.limit = self.started.elapsed() + program.time;
        self.gathered = ordered.meets.then(|| self.gathered.take().unwrap_or_default());
        (self.ordered, self.program) = (ordered, program);
        self.names = names(&self.program);
        self.changes += 1;
        Ok(())
    }

    /// Reads the ring once. Returns whether the program ends.
    pub(super) fn turn(&mut self) -> bool {
        let ends = self.started.elapsed() >= self.limit || self.taps.at_limit();
        let mut seen = Vec::new();
        self.taps.drain(&mut seen);
        self.take(seen);
        ends
    }

    /// How long to wait until the next [`Run::turn`].
    pub(super) fn rest(&self) -> Duration {
        self.taps.rest()
    }

    fn take(&mut self, mut seen: Vec<Sighting>) {
        if let Some(skew) = self.skew {
            seen.iter_mut().for_each(|s| s.time_ns = skew.shown(s.time_ns));
        }
        let Run { board, lines, names, taps, program, gathered, .. } = self;
        let mut records = lines.as_mut().filter(|_| program.actions.contains(&Action::Record));
        for s in &seen {
            board.see(s);
            gathered.iter_mut().for_each(|all| all.see(s));
            if let Some(lines) = &mut records {
                lines.extend(packet_line(s, names, &|number| taps.reason(number)).map(|line| line.to_string()));
            }
        }
    }

    /// The lines since the last call. Those of journeys come with [`Run::view`].
    pub(super) fn lines(&mut self) -> Vec<String> {
        self.lines.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How packets came and went, of the journeys that came with [`Run::view`] since the last call.
    pub(super) fn stays(&mut self) -> Vec<Stays> {
        let Run { gathered, names, .. } = self;
        gathered.as_mut().map(|all| all.take(|of| place(of, names))).unwrap_or_default()
    }

    /// These stays were not told, for want of room.
    pub(super) fn lose(&mut self, stays: &Stays) {
        self.gathered.iter_mut().for_each(|all| all.lose(stays));
    }

    /// Packets whose journeys are not told yet.
    pub(super) fn under_way(&self) -> u64 {
        self.board.under_way()
    }

    /// The tables as they are now.
    pub(super) fn view(&mut self, ends: bool) -> PacketsView {
        let now_ns = self.taps.read_up_to_ns();
        let now_ns = self.skew.map_or(now_ns, |skew| skew.shown(now_ns));
        self.board.pass(now_ns);
        self.gathered.iter_mut().for_each(|all| all.pass(now_ns));
        let journeys = self.board.due(ends);
        if let Some(gathered) = &mut self.gathered {
            journeys.iter().for_each(|journey| gathered.add(journey));
            gathered.add_acknowledgements(ends);
        }
        let reason = |number| self.taps.reason(number);
        if let Some(lines) = self.lines.as_mut().filter(|_| self.program.actions.contains(&Action::Journeys)) {
            let told = journeys.iter().filter_map(|journey| journey_line(journey, &reason));
            lines.extend(told.map(|line| line.to_string()));
        }
        self.names = names(&self.program);
        let counters = self.taps.counters();
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let elapsed = self.started.elapsed();
        let mut view = PacketsView {
            state: if ends { PacketsState::Ended } else { PacketsState::Running },
            program: self.ordered.text.clone(),
            changes: self.changes,
            elapsed_ms: ms(elapsed),
            limit_ms: ms(self.limit.max(elapsed)),
            sightings: count(&counters, "taken"),
            lost: count(&counters, "lost") + self.taps.missed() + self.board.not_kept(),
            notes: self.notes(),
            ..PacketsView::default()
        };
        self.board.show(&self.names, &reason, &mut view);
        view
    }

    fn notes(&self) -> Vec<String> {
        let missing = self.taps.packets().missing().iter();
        let missing = missing.map(|(point, why)| format!("this kernel has no point `{}`: {why}", point.as_str()));
        let limited = self.taps.at_limit().then(|| "ended early, because `at_most` packets were seen".to_owned());
        let servers = self.ordered.servers.iter().take(MOST_SERVERS).map(ToString::to_string).collect::<Vec<_>>();
        let servers = (!servers.is_empty()).then(|| format!("packets from and to {}", servers.join(", ")));
        missing.chain(servers).chain(limited).collect()
    }
}

fn names(program: &Program) -> Names {
    let mut names = Names::read();
    let named = program.netns(&[]).unwrap_or_default();
    named.iter().for_each(|(inode, name)| names.call(*inode, name));
    names
}

/// Chooses the servers that the program means by spans.
fn choose(program: &Program, servers: &[SocketAddr], packets: &wirespan_capture::packet::Packets) -> Result<()> {
    if program.whose().is_none() {
        return Ok(());
    }
    if servers.is_empty() {
        bail!("no server is known that answered such a request over TCP in the last hour");
    }
    servers.iter().take(MOST_SERVERS).try_for_each(|server| Ok(packets.choose(*server)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_checked_without_the_machine_on_which_it_runs() {
        let wrong = |text: &str| format!("{:#}", checked(text).expect_err("refused"));
        assert!(wrong("filter: {prot: tcp}").contains("line 1: unknown key `prot`"));
        assert!(wrong("action: [count]").contains("give it a `filter`"));
        assert!(wrong("filter: {port: 80}\nfor: 90m").contains("at most an hour"));
        assert!(wrong(&format!("#{}", "x".repeat(LONGEST_PROGRAM))).contains("64 KiB"));
        assert!(checked("filter: {netns: no-such-namespace-here}").is_ok());
        assert!(checked("filter: {port: 80}\naction: [loss]\nby: flow").is_ok());
        assert_eq!(whose("filter: {port: 80}").expect("right"), None);
        assert_eq!(whose("").expect("the order to end"), None);
        let shop = Whose::Requests { service: Some("shop".into()), endpoint: None };
        assert_eq!(whose("filter: {service: shop}").expect("right"), Some(shop));
    }
}
