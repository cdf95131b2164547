//! Rung 7 of the causality ladder: the cause of a call by time and call structure, where no evidence is certain.
//!
//! An event loop reads from several sockets and then acts for one request after the other; a worker takes work from a
//! queue. The kernel then knows only that a call was made for *some* request, and the span has no cause. Such spans
//! wait until the requests that their process served meanwhile have ended. Then each call is given to one request, or
//! to none:
//!
//! - a call begins in the time of its request, and ends in it, unless such requests do not wait for such calls;
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
mod gathered;
mod leads;
mod lives;
mod model;
mod opinions;
mod order;
mod process;
mod records;
mod sharing;
mod signature;
#[cfg(test)]
mod testing;
mod threads;
mod timed;
mod timeline;
mod told;
mod trial;
mod turns;
mod verdict;
mod wakes;
mod within;
mod workers;

use crate::related::{causes_nothing, is_silent_connection};
use gathered::{may_be_gathered, Gathered};
use process::Process;
use rustc_hash::FxHashMap;
use std::sync::Arc;
pub(crate) use told::{confidence, request};
use verdict::{kept, Found, Named, Verdict};
use wirespan_model::broker::is_delivery;
use wirespan_model::event::Wake;
use wirespan_model::{Evidence, Span, TapSide};

/// Attribute of a span whose cause was inferred: the confidence, 0–1.
pub const CONFIDENCE: &str = "wirespan.cause.confidence";

/// Attribute of a call that has no parent because no request is likely enough: ids of the likeliest requests' spans,
/// each with its probability, the likeliest first: `0123456789abcdef:0.41 …`.
pub const CANDIDATES: &str = "wirespan.cause.candidates";

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
    gathered: Gathered,
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
            gathered: Gathered::default(),
            stats: SolverStats::default(),
        }
    }

    /// Since when calls of this span's process wait for their cause, if any do.
    pub fn undecided_ns(&self, span: &Span) -> Option<u64> {
        self.processes.get(&(span.host_id, span.pid)).and_then(Process::undecided_ns)
    }

    /// Takes a span; it goes to `sink` now, unless it waits for its cause.
    pub fn push(&mut self, mut span: Arc<Span>, sink: &mut dyn FnMut(Arc<Span>)) {
        let may_serve = self.config.enabled
            && span.pid != 0
            && may_be_gathered(&span)
            && self.processes.entry((span.host_id, span.pid)).or_default().may_serve(&span);
        let records = if may_serve { self.gathered.split(&mut span) } else { None };
        let Some(records) = records else { return self.take(span, sink) };
        let mut gathered = std::mem::take(&mut self.gathered);
        records.into_iter().for_each(|record| self.take(record, &mut |record| gathered.give(record, sink)));
        self.gathered = gathered;
    }

    fn take(&mut self, mut span: Arc<Span>, sink: &mut dyn FnMut(Arc<Span>)) {
        let serves = span.tap == TapSide::ServerProcess
            && span.exchange.is_some()
            && !is_delivery(&span)
            && !causes_nothing(&span)
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
        let Solver { config, processes, waiting, gathered, stats, .. } = self;
        let due = processes.values_mut().filter(|p| p.is_due());
        // The process that has waited longest goes first.
        let Some(process) = due.max_by_key(|p| p.lag_ns(u64::MAX)) else { return false };
        process.solve(config, &mut |span, found| {
            *waiting -= usize::from(found != Verdict::Made);
            gathered.give(found.written(span, config.min_confidence, stats), sink);
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

/// Whether nothing has to be inferred: the cause is known, or the message itself names its parent.
fn is_certain(span: &Span) -> bool {
    (span.cause.is_some() && span.cause_evidence != Some(Evidence::Inferred)) || span.parent_span_id.is_some()
}
