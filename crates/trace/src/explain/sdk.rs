//! Spans of SDKs: each gets the parts and the waits of its own time, within the request that its process served then.
//!
//! An SDK's span has no socket. Its request is found, in this order of trust,
//! - by the context that the request carried, which the SDK's server span names as its parent;
//! - by the thread's context: the process publishes in which span each thread is, and the kernel saw for which request
//!   the thread acted then;
//! - by a call: its message carried a span of the same SDK trace, and the kernel saw for which request it was sent;
//! - by process and time, if the process served one request only in all of the span's time.
//!
//! A span without a request (a job in the background) is explained by its thread, if `thread.id` is the kernel's id, or
//! the thread was seen in that span.
//! SDKs export a span before its request has ended, or seconds later: what cannot be explained yet waits here.

use super::breakdown::{covered_ns, pieces, points, Piece};
use super::marks::Point;
use super::reports::{Report, Reports};
use super::served::{clearest, Served};
use super::waits::Stretch;
use super::{Caller, Explainer, Parts, NAMES_NS};
use smallvec::SmallVec;
use std::sync::Arc;
use wirespan_model::attr::{WAIT_EVIDENCE, WAIT_REASON};
use wirespan_model::{Span, SpanKind, TraceId};

/// Most spans that wait; beyond it, spans go as they came.
const MOST_WAITING: usize = 20_000;
/// How long a span waits for the end of its request, if its process is traced, ns.
const LONGEST_NS: u64 = 12_000_000_000;
/// The same if it does not name its process: its parents may come with the next batch, usually after 5 s.
const UNNAMED_NS: u64 = 6_000_000_000;
/// The same if its process is not known to be traced.
const SHORT_NS: u64 = 1_500_000_000;
/// From then on its process or its thread alone may explain it, although its parent has not come.
const ALONE_NS: u64 = 2_000_000_000;
/// How far the clocks of a program and of the kernel may be apart, ns.
const SLACK_NS: u64 = 2_000_000;
/// Most processes that are remembered as traced.
const MOST_PROCESSES: usize = 50_000;

/// What is kept for spans of SDKs.
#[derive(Debug, Default)]
pub(super) struct Sdk {
    waiting: Vec<Held>,
    reports: Reports,
    looked_ns: u64,
    stats: SdkStats,
}

/// What became of the spans of SDKs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdkStats {
    /// Got parts.
    pub explained: u64,
    /// No request and no thread of a traced process was found.
    pub unexplained: u64,
    /// Wait at present.
    pub waiting: u64,
}

impl SdkStats {
    /// The counters by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("sdk_spans_explained", self.explained),
            ("sdk_spans_unexplained", self.unexplained),
            ("sdk_spans_waiting", self.waiting),
        ]
    }
}

/// A span that waits for its request.
#[derive(Debug)]
pub struct Held {
    span: Arc<Span>,
    came_ns: u64,
}

/// Where a span was; 0: not known.
#[derive(Clone, Copy, Debug)]
struct Place {
    pid: u32,
    tid: u32,
}

/// Why a span is believed to belong to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    Context,
    ThreadContext,
    Call,
    Process,
    Thread,
}

impl Evidence {
    fn as_str(self) -> &'static str {
        match self {
            Evidence::Context => "context",
            Evidence::ThreadContext => "thread-context",
            Evidence::Call => "call",
            Evidence::Process => "process",
            Evidence::Thread => "thread",
        }
    }
}

impl Explainer {
    /// Takes spans of SDKs. Returns those that go on at once, and those that are to be kept by [`Explainer::hold`].
    pub fn report(&mut self, batch: Vec<Arc<Span>>, now_ns: u64) -> (Vec<Arc<Span>>, Vec<Held>) {
        if !self.sees_clocks {
            return (batch, Vec::new());
        }
        if !batch.is_empty() {
            self.recent.ask();
        }
        batch.iter().for_each(|span| self.sdk.reports.add(span, now_ns));
        let (mut ready, mut held) = (Vec::with_capacity(batch.len()), Vec::new());
        for span in batch {
            let came = Held { span, came_ns: now_ns };
            let has_room = self.sdk.waiting.len() + held.len() < MOST_WAITING;
            match self.explained_report(&came, now_ns, !has_room) {
                Some(span) => ready.push(span),
                None => held.push(came),
            }
        }
        (ready, held)
    }

