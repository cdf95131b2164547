//! One process: its timeline, what was learnt of it, and the spans of it that wait.

use super::beam::{Beam, Decision, Effort};
use super::model::{Model, BELIEFS};
use super::sharing::Sharing;
use super::threads::Threads;
use super::timeline::{Event, Hint, Maker, Timeline};
use super::trial::{is_tried, Trial};
use super::{Found, SolverConfig, Verdict};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::{Evidence, Span};

/// A process of which less is learnt looks at its events several times, but not at more than so many.
const NOVICE: f64 = 2_000.0;
const NOVICE_EVENTS: usize = 1_600;
/// Ways that are followed then, of those that are followed at last.
const NOVICE_WAYS: usize = 4;
/// Work of one call at most, and of a novice's.
const WORK: usize = 4_096;
const NOVICE_WORK: usize = 1_024;
/// Events that are solved at a time; who is more than one such slice behind follows fewer ways.
const SLICE: usize = 2_000;
/// Events from which on it shows which two beliefs are the likeliest.
const TELLING: usize = 600;
/// In each round, and at last, the weight of what requests do on whatever way (`Model::step_weight`). At first it is
/// all that counts, or what is learnt of the ways of requests is but what was wrongly supposed of them.
const ROUNDS: [f64; 5] = [1e9, 1e9, 1e9, 20.0, 5.0];
const LAST_WEIGHT: f64 = 2.0;
/// From this round on guesses of the kernel count: how often they are right is learnt without them.
const HEEDING: usize = 3;
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
    /// What the kernel claims by hand-over, if it does.
    trial: Option<Trial>,
    sharing: Sharing,
    /// Until it is decided whether each of them may act for what it reads.
    threads: Option<Threads>,
    pub(super) last_ns: u64,
    /// Up to when it is to be solved.
    goal_ns: u64,
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
            trial: None,
            sharing: Sharing::default(),
            threads: Some(Threads::default()),
            last_ns: 0,
            goal_ns: 0,
        }
    }
}

impl Process {
    /// A request was served.
    pub(super) fn served(&mut self, span: &Span) {
        self.longest_ns = self.longest_ns.max(span.duration_ns());
        // Whoever made a call ends after it: what ended before the first doubt has nothing to do with it.
        if self.in_doubt || self.trial.is_some() {
            self.timeline.request(span);
            if let Some(threads) = &mut self.threads {
                threads.read(span);
            }
        }
        if let Some(trial) = &mut self.trial {
            trial.served(span);
        }
        self.sharing.served(span);
    }

    /// Whether the cause of a call may be one of several requests that were read together.
    pub(super) fn shares(&self, span: &Span) -> bool {
        span.parent_span_id.is_none() && span.cause.is_some_and(|exchange| self.sharing.concerns(exchange))
    }

    /// Whether a call without a cause may be somebody's.
    pub(super) fn doubts(&self) -> bool {
        self.in_doubt || self.trial.is_some()
    }

    /// Whether a claim of the kernel has to wait until it is known how many of them hold.
    pub(super) fn tries(&mut self, span: &Span) -> bool {
        if !is_tried(span) {
            return false;
        }
        let trial = self.trial.get_or_insert_default();
        trial.claimed(span);
        !trial.is_over()
    }

