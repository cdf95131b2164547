//! What the threads of a request waited for, and who kept them waiting.
//!
//! A wait belongs to the request for which its thread acted then. That is known by the messages: from a message of the
//! request until the next message of the thread. If another thread moves the next message, the request passed to that
//! thread when the first one woke it.

use super::breakdown::{covered_ns, Call};
use super::marks::Point;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::stack::{NamedLater, Stack};
use wirespan_model::wait::{Holder, SpanWait, SpanWaits, ThreadWait, ThreadWaits, WaitKind, Waker};
use wirespan_model::{Span, Text};

/// Most waits that are kept, of all threads together; beyond it the older half goes.
const MOST: usize = 40_000;
/// Most waits of one span; the longest are kept.
const MOST_OF_SPAN: usize = 32;
/// Shorter waits are not told, ns.
const SHORTEST_NS: u64 = 1_000;
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
    waits: VecDeque<ThreadWait>,
}

/// A time in which a thread acted for the request.
struct Stretch {
    tid: u32,
    from_ns: u64,
    to_ns: u64,
    /// The thread waited for the request itself until it was woken.
    until_woken: bool,
}

impl Threads {
    pub(super) fn add(&mut self, new: ThreadWaits) {
        let thread = self.threads.entry(new.tid).or_default();
        // The id of a thread that ended is used again.
        if thread.pid != new.pid {
            self.count -= thread.waits.len();
            *thread = Thread { pid: new.pid, ..Thread::default() };
        }
        thread.name = new.thread;
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
        if self.count > MOST {
            self.make_room();
        }
    }

    fn make_room(&mut self) {
        let mut times: Vec<u64> = self.threads.values().flat_map(|t| &t.waits).map(|w| w.stopped_ns).collect();
        let middle = times.len() / 2;
        let half_ns = *times.select_nth_unstable(middle).1;
        for thread in self.threads.values_mut() {
            let old = thread.waits.partition_point(|w| w.stopped_ns < half_ns);
            thread.waits.drain(..old);
        }
        self.threads.retain(|_, thread| !thread.waits.is_empty());
        self.count = self.threads.values().map(|t| t.waits.len()).sum();
    }

