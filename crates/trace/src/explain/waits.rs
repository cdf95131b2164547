//! What the threads of a request waited for, and who kept them waiting.
//!
//! A wait belongs to the request for which its thread acted then: from a message of the request until the next message
//! of the thread. If another thread moves that one, the request passed to it when the first one woke it.

mod who;

use super::acting::Acting;
use super::breakdown::{covered_ns, Call, Piece};
use super::marks::Point;
use super::parts::Parts;
use super::runtime::stopped_for;
use super::served::Served;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::stack::Stack;
use wirespan_model::wait::{SpanSample, SpanWait, SpanWaits, ThreadSample, ThreadWait, ThreadWaits, WaitKind, Waker};
use wirespan_model::Text;

/// Most waits that are kept, of all threads together; beyond it the older half goes.
const MOST: usize = 40_000;
/// Most waits of one span; the longest are kept.
const MOST_OF_SPAN: usize = 32;
/// Most stacks of one span in which it ran; those that were seen most often are kept.
const MOST_STACKS: usize = 64;
/// Shorter waits are not told, ns.
const SHORTEST_NS: u64 = 1_000;
/// How far waits and clocks of a thread may be apart, besides a fiftieth, ns.
const OFF_NS: u64 = 50_000;
/// So many waits of a thread are surely kept by the kernel until they are asked for.
pub(super) const SURELY_KEPT: usize = 60;
/// Longest chain of threads that hold each other up.
const DEEPEST: usize = 6;

/// The waits of each thread, oldest first.
#[derive(Debug, Default)]
pub(super) struct Threads {
    threads: FxHashMap<u32, Thread>,
    count: usize,
}

#[derive(Debug, Default)]
struct Thread {
    pid: u32,
    name: Text,
    runs_actors: bool,
    waits: VecDeque<ThreadWait>,
    /// Oldest first.
    samples: VecDeque<ThreadSample>,
}

impl Thread {
    fn len(&self) -> usize {
        self.waits.len() + self.samples.len()
    }
}

/// A time in which a thread acted for the request.
pub(super) struct Stretch {
    pub(super) tid: u32,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// When the thread began to act for the request; before `from_ns` if only a part of the time is asked for.
    began_ns: u64,
    /// The thread waited for the request itself until it was woken.
    until_woken: bool,
}

impl Stretch {
    fn new(tid: u32, from_ns: u64, to_ns: u64, until_woken: bool) -> Self {
        Stretch { tid, from_ns, to_ns, began_ns: from_ns, until_woken }
    }

    /// A thread that did nothing else in this time.
    pub(super) fn all_of(tid: u32, (from_ns, to_ns): (u64, u64)) -> Self {
        Stretch::new(tid, from_ns, to_ns, false)
    }

    /// The part of it within this time.
    pub(super) fn clipped(self, (from_ns, to_ns): (u64, u64)) -> Option<Self> {
        let clipped = Stretch { from_ns: self.from_ns.max(from_ns), to_ns: self.to_ns.min(to_ns), ..self };
        (clipped.from_ns < clipped.to_ns).then_some(clipped)
    }
}

