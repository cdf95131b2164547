//! Calls given to units of work that are done one after the other.
//!
//! A consumer works on the records of a fetch in their order. Nothing says where the work on one record (a unit) ends
//! and the next one begins. So units and calls, both in order, are aligned: each unit has made some calls in a row, or
//! none. What a unit of a class calls first, second and so on, and when it ends, is learnt from all alignments, each by
//! its probability (the forward-backward algorithm in [`lattice`]; Rabiner 1989, "A tutorial on hidden Markov models").

mod lattice;
mod table;

use lattice::{Bounds, Lattice, Start};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use table::{Belief, Counts, Table};
use wirespan_model::{Evidence, ExchangeRange, Span};

/// Most units, and most calls, that are aligned at a time.
const MAX_UNITS: usize = 8_192;
const MAX_CALLS: usize = 1_000;
/// Calls from which on what was learnt is kept, and only added to.
const TRAINED: usize = 400;
/// Rounds of a training.
const ROUNDS: usize = 8;
/// Rounds in which what was learnt is fitted to the calls that are decided.
const ADAPTED: usize = 3;
/// What trainings begin with. One alone may end in an explanation that is only better than those beside it: that a
/// unit makes the calls of two, or none. A later one is kept if it explains the calls so much better (ln of the
/// probability of a call).
const BELIEFS: [Belief; 7] = [
    Belief { calls: 1, empty: 0.005 },
    Belief { calls: 2, empty: 0.005 },
    Belief { calls: 3, empty: 0.005 },
    Belief { calls: 4, empty: 0.005 },
    Belief { calls: 0, empty: 0.05 },
    Belief { calls: 2, empty: 0.3 },
    Belief { calls: 0, empty: 0.3 },
];
const BETTER: f64 = 0.01;
/// Number of recent calls that tell how well calls are explained.
const RECENT: f64 = 100.0;
/// Calls that count as explained half before any came.
const UNKNOWN: f64 = 2.0;
/// A trained alignment that explains calls no better than this knows nothing of what they do by now.
const LOST: f64 = 0.12;
/// Most marks that are kept.
const MAX_MARKS: usize = 1_024;
/// Calls are decided when so many are due, or the first has been for so long, ns.
const BUNDLE: usize = 256;
const BUNDLE_NS: u64 = 300_000_000;
/// A call is decided later if its unit is less probable than this, but no later than so, ns.
const CLEAR: f64 = 0.9;
const HOLD_NS: u64 = 6_000_000_000;

/// The evidence of a link to a unit of this exchange: what confirms the kernel's claim leaves its evidence.
pub(super) fn evidence(call: &Span, exchange: Option<ExchangeRange>) -> Evidence {
    let is_claimed = call.cause.zip(exchange).is_some_and(|(cause, exchange)| exchange.contains(cause));
    call.cause_evidence.filter(|_| is_claimed).unwrap_or(Evidence::Inferred)
}

/// A unit of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    /// All units of a class make about the same calls.
    pub(super) class: u64,
    /// The work begins then, or later, Unix ns.
    pub(super) from_ns: u64,
    /// Exchange with which it came.
    pub(super) exchange: u64,
    /// Its place in a sequence of its own, for marks.
    pub(super) place: (u64, u64),
    /// Its maker's name for it.
    pub(super) name: u64,
}

/// A call that one of the units has made, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) class: u64,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Its place among the calls of one write.
    pub(super) order: u32,
    /// The exchange for which the kernel says that it was made.
    pub(super) exchange: Option<u64>,
    /// Its maker's name for it.
    pub(super) name: u64,
}

/// At that time all units of a place with a lower number had begun, and those from this number on had not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) at_ns: u64,
    pub(super) place: u64,
    pub(super) number: u64,
}

/// The unit of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Given {
    pub(super) call: u64,
    /// The unit's name; `None`: no unit has made it, or it is not known which.
    pub(super) unit: Option<u64>,
    pub(super) confidence: f64,
}

