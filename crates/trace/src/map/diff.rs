//! What changed between two maps.

use super::draw::{rate, table, traffic, unit};
use super::{Document, MapEdge};
use crate::tree::duration;
use serde::Serialize;
use std::collections::BTreeMap;

/// When a change is worth a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// An edge has slowed if its p95 grew by this factor (what flow records tell: by twice as much, since they know the
    /// power of two only) …
    pub factor: f64,
    /// … and by this much, ns …
    pub at_least_ns: u64,
    /// … and both maps have as many calls (handshakes).
    pub min_calls: u64,
    /// An edge fails more if its share of errors, or of attempts to connect that failed, grew by this much.
    pub errors: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { factor: 1.5, at_least_ns: 1_000_000, min_calls: 20, errors: 0.01 }
    }
}

/// One edge in both maps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// As it was.
    pub before: MapEdge,
    /// As it is.
    pub after: MapEdge,
}

/// What appeared, vanished, slowed, fails more.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Diff {
    /// Names of nodes that only the second map has.
    pub appeared_nodes: Vec<String>,
    /// Names of nodes that only the first map has.
    pub vanished_nodes: Vec<String>,
    /// Edges that only the second map has, most calls first.
    pub appeared: Vec<MapEdge>,
    /// Edges that only the first map has, most calls first.
    pub vanished: Vec<MapEdge>,
    /// Slower at the 95th percentile, the most slowed first.
    pub slowed: Vec<Change>,
    /// Larger share of errors, the worst first.
    pub failing: Vec<Change>,
    /// Edges of both maps.
    pub common: usize,
    #[serde(skip)]
    limits: Limits,
}

type Key<'a> = (&'a str, &'a str, &'a str, u16);
type Index<'a> = BTreeMap<Key<'a>, &'a MapEdge>;

fn key(e: &MapEdge) -> Key<'_> {
    (&e.from, &e.to, &e.transport, e.port)
}

fn index(map: &Document) -> Index<'_> {
    map.edges.iter().map(|e| (key(e), e)).collect()
}

/// What of an edge is compared, in one of the maps.
#[derive(Clone, Copy)]
struct Measure {
    value: f64,
    /// How often it was measured.
    times: u64,
}

/// How fast an edge is, ns: its requests; its handshakes where neither map has any.
fn slowness(c: &Change) -> (&'static str, [Measure; 2]) {
    let both = [&c.before, &c.after];
    if both.iter().any(|e| e.calls.p95_ns > 0) {
        return ("p95", both.map(|e| Measure { value: e.calls.p95_ns as f64, times: e.calls.count }));
    }
    ("handshake p95", both.map(|e| Measure { value: e.tcp.connect_p95_ns as f64, times: e.tcp.opened }))
}

/// How often an edge fails: its calls, and the attempts to connect.
fn failures(c: &Change) -> [(&'static str, [Measure; 2]); 2] {
    let share = |failed: u64, of: u64| Measure { value: failed as f64 / of.max(1) as f64, times: of };
    let both = [&c.before, &c.after];
    [
        ("errors", both.map(|e| share(e.calls.errors, e.calls.count))),
        ("failed to connect", both.map(|e| share(e.tcp.failed, e.tcp.opened + e.tcp.failed))),
    ]
}

impl Limits {
    /// What the edge has slowed by, if it has.
    fn slowed(&self, c: &Change) -> Option<(&'static str, [Measure; 2], f64)> {
        let (what, [a, b]) = slowness(c);
        let by = b.value / a.value.max(1.0);
        let factor = if what == "p95" { self.factor } else { self.factor * 2.0 };
        let enough = a.times.min(b.times) >= self.min_calls;
        (enough && b.value - a.value >= self.at_least_ns as f64 && by >= factor).then_some((what, [a, b], by))
    }

    /// What of the edge fails more, the worse of two.
    fn failing(&self, c: &Change) -> Option<(&'static str, [Measure; 2], f64)> {
        let worse = failures(c).into_iter().map(|(what, [a, b])| (what, [a, b], b.value - a.value));
        // An edge that was silent before and fails now is worth a line, too.
        let enough =
            |m: &[Measure; 2]| m[1].times >= self.min_calls && (m[0].times >= self.min_calls || m[0].times == 0);
        worse.filter(|(_, m, by)| enough(m) && *by >= self.errors).max_by(|a, b| a.2.total_cmp(&b.2))
    }
}

impl Diff {
    /// From the first map to the second.
    pub fn new(before: &Document, after: &Document, limits: &Limits) -> Self {
        let (old, new) = (index(before), index(after));
        let missing = |of: &Document, other: &Index<'_>| -> Vec<MapEdge> {
            of.edges.iter().filter(|e| !other.contains_key(&key(e))).cloned().collect()
        };
        let only = |of: &Document, other: &Document| -> Vec<String> {
            of.nodes.iter().filter(|n| other.node(&n.id).is_none()).map(|n| n.name.clone()).collect()
        };
        let both: Vec<Change> = after
            .edges
            .iter()
            .filter_map(|e| Some(Change { before: (*old.get(&key(e))?).clone(), after: e.clone() }))
            .collect();
        let by = |of: &dyn Fn(&Change) -> Option<f64>| -> Vec<Change> {
            let mut found: Vec<(f64, &Change)> = both.iter().filter_map(|c| Some((of(c)?, c))).collect();
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            found.into_iter().map(|(_, c)| c.clone()).collect()
        };
        let slowed = by(&|c| limits.slowed(c).map(|s| s.2));
        let failing = by(&|c| limits.failing(c).map(|f| f.2));
        Diff {
            appeared_nodes: only(after, before),
            vanished_nodes: only(before, after),
            appeared: missing(after, &old),
            vanished: missing(before, &new),
            slowed,
            failing,
            common: both.len(),
            limits: *limits,
        }
    }

    /// Lines for people.
    pub fn text(&self, before: &Document, after: &Document) -> String {
        let line = |sign: &str, map: &Document, e: &MapEdge, rest: String| {
            let (port, called) = (format!(":{}", e.port), map.name(&e.to));
            // An address has its port in its name.
            let port = if e.port == 0 || called.ends_with(&port) { "" } else { &port };
            let ends = format!("{} → {called}{port}", map.name(&e.from));
            vec![sign.to_string(), ends, e.protocol.clone(), rest]
        };
        let calls = |map: &Document, e: &MapEdge| {
            let n = traffic(e);
            format!("{n} {} ({})", unit(e), rate(n, map.seconds()))
        };
        let time = |m: Measure| duration(m.value as i128);
        let mut rows: Vec<Vec<String>> = Vec::new();
        rows.extend(self.appeared.iter().map(|e| line("appeared", after, e, calls(after, e))));
        rows.extend(self.vanished.iter().map(|e| line("vanished", before, e, calls(before, e))));
        rows.extend(self.slowed.iter().filter_map(|c| {
            let (what, [a, b], by) = self.limits.slowed(c)?;
            Some(line("slowed", after, &c.after, format!("{what} {} → {} (×{by:.1})", time(a), time(b))))
        }));
        rows.extend(self.failing.iter().filter_map(|c| {
            let (what, [a, b], _) = self.limits.failing(c)?;
            let text = format!("{what} {:.1} % → {:.1} %", a.value * 100.0, b.value * 100.0);
            Some(line("failing", after, &c.after, text))
        }));
        if rows.is_empty() {
            return format!("no difference in {} edges\n", self.common);
        }
        table(&rows)
    }
}
