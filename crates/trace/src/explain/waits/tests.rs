//! Waits of threads whose requests are known.

use super::super::acting::Acts;
use super::*;
use wirespan_model::event::{ClockMark, Clocks};
use wirespan_model::Span;

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

/// Nothing is known of other threads.
struct Nobody;

impl Acting for Nobody {
    fn of(&self, _: u32, _: u32, _: u64) -> Acts {
        Acts::Unknown
    }
}

fn mark(tid: u32, ms: u64) -> ClockMark {
    let clocks = Clocks { on_cpu_ns: 1, ..Clocks::default() };
    ClockMark { pid: 1, tid, began_ns: ms * MS, time_ns: ms * MS, socket: 1, exchange: 1, request: 1, clocks }
}

fn told(threads: &Threads, marks: &[ClockMark]) -> Vec<SpanWait> {
    let span = Span { start_ns: marks[0].time_ns, end_ns: marks.last().unwrap().time_ns, ..Span::default() };
    let next = |m: &ClockMark| marks.iter().find(|n| n.tid == m.tid && n.time_ns > m.time_ns);
    let points: Vec<_> = marks.iter().map(|mark| Point { before: None, mark, after: next(mark) }).collect();
    threads.of(&threads.stretches(&Served::of(&span), &points), &[], Vec::new(), &Nobody).0.waits
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
    let points = [Point { before: None, mark: &a, after: Some(&b) }, Point { before: Some(&a), mark: &b, after: None }];
    let waits = all.of(&all.stretches(&Served::of(&span), &points), &[], Vec::new(), &Nobody).0.waits;
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
    all.add(ThreadWaits { pid: 1, tid: 1, waits: vec![wait(10, 30, 31, WaitKind::Sleep, 0)], ..Default::default() });
    assert_eq!((all.count, all.threads[&1].waits[0].ran_ns), (1, 31 * MS));
    for n in 0..MOST as u64 {
        let waits = vec![wait(100 + n, 100 + n, 101 + n, WaitKind::Sleep, 0)];
        all.add(ThreadWaits { pid: 1, tid: 7, waits, ..ThreadWaits::default() });
    }
    assert!(all.count <= MOST / 2 + 1 && !all.threads.contains_key(&1), "{}", all.count);
}
