//! Why a span took its time: each request of a process gets the [`Parts`] of its duration.
//!
//! A request is explained once its calls are known, which is when no call of its process waits for its cause any
//! longer. Until then it waits here. A slow request is also given its waits, if the kernel was asked for them. Spans of
//! SDKs get the same of their own time, from the request within which they lie.

mod acting;
mod breakdown;
mod calls;
mod comparison;
mod contexts;
mod flame;
mod marks;
mod parts;
mod ranked;
mod reports;
mod runtime;
mod sdk;
mod sentences;
mod served;
mod story;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod timeline;
mod turns;
mod usual;
mod waits;
mod words;

pub use comparison::{Comparison, Group, Sides};
pub use flame::{folded, Flame, FlameBox, FlameKind, Side};
pub use parts::Parts;
pub use ranked::{RankedWait, Ranking, Spent};
pub use sdk::{Held, SdkStats};
pub use story::{Step, Story};
pub use timeline::{Moment, MomentKind};
pub use usual::{Usual, UsualWaits};
pub use words::Waited;

use acting::{Answered, Others};
use breakdown::{pieces, points, Call};
use calls::Calls;
use contexts::Contexts;
use marks::Marks;
use rustc_hash::{FxHashMap, FxHashSet};
use sdk::Sdk;
use served::{Recent, Served};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use turns::Actors;
use waits::Threads;
use wirespan_model::attr::{WAIT_REASON, WAKEUPS, WAKEUP_LATENCY};
use wirespan_model::event::ClockMark;
use wirespan_model::syscalls::{CallForm, ThreadCall};
use wirespan_model::wait::ThreadWaits;
use wirespan_model::{Span, SpanId, TapSide, Value};

/// Time after the end of a request in which the spans of its calls come.
const PATIENCE_NS: u64 = 20_000_000;
/// The same of a request whose system calls are recorded: the last of them comes with the next batch.
const CALLS_PATIENCE_NS: u64 = 400_000_000;
/// Longest time that a request waits for its calls.
const LONGEST_NS: u64 = 12_000_000_000;
/// Longest time after its end that a request waits for the names of its stacks.
const NAMES_NS: u64 = 3_000_000_000;
const NAMES_AT_THE_END: Duration = Duration::from_secs(3);
/// Most requests that wait; beyond it the oldest goes first.
const MOST_WAITING: usize = 20_000;
/// Most requests whose calls are kept, and how long those are kept whose request does not come.
const MOST_CALLERS: usize = 50_000;
const KEEP_CALLS_NS: u64 = 60_000_000_000;
/// Most calls of one request.
const MOST_CALLS: usize = 1_000;

/// What names the request of a call: an exchange of this process, or a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Caller {
    Exchange(u64, u32, u64),
    Span(SpanId),
}

impl Caller {
    /// The request for which a call was made, as far as the call says.
    fn of(call: &Span) -> Option<Self> {
        let exchange = |cause| Caller::Exchange(call.host_id, call.pid, cause);
        crate::solve::request(call).map(Caller::Span).or(call.cause.map(exchange))
    }
}

fn patience_ns(span: &Span) -> u64 {
    match CallForm::of(span) {
        Some(_) => CALLS_PATIENCE_NS,
        None => PATIENCE_NS,
    }
}

/// Gives requests the parts of their time. Spans of hosts without clocks pass at once.
#[derive(Debug, Default)]
pub struct Explainer {
    marks: Marks,
    threads: Threads,
    actors: Actors,
    system_calls: Calls,
    calls: FxHashMap<Caller, Vec<Call>>,
    /// The same callers, with the time of the first call, oldest first.
    callers: VecDeque<(u64, Caller)>,
    waiting: VecDeque<Arc<Span>>,
    sees_clocks: bool,
    /// Processes of which clocks were seen.
    processes: FxHashSet<u32>,
    /// Requests that were explained.
    recent: Recent,
    /// For which requests the spans of SDKs made calls: their ids travelled with the messages.
    carriers: FxHashMap<SpanId, Caller>,
    carried: VecDeque<SpanId>,
    /// What processes publish of the spans of their SDKs.
    contexts: Contexts,
    sdk: Sdk,
    answered: Answered,
    is_end: bool,
}

