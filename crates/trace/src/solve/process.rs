//! One process: its timeline, its candidate beliefs with what was learnt, and its spans that wait.

mod crowds;
mod due;
mod facts;
mod learning;

use super::after::After;
use super::answerers::Answerers;
use super::batches::Batches;
use super::beam::{Beam, Decision};
use super::candidate::{candidates, Candidate};
use super::deliveries::Deliveries;
use super::lives::Lives;
use super::opinions::{is_opinion, Opinions, Weighed};
use super::records::Records;
use super::sharing::Sharing;
use super::signature::Signatures;
use super::threads::Threads;
use super::timeline::{Event, Hint, Maker, Opinion, Timeline};
use super::trial::{is_tried, Trial};
use super::wakes::{Wakes, WOKEN};
use super::within::Within;
use super::workers::Workers;
use super::{is_certain, Found, Named, SolverConfig, Verdict};
use learning::{Held, FIRST_RETRAINING};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::sync::Arc;
use wirespan_model::{Evidence, Span};

/// Events that are solved at a time; a process that is more than one such slice behind follows fewer hypotheses.
const SLICE: usize = 2_000;
/// The first training waits for so many events, up to so long.
const GATHERED_EVENTS: usize = 6_400;
const GATHER_NS: u64 = 6_000_000_000;
/// How long a span waits for requests to end, ns, beside one and a half times the longest request: spans whose cause
/// may still be found come a second late.
const LEAST_WAIT_NS: u64 = 1_500_000_000;

/// Most requests that are kept until a cause is uncertain.
const MAX_EARLIER: usize = 256;

/// Produces before the first answer that may be for requests: a producer sends what its first requests give it before
/// any of them is answered.
const EARLY_PRODUCES: u32 = 16;

/// Confidence that a call was made for the request that the kernel guesses, if no other one was open: 240 of 240 were,
/// of Fiber, PHP-FPM and Puma. Most of those calls came after their request's answer.
const ALONE: f64 = 0.95;

