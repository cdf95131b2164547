//! What is told of the packets, as text or JSON lines.

mod flows;
mod stacks;
mod words;

pub(super) use words::ends;
pub(crate) use words::{counted, time};

use super::names::Reason;
use super::places::Places;
use super::{Action, Names};
use crate::cli::Format;
use anyhow::Result;
use serde_json::{json, Value};
use stacks::DropStacks;
use std::fmt::Write as _;
use std::time::Duration;
use wirespan_journey::{Flows, Joiner, Journey, Settings, Summary, Times, UNDER_WAY_NS};
use wirespan_model::packet::Sighting;
use words::{describe, why_dropped};

/// The quantiles in tables of text: p50, p99 and p99.9.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// Carries out the actions.
pub(crate) struct Report {
    /// The machine among others; empty: there are no others.
    agent: String,
    actions: Vec<Action>,
    format: Format,
    joiner: Joiner,
    summary: Summary,
    places: Places,
    flows: Flows,
    stacks: DropStacks,
    latest_ns: u64,
}

/// A packet at one point, as JSON.
pub(super) fn packet_line(s: &Sighting, names: &Names, reason: &Reason<'_>) -> Option<Value> {
    let mut line = serde_json::to_value(s).ok()?;
    line["kind"] = "packet".into();
    line["netns_name"] = names.netns(s.netns).into();
    line["drop_reason"] = why_dropped(s, reason).into();
    Some(line)
}

/// The way of a packet, as JSON.
pub(super) fn journey_line(journey: &Journey, reason: &Reason<'_>) -> Option<Value> {
    let mut line = serde_json::to_value(journey).ok()?;
    line["kind"] = "journey".into();
    if let Some(dropped) = &journey.dropped {
        line["dropped"]["reason"] = reason(dropped.reason).into();
    }
    Some(line)
}

impl Report {
    pub(crate) fn new(actions: &[Action], format: Format) -> Self {
        let joiner = Joiner::new(Settings::default());
        Report {
            agent: String::new(),
            actions: actions.to_vec(),
            format,
            joiner,
            summary: Summary::default(),
            places: Places::default(),
            flows: Flows::default(),
            stacks: DropStacks::default(),
            latest_ns: 0,
        }
    }

    /// Tells of this agent; what is told names it.
    pub(crate) fn of(self, agent: &str) -> Self {
        Report { agent: agent.to_owned(), ..self }
    }

    /// Appends a line of JSON.
    fn line(&self, mut line: Value, out: &mut String) -> Result<()> {
        if !self.agent.is_empty() {
            line["agent"] = self.agent.as_str().into();
        }
        Ok(writeln!(out, "{line}")?)
    }

    /// From now on these are the actions. What was counted stays.
    pub(crate) fn act(&mut self, actions: &[Action]) {
        self.actions = actions.to_vec();
    }

    /// Packets are seen until this time; what was last seen long before it is not on its way any more.
    pub(crate) fn end_at(&mut self, time_ns: u64) {
        self.latest_ns = self.latest_ns.max(time_ns);
    }

    /// See [`Joiner::pass`].
    pub(crate) fn pass(&mut self, now_ns: u64) {
        self.joiner.pass(now_ns);
    }