    /// A call was made; one that is to be solved waits, and comes back if it is too late for that.
    pub(super) fn called(&mut self, span: &Span, waits: Option<Arc<Span>>) -> Option<Arc<Span>> {
        if waits.is_none() && !self.in_doubt {
            return None;
        }
        let maker = match (&waits, span.cause) {
            (Some(span), Some(exchange)) if is_tried(span) => Maker::Claimed(exchange),
            (Some(span), Some(exchange)) if span.cause_evidence != Some(Evidence::Inferred) => Maker::OneOf(exchange),
            (Some(_), hint) => Maker::Unknown(hint.map(|exchange| Hint { exchange, claimed: false })),
            (None, Some(exchange)) => Maker::Known(exchange),
            (None, None) => Maker::Other,
        };
        if let Some(threads) = &mut self.threads {
            threads.called(span);
        }
        let id = self.timeline.call(span, maker);
        match (id, waits) {
            (Some(id), Some(span)) => {
                self.in_doubt |= !matches!(maker, Maker::Claimed(_));
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

    /// How long ago the first of what is not solved was, ns.
    pub(super) fn lag_ns(&self, now_ns: u64) -> u64 {
        self.timeline.first_ns().map_or(0, |first| now_ns.saturating_sub(first))
    }

    /// All up to a time is to be solved.
    pub(super) fn aim(&mut self, until_ns: u64) {
        self.goal_ns = self.goal_ns.max(until_ns);
    }

    fn has_events_due(&self) -> bool {
        self.timeline.first_ns().is_some_and(|first| first <= self.goal_ns)
    }

    /// Whether there is something to solve now.
    pub(super) fn is_due(&self) -> bool {
        self.has_events_due() || (self.waits() && self.timeline.is_empty())
    }

    /// Solves some of what is due.
    pub(super) fn solve(&mut self, config: &SolverConfig, out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        let mut events = self.timeline.take(self.goal_ns, SLICE);
        if !events.is_empty() {
            self.judge(&mut events, out);
            // Nothing was ever in doubt: there is nobody to learn for.
            if self.in_doubt {
                let ways = config.beam.div_ceil(self.slices_behind(&events).max(1));
                for d in self.decisions(&events, ways) {
                    let Some(span) = self.waiting.remove(&d.call) else { continue };
                    out(
                        span,
                        match d.request {
                            _ if d.stands => Verdict::Stands,
                            Some(request) => Verdict::Found(Found { request, confidence: d.confidence }),
                            None => Verdict::Open,
                        },
                    );
                }
            }
        }
        if self.has_events_due() {
            return;
        }
        self.longest_ns -= self.longest_ns / 64;
        if self.goal_ns == u64::MAX || self.timeline.is_empty() {
            // What no request encloses.
            for (_, span) in self.waiting.drain() {
                out(span, Verdict::Open);
            }
        }
    }

    /// How many slices like this one are due besides, about.
    fn slices_behind(&self, slice: &[Event]) -> usize {
        let (Some(first), Some(last)) = (slice.first(), slice.last()) else { return 0 };
        let (first, last) = (first.at_ns(), last.at_ns());
        match self.goal_ns {
            u64::MAX => self.timeline.len() / SLICE,
            goal => (goal.saturating_sub(last) / (last - first).max(1)) as usize,
        }
    }

    /// Claims on trial are believed, or are guesses from now on.
    fn judge(&mut self, events: &mut [Event], out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        let failed = self.trial.as_ref().is_some_and(Trial::has_failed);
        for event in events {
            let (Event::Sent(call) | Event::Replied(call)) = event else { continue };
            let Maker::Claimed(exchange) = call.maker else { continue };
            if failed {
                self.in_doubt = true;
                call.maker = Maker::Unknown(Some(Hint { exchange, claimed: true }));
            } else {
                call.maker = Maker::Known(exchange);
                if let Some(span) = self.waiting.remove(&call.id) {
                    out(span, Verdict::Stands);
                }
            }
        }
    }

    /// Runs the events by each manner in question; what the likeliest says counts.
    fn decisions(&mut self, events: &[Event], ways: usize) -> Vec<Decision> {
        let claims = self.trial.as_ref().map_or(0.5, Trial::share);
        if self.minds.iter().any(|mind| mind.model.learnt > 0.0) {
            self.threads = None;
        } else if self.threads.as_ref().is_some_and(|threads| !threads.are_apart()) {
            self.threads = None;
            self.minds.retain(|mind| !mind.model.belief.by_thread);
        }
        self.minds.iter_mut().for_each(|mind| mind.model.claims = claims);
        let mut best: Option<(f64, Vec<Decision>)> = None;
        let mut trained: Vec<(f64, Mind, Option<Model>)> = Vec::new();
        for mind in std::mem::take(&mut self.minds) {
            let (likelihood, trial) =
                mind.train(events, Effort { ways: ways.div_ceil(NOVICE_WAYS), work: NOVICE_WORK });
            trained.push((likelihood, mind, trial));
        }
        if trained.len() > 2 && events.len() >= TELLING {
            trained.sort_by(|a, b| b.0.total_cmp(&a.0));
            trained.truncate(2);
        }
        for (_, mut mind, trial) in trained {
            let decided = mind.run(events, trial, Effort { ways, work: WORK });
            if best.as_ref().is_none_or(|b| mind.beam.likelihood > b.0) {
                best = Some((mind.beam.likelihood, decided));
            }
            self.minds.push(mind);
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
    /// Who made which call, as the beam has it.
    fn makers(beam: &Beam, decided: &[Decision]) -> FxHashMap<u32, u32> {
        let mut makers = FxHashMap::default();
        beam.guesses(&mut makers);
        let made = |d: &Decision| (d.call, d.request.map_or(0, |r| r.id));
        makers.extend(decided.iter().filter(|d| !d.stands).map(made));
        makers
    }

    /// What a novice learns by looking at the events several times, if it is one; and how likely they are by that.
    fn train(&self, events: &[Event], effort: Effort) -> (f64, Option<Model>) {
        let seen = &events[..events.len().min(NOVICE_EVENTS)];
        let (mut likelihood, mut trial) = (self.beam.likelihood, None);
        if self.model.learnt >= NOVICE {
            return (likelihood, trial);
        }
        for (round, weight) in ROUNDS.into_iter().enumerate() {
            let mut model = trial.unwrap_or_else(|| self.model.clone());
            (model.step_weight, model.heeds) = (weight, round >= HEEDING);
            let (mut beam, mut decided) = (self.beam.clone(), Vec::new());
            beam.run(seen, &model, effort, &mut decided);
            likelihood = beam.likelihood;
            let mut next = self.model.clone();
            self.beam.teach(seen, &Self::makers(&beam, &decided), &mut next);
            trial = Some(next);
        }
        (likelihood, trial)
    }

    fn run(&mut self, events: &[Event], trial: Option<Model>, effort: Effort) -> Vec<Decision> {
        let mut model = trial.unwrap_or_else(|| self.model.clone());
        (model.step_weight, model.heeds) = (LAST_WEIGHT, true);
        let (mut beam, mut decided) = (self.beam.clone(), Vec::new());
        beam.run(events, &model, effort, &mut decided);
        self.beam.teach(events, &Self::makers(&beam, &decided), &mut self.model);
        self.model.fade();
        self.beam = beam;
        decided
    }
}