impl Threads {
    pub(super) fn add(&mut self, new: ThreadWaits) {
        let thread = self.threads.entry(new.tid).or_default();
        // The id of a thread that ended is used again.
        if thread.pid != new.pid {
            self.count -= thread.len();
            *thread = Thread { pid: new.pid, ..Thread::default() };
        }
        thread.name = new.thread;
        thread.runs_actors |= new.runs_actors;
        // It runs, as it sends an answer: it waits no longer.
        if new.exchange != 0 {
            while thread.waits.back().is_some_and(|w| w.ran_ns == 0) {
                thread.waits.pop_back();
                self.count -= 1;
            }
        }
        for wait in new.waits {
            let at = thread.waits.partition_point(|w| w.stopped_ns < wait.stopped_ns);
            match thread.waits.get_mut(at) {
                Some(known) if known.stopped_ns == wait.stopped_ns => {
                    if known.ran_ns == 0 {
                        *known = wait;
                    }
                }
                _ => {
                    thread.waits.insert(at, wait);
                    self.count += 1;
                }
            }
        }
        self.count += new.samples.len();
        for sample in new.samples {
            let at = thread.samples.partition_point(|s| s.time_ns < sample.time_ns);
            thread.samples.insert(at, sample);
        }
        if self.count > MOST {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let waits = self.threads.values().flat_map(|t| &t.waits).map(|w| w.stopped_ns);
        let samples = self.threads.values().flat_map(|t| &t.samples).map(|s| s.time_ns);
        let mut times: Vec<u64> = waits.chain(samples).collect();
        let middle = times.len() / 2;
        let half_ns = *times.select_nth_unstable(middle).1;
        for thread in self.threads.values_mut() {
            let old = thread.waits.partition_point(|w| w.stopped_ns < half_ns);
            thread.waits.drain(..old);
            let old = thread.samples.partition_point(|s| s.time_ns < half_ns);
            thread.samples.drain(..old);
        }
        self.threads.retain(|_, thread| thread.len() > 0);
        self.count = self.threads.values().map(Thread::len).sum();
    }

    /// The waits of a thread that overlap this time. A thread waits once at a time, so they stand next to each other.
    pub(super) fn within(&self, tid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &ThreadWait> {
        let waits = self.threads.get(&tid).map(|t| &t.waits);
        let part = waits.map_or(0..0, |waits| {
            let began = waits.partition_point(|w| w.stopped_ns < from_ns).saturating_sub(1);
            began..waits.partition_point(|w| w.stopped_ns < to_ns).max(began)
        });
        let last_ns = waits.and_then(|waits| waits.back()).map_or(0, |last| last.stopped_ns);
        // Of an earlier wait, the end may never have been told.
        let lasts = move |w: &ThreadWait| w.ran_ns == 0 && w.stopped_ns == last_ns;
        let overlaps = move |w: &&ThreadWait| lasts(w) || w.ran_ns > from_ns;
        waits.into_iter().flat_map(move |waits| waits.range(part.clone())).filter(overlaps)
    }

    /// Whether a thread is known to run no actors in turns: what it does for a request, it does itself.
    pub(super) fn acts_itself(&self, tid: u32) -> bool {
        self.threads.get(&tid).is_some_and(|thread| !thread.runs_actors)
    }

    /// The process of a thread whose waits are known.
    pub(super) fn of_process(&self, tid: u32) -> Option<u32> {
        self.threads.get(&tid).map(|thread| thread.pid)
    }

    /// The parts of a time within a piece of a request, by the waits of the piece's thread. `None` if they are not all
    /// known: the clocks of the whole piece say something else.
    pub(super) fn parts_of(&self, piece: &Piece, time: (u64, u64), covered: &dyn Fn(u64, u64) -> u64) -> Option<Parts> {
        let tid = piece.thread?;
        let all = self.parts_between(tid, (piece.from_ns, piece.to_ns), covered);
        let off_ns = OFF_NS + (piece.to_ns - piece.from_ns) / 50;
        (all.on_cpu.abs_diff(piece.parts.on_cpu) <= off_ns).then(|| self.parts_between(tid, time, covered))
    }

    /// The parts of a time on a thread whose clocks are not known. When it ran is known if no wait was forgotten.
    pub(super) fn parts_alone(&self, tid: u32, time: (u64, u64)) -> Parts {
        let parts = self.parts_between(tid, time, &|_, _| 0);
        let before = self.within(tid, 0, u64::MAX).next().is_some_and(|w| w.stopped_ns <= time.0);
        let after = self.within(tid, time.1, u64::MAX).next().is_some();
        let later = self.within(tid, time.0, u64::MAX).take(SURELY_KEPT);
        let is_complete = before && after && later.count() < SURELY_KEPT;
        Parts { on_cpu: if is_complete { parts.on_cpu } else { 0 }, ..parts }
    }

    /// The same, whether or not all waits are known.
    pub(super) fn parts_between(
        &self,
        tid: u32,
        (from_ns, to_ns): (u64, u64),
        covered: &dyn Fn(u64, u64) -> u64,
    ) -> Parts {
        let mut parts = Parts::default();
        if from_ns >= to_ns {
            return parts;
        }
        let mut until_ns = from_ns;
        for w in self.within(tid, from_ns, to_ns) {
            let clip = |ns: u64| ns.clamp(until_ns, to_ns);
            let (stopped, woken) = (clip(w.stopped_ns), clip(w.woken_ns));
            let ran = if w.ran_ns == 0 { to_ns } else { clip(w.ran_ns) };
            let in_calls = covered(stopped, woken);
            parts.children += in_calls;
            parts.blocked += (woken - stopped).saturating_sub(in_calls);
            let is_limit = w.kind == WaitKind::CpuLimit && w.woken_ns == w.stopped_ns;
            *(if is_limit { &mut parts.cpu_limit } else { &mut parts.run_queue }) += ran.saturating_sub(woken);
            until_ns = ran.max(until_ns);
        }
        parts.on_cpu = (to_ns - from_ns).saturating_sub(parts.known());
        parts
    }

    /// The waits of these stretches of a request with these calls and those of its actor without a thread (`parked`),
    /// and whether all is told by now: the names of stacks, and for what other threads acted.
    pub(super) fn of(
        &self,
        stretches: &[Stretch],
        calls: &[Call],
        parked: Vec<SpanWait>,
        acting: &dyn Acting,
    ) -> (SpanWaits, bool) {
        let mut is_named = true;
        let waits = stretches
            .iter()
            .flat_map(|s| self.within(s.tid, s.from_ns, s.to_ns).map(move |w| (s, w)))
            .filter_map(|(s, w)| Some((self.span_wait(s, w, calls)?, Some(w))));
        let waits = waits.chain(parked.into_iter().map(|wait| (wait, None)));
        let mut waits: Vec<(SpanWait, Option<&ThreadWait>)> = waits.collect();
        let woken = waits.iter().filter(|(w, _)| w.duration_ns > w.ready_ns);
        let woken = woken.fold((0, 0), |(times, ns), (w, _)| (times + 1, ns + w.ready_ns));
        let left_out = waits.len().saturating_sub(MOST_OF_SPAN);
        waits.sort_by_key(|(w, _)| std::cmp::Reverse(w.duration_ns));
        let left_out_ns = waits.drain(waits.len() - left_out..).map(|(w, _)| w.duration_ns).sum();
        waits.sort_by_key(|(w, _)| w.start_ns);
        let mut told = SpanWaits { left_out_ns, woken, ..SpanWaits::default() };
        told.left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
        for (mut wait, of_thread) in waits {
            if let Some(w) = of_thread {
                is_named &= self.tell_spans(&mut wait, w, acting);
            }
            if let Some(later) = of_thread.and_then(|w| w.stack.as_ref()) {
                let stack = later.get().filter(|stack| !stack.is_empty());
                is_named &= later.get().is_some();
                wait.stack = stack.map(|stack| place_of(&mut told.stacks, stack));
            }
            told.waits.push(wait);
        }
        is_named &= self.add_samples(stretches, &mut told);
        (told, is_named)
    }

    /// Adds in which code the threads ran; says whether all stacks have names by now.
    fn add_samples(&self, stretches: &[Stretch], told: &mut SpanWaits) -> bool {
        let within = |s: &Stretch| {
            let samples = self.threads.get(&s.tid).map(|thread| &thread.samples);
            let (from_ns, to_ns) = (s.from_ns, s.to_ns);
            samples.into_iter().flat_map(move |samples| {
                let [from, to] = [from_ns, to_ns].map(|ns| samples.partition_point(|x| x.time_ns < ns));
                samples.range(from..to.max(from))
            })
        };
        let mut counts: FxHashMap<&Stack, u32> = FxHashMap::default();
        let (mut is_named, mut without_stack) = (true, 0);
        for sample in stretches.iter().flat_map(within) {
            match sample.stack.get() {
                Some(stack) if !stack.is_empty() => *counts.entry(stack).or_default() += 1,
                known => {
                    is_named &= known.is_some();
                    without_stack += 1;
                }
            }
        }
        let mut counts: Vec<(&Stack, u32)> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.user.len().cmp(&b.0.user.len())));
        let rare = counts.split_off(counts.len().min(MOST_STACKS));
        told.samples_left_out = without_stack + rare.iter().map(|(_, times)| times).sum::<u32>();
        let placed = |(stack, times)| SpanSample { stack: place_of(&mut told.stacks, stack), times };
        told.samples = counts.into_iter().map(placed).collect();
        is_named
    }

