//! One process: its timeline, its candidate beliefs with what was learnt, and its spans that wait.

mod due;
mod facts;

use super::after::After;
use super::answerers::Answerers;
use super::beam::{Beam, Decision, Effort};
use super::candidate::{candidates, recent, Candidate};
use super::deliveries::Deliveries;
use super::lives::Lives;
use super::model::Debts;
use super::opinions::{is_opinion, Opinions, Weighed};
use super::sharing::Sharing;
use super::signature::Signatures;
use super::threads::Threads;
use super::timeline::{Event, Hint, Maker, Opinion, Timeline};
use super::trial::{is_tried, Trial};
use super::wakes::Wakes;
use super::within::Within;
use super::{Found, Named, SolverConfig, Verdict};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use wirespan_model::{Evidence, Span};

/// Acts from which on a model is trained. Until then it goes over the same events several times.
const TRAINED_ACTS: f64 = 1_500.0;
/// Events after which a process is known well enough, whatever it does.
const MOST_HISTORY: usize = 12_800;
/// In training, this part of the hypotheses is followed.
const TRAINING_SHARE: usize = 4;
/// Most work for one call, and the same in training.
const WORK: usize = 4_096;
const TRAINING_WORK: usize = 1_024;
/// Events that are solved at a time; a process that is more than one such slice behind follows fewer hypotheses.
const SLICE: usize = 2_000;
/// Events from which on the likelihoods of beliefs can be compared: the two best go on.
const COMPARABLE_EVENTS: usize = 600;
/// All beliefs are compared by so many events at most, and training goes over so many.
const COMPARED_EVENTS: usize = 2_000;
const TRAINING_EVENTS: usize = 6_400;
/// Beliefs that are compared by all events: so many of the likeliest that are led, and so many of the others.
const MOST_LED_AND_OTHER: [usize; 2] = [2, 2];
/// The first training waits for so many events, up to so long.
const GATHERED_EVENTS: usize = 6_400;
const GATHER_NS: u64 = 6_000_000_000;
/// Events from the end of a training on after which a lost explanation is sought anew for the first time; each time
/// that it is lost again, twice as many as before.
const FIRST_RETRAINING: usize = 4_000;
/// How long a span waits for requests to end, ns, beside one and a half times the longest request: spans whose cause
/// may still be found come a second late.
const LEAST_WAIT_NS: u64 = 1_500_000_000;

/// Most requests that are kept until a cause is uncertain.
const MAX_EARLIER: usize = 256;

/// Confidence that a call was made for the request that the kernel guesses, if no other one was open: 240 of 240 were,
/// of Fiber, PHP-FPM and Puma. Most of those calls came after their request's answer.
const ALONE: f64 = 0.95;

pub(super) struct Process {
    timeline: Timeline,
    /// Beliefs about how it orders its work, until one is chosen.
    candidates: Vec<Candidate>,
    /// The first events, until the candidates are trained; and how many there were when they were trained last.
    history: Vec<Event>,
    trained_with: usize,
    /// Events since the last training ended, and the number from which on another may begin.
    since_training: usize,
    next_training: usize,
    waiting: FxHashMap<u32, Arc<Span>>,
    /// The last requests before any cause is uncertain. A call that only its other end can tell comes after the span
    /// of its request.
    earlier: VecDeque<Arc<Span>>,
    /// The longest recent request, ns.
    longest_ns: u64,
    /// Some call had an uncertain cause.
    pub(super) in_doubt: bool,
    /// Whether what is no more than an opinion of the kernel has been right of late.
    opinions: Opinions,
    /// Trial of the kernel's claims by hand-over, if there were any.
    trial: Option<Trial>,
    sharing: Sharing,
    answerers: Answerers,
    after: After,
    within: Within,
    pub(super) wakes: Wakes,
    lives: Lives,
    pub(super) deliveries: Deliveries,
    signatures: Signatures,
    /// Whether each thread may act for the requests that it reads; gone once that is decided.
    threads: Option<Threads>,
    pub(super) last_ns: u64,
    /// Time up to which its events shall be solved.
    goal_ns: u64,
}