    /// Keeps spans of SDKs until they can be explained.
    pub fn hold(&mut self, held: Vec<Held>) {
        self.sdk.waiting.extend(held);
    }

    /// What became of the spans of SDKs so far.
    pub fn sdk_stats(&self) -> SdkStats {
        SdkStats { waiting: self.sdk.waiting.len() as u64, ..self.sdk.stats }
    }

    /// Lets those spans of SDKs go that can be explained by now, or have waited long enough.
    pub(super) fn release_reports(&mut self, now_ns: u64, all: bool, sink: &mut dyn FnMut(Arc<Span>)) {
        const LOOK_EVERY_NS: u64 = 20_000_000;
        if !all && now_ns < self.sdk.looked_ns.saturating_add(LOOK_EVERY_NS) {
            return;
        }
        self.sdk.looked_ns = now_ns;
        self.sdk.reports.forget(now_ns);
        for held in std::mem::take(&mut self.sdk.waiting) {
            match self.explained_report(&held, now_ns, all) {
                Some(span) => sink(span),
                None => self.sdk.waiting.push(held),
            }
        }
    }

    pub(super) fn add_process(&mut self, pid: u32) {
        if self.processes.len() >= MOST_PROCESSES {
            self.processes.clear();
        }
        self.processes.insert(pid);
    }

    pub(super) fn reports_lack_names(&self) -> bool {
        let lacks = |held: &Held| {
            let place = self.place_of(&held.span);
            let found = self.request_of(&held.span, place);
            found.is_some_and(|(request, evidence)| !self.within(&located(&held.span, place), request, evidence).1)
        };
        self.sdk.waiting.iter().any(lacks)
    }

    /// The span as it goes on; `None` if it shall wait.
    fn explained_report(&mut self, held: &Held, now_ns: u64, at_once: bool) -> Option<Arc<Span>> {
        let (span, place) = (&held.span, self.place_of(&held.span));
        // A process is known as traced once its first answer has been read.
        let patience_ns = match place.pid {
            pid if self.processes.contains(&pid) => LONGEST_NS,
            0 => UNNAMED_NS,
            _ => SHORT_NS,
        };
        let at_once = at_once || now_ns >= held.came_ns.saturating_add(patience_ns);
        let is_early = !at_once && now_ns < held.came_ns.saturating_add(ALONE_NS);
        let misses_parent = || self.sdk.reports.top(span).is_some_and(|top| top.parent.is_some());
        let found = match self.request_of(span, place) {
            Some((_, Evidence::Process)) if is_early && misses_parent() => None,
            // The next request of its connection may fit better, and is not known yet.
            Some((request, Evidence::Process)) if !at_once && !self.fits(span, request) => None,
            // That request may not have ended yet.
            Some((_, Evidence::Process)) if !at_once && self.acted_for(span).next().is_some() => None,
            found => found.map(|(request, evidence)| self.within(&located(span, place), request, evidence)),
        };
        let waits_for_names =
            |named: bool| !named && !at_once && now_ns < held.came_ns.max(span.end_ns).saturating_add(NAMES_NS);
        let explained = match found {
            Some((_, named)) if waits_for_names(named) => return None,
            Some((explained, _)) => Some(explained),
            None if is_early => return None,
            None => self.alone(span, place),
        };
        match explained {
            Some(explained) => {
                self.sdk.stats.explained += 1;
                Some(explained)
            }
            None if at_once => {
                self.sdk.stats.unexplained += 1;
                Some(located(span, place))
            }
            None => None,
        }
    }

    /// The process and the thread of a span: where it does not name them, those that were seen in it.
    fn place_of(&self, span: &Span) -> Place {
        let seen = span.trace_id.and_then(|trace| self.contexts.of(trace, span.id)).filter(|_| span.tid == 0);
        match seen.filter(|seen| span.pid == 0 || span.pid == seen.pid) {
            Some(seen) => Place { pid: seen.pid, tid: seen.tid },
            None => Place { pid: span.pid, tid: span.tid },
        }
    }

