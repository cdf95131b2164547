//! One process: its timeline, what was learnt of it, and the spans of it that wait.

use super::beam::{Beam, Decision};
use super::model::{Model, BELIEFS};
use super::timeline::{Event, Maker, Timeline};
use super::{Found, SolverConfig};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::Span;

/// A process of which less is learnt looks at its events several times.
const NOVICE: f64 = 2_000.0;
const NOVICE_ROUNDS: usize = 4;
/// How long one waits for requests to end, ns, beside half as much again as the longest request took: spans whose cause
/// may still be named come a second late.
const LEAST_WAIT_NS: u64 = 1_500_000_000;

pub(super) struct Process {
    timeline: Timeline,
    /// Ways in which it may work, until it is known which.
    minds: Vec<Mind>,
    waiting: FxHashMap<u32, Arc<Span>>,
    /// The longest request of late, ns.
    longest_ns: u64,
    /// There was something to solve.
    pub(super) in_doubt: bool,
    pub(super) last_ns: u64,
}

impl Default for Process {
    fn default() -> Self {
        let mind = |belief| Mind { beam: Beam::default(), model: Model::new(belief) };
        Process {
            timeline: Timeline::default(),
            minds: BELIEFS.into_iter().map(mind).collect(),
            waiting: FxHashMap::default(),
            longest_ns: 0,
            in_doubt: false,
            last_ns: 0,
        }
    }
}

impl Process {
    /// A request was served.
    pub(super) fn served(&mut self, span: &Span) {
        self.longest_ns = self.longest_ns.max(span.duration_ns());
        // Whoever made a call ends after it: what ended before the first doubt has nothing to do with it.
        if self.in_doubt {
            self.timeline.request(span);
        }
    }

    /// A call was made; one that is to be solved waits, and comes back if it is too late for that.
    pub(super) fn called(&mut self, span: &Span, waits: Option<Arc<Span>>) -> Option<Arc<Span>> {
        if waits.is_none() && !self.in_doubt {
            return None;
        }
        let maker = match (&waits, span.cause) {
            (Some(_), hint) => Maker::Unknown(hint),
            (None, Some(exchange)) => Maker::Known(exchange),
            (None, None) => Maker::Other,
        };
        let id = self.timeline.call(span, maker);
        match (id, waits) {
            (Some(id), Some(span)) => {
                self.in_doubt = true;
                self.waiting.insert(id, span);
                None
            }
            (_, waits) => waits,
        }
    }

    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How long after an event the requests around it will have ended.
    pub(super) fn patience_ns(&self, most_ns: u64) -> u64 {
        (LEAST_WAIT_NS + self.longest_ns + self.longest_ns / 2).min(most_ns)
    }

    /// Solves all up to a time.
    pub(super) fn solve(
        &mut self,
        until_ns: u64,
        config: &SolverConfig,
        out: &mut dyn FnMut(Arc<Span>, Option<Found>),
    ) {
        let events = self.timeline.take(until_ns);
        if !events.is_empty() {
            // Nothing was ever in doubt: there is nobody to learn for.
            if self.in_doubt {
                for d in self.decisions(&events, config.beam) {
                    let Some(span) = self.waiting.remove(&d.call) else { continue };
                    out(span, d.request.map(|(_, exchange)| Found { exchange, confidence: d.confidence }));
                }
            }
            self.longest_ns -= self.longest_ns / 64;
        }
        if until_ns == u64::MAX || self.timeline.is_empty() {
            // What no request encloses.
            for (_, span) in self.waiting.drain() {
                out(span, None);
            }
        }
    }

    /// Runs the events by each manner in question; what the likeliest says counts.
    fn decisions(&mut self, events: &[Event], width: usize) -> Vec<Decision> {
        let mut best: Option<(f64, Vec<Decision>)> = None;
        for mind in &mut self.minds {
            let decided = mind.run(events, width);
            if best.as_ref().is_none_or(|b| mind.beam.likelihood > b.0) {
                best = Some((mind.beam.likelihood, decided));
            }
        }
        if self.minds.len() > 1 && self.minds.iter().all(|m| m.model.learnt >= NOVICE) {
            self.minds.sort_by(|a, b| b.beam.likelihood.total_cmp(&a.beam.likelihood));
            self.minds.truncate(1);
        }
        best.map_or(Vec::new(), |b| b.1)
    }
}

/// One belief of how the process works: what was learnt by it, and where its events have led.
struct Mind {
    beam: Beam,
    model: Model,
}

impl Mind {
    fn run(&mut self, events: &[Event], width: usize) -> Vec<Decision> {
        let start = self.beam.clone();
        let rounds = if self.model.learnt < NOVICE { NOVICE_ROUNDS } else { 1 };
        let mut trial = None;
        let (mut decided, mut makers) = (Vec::new(), FxHashMap::default());
        for round in 0..rounds {
            let mut beam = start.clone();
            decided.clear();
            beam.run(events, trial.as_ref().unwrap_or(&self.model), width, &mut decided);
            makers.clear();
            beam.guesses(&mut makers);
            makers.extend(decided.iter().map(|d| (d.call, d.request.map_or(0, |(id, _)| id))));
            if round + 1 < rounds {
                let mut next = self.model.clone();
                start.teach(events, &makers, &mut next);
                trial = Some(next);
            } else {
                self.beam = beam;
            }
        }
        start.teach(events, &makers, &mut self.model);
        self.model.fade();
        decided
    }
}