impl Default for Process {
    fn default() -> Self {
        Process {
            timeline: Timeline::default(),
            candidates: candidates(&Beam::default()),
            history: Vec::new(),
            trained_with: 0,
            since_training: 0,
            next_training: FIRST_RETRAINING,
            waiting: FxHashMap::default(),
            earlier: VecDeque::new(),
            longest_ns: 0,
            in_doubt: false,
            opinions: Opinions::default(),
            trial: None,
            sharing: Sharing::default(),
            answerers: Answerers::default(),
            after: After::default(),
            within: Within::default(),
            wakes: Wakes::default(),
            lives: Lives::default(),
            deliveries: Deliveries::default(),
            signatures: Signatures::default(),
            threads: Some(Threads::default()),
            last_ns: 0,
            goal_ns: 0,
        }
    }
}

impl Process {
    /// Adds a request that was answered.
    pub(super) fn add_request(&mut self, span: &Arc<Span>) {
        self.longest_ns = self.longest_ns.max(span.duration_ns());
        if self.in_doubt || self.trial.is_some() {
            let signature = self.follow(span);
            self.trial.iter_mut().for_each(|trial| trial.add_answer(span, signature));
        } else {
            if self.earlier.len() >= MAX_EARLIER {
                self.earlier.pop_front();
            }
            self.earlier.push_back(span.clone());
        }
        self.sharing.add_answer(span);
        self.lives.add(span);
    }

    /// Follows a request on the timeline. Returns its signature.
    fn follow(&mut self, span: &Span) -> u64 {
        self.answerers.add_answer(span);
        let signature = self.signatures.of_request(span);
        self.timeline.request(span, signature, &self.after);
        self.threads.iter_mut().for_each(|threads| threads.add_request(span));
        signature
    }

    /// Whether the cause of a call may be one of several requests that were read together.
    pub(super) fn shares_exchange(&self, span: &Span) -> bool {
        span.parent_span_id.is_none() && span.cause.is_some_and(|exchange| self.sharing.is_shared(exchange))
    }

    /// Whether the kernel's claim is no more than an opinion that has to be judged first. Where a process has no loop,
    /// the one that opened a connection also uses it.
    pub(super) fn doubts(&mut self, span: &Span) -> bool {
        let is_loop = span.cause_evidence == Some(Evidence::EventLoop);
        is_opinion(span) && (is_loop || self.in_doubt) && !self.opinions.are_believed()
    }

    /// Whether a call without a cause may still belong to a request.
    pub(super) fn may_have_unseen_causes(&self) -> bool {
        self.in_doubt || self.trial.is_some()
    }

    /// Whether the call's cause is a claim that waits for the end of its trial.
    pub(super) fn awaits_trial(&mut self, span: &Span) -> bool {
        if !is_tried(span) {
            return false;
        }
        let trial = self.trial.get_or_insert_default();
        trial.add_claim(span);
        !trial.is_over()
    }

    /// Whether a wake-up may tell the cause of a call, and nothing better than a claim by hand-over is known of it.
    pub(super) fn awaits_wake(&self, span: &Span) -> bool {
        span.parent_span_id.is_none() && (span.cause.is_none() || is_tried(span)) && self.wakes.tell_of(span.socket)
    }