    /// The requests for which threads acted in this span, or in one of the same process and its part of the trace.
    fn acted_for(&self, span: &Span) -> impl Iterator<Item = Caller> + '_ {
        let top = span.trace_id.zip(self.sdk.reports.top(span));
        let of_top = move |(trace, top): (TraceId, Report)| {
            self.sdk.reports.below(trace, top.id).filter_map(move |id| self.contexts.of(trace, *id)?.caller)
        };
        top.into_iter().flat_map(of_top)
    }

    /// The request within which a span lies.
    fn request_of(&self, span: &Span, place: Place) -> Option<(&Served, Evidence)> {
        let time = (span.start_ns, span.end_ns);
        let overlap = |r: &Served| r.overlap_ns(time);
        let same_process = |request: &Served| span.pid != 0 && request.pid == span.pid;
        let trace = span.trace_id?;
        let top = self.sdk.reports.top(span)?;
        if let Some(parent) = top.parent {
            // Not every parent that is missing here is another process's: it may not have been exported yet.
            let is_served = matches!(top.kind, SpanKind::Server | SpanKind::Consumer);
            let theirs = self.recent.with_context(trace, parent).filter(|r| is_served || same_process(r));
            if let Some(request) = theirs.max_by_key(|r| overlap(r)) {
                return Some((request, Evidence::Context));
            }
        }
        let acted = self.acted_for(span).filter_map(|caller| self.recent.of_caller(&caller)).filter(|r| overlap(r) > 0);
        if let Some(request) = acted.max_by_key(|r| overlap(r)) {
            return Some((request, Evidence::ThreadContext));
        }
        let carriers = self.sdk.reports.below(trace, top.id).filter_map(|id| self.carriers.get(id));
        let called = carriers.filter_map(|caller| self.recent.of_caller(caller)).filter(|r| overlap(r) > 0);
        if let Some(request) = called.max_by_key(|r| overlap(r)) {
            return Some((request, Evidence::Call));
        }
        let slack_ns = SLACK_NS + span.duration_ns() / 20;
        let ended_after_ns = span.end_ns.saturating_sub(slack_ns);
        let around = self.recent.of_process(place.pid, ended_after_ns).filter(|r| r.holds(time, slack_ns));
        let mut around: SmallVec<[&Served; 4]> = around.filter(|_| place.pid != 0).collect();
        if around.len() > 1 && place.tid != 0 {
            around.retain(|request| self.acted(request, place.tid));
        }
        let one = match around[..] {
            [one] => Some(one),
            _ => clearest(&around, of_request(&top, time)),
        };
        one.map(|one| (one, Evidence::Process))
    }

    /// Whether a request was under way for most of the time of a span.
    fn fits(&self, span: &Span, request: &Served) -> bool {
        let time = (span.start_ns, span.end_ns);
        request.covers(self.sdk.reports.top(span).map_or(time, |top| of_request(&top, time)))
    }

    /// Whether a thread moved messages of a request.
    fn acted(&self, request: &Served, tid: u32) -> bool {
        let calls = self.calls_of(request);
        points(request, &calls, &self.marks).iter().any(|point| point.mark.tid == tid)
    }

    /// A span within a request, and whether the stacks of its waits have names by now.
    fn within(&self, span: &Arc<Span>, request: &Served, evidence: Evidence) -> (Arc<Span>, bool) {
        let calls = self.calls_of(request);
        let points = points(request, &calls, &self.marks);
        let time = (span.start_ns, span.end_ns);
        // A worker of the request that moved no message: what the request's threads did says nothing of it.
        let knows_thread = span.tid != 0 && self.threads.of_process(span.tid) == Some(request.pid);
        let other_thread = knows_thread && points.iter().all(|point| point.mark.tid != span.tid);
        let cover = |from_ns: u64, to_ns: u64| covered_ns(from_ns, to_ns, &calls);
        let turns = self.actors.of(request).filter(|_| !other_thread);
        let (parts, stretches): (Parts, Vec<Stretch>) = match turns {
            _ if other_thread => (self.threads.parts_alone(span.tid, time), vec![Stretch::all_of(span.tid, time)]),
            Some(turns) => (turns.parts(&self.threads, time, &calls), turns.stretches(time)),
            None => {
                let parts = self.parts_in(time, &pieces(request, &calls, &points), &cover);
                let stretches = self.threads.stretches(request, &points);
                (parts, stretches.into_iter().filter_map(|s| s.clipped(time)).collect())
            }
        };
        let mut explained = with_parts(span, &parts, evidence);
        if let Some(form) = request.form {
            let calls = self.system_calls.of(&stretches, form);
            Arc::make_mut(&mut explained).attrs.push(calls.attribute());
        }
        if request.reason.is_empty() {
            return (explained, true);
        }
        let parked = turns.map(|turns| turns.parked(time, &calls)).unwrap_or_default();
        let (waits, named) = self.threads.of(&stretches, &calls, parked, &self.others(request));
        let attrs = &mut Arc::make_mut(&mut explained).attrs;
        attrs.push((WAIT_REASON.into(), request.reason.as_str().into()));
        attrs.push(waits.attribute());
        (explained, named)
    }

    /// A span that has no request, by the messages of its thread before and after it.
    fn alone(&self, span: &Arc<Span>, place: Place) -> Option<Arc<Span>> {
        let marks = self.marks.around(place.pid, place.tid, span.start_ns, span.end_ns)?;
        let next = |at: usize| marks.get(at + 1).copied();
        let point = |(at, mark)| Point { before: None, mark, after: next(at) };
        let points: Vec<Point<'_>> = marks.iter().copied().enumerate().map(point).collect();
        let (first, last) = (marks.first()?, marks.last()?);
        let job = Served { pid: place.pid, start_ns: first.time_ns, end_ns: last.time_ns, ..Served::default() };
        let parts = self.parts_in((span.start_ns, span.end_ns), &pieces(&job, &[], &points), &|_, _| 0);
        Some(with_parts(&located(span, place), &parts, Evidence::Thread))
    }

    /// The parts of a time within these pieces. Of a piece that is cut, the waits of its thread tell where its parts
    /// lie. If they are not known, at least so much of each part lies within as has no room outside.
    fn parts_in(&self, time: (u64, u64), pieces: &[Piece], cover: &dyn Fn(u64, u64) -> u64) -> Parts {
        let mut parts = Parts::default();
        for piece in pieces {
            let inner = (piece.from_ns.max(time.0), piece.to_ns.min(time.1));
            let length = inner.1.saturating_sub(inner.0);
            let outside = (piece.to_ns - piece.from_ns.min(piece.to_ns)).saturating_sub(length);
            if length == 0 {
                continue;
            }
            let exact = || self.threads.parts_of(piece, inner, cover);
            parts += match outside {
                0 => piece.parts,
                _ => exact().unwrap_or_else(|| piece.parts.without(outside)),
            };
        }
        let told: u64 = parts.known();
        parts.unknown = (time.1 - time.0.min(time.1)).saturating_sub(told);
        parts
    }
}

/// The time that tells which of several requests a span belongs to: that of the server's span above it, which covers
/// nearly all of its request, else its own.
fn of_request(top: &Report, own: (u64, u64)) -> (u64, u64) {
    match top.kind {
        SpanKind::Server | SpanKind::Consumer => top.time,
        _ => own,
    }
}

/// The span with its process and its thread.
fn located(span: &Arc<Span>, Place { pid, tid }: Place) -> Arc<Span> {
    let mut located = Arc::clone(span);
    if (span.pid, span.tid) != (pid, tid) {
        let own = Arc::make_mut(&mut located);
        (own.pid, own.tid) = (pid, tid);
    }
    located
}

fn with_parts(span: &Arc<Span>, parts: &Parts, evidence: Evidence) -> Arc<Span> {
    let mut explained = Arc::clone(span);
    let attrs = &mut Arc::make_mut(&mut explained).attrs;
    // Nobody but wirespan says this of a span; a span that came back is told anew.
    attrs.retain(|(key, _)| !key.starts_with("wirespan.wait.") && !key.starts_with("wirespan.syscall"));
    attrs.extend(parts.attributes());
    attrs.push((WAIT_EVIDENCE.into(), evidence.as_str().into()));
    explained
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