    fn within(&self, tid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &ThreadWait> {
        let waits = self.threads.get(&tid).map(|t| &t.waits);
        let overlaps = move |w: &&ThreadWait| w.stopped_ns < to_ns && (w.ran_ns == 0 || w.ran_ns > from_ns);
        waits.into_iter().flatten().filter(overlaps)
    }

    /// The waits of a request with these points and calls, and whether all their stacks have names by now.
    pub(super) fn of_request(&self, span: &Span, points: &[Point<'_>], calls: &[Call]) -> (SpanWaits, bool) {
        let stretches = self.stretches(span, points);
        let waits = stretches
            .iter()
            .flat_map(|s| self.within(s.tid, s.from_ns, s.to_ns).map(move |w| (s, w)))
            .filter_map(|(s, w)| Some((self.span_wait(s, w, calls)?, w.stack.as_ref())));
        let mut waits: Vec<(SpanWait, Option<&NamedLater>)> = waits.collect();
        let left_out = waits.len().saturating_sub(MOST_OF_SPAN);
        if left_out > 0 {
            waits.sort_by_key(|(w, _)| std::cmp::Reverse(w.duration_ns));
            waits.truncate(MOST_OF_SPAN);
        }
        waits.sort_by_key(|(w, _)| w.start_ns);
        let mut told = SpanWaits { left_out: u32::try_from(left_out).unwrap_or(u32::MAX), ..SpanWaits::default() };
        let mut is_named = true;
        for (mut wait, stack) in waits {
            if let Some(later) = stack {
                let stack = later.get().filter(|stack| !stack.is_empty());
                is_named &= later.get().is_some();
                wait.stack = stack.map(|stack| place_of(&mut told.stacks, stack));
            }
            told.waits.push(wait);
        }
        (told, is_named)
    }

    fn stretches(&self, span: &Span, points: &[Point<'_>]) -> Vec<Stretch> {
        let mut all = Vec::with_capacity(points.len() + 1);
        if let Some(first) = points.first() {
            let (tid, to_ns) = (first.mark.tid, first.mark.time_ns);
            all.push(Stretch { tid, from_ns: span.start_ns, to_ns, until_woken: true });
        }
        for pair in points.windows(2) {
            let [(a, next), (b, _)] = [&pair[0], &pair[1]].map(|p| (p.mark, p.after));
            let until_ns = next.map_or(b.time_ns, |next| next.time_ns.min(b.time_ns));
            if a.tid == b.tid {
                all.push(Stretch { tid: a.tid, from_ns: a.time_ns, to_ns: until_ns, until_woken: false });
                continue;
            }
            let passed_ns = self.passed_ns(a.tid, b.tid, a.time_ns, b.time_ns);
            let to_ns = passed_ns.unwrap_or(until_ns);
            all.push(Stretch { tid: a.tid, from_ns: a.time_ns, to_ns, until_woken: false });
            if let Some(from_ns) = passed_ns {
                all.push(Stretch { tid: b.tid, from_ns, to_ns: b.time_ns, until_woken: true });
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
        if s.until_woken && w.stopped_ns <= s.from_ns {
            blocked.1 = blocked.0;
        }
        let (blocked_ns, ready_ns) = (length(blocked), length(ready));
        if blocked_ns + ready_ns < SHORTEST_NS {
            return None;
        }
        let start_ns = if blocked_ns > 0 { blocked.0 } else { ready.0 };
        let thread = self.threads.get(&s.tid).map(|t| t.name.clone()).unwrap_or_default();
        let wait = SpanWait { start_ns, duration_ns: blocked_ns + ready_ns, ready_ns, thread, ..SpanWait::default() };
        if blocked_ns == 0 {
            let kind = if w.woken_ns == w.stopped_ns { w.kind } else { WaitKind::RunQueue };
            return Some(SpanWait { kind, ..wait });
        }
        let own_call = w.socket != 0 && calls.iter().any(|call| call.socket == w.socket);
        let follows = matches!(w.kind, WaitKind::Lock | WaitKind::Pipe | WaitKind::Epoll);
        Some(SpanWait {
            kind: w.kind,
            syscall: w.syscall.into(),
            resource: w.resource.clone(),
            woken_by: self.name(&w.waker),
            held_by: if follows { self.holders(&w.waker, s.tid, blocked) } else { Vec::new() },
            in_call: own_call || covered_ns(blocked.0, blocked.1, calls) * 10 >= blocked_ns * 9,
            ..wait
        })
    }

    fn name(&self, waker: &Waker) -> Text {
        match waker {
            Waker::Unknown => Text::default(),
            Waker::Another => "another process".into(),
            Waker::Kernel => "the kernel".into(),
            Waker::Network => "network".into(),
            Waker::Disk => "disk".into(),
            Waker::Timer => "timer".into(),
            Waker::Thread { service, .. } if !service.is_empty() => format!("service {service}").into(),
            Waker::Thread { tid, name, .. } if name.is_empty() => format!("thread {tid}").into(),
            Waker::Thread { name, .. } => format!("thread {name}").into(),
        }
    }

    /// The longest of those waits of a thread on which it spent most of this time, and how long all of them took;
    /// `None` if it ran for more than half of the time, or that is not known.
    fn mostly(&self, tid: u32, from_ns: u64, to_ns: u64) -> Option<(&ThreadWait, u64)> {
        let overlap = |w: &ThreadWait| {
            let ran_ns = if w.ran_ns == 0 { to_ns } else { w.ran_ns };
            ran_ns.min(to_ns).saturating_sub(w.stopped_ns.max(from_ns))
        };
        let mut alike: FxHashMap<_, (&ThreadWait, u64)> = FxHashMap::default();
        let mut all_ns = 0;
        for w in self.within(tid, from_ns, to_ns) {
            let (longest, sum) = alike.entry((w.kind, w.syscall, &w.resource)).or_insert((w, 0));
            *sum += overlap(w);
            all_ns += overlap(w);
            if overlap(w) > overlap(longest) {
                *longest = w;
            }
        }
        alike.into_values().max_by_key(|(_, sum)| *sum).filter(|_| all_ns * 2 >= to_ns - from_ns)
    }

    /// The thread that ended a wait, what it did meanwhile, and who kept that thread waiting in turn.
    fn holders(&self, waker: &Waker, waiter: u32, during: (u64, u64)) -> Vec<Holder> {
        let (mut waker, (mut from_ns, mut to_ns)) = (waker, during);
        let mut seen = vec![waiter];
        let mut holders = Vec::new();
        while let Waker::Thread { tid, .. } = waker {
            if seen.contains(tid) || holders.len() == DEEPEST {
                break;
            }
            seen.push(*tid);
            let who = self.name(waker);
            let Some((w, ns)) = self.mostly(*tid, from_ns, to_ns) else {
                // It ran, if its waits are known.
                let known = self.threads.contains_key(tid);
                holders.push(Holder { who, duration_ns: if known { to_ns - from_ns } else { 0 }, ..Holder::default() });
                break;
            };
            let (syscall, resource) = (w.syscall.into(), w.resource.clone());
            holders.push(Holder { who, kind: Some(w.kind), syscall, resource, duration_ns: ns });
            (from_ns, to_ns) = (from_ns.max(w.stopped_ns), to_ns.min(w.woken_ns.max(w.stopped_ns)));
            if from_ns >= to_ns {
                break;
            }
            waker = &w.waker;
        }
        holders
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
mod tests {
    use super::*;
    use wirespan_model::event::{ClockMark, Clocks};

    const MS: u64 = 1_000_000;

    fn wait(from_ms: u64, woken_ms: u64, ran_ms: u64, kind: WaitKind, by: u32) -> ThreadWait {
        let waker = match by {
            0 => Waker::Timer,
            tid => Waker::Thread { pid: 1, tid, name: format!("t{tid}").into(), service: Text::default() },
        };
        let (stopped_ns, woken_ns, ran_ns) = (from_ms * MS, woken_ms * MS, ran_ms * MS);
        ThreadWait { stopped_ns, woken_ns, ran_ns, kind, waker, ..ThreadWait::default() }
    }

    fn threads(all: &[(u32, &[ThreadWait])]) -> Threads {
        let mut threads = Threads::default();
        for (tid, waits) in all {
            let thread = format!("t{tid}").into();
            threads.add(ThreadWaits { pid: 1, tid: *tid, thread, waits: waits.to_vec(), ..ThreadWaits::default() });
        }
        threads
    }

    fn mark(tid: u32, ms: u64) -> ClockMark {
        let clocks = Clocks { on_cpu_ns: 1, ..Clocks::default() };
        ClockMark { pid: 1, tid, began_ns: ms * MS, time_ns: ms * MS, socket: 1, exchange: 1, clocks }
    }

    fn told(threads: &Threads, marks: &[ClockMark]) -> Vec<SpanWait> {
        let span = Span { start_ns: marks[0].time_ns, end_ns: marks.last().unwrap().time_ns, ..Span::default() };
        let next = |m: &ClockMark| marks.iter().find(|n| n.tid == m.tid && n.time_ns > m.time_ns);
        let points: Vec<_> = marks.iter().map(|mark| Point { before: None, mark, after: next(mark) }).collect();
        threads.of_request(&span, &points, &[]).0.waits
    }

    #[test]
    fn a_lock_is_followed_to_what_its_holder_waited_for() {
        let all = threads(&[
            (1, &[wait(10, 90, 91, WaitKind::Lock, 2)]),
            (2, &[wait(5, 88, 89, WaitKind::Lock, 3)]),
            (3, &[wait(6, 86, 87, WaitKind::Disk, 0)]),
        ]);
        let waits = told(&all, &[mark(1, 0), mark(1, 100)]);
        assert_eq!((waits.len(), waits[0].kind, waits[0].duration_ns), (1, WaitKind::Lock, 81 * MS));
        assert_eq!((waits[0].ready_ns, &*waits[0].woken_by), (MS, "thread t2"));
        let chain: Vec<_> = waits[0].held_by.iter().map(|h| (&*h.who, h.kind)).collect();
        assert_eq!(chain, [("thread t2", Some(WaitKind::Lock)), ("thread t3", Some(WaitKind::Disk))]);
    }

    #[test]
    fn a_holder_that_did_not_wait_has_run() {
        let all = threads(&[(1, &[wait(10, 90, 91, WaitKind::Lock, 2)]), (2, &[wait(1, 2, 3, WaitKind::Disk, 0)])]);
        let held = &told(&all, &[mark(1, 0), mark(1, 100)])[0].held_by[0];
        assert_eq!((held.kind, held.duration_ns), (None, 80 * MS));
        let unknown = threads(&[(1, &[wait(10, 90, 91, WaitKind::Lock, 2)])]);
        assert_eq!(told(&unknown, &[mark(1, 0), mark(1, 100)])[0].held_by[0].duration_ns, 0);
    }

    #[test]
    fn many_short_waits_of_a_holder_count_together() {
        let short: Vec<_> = (0..40).map(|n| wait(10 + 2 * n, 11 + 2 * n, 11 + 2 * n, WaitKind::Disk, 0)).collect();
        let all = threads(&[(1, &[wait(10, 90, 91, WaitKind::Lock, 2)]), (2, &short)]);
        let held = &told(&all, &[mark(1, 0), mark(1, 100)])[0].held_by[0];
        assert_eq!((held.kind, held.duration_ns), (Some(WaitKind::Disk), 40 * MS));
    }

    #[test]
    fn waits_are_cut_at_the_request_and_what_waits_for_it_is_left_out() {
        let all = threads(&[(1, &[wait(0, 20, 25, WaitKind::Socket, 0), wait(90, 150, 160, WaitKind::Sleep, 0)])]);
        let mut waits = told(&all, &[mark(1, 30), mark(1, 100)]);
        assert_eq!((waits.len(), waits.remove(0).duration_ns), (1, 10 * MS));
        let span = Span { start_ns: 10 * MS, end_ns: 40 * MS, ..Span::default() };
        let (a, b) = (mark(1, 30), mark(1, 40));
        let points =
            [Point { before: None, mark: &a, after: Some(&b) }, Point { before: Some(&a), mark: &b, after: None }];
        let waits = all.of_request(&span, &points, &[]).0.waits;
        assert_eq!(waits.len(), 1);
        assert_eq!((waits[0].kind, waits[0].duration_ns), (WaitKind::RunQueue, 5 * MS));
    }

    #[test]
    fn a_request_passes_to_the_thread_that_was_woken() {
        let all = threads(&[
            (1, &[wait(12, 300, 301, WaitKind::Epoll, 0)]),
            (2, &[wait(0, 10, 11, WaitKind::Lock, 1), wait(20, 80, 80, WaitKind::Disk, 0)]),
        ]);
        let waits = told(&all, &[mark(1, 5), mark(2, 100)]);
        let kinds: Vec<_> = waits.iter().map(|w| (w.kind, w.duration_ns / MS)).collect();
        assert_eq!(kinds, [(WaitKind::RunQueue, 1), (WaitKind::Disk, 60)]);
    }

    #[test]
    fn a_wait_that_goes_on_is_known_better_later_and_old_ones_are_forgotten() {
        let mut all = threads(&[(1, &[wait(10, 10, 0, WaitKind::Sleep, 0)])]);
        all.add(ThreadWaits {
            pid: 1,
            tid: 1,
            waits: vec![wait(10, 30, 31, WaitKind::Sleep, 0)],
            ..Default::default()
        });
        assert_eq!((all.count, all.threads[&1].waits[0].ran_ns), (1, 31 * MS));
        for n in 0..MOST as u64 {
            let waits = vec![wait(100 + n, 100 + n, 101 + n, WaitKind::Sleep, 0)];
            all.add(ThreadWaits { pid: 1, tid: 7, waits, ..ThreadWaits::default() });
        }
        assert!(all.count <= MOST / 2 + 1 && !all.threads.contains_key(&1), "{}", all.count);
    }
}