    fn has(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    /// Whether it has to know the ways of packets.
    pub(crate) fn joins(&self) -> bool {
        self.actions.iter().any(|action| !matches!(action, Action::Record | Action::Count))
    }

    /// Takes a sighting, and appends what is to be said of it at once.
    pub(crate) fn see(&mut self, s: &Sighting, names: &Names, reason: &Reason<'_>, out: &mut String) -> Result<()> {
        if self.joins() {
            self.joiner.add(s);
            self.stacks.see(s);
            self.latest_ns = self.latest_ns.max(s.time_ns);
        }
        if self.has(Action::Count) {
            self.places.add(s);
        }
        if !self.has(Action::Record) {
            return Ok(());
        }
        match self.format {
            Format::Json => {
                if let Some(line) = packet_line(s, names, reason) {
                    self.line(line, out)?;
                }
            }
            Format::Text => {
                out.push_str(&self.heading(" "));
                words::sighting(s, names, reason, out)?;
            }
        }
        Ok(())
    }

    /// The agent, if there are several, with this behind it.
    fn heading(&self, behind: &str) -> String {
        if self.agent.is_empty() {
            String::new()
        } else {
            format!("{}{behind}", self.agent)
        }
    }

    /// Appends the journeys that are known by now, and returns them; all of them at the `end`.
    pub(crate) fn due(
        &mut self,
        names: &Names,
        reason: &Reason<'_>,
        end: bool,
        out: &mut String,
    ) -> Result<Vec<Journey>> {
        let journeys = if end { self.joiner.finish() } else { self.joiner.due() };
        let until_ns = if end { self.latest_ns.saturating_sub(UNDER_WAY_NS) } else { u64::MAX };
        for journey in &journeys {
            self.summary.add(journey);
            if self.has(Action::Loss) || self.has(Action::Flows) {
                self.flows.add(journey, until_ns);
            }
            match self.format {
                _ if !self.has(Action::Journeys) => {}
                Format::Json => {
                    if let Some(line) = journey_line(journey, reason) {
                        self.line(line, out)?;
                    }
                }
                Format::Text => {
                    out.push_str(&self.heading(" "));
                    describe(journey, names, reason, out)?;
                }
            }
        }
        Ok(journeys)
    }

    /// Appends the tables.
    pub(crate) fn end(&self, took: Duration, names: &Names, reason: &Reason<'_>, out: &mut String) -> Result<()> {
        match self.format {
            Format::Text => self.tables(took, names, reason, out),
            Format::Json => self.lines(took, names, reason, out),
        }
    }

    fn tables(&self, took: Duration, names: &Names, reason: &Reason<'_>, out: &mut String) -> Result<()> {
        out.push_str(&self.heading(":\n"));
        if self.has(Action::Count) {
            writeln!(out, "{:<44} {:>9} {:>12} {:>12}", "place", "packets", "bytes", "Mbit/s")?;
            for (place, packets, bytes) in self.places.iter() {
                let rate = bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9) / 1e6;
                writeln!(out, "{:<44} {packets:>9} {bytes:>12} {rate:>12.2}", names.place(place))?;
            }
        }
        let legs = self.summary.legs();
        if self.has(Action::Latency) && !legs.is_empty() {
            write!(out, "{:<34} {:<34} {:>8} ", "from", "to", "packets")?;
            writeln!(out, "{:>9} {:>9} {:>9} {:>9}", "p50", "p99", "p99.9", "jitter")?;
            let mut row = |from: &str, to: &str, times: &Times| {
                let ([p50, p99, p999], jitter) =
                    (QUANTILES.map(|share| time(times.quantile(share))), time(times.jitter()));
                let packets = times.count();
                writeln!(out, "{from:<34} {to:<34} {packets:>8} {p50:>9} {p99:>9} {p999:>9} {jitter:>9}")
            };
            for (leg, times) in legs {
                row(&names.place(&leg.from), &names.place(&leg.to), times)?;
            }
            if self.summary.total().count() > 0 {
                row("first", "last", self.summary.total())?;
            }
        }
        if self.has(Action::Drops) {
            let (journeys, resent) = (self.summary.journeys(), self.summary.resent());
            let drops = self.summary.drops();
            let packets: u64 = drops.iter().map(|(_, drops)| drops.packets).sum();
            let journeys = counted(journeys, "packet");
            writeln!(out, "{journeys}, of these {packets} dropped, {resent} sent again")?;
            for ((place, before, why), drops) in drops {
                let after = before.as_ref().map_or(String::new(), |p| format!(", after {}", names.place(p)));
                write!(out, "  {} dropped {}{after}: {}", drops.packets, names.at(place), reason(*why))?;
                match drops.resent_after.count() {
                    0 => writeln!(out)?,
                    n => writeln!(out, "; {n} sent again, {} later", time(drops.resent_after.quantile(0.5)))?,
                }
                if let Some((stack, n, all)) = self.stacks.commonest(place, *why) {
                    writeln!(out, "    {n} of {all} there in {}", words::stack(stack))?;
                }
            }
        }
        if self.has(Action::Loss) {
            flows::loss_table(&self.flows, &self.summary, names, out)?;
        }
        if self.has(Action::Flows) {
            flows::flow_table(&self.flows, took, out)?;
        }
        Ok(())
    }

    fn lines(&self, took: Duration, names: &Names, reason: &Reason<'_>, out: &mut String) -> Result<()> {
        if self.has(Action::Count) {
            for (place, packets, bytes) in self.places.iter() {
                let seconds = took.as_secs_f64();
                let name = names.netns(place.netns);
                let line = json!({"kind": "count", "place": place, "netns_name": name, "packets": packets,
                    "bytes": bytes, "seconds": seconds});
                self.line(line, out)?;
            }
        }
        let times = |times: &Times| {
            json!({"packets": times.count(), "mean_ns": times.mean(), "p50_ns": times.quantile(0.5),
                "p90_ns": times.quantile(0.9), "p99_ns": times.quantile(0.99), "p999_ns": times.quantile(0.999),
                "jitter_ns": times.jitter()})
        };
        if self.has(Action::Latency) {
            for (leg, of) in self.summary.legs() {
                let line = json!({"kind": "latency", "from": leg.from, "to": leg.to, "times": times(of)});
                self.line(line, out)?;
            }
            let line = json!({"kind": "total", "times": times(self.summary.total())});
            self.line(line, out)?;
        }
        if self.has(Action::Drops) {
            for ((place, before, why), drops) in self.summary.drops() {
                let mut line = json!({"kind": "drops", "place": place, "after": before, "reason": reason(*why),
                    "packets": drops.packets, "resent": times(&drops.resent_after)});
                if let Some((stack, n, all)) = self.stacks.commonest(place, *why) {
                    line["stack"] = json!({"functions": stack, "packets": n, "of": all});
                }
                self.line(line, out)?;
            }
        }
        let loss = self.has(Action::Loss).then(|| flows::loss_lines(&self.flows, &self.summary));
        let by_flow = self.has(Action::Flows).then(|| flows::flow_lines(&self.flows, took));
        loss.into_iter().chain(by_flow).flatten().try_for_each(|line| self.line(line, out))?;
        let (counts, summary) = (self.joiner.counts(), &self.summary);
        let line = json!({"kind": "end", "journeys": counts.journeys, "payload_bytes": summary.bytes(),
            "resent": summary.resent(), "acknowledgements": counts.without_payload, "not_kept": counts.too_many,
            "translated_flows": counts.translated});
        self.line(line, out)?;
        Ok(())
    }

    /// What did not fit into the memory of the join.
    pub(crate) fn not_kept(&self) -> u64 {
        self.joiner.counts().too_many
    }
}