/// Units and calls that are aligned.
#[derive(Debug, Default)]
pub(super) struct Align {
    /// Units in their order, and those that have come but may have others before them.
    units: VecDeque<Unit>,
    coming: BTreeMap<(u64, u64), Unit>,
    /// Calls that are decided, as long as there is training; and those that are not.
    past: Vec<Call>,
    calls: BTreeMap<(u64, u32, u64), Call>,
    marks: VecDeque<Mark>,
    /// Where the alignment of `past` begins, or that of `calls` once there is no training.
    start: Start,
    counts: Counts,
    trained_with: usize,
    is_trained: bool,
    next: u64,
    /// Nothing is decided before that time.
    held_until_ns: u64,
    /// ln of the probabilities of recent calls before they were made, and their number.
    explained: f64,
    recent: f64,
}

impl Align {
    /// Adds a unit; units may come out of order, as long as none is older than what was decided.
    pub(super) fn add_unit(&mut self, unit: Unit) {
        self.next += 1;
        self.coming.insert((unit.from_ns, self.next), unit);
        if self.coming.len() > MAX_UNITS {
            self.coming.pop_first();
        }
    }

    pub(super) fn add_call(&mut self, call: Call) {
        self.next += 1;
        self.calls.insert((call.start_ns, call.order, self.next), call);
    }

    pub(super) fn add_mark(&mut self, mark: Mark) {
        if self.marks.len() >= MAX_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// Start of the first call that is not decided.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.calls.first_key_value().map(|((at_ns, ..), _)| *at_ns)
    }

    /// Whether there is something to decide.
    pub(super) fn is_due(&self, until_ns: u64) -> bool {
        let Some(first_ns) = self.first_ns().filter(|first_ns| *first_ns <= until_ns) else { return false };
        if until_ns < self.held_until_ns {
            return false;
        }
        let is_old = until_ns == u64::MAX || first_ns.saturating_add(BUNDLE_NS) <= until_ns;
        is_old || self.calls.range(..=(until_ns, u32::MAX, u64::MAX)).nth(BUNDLE).is_some()
    }

    /// The first unit that may still make calls.
    pub(super) fn first_unit(&self) -> Option<u64> {
        self.units.front().or(self.coming.first_key_value().map(|(_, unit)| unit)).map(|unit| unit.name)
    }

    /// The geometric mean of the probabilities of recent calls: near 1 where units make the same calls again and again,
    /// one after the other.
    pub(super) fn fit(&self) -> f64 {
        ((self.explained - UNKNOWN * std::f64::consts::LN_2) / (self.recent + UNKNOWN)).exp()
    }

    /// Decides the calls up to a time.
    pub(super) fn decide(&mut self, until_ns: u64) -> Vec<Given> {
        let due = self.calls.range(..=(until_ns, u32::MAX, u64::MAX)).count().min(MAX_CALLS);
        if due == 0 {
            return Vec::new();
        }
        self.take_units();
        let ahead = (2 * due).max(MAX_CALLS).saturating_sub(self.past.len());
        let mut calls = self.past.clone();
        calls.extend(self.calls.values().take(ahead.max(due)));
        let decided = self.past.len() + due;
        let bounds = self.bounds(&calls);
        if !self.is_trained && calls.len() >= self.trained_with + self.trained_with / 2 {
            self.trained_with = calls.len();
            self.counts = self.train(&calls, &bounds);
        }
        let mut table = Table::default();
        self.counts.table(&self.units, &calls, &mut table);
        for _ in 0..if self.is_trained { ADAPTED } else { 0 } {
            // What units do now may differ from what they did.
            let lattice = Lattice::new(&self.units, &calls, &bounds, &table, &self.start);
            let mut adapted = self.counts.clone();
            lattice.count(calls.len(), &table, &mut adapted);
            adapted.table(&self.units, &calls, &mut table);
        }
        let lattice = Lattice::new(&self.units, &calls, &bounds, &table, &self.start);
        let mut given: Vec<Given> = (self.past.len()..decided).map(|i| self.given(&lattice, &calls, i)).collect();
        // What is not clear yet may become clear: at the latest where a batch ends.
        let is_held = |(one, call): &(&Given, &Call)| {
            one.confidence < CLEAR && until_ns != u64::MAX && call.start_ns.saturating_add(HOLD_NS) > until_ns
        };
        if let Some(held) = given.iter().zip(calls.iter().skip(self.past.len())).position(|both| is_held(&both)) {
            given.truncate(held);
            self.held_until_ns = until_ns.saturating_add(BUNDLE_NS);
        }
        let due = given.len();
        let decided = self.past.len() + due;
        for i in self.past.len()..decided {
            let keep = 1.0 - 1.0 / RECENT;
            self.explained = self.explained * keep + lattice.likelihood(i);
            self.recent = self.recent * keep + 1.0;
        }
        if self.is_trained {
            lattice.count(decided, &table, &mut self.counts);
            self.counts.fade();
        }
        let start = lattice.start_after(decided);
        for _ in 0..due {
            self.past.extend(self.calls.pop_first().map(|(_, call)| call));
        }
        if self.is_trained && self.recent > RECENT / 2.0 && self.fit() < LOST {
            (self.counts, self.trained_with, self.is_trained) = (Counts::default(), 0, false);
            (self.explained, self.recent, self.start) = (0.0, 0.0, start);
            self.past.clear();
            self.forget();
        } else if self.is_trained || self.past.len() >= TRAINED {
            self.is_trained = true;
            self.counts.settle();
            self.past.clear();
            self.start = start;
            self.forget();
        }
        given
    }

