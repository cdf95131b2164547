//! Rung 7 of the causality ladder: the cause of a call by time and call structure, where no evidence is certain.
//!
//! An event loop reads from several sockets and then acts for one request after the other; a worker takes work from a
//! queue. The kernel then knows only that a call was made for *some* request, and the span has no cause. Such spans
//! wait until the requests that their process served meanwhile have ended. Then each call is given to one request, or
//! to none:
//!
//! - a call lies within the time of its request;
//! - the next act of a request, and its delay, are learnt per process ([`model`]): from calls whose cause is certain,
//!   from answers (each names its request), and from earlier solutions;
//! - so is the order of work ([`belief`]): of the requests that may act, the one that waits longest (a queue), the last
//!   one, or any;
//! - several hypotheses are followed together ([`beam`]). The confidence of a link comes from the share of hypotheses
//!   that agree on it once all possible requests have answered, and from how often the best hypothesis is right where
//!   that can be tested ([`calibration`]).
//!
//! A solved span has `Evidence::Inferred` and its confidence as the attribute [`CONFIDENCE`]. Work and memory are
//! bounded: beyond the bounds spans go on as they came, and are counted.

mod after;
mod align;
mod answerers;
mod batches;
mod beam;
mod belief;
mod calibration;
mod candidate;
mod chain;
mod delays;
mod deliveries;
mod leads;
mod lives;
mod model;
mod opinions;
mod order;
mod process;
mod records;
mod sharing;
mod signature;
mod tally;
mod threads;
mod timeline;
mod told;
mod trial;
mod turns;
mod wakes;
mod within;
mod workers;

use crate::related::{is_datagram_connection, is_silent_connection};
use beam::OTHERS;
use process::Process;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;
pub(crate) use told::{confidence, request};
use wirespan_model::attr::CAUSE_SPAN;
use wirespan_model::broker::is_delivery;
use wirespan_model::event::Wake;
use wirespan_model::{Evidence, Span, SpanId, TapSide, Value};

/// Attribute of a span whose cause was inferred: the confidence, 0–1.
pub const CONFIDENCE: &str = "wirespan.cause.confidence";

/// Attribute of a call that has no parent because no request is likely enough: ids of the likeliest requests' spans,
/// each with its probability, the likeliest first: `0123456789abcdef:0.41 …`.
pub const CANDIDATES: &str = "wirespan.cause.candidates";
/// Requests below this probability are no candidates.
const LEAST_CANDIDATE: f32 = 0.05;

/// Bounds of the inference.
#[derive(Clone, Debug, PartialEq)]
pub struct SolverConfig {
    /// Infer at all; else spans go on as they came.
    pub enabled: bool,
    /// Least confidence of a link; below it the span has no cause.
    pub min_confidence: f32,
    /// Most hypotheses about a process's calls that are followed together.
    pub beam: usize,
    /// Longest time for which a span waits until the requests that may have made it have ended, ns.
    pub max_wait_ns: u64,
    /// Most spans that wait.
    pub max_spans: usize,
}

impl Default for SolverConfig {
    fn default() -> Self {
        SolverConfig { enabled: true, min_confidence: 0.5, beam: 48, max_wait_ns: 10_000_000_000, max_spans: 50_000 }
    }
}

/// Counters; all only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SolverStats {
    /// Spans whose cause was inferred.
    pub inferred: u64,
    /// Spans for which no request was likely enough.
    pub open: u64,
    /// Spans that came too late, after the time they belong to was solved.
    pub late: u64,
    /// Spans that went on unsolved because too many waited.
    pub overflow: u64,
}

impl SolverStats {
    /// All counters with their names, for `/metrics` and `wirespan status`.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("inferred", self.inferred), ("open", self.open), ("late", self.late), ("overflow", self.overflow)]
    }
}

/// Most time that passes from one tick to the next, ns.
const LONGEST_STEP_NS: u64 = 250_000_000;

/// How long a process without spans is remembered, ns.
const FORGET_NS: u64 = 60_000_000_000;

/// Gives spans their cause. One thread; time comes with [`Solver::tick`].
pub struct Solver {
    config: SolverConfig,
    processes: FxHashMap<(u64, u32), Process>,
    /// Spans that wait.
    waiting: usize,
    now_ns: u64,
    /// The latest end of a span, and the time at which that span came: on a busy machine all spans come late.
    seen_ns: u64,
    came_ns: u64,
    stats: SolverStats,
}

impl Solver {
    /// Without any knowledge.
    pub fn new(config: SolverConfig) -> Self {
        Solver {
            config,
            processes: FxHashMap::default(),
            waiting: 0,
            now_ns: 0,
            seen_ns: 0,
            came_ns: 0,
            stats: SolverStats::default(),
        }
    }