pub(super) struct Process {
    timeline: Timeline,
    /// Events that were taken from the timeline, and whose calls are being decided.
    held: Option<Held>,
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
    /// Calls whose claims are not believed because they are too many for their request.
    crowded: FxHashSet<u32>,
    sharing: Sharing,
    answerers: Answerers,
    after: After,
    within: Within,
    pub(super) wakes: Wakes,
    lives: Lives,
    workers: Workers,
    pub(super) deliveries: Deliveries,
    pub(super) records: Records,
    pub(super) batches: Batches,
    /// Produces before the first answer.
    early: u32,
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
            held: None,
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
            crowded: FxHashSet::default(),
            sharing: Sharing::default(),
            answerers: Answerers::default(),
            after: After::default(),
            within: Within::default(),
            wakes: Wakes::default(),
            lives: Lives::default(),
            workers: Workers::default(),
            deliveries: Deliveries::default(),
            records: Records::default(),
            batches: Batches::default(),
            early: 0,
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
        let signature = self.signatures.of_request(span);
        if self.in_doubt || self.trial.is_some() {
            self.follow(span, signature);
            self.trial.iter_mut().for_each(|trial| trial.add_answer(span, signature, self.longest_ns));
        } else {
            if self.earlier.len() >= MAX_EARLIER {
                self.earlier.pop_front();
            }
            self.earlier.push_back(span.clone());
        }
        self.sharing.add_answer(span);
        self.workers.add_request(span, signature);
        self.lives.add(span);
    }

    /// Whether a produce that may have been gathered may be for requests. A consumer of records serves nobody until it
    /// has answered.
    pub(super) fn may_serve(&mut self, produce: &Span) -> bool {
        if self.batches.serve() {
            return true;
        }
        self.early = self.early.saturating_add(1);
        self.early <= EARLY_PRODUCES && produce.cause_evidence.is_some() && !self.records.are_fetched()
    }

    /// Follows a request on the timeline.
    fn follow(&mut self, span: &Span, signature: u64) {
        self.answerers.add_answer(span);
        self.timeline.request(span, signature, &self.after);
        self.threads.iter_mut().for_each(|threads| threads.add_request(span));
    }

    /// Whether the cause of a call may be one of several requests that were read together.
    pub(super) fn shares_exchange(&self, span: &Span) -> bool {
        span.parent_span_id.is_none() && span.cause.is_some_and(|exchange| self.sharing.is_shared(exchange))
    }

    /// Removes the claim of a call whose actor works for all requests by now.
    pub(super) fn disowns(&mut self, span: &mut Arc<Span>) -> bool {
        let disowns = self.workers.made(span);
        if disowns {
            let own = Arc::make_mut(span);
            (own.cause, own.cause_evidence) = (None, None);
        }
        disowns
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
        let may_share = self.shares_exchange(span);
        let trial = self.trial.get_or_insert_default();
        let kind = self.signatures.of_call(span);
        trial.add_claim(span, kind, may_share);
        !trial.is_over(span) || trial.is_rare(kind)
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
                let signature = self.signatures.of_request(request);
                self.follow(request, signature);
            });
        }
        if let Some(threads) = &mut self.threads {
            threads.add_call(span);
        }
        let signature = self.signatures.of_call(span);
        let is_unclaimed = matches!(maker, Maker::Unknown(None));
        if let Some(trial) = self.trial.as_mut().filter(|_| is_unclaimed) {
            trial.add_unclaimed(signature);
        }
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

    /// Goes one step on with a slice of the due events.
    pub(super) fn solve(&mut self, config: &SolverConfig, out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        if self.records.is_due(self.goal_ns) {
            self.records.solve(self.goal_ns, config.min_confidence, out);
        }
        if self.batches.is_due(self.goal_ns) {
            self.batches.solve(self.goal_ns, config.min_confidence, out);
        }
        if self.is_solver_due() {
            self.solve_requests(config, out);
        }
    }

    fn solve_requests(&mut self, config: &SolverConfig, out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        if self.held.is_none() {
            self.take_slice(config, out);
        }
        for decision in self.decide() {
            self.judge_decision(config, decision, out);
        }
        if self.held.is_some() || self.has_events_due() {
            return;
        }
        self.longest_ns -= self.longest_ns / 64;
        if self.goal_ns == u64::MAX || self.timeline.is_empty() {
            // Calls that lie within no request.
            self.crowded.clear();
            for (_, span) in std::mem::take(&mut self.waiting) {
                let verdict = self.kept(&span);
                out(span, verdict);
            }
        }
    }

    /// Takes a slice of the due events. What facts say of its calls is told at once; the others are to be decided.
    fn take_slice(&mut self, config: &SolverConfig, out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        let slice = if self.is_training() { GATHERED_EVENTS } else { SLICE };
        let mut events = self.timeline.take(self.goal_ns, slice);
        if events.is_empty() {
            return;
        }
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
            self.hold(events, hypotheses);
        }
    }

    /// Weighs what the hypotheses say of a call against what else is known of it.
    fn judge_decision(&mut self, config: &SolverConfig, d: Decision, out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        let Some(span) = self.waiting.remove(&d.call) else { return };
        self.opinions.judge(&span, &d);
        let is_crowded = self.crowded.remove(&d.call);
        let verdict = match d.request {
            Some(request) if d.confirmed && (is_tried(&span) || !is_certain(&span)) => {
                let confidence = self.claim(&span).map_or(WOKEN, |claim| claim.confidence) as f32;
                Verdict::Found(Found { request, confidence, others: d.others })
            }
            _ if d.confirmed => self.kept(&span),
            _ if d.is_open(config) && !is_crowded && self.trial.as_ref().is_some_and(|trial| trial.believes(&span)) => {
                Verdict::Kept(self.claim(&span))
            }
            Some(request) => match self.opinions.weigh(&span, &request, d.confidence) {
                Weighed::Judged(confidence) => Verdict::Found(Found { request, confidence, others: d.others }),
                Weighed::Claimed(named) => Verdict::Named(named),
            },
            None => Verdict::Open,
        };
        out(span, verdict);
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
}
