//! What is told of the packets, as text or JSON lines.

use super::names::Reason;
use super::places::Places;
use super::{Action, Names};
use crate::cli::Format;
use anyhow::Result;
use serde_json::{json, Value};
use std::fmt::Write as _;
use std::time::Duration;
use wirespan_journey::{Dropped, Joiner, Journey, Place, Settings, Summary, Times};
use wirespan_model::packet::{Route, Sighting};

/// Carries out the actions.
pub(crate) struct Report {
    /// The machine among others; empty: there are no others.
    agent: String,
    actions: Vec<Action>,
    format: Format,
    joiner: Joiner,
    summary: Summary,
    places: Places,
}

/// `12.3 µs`, `4.53 ms` or `1.20 s`.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// `1 packet`, `2 packets`.
pub(crate) fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn route(route: &Route) -> String {
    let name = match route.protocol {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        1 => "icmp".to_owned(),
        58 => "icmpv6".to_owned(),
        other => format!("protocol {other}"),
    };
    let end = |ip, port| match route.protocol {
        6 | 17 => std::net::SocketAddr::new(ip, port).to_string(),
        _ => ip.to_string(),
    };
    let (from, to) = (end(route.source, route.source_port), end(route.destination, route.destination_port));
    format!("{name} {from} → {to}")
}

fn why_dropped(s: &Sighting, reason: &Reason<'_>) -> Option<String> {
    (s.point == wirespan_model::packet::Point::Drop).then(|| reason(s.reason))
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
        let (summary, places) = (Summary::default(), Places::default());
        Report { agent: String::new(), actions: actions.to_vec(), format, joiner, summary, places }
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

    fn has(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    fn joins(&self) -> bool {
        [Action::Journeys, Action::Latency, Action::Drops].iter().any(|action| self.has(*action))
    }

    /// Takes a sighting, and appends what is to be said of it at once.
    pub(crate) fn see(&mut self, s: &Sighting, names: &Names, reason: &Reason<'_>, out: &mut String) -> Result<()> {
        if self.joins() {
            self.joiner.add(s);
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
                let (seconds, us) = (s.time_ns / 1_000_000_000 % 86_400, s.time_ns / 1000 % 1_000_000);
                let (h, m, sec) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
                let why = why_dropped(s, reason);
                out.push_str(&self.heading(" "));
                write!(out, "{h:02}:{m:02}:{sec:02}.{us:06}  {:<34} {}", names.place(&Place::of(s)), route(&s.route))?;
                writeln!(out, "  seq {}, {} bytes{}", s.seq, s.len, why.map_or(String::new(), |w| format!("  {w}")))?;
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
        for journey in &journeys {
            self.summary.add(journey);
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
            let head = ("from", "to", "packets", "p50", "p99", "jitter");
            let (from, to, packets, p50, p99, jitter) = head;
            writeln!(out, "{from:<34} {to:<34} {packets:>8} {p50:>10} {p99:>10} {jitter:>10}")?;
            let mut row = |from: &str, to: &str, times: &Times| {
                let [p50, p99, jitter] = [times.quantile(0.5), times.quantile(0.99), times.jitter()].map(time);
                writeln!(out, "{from:<34} {to:<34} {:>8} {p50:>10} {p99:>10} {jitter:>10}", times.count())
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
            }
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
                let line = json!({"kind": "drops", "place": place, "after": before, "reason": reason(*why),
                    "packets": drops.packets, "resent": times(&drops.resent_after)});
                self.line(line, out)?;
            }
        }
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

fn describe(journey: &Journey, names: &Names, reason: &Reason<'_>, out: &mut String) -> Result<()> {
    let Journey { seq, len, attempt, .. } = journey;
    let again = if *attempt > 1 { format!(", sent again ({attempt})") } else { String::new() };
    let what = if journey.route.protocol == 6 { format!("seq {seq}, ") } else { String::new() };
    let took = time(journey.duration_ns());
    writeln!(out, "{}  {what}{len} bytes, {took}{again}", route(&journey.route))?;
    let mut before = journey.start_ns();
    let mut shown = journey.route;
    for step in &journey.steps {
        let wait = time(step.time_ns.saturating_sub(before));
        before = step.time_ns;
        write!(out, "  {:>11}  {:<40} cpu {}", format!("+{wait}"), names.place(&step.place), step.cpu)?;
        if step.queue_len > 0 {
            write!(out, ", {} wait in the queue", step.queue_len)?;
        }
        if step.route != shown {
            write!(out, ", now {}", route(&step.route))?;
            shown = step.route;
        }
        writeln!(out)?;
    }
    if let Some(Dropped { step, reason: why, resent_after_ns }) = &journey.dropped {
        let wait = time(step.time_ns.saturating_sub(before));
        let later = resent_after_ns.map_or(String::new(), |ns| format!(", sent again {} later", time(ns)));
        let why = reason(*why);
        writeln!(out, "  {:>11}  dropped {}: {why}{later}", format!("+{wait}"), names.at(&step.place))?;
    }
    Ok(())
}