    /// Since when calls of this span's process wait for their cause, if any do.
    pub fn undecided_ns(&self, span: &Span) -> Option<u64> {
        self.processes.get(&(span.host_id, span.pid)).and_then(Process::undecided_ns)
    }

    /// Takes a span; it goes to `sink` now, unless it waits for its cause.
    pub fn push(&mut self, mut span: Arc<Span>, sink: &mut dyn FnMut(Arc<Span>)) {
        let serves = span.tap == TapSide::ServerProcess
            && span.exchange.is_some()
            && !is_delivery(&span)
            && !is_datagram_connection(&span)
            && !is_silent_connection(&span);
        let calls = span.tap == TapSide::ClientProcess;
        if !self.config.enabled && span.cause.is_some() && span.cause_evidence == Some(Evidence::Inferred) {
            Arc::make_mut(&mut span).cause = None;
        }
        if !self.config.enabled || span.pid == 0 {
            return sink(span);
        }
        if is_delivery(&span) {
            let process = self.processes.entry((span.host_id, span.pid)).or_default();
            process.last_ns = process.last_ns.max(self.now_ns);
            process.deliveries.add(&span);
            return sink(span);
        }
        if !(serves || calls) {
            return sink(span);
        }
        if span.end_ns > self.seen_ns {
            (self.seen_ns, self.came_ns) = (span.end_ns, self.now_ns);
        }
        let process = self.processes.entry((span.host_id, span.pid)).or_default();
        process.last_ns = process.last_ns.max(self.now_ns);
        if calls {
            process.records.add(&span);
            if self.waiting < self.config.max_spans && process.aligns(&span) {
                self.waiting += 1;
                return;
            }
        }
        if let Some(settled) = calls.then(|| process.deliveries.settle(&mut span)).flatten() {
            settled.iter().for_each(|request| process.add_request(request));
            return sink(span);
        }
        if serves {
            process.batches.add_request(&span);
            process.add_request(&span);
            return sink(span);
        }
        // In a process without uncertain calls, a call without a cause is the process's own and does not wait. In a
        // process that hands work over, some hand-overs are not seen, so such a call may belong to a request.
        let is_disowned = process.disowns(&mut span);
        let certain = is_certain(&span)
            && !process.doubts(&span)
            && !process.awaits_trial(&span)
            && !process.awaits_wake(&span)
            && !process.shares_exchange(&span);
        let is_own = span.cause_evidence.is_none()
            && !is_disowned
            && !process.may_have_unseen_causes()
            && !process.awaits_wake(&span);
        if certain || is_own {
            process.add_call(&span, None);
            let claim = process.claim(&span);
            return sink(kept(span, claim));
        }
        if self.waiting >= self.config.max_spans {
            self.stats.overflow += 1;
            return sink(span);
        }
        match process.add_call(&span.clone(), Some(span)) {
            None => self.waiting += 1,
            Some(late) => {
                self.stats.late += 1;
                sink(late);
            }
        }
    }

    /// Takes which thread was woken by an answer, if possible before the spans.
    pub fn wake(&mut self, host_id: u64, wake: &Wake) {
        if self.config.enabled {
            let process = self.processes.entry((host_id, wake.pid)).or_default();
            process.last_ns = process.last_ns.max(self.now_ns.max(wake.time_ns));
            process.wakes.add(wake);
        }
    }

    /// Time has passed: solves everything that is old enough.
    pub fn tick(&mut self, now_ns: u64, sink: &mut dyn FnMut(Arc<Span>)) {
        self.aim(now_ns);
        while self.work(sink) {}
    }

    /// Time has passed: [`Solver::work`] shall solve everything that is old enough.
    pub fn aim(&mut self, now_ns: u64) {
        // While this thread stood still, spans waited for it: that time does not count.
        let halt = now_ns.saturating_sub(self.now_ns).saturating_sub(LONGEST_STEP_NS);
        self.now_ns = self.now_ns.max(now_ns);
        let now = self.now_ns;
        self.came_ns = (self.came_ns + halt).min(now);
        let time = self.seen_ns.saturating_add(now.saturating_sub(self.came_ns)).min(now);
        for process in self.processes.values_mut() {
            process.aim(time.saturating_sub(process.patience_ns(self.config.max_wait_ns)));
        }
        self.processes.retain(|_, p| p.waits() || now.saturating_sub(p.last_ns) < FORGET_NS);
    }