    /// Units whose turn in the order is known.
    fn take_units(&mut self) {
        let last_ns = self.calls.last_key_value().map_or(0, |((at_ns, ..), _)| *at_ns);
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= last_ns) {
            self.units.push_back(entry.remove());
        }
        while self.units.len() > MAX_UNITS {
            self.units.pop_front();
            self.start.shift(1);
        }
    }

    /// Units that are over.
    fn forget(&mut self) {
        let over = self.start.first();
        self.units.drain(..over.min(self.units.len()));
        self.start.shift(over);
        let first_ns = self.first_ns().unwrap_or(u64::MAX);
        while self.marks.len() > 1 && self.marks.get(1).is_some_and(|mark| mark.at_ns < first_ns) {
            self.marks.pop_front();
        }
    }

    /// The first and last unit that may have made each call.
    fn bounds(&self, calls: &[Call]) -> Bounds {
        let mut bounds = Bounds::of(&self.units, calls);
        if self.marks.is_empty() {
            return bounds;
        }
        let mut places: FxHashMap<u64, Vec<(u64, usize)>> = FxHashMap::default();
        for (at, unit) in self.units.iter().enumerate() {
            places.entry(unit.place.0).or_default().push((unit.place.1, at));
        }
        for mark in &self.marks {
            let Some(all) = places.get(&mark.place) else { continue };
            let behind = all.partition_point(|(number, _)| *number < mark.number);
            let at = |i: Option<usize>| Some(all.get(i?)?.1);
            bounds.mark(calls, mark.at_ns, at(behind.checked_sub(1)), at(Some(behind)));
        }
        bounds
    }

    fn train(&self, calls: &[Call], bounds: &Bounds) -> Counts {
        let mut best: Option<(f64, Counts)> = None;
        let margin = BETTER * calls.len() as f64;
        for belief in BELIEFS {
            let mut counts = Counts::new(belief);
            let mut likelihood = f64::NEG_INFINITY;
            for _ in 0..ROUNDS {
                let mut table = Table::default();
                counts.table(&self.units, calls, &mut table);
                let lattice = Lattice::new(&self.units, calls, bounds, &table, &self.start);
                likelihood = (0..calls.len()).map(|i| lattice.likelihood(i)).sum();
                let mut next = counts.emptied();
                lattice.count(calls.len(), &table, &mut next);
                counts = next;
            }
            if best.as_ref().is_none_or(|(other, _)| likelihood > *other + margin) {
                best = Some((likelihood, counts));
            }
        }
        best.map(|(_, counts)| counts).unwrap_or_default()
    }

    fn given(&self, lattice: &Lattice<'_>, calls: &[Call], i: usize) -> Given {
        let call = calls.get(i).map_or(0, |call| call.name);
        match lattice.likeliest(i) {
            Some((unit, share)) => Given { call, unit: self.units.get(unit).map(|unit| unit.name), confidence: share },
            None => Given { call, unit: None, confidence: 0.0 },
        }
    }
}

#[cfg(test)]
mod tests;
