//! The claims of one source, put on trial: those of woken threads, say, or those by the tasks of an executor.

use super::tally::{Calls, Kind, Outcome, Served};
use super::UNNOTICED;
use rustc_hash::{FxHashMap, FxHashSet};

/// Number of right claims in a row after which further claims are believed at once.
pub(super) const PROVEN: u32 = 200;
/// Number of right claims in a row after which earlier failures are forgiven: they were of a virtual machine that had
/// not compiled its methods yet.
pub(super) const FORGIVEN: u32 = 1_000;
/// The least share of right claims, and of wrong ones.
const LEAST_RIGHT: f64 = 0.02;
const LEAST_WRONG: f64 = 0.005;
/// The least share of wrong claims of a loop: in two records of WebFlux, 57 of 953 claims that nothing had refuted were
/// wrong.
const LEAST_WRONG_OF_LOOP: f64 = 0.05;
/// As many claims as this count as judged before any was.
pub(crate) const PRIOR: f64 = 20.0;
/// Most kinds of calls that are kept.
const MAX_KINDS: usize = 512;

/// What was seen of all claims of a process, whoever made them.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By kind of call and class of request: whether the service waits for such calls.
    kinds: FxHashMap<(u64, u64), Kind>,
    /// Kinds of calls that lie within requests, whichever requests.
    pub(super) enclosed: FxHashSet<u64>,
    pub(super) served: Served,
}

impl Known {
    pub(super) fn judge(&mut self, kind: (u64, u64), exchange: u64, outcome: Outcome) {
        if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(&kind) {
            self.kinds.entry(kind).or_default().judge(exchange, outcome);
        }
    }

    /// What is known of a kind; `own`: what one source has seen of it.
    fn of<'a>(&'a self, kind: &(u64, u64), own: &'a Kind) -> &'a Kind {
        self.kinds.get(kind).unwrap_or(own)
    }
}

/// How the claims of one source have done.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// By kind of call and class of request.
    kinds: FxHashMap<(u64, u64), Kind>,
    /// The same by kind of call: each call asks for their sum.
    calls: FxHashMap<u64, Calls>,
    /// Kinds of calls whose claims have failed.
    failing: FxHashSet<u64>,
    held: u32,
}

impl Source {
    pub(super) fn judge(&mut self, kind: (u64, u64), (exchange, outcome): (u64, Outcome), process: &Known) {
        let kind = if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(&kind) { kind } else { (0, 0) };
        let k = self.kinds.entry(kind).or_default();
        k.judge(exchange, outcome);
        if outcome == Outcome::Holds {
            self.held = self.held.saturating_add(1);
        } else if !process.of(&kind, k).answers_first() {
            self.held = 0;
        }
        if self.held == FORGIVEN {
            self.kinds.values_mut().for_each(|k| (k.failed, k.later) = (0, 0));
            self.failing.clear();
            let calls: Vec<u64> = self.calls.keys().copied().collect();
            calls.into_iter().for_each(|call| self.sum(call, process));
        }
        self.sum(kind.0, process);
        self.decide(kind.0, &process.enclosed);
    }

    /// Sums up what was seen of a kind of calls.
    fn sum(&mut self, call: u64, process: &Known) {
        let mut calls = Calls::default();
        let of_call = || self.kinds.iter().filter(|((of, _), _)| *of == call);
        of_call().for_each(|(id, k)| calls.add(k, process.of(id, k)));
        calls.are_of_one_class = process.served.are_of_one_class(of_call().map(|((_, class), k)| (*class, k.requests)));
        self.calls.insert(call, calls);
    }

    /// Whether the claims of a kind of calls fail.
    pub(super) fn decide(&mut self, call: u64, enclosed: &FxHashSet<u64>) {
        if self.calls.get(&call).is_some_and(|calls| calls.fail(enclosed.contains(&call))) {
            self.failing.insert(call);
        } else {
            self.failing.remove(&call);
        }
    }

    /// Whether claims are not believed.
    pub(super) fn has_failed(&self) -> bool {
        !self.failing.is_empty()
    }

    /// Whether claims are believed at once.
    pub(super) fn is_over(&self) -> bool {
        !self.has_failed() && self.held >= PROVEN
    }

    pub(super) fn are_of_one_class(&self, call: u64) -> bool {
        self.calls.get(&call).is_some_and(|calls| calls.are_of_one_class)
    }

    /// The claims that tell something: how many were judged, and how many of these failed.
    pub(super) fn counted(&self, enclosed: &FxHashSet<u64>) -> (u32, u32) {
        let counted = self.calls.iter().filter_map(|(kind, calls)| calls.counted(enclosed.contains(kind)));
        counted.fold((0, 0), |(judged, failed), c| (judged + c.judged, failed + c.failed))
    }

    /// The probability that a claim is right: what answers have shown of these claims, with `before` as if some claims
    /// had shown that.
    pub(super) fn confidence(&self, before: f64, is_loop: bool, enclosed: &FxHashSet<u64>) -> f64 {
        let known = f64::from(self.calls.values().map(|calls| calls.all.judged).sum::<u32>());
        let most = if is_loop { 1.0 - LEAST_WRONG_OF_LOOP } else { 1.0 };
        (before * PRIOR + share(self.counted(enclosed)).min(most) * known) / (PRIOR + known)
    }
}

/// About which share of claims is right.
pub(crate) fn share((judged, failed): (u32, u32)) -> f64 {
    (1.0 - UNNOTICED * f64::from(failed) / f64::from(judged.max(1))).clamp(LEAST_RIGHT, 1.0 - LEAST_WRONG)
}
