//! When there is something to solve in a process.

use super::learning::Held;
use super::{Process, GATHERED_EVENTS, GATHER_NS, LEAST_WAIT_NS};

impl Process {
    /// Time after an event in which the requests around it end.
    pub(in crate::solve) fn patience_ns(&self, most_ns: u64) -> u64 {
        (LEAST_WAIT_NS + self.longest_ns + self.longest_ns / 2 + self.after.longest_ns()).min(most_ns)
    }

    /// Time of the first event that is not solved.
    fn first_ns(&self) -> Option<u64> {
        self.held.as_ref().and_then(Held::first_ns).or_else(|| self.timeline.first_ns())
    }

    /// Time of the first event that is not solved, if calls wait.
    pub(in crate::solve) fn undecided_ns(&self) -> Option<u64> {
        self.first_ns().filter(|_| self.waits())
    }

    /// Age of the first event that is not solved, ns.
    pub(in crate::solve) fn lag_ns(&self, now_ns: u64) -> u64 {
        self.first_ns().map_or(0, |first| now_ns.saturating_sub(first))
    }

    /// Everything up to a time shall be solved.
    pub(in crate::solve) fn aim(&mut self, until_ns: u64) {
        self.goal_ns = self.goal_ns.max(until_ns);
    }

    pub(super) fn has_events_due(&self) -> bool {
        self.timeline.first_ns().is_some_and(|first| first <= self.goal_ns)
    }

    /// Whether more events shall come first: what is learnt from a few explains them badly.
    fn gathers(&self) -> bool {
        if !(self.in_doubt && self.is_training()) || self.goal_ns == u64::MAX || self.lag_ns(self.goal_ns) >= GATHER_NS
        {
            return false;
        }
        self.history.len() + self.timeline.due(self.goal_ns) < GATHERED_EVENTS
    }

    /// Whether there is something to solve now.
    pub(in crate::solve) fn is_due(&self) -> bool {
        self.held.is_some() || (self.has_events_due() && !self.gathers()) || (self.waits() && self.timeline.is_empty())
    }
}