    /// Adds a call. A span that shall be solved waits here; it is given back if it came too late.
    pub(super) fn add_call(&mut self, span: &Span, waits: Option<Arc<Span>>) -> Option<Arc<Span>> {
        self.answerers.add_call(span);
        if waits.is_none() {
            self.wakes.add_answer(span, None);
            if !self.in_doubt {
                return None;
            }
        }
        let maker = match (&waits, span.cause) {
            (Some(span), Some(exchange)) if is_tried(span) => Maker::Claimed(exchange),
            (Some(span), Some(exchange)) if is_opinion(span) => {
                let is_opener = span.cause_evidence == Some(Evidence::Connect);
                let opinion = if is_opener { Opinion::Opener } else { Opinion::FirstOfTurn };
                Maker::Unknown(Some(Hint { exchange, opinion }))
            }
            (Some(span), Some(exchange)) if span.cause_evidence != Some(Evidence::Inferred) => Maker::OneOf(exchange),
            (Some(_), hint) => Maker::Unknown(hint.map(|exchange| Hint { exchange, opinion: Opinion::Guess })),
            (None, Some(exchange)) => Maker::Known(exchange),
            (None, None) => Maker::Other,
        };
        if !matches!(maker, Maker::Claimed(_)) {
            std::mem::take(&mut self.earlier).iter().for_each(|request| {
                self.follow(request);
            });
        }
        if let Some(threads) = &mut self.threads {
            threads.add_call(span);
        }
        let signature = self.signatures.of_call(span);
        let id = self.timeline.call(span, signature, maker);
        match (id, waits) {
            (Some(id), Some(span)) => {
                self.wakes.add_answer(&span, Some(id));
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

    /// Solves a slice of the due events.
    pub(super) fn solve(&mut self, config: &SolverConfig, out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        let slice = if self.is_training() { GATHERED_EVENTS } else { SLICE };
        let mut events = self.timeline.take(self.goal_ns, slice);
        if !events.is_empty() {
            self.within.learn(&events);
            self.name_by_facts(&mut events, out);
            self.judge(&mut events, out);
            if self.in_doubt || self.trial.is_some() {
                self.after.learn(&events, &self.within);
            }
            // A process without uncertain calls needs no model.
            if self.in_doubt {
                self.after.extend(&mut events).into_iter().for_each(|ended| self.timeline.add_end(ended));
                let hypotheses = config.beam.div_ceil(self.timeline.slices_left(&events, self.goal_ns).max(1));
                for d in self.decisions(&events, hypotheses) {
                    let Some(span) = self.waiting.remove(&d.call) else { continue };
                    self.opinions.judge(&span, &d);
                    let verdict = match d.request {
                        _ if d.confirmed => self.kept(&span),
                        _ if d.is_open(config) && Trial::believes(&self.trial, &span) => {
                            Verdict::Kept(self.claim(&span))
                        }
                        Some(request) => match self.opinions.weigh(&span, &request, d.confidence) {
                            Weighed::Judged(confidence) => {
                                Verdict::Found(Found { request, confidence, others: d.others })
                            }
                            Weighed::Claimed(named) => Verdict::Named(named),
                        },
                        None => Verdict::Open,
                    };
                    out(span, verdict);
                }
            }
        }
        if self.has_events_due() {
            return;
        }
        self.longest_ns -= self.longest_ns / 64;
        if self.goal_ns == u64::MAX || self.timeline.is_empty() {
            // Calls that lie within no request.
            for (_, span) in std::mem::take(&mut self.waiting) {
                let verdict = self.kept(&span);
                out(span, verdict);
            }
        }
    }

    /// What is known of the claim of a hand-over.
    pub(super) fn claim(&self, span: &Span) -> Option<Named> {
        self.trial.as_ref()?.claim(span)
    }

    /// A call that no other request can have made keeps what the kernel says, or guesses.
    fn kept(&self, span: &Span) -> Verdict {
        match (span.cause, span.cause_evidence) {
            (Some(exchange), Some(Evidence::Inferred)) if self.lives.was_read(exchange, span.start_ns) => {
                Verdict::Named(Named { exchange, evidence: Evidence::Inferred, confidence: ALONE, span: None })
            }
            (_, Some(evidence)) if evidence != Evidence::Inferred && !is_tried(span) => Verdict::Kept(None),
            _ => Verdict::Open,
        }
    }

    /// Runs the events under each candidate belief, and takes the decisions of the likeliest.
    fn decisions(&mut self, events: &[Event], hypotheses: usize) -> Vec<Decision> {
        let claims = self.trial.as_ref().map_or(0.5, Trial::share);
        if self.candidates.iter().any(|candidate| candidate.model.learnt > 0.0) {
            self.threads = None;
        } else if self.threads.as_ref().is_some_and(|threads| !threads.are_apart()) {
            self.threads = None;
            self.candidates.retain(|candidate| !candidate.model.belief.by_thread);
        }
        self.candidates.iter_mut().for_each(|candidate| candidate.model.claims = claims);
        self.since_training += events.len();
        let given_up = if self.is_lost() { self.begin_anew() } else { Vec::new() };
        let learns = !self.is_training();
        if !learns {
            self.train(events, hypotheses);
        }
        let mut best: Option<(f64, Vec<Decision>)> = None;
        for candidate in &mut self.candidates {
            let decided = candidate.run(events, learns, Effort { hypotheses, work: WORK });
            if best.as_ref().is_none_or(|b| candidate.likelihood > b.0) {
                best = Some((candidate.likelihood, decided));
            }
        }
        given_up.into_iter().chain(best.into_iter().flat_map(|b| b.1)).collect()
    }

    fn is_training(&self) -> bool {
        self.candidates.len() > 1 || self.candidates.iter().any(|c| c.model.learnt < TRAINED_ACTS)
    }

    /// Whether what was learnt does not explain what the process does. Training with the first requests of many users
    /// may end so: pools open their connections at that time, and a wrong explanation keeps itself alive.
    fn is_lost(&self) -> bool {
        let is_due = self.since_training >= self.next_training && !self.is_training();
        is_due && self.candidates.iter().all(|c| c.beam.is_lost())
    }

    /// Forgets what was learnt, but not the requests that are open. Calls that are not decided have no request.
    fn begin_anew(&mut self) -> Vec<Decision> {
        let Some(last) = self.candidates.first() else { return Vec::new() };
        let given_up = last.beam.give_up();
        let beam = last.beam.without_knowledge();
        self.history = beam.open().iter().map(|r| Event::Read(*r)).collect();
        self.candidates = candidates(&beam);
        self.threads = Some(Threads::default());
        (self.trained_with, self.since_training) = (0, 0);
        self.next_training *= 2;
        given_up
    }

    /// Trains the candidates with all events so far, whenever there are half as many again as the last time.
    fn train(&mut self, events: &[Event], hypotheses: usize) {
        self.history.extend_from_slice(events);
        if self.history.len() < self.trained_with + self.trained_with / 2 {
            return;
        }
        self.trained_with = self.history.len();
        let effort = Effort { hypotheses: hypotheses.div_ceil(TRAINING_SHARE), work: TRAINING_WORK };
        if self.candidates.len() > 2 && self.history.len() > COMPARED_EVENTS {
            // All beliefs are compared by the last events only, as training takes its time.
            self.train_with(COMPARED_EVENTS, effort);
            let mut kept = [0; 2];
            self.candidates.retain(|candidate| {
                let kind = usize::from(candidate.model.belief.led.is_none());
                kept[kind] += 1;
                kept[kind] <= MOST_LED_AND_OTHER[kind]
            });
        }
        self.train_with(TRAINING_EVENTS, effort);
        if self.history.len() >= COMPARABLE_EVENTS {
            self.candidates.truncate(2);
        }
        if self.candidates.iter().all(|c| c.model.learnt >= TRAINED_ACTS) || self.history.len() >= MOST_HISTORY {
            self.candidates.truncate(1);
            (self.history, self.since_training) = (Vec::new(), 0);
        }
    }

    /// Trains the candidates with the last events, and puts the likeliest first.
    fn train_with(&mut self, most: usize, effort: Effort) {
        let mut events = recent(&self.history, most);
        let _beyond = self.after.extend(&mut events);
        let is_led = self.candidates.iter().any(|candidate| candidate.model.belief.led.is_some());
        let debts = is_led.then(|| Arc::new(Debts::learn(&events)));
        self.candidates.iter_mut().for_each(|candidate| candidate.train(&events, debts.as_ref(), effort));
        self.candidates.sort_by(|a, b| b.likelihood.total_cmp(&a.likelihood));
    }
}
