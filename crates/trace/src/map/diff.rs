//! What changed between two maps.

use super::draw::{rate, table, unit};
use super::{Document, MapEdge};
use crate::tree::duration;
use serde::Serialize;
use std::collections::BTreeMap;

/// When a change is worth a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// An edge has slowed if its p95 grew by this factor …
    pub factor: f64,
    /// … and by this much, ns …
    pub at_least_ns: u64,
    /// … and both maps have as many calls.
    pub min_calls: u64,
    /// An edge fails more if its share of errors grew by this much.
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
}

type Key<'a> = (&'a str, &'a str, &'a str, u16);
type Index<'a> = BTreeMap<Key<'a>, &'a MapEdge>;

fn key(e: &MapEdge) -> Key<'_> {
    (&e.from, &e.to, &e.transport, e.port)
}

fn index(map: &Document) -> Index<'_> {
    map.edges.iter().map(|e| (key(e), e)).collect()
}

fn errors(e: &MapEdge) -> f64 {
    e.calls.errors as f64 / e.calls.count.max(1) as f64
}

fn slowness(c: &Change) -> f64 {
    c.after.calls.p95_ns as f64 / c.before.calls.p95_ns.max(1) as f64
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
        let enough = |c: &&Change| c.before.calls.count.min(c.after.calls.count) >= limits.min_calls;
        let slower = |c: &&Change| {
            let grown = c.after.calls.p95_ns.saturating_sub(c.before.calls.p95_ns);
            grown >= limits.at_least_ns && slowness(c) >= limits.factor
        };
        let mut slowed: Vec<Change> = both.iter().filter(enough).filter(slower).cloned().collect();
        slowed.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)));
        let worse = |c: &Change| errors(&c.after) - errors(&c.before);
        let mut failing: Vec<Change> =
            both.iter().filter(enough).filter(|c| worse(c) >= limits.errors).cloned().collect();
        failing.sort_by(|a, b| worse(b).total_cmp(&worse(a)));
        Diff {
            appeared_nodes: only(after, before),
            vanished_nodes: only(before, after),
            appeared: missing(after, &old),
            vanished: missing(before, &new),
            slowed,
            failing,
            common: both.len(),
        }
    }

    /// Lines for people.
    pub fn text(&self, before: &Document, after: &Document) -> String {
        let line = |sign: &str, map: &Document, e: &MapEdge, rest: String| {
            let port = if e.port == 0 { String::new() } else { format!(":{}", e.port) };
            let ends = format!("{} → {}{port}", map.name(&e.from), map.name(&e.to));
            vec![sign.to_string(), ends, e.protocol.clone(), rest]
        };
        let calls = |map: &Document, e: &MapEdge| match e.calls.count {
            0 => format!("{} connections", e.tcp.opened),
            n => format!("{n} {} ({})", unit(e), rate(n, map.seconds())),
        };
        let time = |ns: u64| duration(i128::from(ns));
        let mut rows: Vec<Vec<String>> = Vec::new();
        rows.extend(self.appeared.iter().map(|e| line("appeared", after, e, calls(after, e))));
        rows.extend(self.vanished.iter().map(|e| line("vanished", before, e, calls(before, e))));
        rows.extend(self.slowed.iter().map(|c| {
            let (a, b) = (c.before.calls.p95_ns, c.after.calls.p95_ns);
            line("slowed", after, &c.after, format!("p95 {} → {} (×{:.1})", time(a), time(b), slowness(c)))
        }));
        rows.extend(self.failing.iter().map(|c| {
            let (a, b) = (errors(&c.before) * 100.0, errors(&c.after) * 100.0);
            line("failing", after, &c.after, format!("errors {a:.1} % → {b:.1} %"))
        }));
        if rows.is_empty() {
            return format!("no difference in {} edges\n", self.common);
        }
        table(&rows)
    }
}
