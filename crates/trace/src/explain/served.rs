//! Requests that were served a short while ago: those within which spans of SDKs may lie.

use super::Caller;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use wirespan_model::attr::WAIT_REASON;
use wirespan_model::syscalls::CallForm;
use wirespan_model::{ExchangeRange, Span, SpanId, Text, TraceId};

/// Most requests that are remembered, once a span of an SDK has come; until then, they are few.
const MOST: usize = 20_000;
const UNASKED: usize = 2_000;
/// How long, ns. An SDK exports every few seconds.
const REMEMBER_NS: u64 = 40_000_000_000;
/// Most requests of one process, or with one context, that are looked at.
const LOOK: usize = 256;

/// What is known of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    pub(super) pid: u32,
    pub(super) socket: u64,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) exchange: Option<ExchangeRange>,
    /// Its trace and the span of its sender, as its message named them.
    pub(super) carried: Option<(TraceId, SpanId)>,
    /// Its names, for calls.
    pub(super) callers: SmallVec<[Caller; 3]>,
    /// Why its waits were recorded; empty if they were not.
    pub(super) reason: Text,
    /// How its system calls are shown; `None` if they were not recorded.
    pub(super) form: Option<CallForm>,
}

impl Served {
    pub(super) fn of(span: &Span) -> Self {
        let exchanges = span.exchanges().map(|x| Caller::Exchange(span.host_id, span.pid, x));
        Served {
            pid: span.pid,
            socket: span.socket,
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            exchange: span.exchange,
            carried: span.trace_id.zip(span.parent_span_id),
            callers: exchanges.chain([Caller::Span(span.id)]).collect(),
            reason: span.text(WAIT_REASON).unwrap_or_default().into(),
            form: CallForm::of(span),
        }
    }

    /// Whether it was under way all this time, as far as clocks of programs and of the kernel agree.
    pub(super) fn holds(&self, (from_ns, to_ns): (u64, u64), slack_ns: u64) -> bool {
        self.start_ns <= from_ns.saturating_add(slack_ns) && to_ns <= self.end_ns.saturating_add(slack_ns)
    }

    /// How much of this time it was under way, ns.
    pub(super) fn overlap_ns(&self, (from_ns, to_ns): (u64, u64)) -> u64 {
        to_ns.min(self.end_ns).saturating_sub(from_ns.max(self.start_ns))
    }

    /// Whether it was under way for most of this time.
    pub(super) fn covers(&self, time: (u64, u64)) -> bool {
        self.overlap_ns(time) * 4 >= (time.1 - time.0.min(time.1)) * 3
    }
}

/// Of several requests, the only one that was under way for most of this time, if each of the others was for less than
/// a quarter of it: requests that were served one after another.
pub(super) fn clearest<'a>(requests: &[&'a Served], time: (u64, u64)) -> Option<&'a Served> {
    let best = requests.iter().max_by_key(|request| request.overlap_ns(time))?;
    let length_ns = time.1.saturating_sub(time.0);
    let others = requests.iter().filter(|request| !std::ptr::eq(**request, *best));
    let is_clear = best.covers(time) && others.map(|r| r.overlap_ns(time)).all(|ns| ns * 4 < length_ns);
    is_clear.then_some(*best)
}

/// Requests of the last time, by their names.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Whether a span of an SDK has come.
    is_asked: bool,
    requests: VecDeque<Served>,
    /// Number of the first of them.
    first: u64,
    by_context: FxHashMap<(TraceId, SpanId), VecDeque<u64>>,
    by_caller: FxHashMap<Caller, u64>,
    /// Of each process, by the time of their ends.
    by_process: FxHashMap<u32, BTreeSet<(u64, u64)>>,
}

impl Recent {
    /// A span of an SDK has come: more will.
    pub(super) fn ask(&mut self) {
        self.is_asked = true;
    }

    pub(super) fn add(&mut self, request: Served) {
        let number = self.first + self.requests.len() as u64;
        if let Some(context) = request.carried {
            self.by_context.entry(context).or_default().push_back(number);
        }
        for caller in &request.callers {
            self.by_caller.insert(*caller, number);
        }
        self.by_process.entry(request.pid).or_default().insert((request.end_ns, number));
        self.requests.push_back(request);
        if self.requests.len() > if self.is_asked { MOST } else { UNASKED } {
            self.forget_first();
        }
    }

    /// Forgets what is too old.
    pub(super) fn forget(&mut self, now_ns: u64) {
        while self.requests.front().is_some_and(|request| request.end_ns + REMEMBER_NS < now_ns) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some(request) = self.requests.pop_front() else { return };
        let number = self.first;
        self.first += 1;
        if let Some(context) = request.carried {
            if let Some(numbers) = self.by_context.get_mut(&context) {
                numbers.pop_front();
                if numbers.is_empty() {
                    self.by_context.remove(&context);
                }
            }
        }
        for caller in &request.callers {
            if self.by_caller.get(caller) == Some(&number) {
                self.by_caller.remove(caller);
            }
        }
        if let Some(numbers) = self.by_process.get_mut(&request.pid) {
            numbers.remove(&(request.end_ns, number));
            if numbers.is_empty() {
                self.by_process.remove(&request.pid);
            }
        }
    }

    fn get(&self, number: u64) -> Option<&Served> {
        self.requests.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Requests that named this trace and sender, the latest first.
    pub(super) fn with_context(&self, trace: TraceId, parent: SpanId) -> impl Iterator<Item = &Served> {
        let numbers = self.by_context.get(&(trace, parent)).into_iter().flatten().rev().take(LOOK);
        numbers.filter_map(|number| self.get(*number))
    }

    /// The request for which calls with this name were made.
    pub(super) fn of_caller(&self, caller: &Caller) -> Option<&Served> {
        self.get(*self.by_caller.get(caller)?)
    }

    /// Requests of a process that ended at this time or later, by the time of their ends.
    pub(super) fn of_process(&self, pid: u32, from_ns: u64) -> impl Iterator<Item = &Served> {
        let requests = self.by_process.get(&pid).into_iter().flat_map(move |all| all.range((from_ns, 0)..));
        requests.take(LOOK).filter_map(|(_, number)| self.get(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(n: u64) -> Served {
        let carried = Some((TraceId([1; 16]), SpanId(n % 3)));
        let callers = SmallVec::from_slice(&[Caller::Exchange(1, 7, n)]);
        Served { pid: 7, start_ns: n, end_ns: n, carried, callers, ..Served::default() }
    }

    #[test]
    fn requests_are_found_by_their_names_until_they_are_too_many_or_too_old() {
        let mut recent = Recent::default();
        (0..UNASKED as u64 + 10).for_each(|n| recent.add(request(n)));
        assert_eq!(recent.requests.len(), UNASKED);
        recent = Recent::default();
        recent.ask();
        (0..MOST as u64 + 10).for_each(|n| recent.add(request(n)));
        assert_eq!(recent.requests.len(), MOST);
        assert_eq!(recent.of_caller(&Caller::Exchange(1, 7, 12)).map(|r| r.start_ns), Some(12));
        assert!(recent.of_caller(&Caller::Exchange(1, 7, 9)).is_none(), "too many came after it");
        assert_eq!(recent.of_process(7, 500).next().map(|r| r.start_ns), Some(500));
        assert!(recent.with_context(TraceId([1; 16]), SpanId(2)).all(|r| r.start_ns % 3 == 2));
        recent.forget(REMEMBER_NS + 2 * MOST as u64);
        let empty = [recent.by_context.len(), recent.by_caller.len(), recent.by_process.len(), recent.requests.len()];
        assert_eq!(empty, [0; 4]);
    }
}
