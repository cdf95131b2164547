//! Differences between two maps.

use crate::document::{Document, MapEdge};
use serde::Serialize;
use std::collections::BTreeMap;

/// Limits beyond which a change is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffLimits {
    /// An edge has slowed down if its p95 grew by this factor, and if the next two conditions hold. With flow records
    /// alone the factor is doubled, because they know only the power of two.
    pub factor: f64,
    /// The p95 grew by at least this, ns.
    pub at_least_ns: u64,
    /// Both maps have at least this many calls (handshakes).
    pub min_calls: u64,
    /// An edge fails more often if its share of errors, or of failed attempts to connect, grew by this much.
    pub errors: f64,
}

impl Default for DiffLimits {
    fn default() -> Self {
        DiffLimits { factor: 1.5, at_least_ns: 1_000_000, min_calls: 20, errors: 0.01 }
    }
}

/// One edge in both maps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The edge in the first map.
    pub before: MapEdge,
    /// The edge in the second map.
    pub after: MapEdge,
}

/// Edges and nodes that appeared, vanished, slowed down or fail more often.
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
    limits: DiffLimits,
}

/// A measure of an edge in one map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// A duration in ns, or a share from 0 to 1.
    pub value: f64,
    /// How often it was measured.
    pub times: u64,
}

/// A measure of an edge that grew beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// What was measured: `p95`, `handshake p95` (durations), `errors`, `failed to connect` (shares).
    pub what: &'static str,
    /// In the first map.
    pub before: Measure,
    /// In the second map.
    pub after: Measure,
    /// A duration's factor, or a share's difference.
    pub by: f64,
}

type Key<'a> = (&'a str, &'a str, &'a str, u16);
type Index<'a> = BTreeMap<Key<'a>, &'a MapEdge>;

fn key(e: &MapEdge) -> Key<'_> {
    (&e.from, &e.to, &e.transport, e.port)
}

fn index(map: &Document) -> Index<'_> {
    map.edges.iter().map(|e| (key(e), e)).collect()
}

/// How fast an edge is: by its requests; by its handshakes where neither map has a request.
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

impl DiffLimits {
    fn slowed(&self, c: &Change) -> Option<Growth> {
        let (what, [before, after]) = slowness(c);
        let by = after.value / before.value.max(1.0);
        let factor = if what == "p95" { self.factor } else { self.factor * 2.0 };
        let enough = before.times.min(after.times) >= self.min_calls;
        let slowed = enough && after.value - before.value >= self.at_least_ns as f64 && by >= factor;
        slowed.then_some(Growth { what, before, after, by })
    }

    /// Of two growing shares, the one that grew more.
    fn failing(&self, c: &Change) -> Option<Growth> {
        let grown = failures(c).into_iter().map(|(what, [before, after])| Growth {
            what,
            before,
            after,
            by: after.value - before.value,
        });
        // An edge that was silent before and fails now is reported, too.
        let enough =
            |g: &Growth| g.after.times >= self.min_calls && (g.before.times >= self.min_calls || g.before.times == 0);
        grown.filter(|g| enough(g) && g.by >= self.errors).max_by(|a, b| a.by.total_cmp(&b.by))
    }
}

impl Diff {
    /// From the first map to the second.
    pub fn new(before: &Document, after: &Document, limits: &DiffLimits) -> Self {
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
        let by = |growth: &dyn Fn(&Change) -> Option<Growth>| -> Vec<Change> {
            let mut found: Vec<(f64, &Change)> = both.iter().filter_map(|c| Some((growth(c)?.by, c))).collect();
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            found.into_iter().map(|(_, c)| c.clone()).collect()
        };
        let slowed = by(&|c| limits.slowed(c));
        let failing = by(&|c| limits.failing(c));
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

    /// How much each edge has slowed down, the most slowed first.
    pub fn slowed_by(&self) -> impl Iterator<Item = (&Change, Growth)> {
        self.slowed.iter().filter_map(|c| Some((c, self.limits.slowed(c)?)))
    }

    /// How much more often each edge fails, the worst first.
    pub fn failing_by(&self) -> impl Iterator<Item = (&Change, Growth)> {
        self.failing.iter().filter_map(|c| Some((c, self.limits.failing(c)?)))
    }
}
