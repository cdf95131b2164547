//! Learns from which duration on the requests of an endpoint are slow.

use super::BEGIN_NS;
use std::collections::VecDeque;

/// A learnt threshold is not below this: shorter requests are not worth an explanation.
pub(super) const FLOOR_NS: u64 = 1_000_000;
/// Requests of an endpoint that are remembered; one in so many of them was slow, and fewest of which one learns.
pub(super) const RECENT: usize = 200;
const ONE_IN: usize = 20;
const FEWEST: usize = 20;
/// After so many requests the threshold is learnt anew.
const LEARN_EVERY: u32 = 10;

/// What is usual at one endpoint of one process.
pub(super) struct Endpoint {
    recent: VecDeque<u64>,
    since_learnt: u32,
    pub(super) threshold_ns: u64,
}

impl Endpoint {
    pub(super) fn new() -> Self {
        Endpoint { recent: VecDeque::new(), since_learnt: 0, threshold_ns: BEGIN_NS }
    }

    pub(super) fn learn(&mut self, duration_ns: u64) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(duration_ns);
        self.since_learnt += 1;
        if self.recent.len() < FEWEST || self.since_learnt < LEARN_EVERY {
            return;
        }
        self.since_learnt = 0;
        let mut all: Vec<u64> = self.recent.iter().copied().collect();
        let at = all.len() - 1 - all.len() / ONE_IN;
        self.threshold_ns = (*all.select_nth_unstable(at).1).max(FLOOR_NS);
    }
}