    /// The times in which threads acted for a request with these points.
    pub(super) fn stretches(&self, request: &Served, points: &[Point<'_>]) -> Vec<Stretch> {
        let mut all = Vec::with_capacity(points.len() + 1);
        if let Some(first) = points.first() {
            let (tid, to_ns) = (first.mark.tid, first.mark.time_ns);
            all.push(Stretch::new(tid, request.start_ns, to_ns, true));
        }
        for pair in points.windows(2) {
            let [(a, next), (b, _)] = [&pair[0], &pair[1]].map(|p| (p.mark, p.after));
            let until_ns = next.map_or(b.time_ns, |next| next.time_ns.min(b.time_ns));
            if a.tid == b.tid {
                all.push(Stretch::new(a.tid, a.time_ns, until_ns, false));
                continue;
            }
            let passed_ns = self.passed_ns(a.tid, b.tid, a.time_ns, b.time_ns);
            let to_ns = passed_ns.unwrap_or(until_ns);
            all.push(Stretch::new(a.tid, a.time_ns, to_ns, false));
            if let Some(from_ns) = passed_ns {
                all.push(Stretch::new(b.tid, from_ns, b.time_ns, true));
            }
        }
        all
    }

    /// When one thread first woke another in this time.
    fn passed_ns(&self, from: u32, to: u32, from_ns: u64, to_ns: u64) -> Option<u64> {
        let by = |w: &&ThreadWait| matches!(w.waker, Waker::Thread { tid, .. } if tid == from);
        let mut woken = self.within(to, from_ns, to_ns).filter(by).map(|w| w.woken_ns);
        woken.find(|woken_ns| (from_ns..=to_ns).contains(woken_ns))
    }

    fn span_wait(&self, s: &Stretch, w: &ThreadWait, calls: &[Call]) -> Option<SpanWait> {
        let ran_ns = if w.ran_ns == 0 { s.to_ns } else { w.ran_ns };
        let clip = |from: u64, to: u64| (from.max(s.from_ns), to.min(s.to_ns));
        let length = |(from, to): (u64, u64)| to.saturating_sub(from);
        let mut blocked = clip(w.stopped_ns, w.woken_ns);
        let ready = clip(w.woken_ns, ran_ns);
        // Until then the thread waited for the request.
        if s.until_woken && w.stopped_ns <= s.began_ns {
            blocked.1 = blocked.0;
        }
        let (blocked_ns, ready_ns) = (length(blocked), length(ready));
        if blocked_ns + ready_ns < SHORTEST_NS {
            return None;
        }
        let start_ns = if blocked_ns > 0 { blocked.0 } else { ready.0 };
        let thread = self.threads.get(&s.tid).map(|t| t.name.clone()).unwrap_or_default();
        let wait = SpanWait { start_ns, duration_ns: blocked_ns + ready_ns, ready_ns, thread, ..SpanWait::default() };
        let ran_by = if ready_ns > 0 { self.name(&w.ran) } else { Text::default() };
        let wait = SpanWait { ran_by, ..wait };
        if blocked_ns == 0 {
            let kind = if w.woken_ns == w.stopped_ns { w.kind } else { WaitKind::RunQueue };
            return Some(SpanWait { kind, ..wait });
        }
        let own_call = w.socket != 0 && calls.iter().any(|call| call.socket == w.socket);
        // A thread is named as the waker at a socket only if the socket is one between processes of the machine.
        let follows = matches!(w.kind, WaitKind::Lock | WaitKind::Pipe | WaitKind::Epoll | WaitKind::Socket);
        let held_by = if follows { self.holders(&w.waker, s.tid, blocked) } else { Vec::new() };
        let stopped_for = stopped_for(w.kind, &w.waker, &held_by);
        Some(SpanWait {
            kind: stopped_for.map_or(w.kind, |_| WaitKind::Runtime),
            syscall: w.syscall.into(),
            resource: stopped_for.map_or_else(|| w.resource.clone(), Text::from),
            woken_by: self.name(&w.waker),
            held_by,
            in_call: own_call || covered_ns(blocked.0, blocked.1, calls) * 10 >= blocked_ns * 9,
            ..wait
        })
    }
}

/// Where a stack is among those of a span; it is added if it is new.
fn place_of(stacks: &mut Vec<Stack>, stack: &Stack) -> u32 {
    let at = stacks.iter().position(|known| known == stack).unwrap_or_else(|| {
        stacks.push(stack.clone());
        stacks.len() - 1
    });
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
