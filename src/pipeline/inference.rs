//! Causes that only time and structure tell, inferred as far as there is time for it.
//!
//! Spans and the machine's own work go first: inference runs only while the queue is short, and in a bounded share of
//! the time. A span whose turn never comes goes on without a cause, and is counted.

use super::QUEUE;
use crate::clock::now_ns;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirespan_model::event::Wake;
use wirespan_model::Span;
use wirespan_trace::{Solver, SolverConfig};

/// Causes are inferred while no more batches than this wait.
const UP_TO_WAITING: usize = QUEUE / 32;
/// Causes are inferred in at most one part of so many of the time.
const SHARE: u32 = 2;

/// A solver, and when it may run.
pub(super) struct Inference {
    solver: Solver,
    /// `Some`: there may be work, and the solver may run from this time on.
    from: Option<Instant>,
}

impl Inference {
    pub(super) fn new(config: SolverConfig) -> Self {
        Inference { solver: Solver::new(config), from: None }
    }

    /// Takes spans; returns those that do not wait for a cause.
    pub(super) fn take(&mut self, batch: Vec<Arc<Span>>) -> Vec<Arc<Span>> {
        let mut ready = Vec::with_capacity(batch.len());
        for span in batch {
            self.solver.push(span, &mut |s| ready.push(s));
        }
        ready
    }

    /// Takes which threads were woken by which answers.
    pub(super) fn take_wakes(&mut self, host_id: u64, wakes: &[Wake]) {
        wakes.iter().for_each(|wake| self.solver.wake(host_id, wake));
    }

    /// Since when calls of this span's process wait for their cause.
    pub(super) fn undecided_ns(&self, span: &Span) -> Option<u64> {
        self.solver.undecided_ns(span)
    }

    /// Wall time passed: some of the spans that wait may be due.
    pub(super) fn tick(&mut self, now: Instant) {
        self.solver.aim(now_ns());
        self.from = self.from.or(Some(now));
    }

    /// Infers some of the causes that are due, if it is time for it; returns the spans that need not wait any longer.
    pub(super) fn run_due(&mut self, waiting: usize) -> Vec<Arc<Span>> {
        let mut solved = Vec::new();
        let began = Instant::now();
        if waiting <= UP_TO_WAITING && self.from.is_some_and(|from| from <= began) {
            let more = self.solver.work(&mut |s| solved.push(s));
            self.from = more.then(|| Instant::now() + began.elapsed() * (SHARE - 1));
        }
        solved
    }

    /// Time until [`Inference::run_due`] has work; `None`: not before the next tick.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.from.map(|from| from.saturating_duration_since(Instant::now()))
    }

    /// The end: decides every span that waits.
    pub(super) fn finish(&mut self) -> Vec<Arc<Span>> {
        let mut solved = Vec::new();
        self.solver.finish(&mut |s| solved.push(s));
        solved
    }

    /// How long spans wait at present, at the longest, ns.
    pub(super) fn delay_ns(&self) -> u64 {
        self.solver.delay_ns()
    }

    pub(super) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.solver.stats().counters()
    }
}