impl Explainer {
    /// Takes where the clocks of threads stood.
    pub fn marks(&mut self, marks: &[ClockMark]) {
        self.sees_clocks |= !marks.is_empty();
        for mark in marks {
            self.add_process(mark.pid);
            self.marks.add(*mark);
        }
    }

    /// Takes what threads waited for.
    pub fn waits(&mut self, waits: Vec<ThreadWaits>) {
        for mut of_thread in waits {
            self.actors.add(&mut of_thread);
            self.threads.add(of_thread);
        }
    }

    /// Takes system calls of threads; those of each thread come in the order of their end.
    pub fn system_calls(&mut self, calls: Vec<ThreadCall>) {
        calls.into_iter().for_each(|call| self.system_calls.add(call));
    }

    /// The counters by name: spans of SDKs, and system calls that gave way to newer ones.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.sdk_stats().counters();
        all.push(("calls_forgotten", self.system_calls.forgotten));
        all
    }

    /// Takes a span whose cause is decided; requests wait.
    pub fn push(&mut self, span: Arc<Span>, sink: &mut dyn FnMut(Arc<Span>)) {
        match span.tap {
            _ if !self.sees_clocks => sink(span),
            TapSide::ClientProcess => {
                self.add_call(&span);
                // What a call waits for is the other end.
                let (own, call) = (Served::of(&span), Call::of(&span));
                sink(self.explained(span, &own, &[call]).0);
            }
            TapSide::ServerProcess if span.exchange.is_some() => {
                self.answered.add(&span);
                self.waiting.push_back(span);
                if self.waiting.len() > MOST_WAITING {
                    self.release_first(sink);
                }
            }
            _ => sink(span),
        }
    }

    fn add_call(&mut self, span: &Span) {
        let Some(caller) = Caller::of(span) else { return };
        if let Some(sdk) = span.parent_span_id {
            self.carriers.insert(sdk, caller);
            self.carried.push_back(sdk);
            if self.carried.len() > MOST_CALLERS {
                self.carried.pop_front().and_then(|oldest| self.carriers.remove(&oldest));
            }
        }
        let calls = self.calls.entry(caller).or_default();
        if calls.is_empty() {
            self.callers.push_back((span.end_ns, caller));
        }
        if calls.len() < MOST_CALLS {
            calls.push(Call::of(span));
        }
        while self.callers.len() > MOST_CALLERS {
            self.callers.pop_front().and_then(|(_, caller)| self.calls.remove(&caller));
        }
    }

    /// Lets requests go whose calls are known. `undecided_ns`: since when calls of the process of a span wait for their
    /// cause, if any do.
    pub fn release(
        &mut self,
        now_ns: u64,
        undecided_ns: &dyn Fn(&Span) -> Option<u64>,
        sink: &mut dyn FnMut(Arc<Span>),
    ) {
        for span in std::mem::take(&mut self.waiting) {
            let due = span.end_ns + patience_ns(&span) <= now_ns
                && undecided_ns(&span).is_none_or(|since| since > span.end_ns);
            if !due && span.end_ns + LONGEST_NS > now_ns {
                self.waiting.push_back(span);
                continue;
            }
            let request = Served::of(&span);
            match self.explained(Arc::clone(&span), &request, &self.calls_of(&request)) {
                (_, false) if span.end_ns + NAMES_NS > now_ns => self.waiting.push_back(span),
                (explained, _) => {
                    self.recent.add(request);
                    sink(explained);
                }
            }
        }
        self.recent.forget(now_ns);
        self.release_reports(now_ns, false, sink);
        while self.callers.front().is_some_and(|(end_ns, _)| end_ns + KEEP_CALLS_NS < now_ns) {
            self.callers.pop_front().and_then(|(_, caller)| self.calls.remove(&caller));
        }
    }

    /// The end: all requests go. Before, each gets a little time for the names of its stacks.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Arc<Span>)) {
        let began = Instant::now();
        self.is_end = true;
        let lacks_names = |span: &Arc<Span>| {
            let request = Served::of(span);
            span.text(WAIT_REASON).is_some() && !self.explained(Arc::clone(span), &request, &self.calls_of(&request)).1
        };
        while began.elapsed() < NAMES_AT_THE_END && self.waiting.iter().any(lacks_names) {
            std::thread::sleep(Duration::from_millis(5));
        }
        while !self.waiting.is_empty() {
            self.release_first(sink);
        }
        while began.elapsed() < NAMES_AT_THE_END && self.reports_lack_names() {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.release_reports(0, true, sink);
    }

    fn release_first(&mut self, sink: &mut dyn FnMut(Arc<Span>)) {
        if let Some(first) = self.waiting.pop_front() {
            let request = Served::of(&first);
            sink(self.explained(first, &request, &self.calls_of(&request)).0);
            self.recent.add(request);
        }
    }

    fn calls_of(&self, request: &Served) -> Vec<Call> {
        request.callers.iter().filter_map(|caller| self.calls.get(caller)).flatten().copied().collect()
    }

    fn others<'a>(&'a self, request: &'a Served) -> Others<'a> {
        let Explainer { marks, answered, actors, is_end, .. } = self;
        Others { marks, answered, actors, request, is_end: *is_end }
    }

    /// The span with its parts and waits, and whether all their stacks have names by now. `request`: what is known of
    /// the span.
    fn explained(&self, mut span: Arc<Span>, request: &Served, calls: &[Call]) -> (Arc<Span>, bool) {
        let points = points(request, calls, &self.marks);
        let (turns, time) = (self.actors.of(request), (request.start_ns, request.end_ns));
        let pieces = pieces(request, calls, &points);
        let parts = turns.map_or_else(
            || Parts::sum(pieces.iter().map(|piece| piece.parts)),
            |turns| turns.parts_of_pieces(&self.threads, &pieces, calls),
        );
        if parts.known() > 0 {
            Arc::make_mut(&mut span).attrs.extend(parts.attributes());
        }
        let (form, is_slow) = (CallForm::of(&span), span.text(WAIT_REASON).is_some());
        if form.is_none() && !is_slow {
            return (span, true);
        }
        let by_messages = || self.threads.stretches(request, &points);
        let stretches = turns.map_or_else(by_messages, |turns| {
            let beside = by_messages().into_iter().filter(|stretch| self.threads.acts_itself(stretch.tid));
            turns.stretches(time).into_iter().chain(beside).collect()
        });
        let attrs = &mut Arc::make_mut(&mut span).attrs;
        attrs.extend(form.map(|form| self.system_calls.of(&stretches, form).attribute()));
        if !is_slow {
            return (span, true);
        }
        let parked = turns.map(|turns| turns.parked(time, calls)).unwrap_or_default();
        let (mut waits, is_named) = self.threads.of(&stretches, calls, parked, &self.others(request));
        runtime::tell_interpreter_locks(&mut waits);
        let (wakeups, ready_ns) = waits.woken;
        if let Some((_, slot)) = attrs.iter_mut().find(|(key, _)| key == WAKEUPS) {
            *slot = Value::Int(wakeups.into());
            let mean_ns = ready_ns / u64::from(wakeups.max(1));
            attrs.push((WAKEUP_LATENCY.into(), Value::Int(i64::try_from(mean_ns).unwrap_or(i64::MAX))));
        }
        attrs.push(waits.attribute());
        (span, is_named)
    }
}