    /// Goes one step on with the due events: solves a slice of them, or learns a bit of a process that is new.
    /// Returns whether more is due.
    pub fn work(&mut self, sink: &mut dyn FnMut(Arc<Span>)) -> bool {
        let Solver { config, processes, waiting, stats, .. } = self;
        let due = processes.values_mut().filter(|p| p.is_due());
        // The process that has waited longest goes first.
        let Some(process) = due.max_by_key(|p| p.lag_ns(u64::MAX)) else { return false };
        process.solve(config, &mut |span, found| {
            *waiting -= usize::from(found != Verdict::Made);
            match found {
                Verdict::Made => sink(span),
                Verdict::Kept(claim) => sink(kept(span, claim)),
                Verdict::Named(named) => {
                    stats.inferred += 1;
                    sink(with_cause(span, named));
                }
                Verdict::Found(f) if f.confidence >= config.min_confidence => {
                    stats.inferred += 1;
                    sink(solved(span, f));
                }
                Verdict::Found(f) => {
                    stats.open += 1;
                    sink(with_candidates(unsolved(span), f));
                }
                Verdict::Open => {
                    stats.open += 1;
                    sink(unsolved(span));
                }
            }
        });
        true
    }

    /// The end of all spans: solves everything that waits.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Arc<Span>)) {
        self.processes.values_mut().for_each(|p| p.aim(u64::MAX));
        while self.work(sink) {}
    }

    /// The longest time for which a span waits at present, ns.
    pub fn delay_ns(&self) -> u64 {
        let waiting = self.processes.values().filter(|p| p.waits());
        waiting.map(|p| p.patience_ns(self.config.max_wait_ns).max(p.lag_ns(self.now_ns))).max().unwrap_or(0)
    }

    /// Counters.
    pub fn stats(&self) -> SolverStats {
        self.stats
    }
}

/// The request that probably made a call.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    request: timeline::Request,
    confidence: f32,
    others: [Option<(SpanId, f32)>; OTHERS],
}

/// The exchange of the request that made a call, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Named {
    exchange: u64,
    evidence: Evidence,
    confidence: f64,
    /// The span of the request, where others may have the same exchange.
    span: Option<SpanId>,
}

/// The outcome for a span that waited.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// The cause that the kernel claims is kept; of a hand-over it is known how often such claims are right.
    Kept(Option<Named>),
    Found(Found),
    /// A fact names the request.
    Named(Named),
    /// No request is likely enough.
    Open,
    /// The span did not wait: it is new.
    Made,
}

/// Whether nothing has to be inferred: the cause is known, or the message itself names its parent.
fn is_certain(span: &Span) -> bool {
    (span.cause.is_some() && span.cause_evidence != Some(Evidence::Inferred)) || span.parent_span_id.is_some()
}

fn solved(mut span: Arc<Span>, found: Found) -> Arc<Span> {
    let own = Arc::make_mut(&mut span);
    // What confirms the kernel's opinion leaves its evidence.
    if !(opinions::is_opinion(own) && own.cause.is_some_and(|claimed| found.request.owns(claimed))) {
        (own.cause, own.cause_evidence) = (Some(found.request.exchange.first), Some(Evidence::Inferred));
    }
    own.attrs.push((Cow::Borrowed(CONFIDENCE), Value::Float(f64::from(found.confidence))));
    if found.request.is_shared {
        own.attrs.push((Cow::Borrowed(CAUSE_SPAN), Value::Str(found.request.span.to_string().into())));
    }
    span
}

fn kept(span: Arc<Span>, claim: Option<Named>) -> Arc<Span> {
    match claim {
        Some(claim) => with_cause(span, claim),
        None => span,
    }
}

/// What confirms the kernel's claim leaves its evidence.
fn with_cause(mut span: Arc<Span>, named: Named) -> Arc<Span> {
    let own = Arc::make_mut(&mut span);
    if own.cause != Some(named.exchange) {
        (own.cause, own.cause_evidence) = (Some(named.exchange), Some(named.evidence));
    }
    own.attrs.push((Cow::Borrowed(CONFIDENCE), Value::Float(named.confidence)));
    if let Some(request) = named.span {
        own.attrs.push((Cow::Borrowed(CAUSE_SPAN), Value::Str(request.to_string().into())));
    }
    span
}

/// Removes a guess that is not likely enough, or a claim of a failed trial; an unknown cause has no evidence.
fn unsolved(mut span: Arc<Span>) -> Arc<Span> {
    if span.cause_evidence == Some(Evidence::Inferred) || trial::is_tried(&span) || opinions::is_opinion(&span) {
        let own = Arc::make_mut(&mut span);
        (own.cause, own.cause_evidence) = (None, None);
    }
    span
}

/// Says which requests may have made a call that has no parent.
fn with_candidates(mut span: Arc<Span>, found: Found) -> Arc<Span> {
    let all = std::iter::once((found.request.span, found.confidence)).chain(found.others.into_iter().flatten());
    let mut likely: Vec<_> = all.filter(|(_, confidence)| *confidence >= LEAST_CANDIDATE).collect();
    likely.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<_> = likely.iter().map(|(request, confidence)| format!("{request}:{confidence:.2}")).collect();
    if !words.is_empty() {
        Arc::make_mut(&mut span).attrs.push((Cow::Borrowed(CANDIDATES), Value::Str(words.join(" ").into())));
    }
    span
}
