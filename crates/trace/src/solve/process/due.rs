//! When there is something to solve in a process, and what waits for an alignment.

use super::learning::Held;
use super::{Process, GATHERED_EVENTS, GATHER_NS, LEAST_WAIT_NS};
use std::sync::Arc;
use wirespan_model::Span;

impl Process {
    /// Takes a call that waits for an alignment: one that may have been made for a record of Kafka, or a message that
    /// a loop publishes.
    pub(in crate::solve) fn aligns(&mut self, span: &Arc<Span>) -> bool {
        if self.records.may_have_made(span, self.batches.serve()) {
            self.records.add_call(span.clone());
        } else if self.batches.takes(span) {
            self.batches.add_call(span.clone());
        } else {
            return false;
        }
        true
    }

    pub(in crate::solve) fn waits(&self) -> bool {
        !self.waiting.is_empty() || self.records.waits() || self.batches.waits()
    }

    /// Start of the first call that waits for an alignment.
    fn first_aligned_ns(&self) -> Option<u64> {
        self.records.first_ns().into_iter().chain(self.batches.first_ns()).min()
    }

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
        let call = self.first_ns().filter(|_| !self.waiting.is_empty());
        call.into_iter().chain(self.first_aligned_ns()).min()
    }

    /// Age of the first event that is not solved, ns.
    pub(in crate::solve) fn lag_ns(&self, now_ns: u64) -> u64 {
        let first = self.first_ns().into_iter().chain(self.first_aligned_ns()).min();
        first.map_or(0, |first| now_ns.saturating_sub(first))
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
        let lag_ns = self.first_ns().map_or(0, |first| self.goal_ns.saturating_sub(first));
        if !(self.in_doubt && self.is_training()) || self.goal_ns == u64::MAX || lag_ns >= GATHER_NS {
            return false;
        }
        self.history.len() + self.timeline.due(self.goal_ns) < GATHERED_EVENTS
    }

    /// Whether there is something to solve now.
    pub(in crate::solve) fn is_due(&self) -> bool {
        self.is_solver_due() || self.records.is_due(self.goal_ns) || self.batches.is_due(self.goal_ns)
    }

    /// Whether calls may be given to requests now.
    pub(super) fn is_solver_due(&self) -> bool {
        self.held.is_some()
            || (self.has_events_due() && !self.gathers())
            || (!self.waiting.is_empty() && self.timeline.is_empty())
    }
}
