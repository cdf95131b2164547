//! Requests with known clocks: where must their time have gone?

use super::*;
use wirespan_model::event::Clocks;
use wirespan_model::ExchangeRange;

pub(super) const US: u64 = 1_000;

/// One message on a thread: when, of which exchange, and the thread's clocks then (µs).
pub(super) fn mark(tid: u32, time_us: u64, exchange: u64, [ran, queued, limited]: [u64; 3]) -> ClockMark {
    let clocks = Clocks { on_cpu_ns: ran * US, queued_ns: queued * US, limited_ns: limited * US };
    let time_ns = time_us * US;
    // Each exchange has a socket of its own; only the server's side knows its number.
    let own = u64::from(exchange == 1);
    ClockMark { pid: 1, tid, began_ns: time_ns, time_ns, socket: exchange, exchange: own, request: own, clocks }
}

pub(super) fn span(tap: TapSide, tid: u32, exchange: u64, from_us: u64, to_us: u64) -> Span {
    Span {
        id: SpanId(exchange),
        tap,
        pid: 1,
        tid,
        start_ns: from_us * US,
        response_ns: to_us * US,
        end_ns: to_us * US,
        socket: exchange,
        exchange: Some(ExchangeRange { first: exchange, last: exchange }).filter(|_| tap == TapSide::ServerProcess),
        ..Span::default()
    }
}

pub(super) fn call(tid: u32, exchange: u64, cause: u64, from_us: u64, to_us: u64) -> Span {
    Span { cause: Some(cause), ..span(TapSide::ClientProcess, tid, exchange, from_us, to_us) }
}

/// The parts of request 1, in µs.
fn explained(marks: &[ClockMark], spans: Vec<Span>) -> Parts {
    let mut explainer = Explainer::default();
    explainer.marks(marks);
    let mut out = Vec::new();
    spans.into_iter().for_each(|s| explainer.push(Arc::new(s), &mut |s| out.push(s)));
    explainer.finish(&mut |s| out.push(s));
    let request = out.iter().find(|s| s.id == SpanId(1)).unwrap();
    let parts = Parts::of(request).unwrap_or(Parts { unknown: request.duration_ns(), ..Parts::default() });
    assert_eq!(parts.values().iter().sum::<u64>(), request.duration_ns(), "{parts:?}");
    Parts::from(parts.values().map(|ns| ns / US))
}

#[test]
fn a_thread_per_request() {
    let marks = [
        mark(5, 0, 1, [100, 10, 0]),
        mark(5, 200, 2, [200, 20, 0]), // sends after 100 on a processor, 10 in its queue, 90 asleep
        mark(5, 900, 2, [220, 50, 0]), // reads the answer, which had come at 860
        mark(5, 1000, 1, [300, 50, 0]),
    ];
    let mut asks = call(5, 2, 1, 200, 900);
    asks.tcp.queue_us = 40;
    let parts = explained(&marks, vec![asks, span(TapSide::ServerProcess, 5, 1, 0, 1000)]);
    let expected = Parts { on_cpu: 200, run_queue: 40, blocked: 110, children: 650, ..Parts::default() };
    assert_eq!(parts, expected);
}

#[test]
fn a_cpu_limit_is_not_competition() {
    let marks = [mark(5, 0, 1, [100, 0, 70]), mark(5, 100, 1, [120, 75, 140])];
    let parts = explained(&marks, vec![span(TapSide::ServerProcess, 5, 1, 0, 100)]);
    let expected = Parts { on_cpu: 20, cpu_limit: 70, run_queue: 5, blocked: 5, ..Parts::default() };
    assert_eq!(parts, expected);
}

#[test]
fn an_event_loop_that_works_for_another_request() {
    let marks = [
        mark(5, 0, 1, [0, 0, 0]),
        mark(5, 10, 2, [10, 0, 0]),   // the request's call
        mark(5, 50, 9, [20, 0, 0]),   // another request comes
        mark(5, 200, 2, [170, 0, 0]), // the answer, which had come at 100, is read after 150 for the other
        mark(5, 220, 1, [190, 0, 0]),
    ];
    let mut asks = call(5, 2, 1, 10, 200);
    asks.tcp.queue_us = 100;
    let parts = explained(&marks, vec![asks, span(TapSide::ServerProcess, 5, 1, 0, 220)]);
    // 10 before the call, 10 after it, 20 at the end; the loop was free until 50.
    let expected = Parts { on_cpu: 40, children: 90, other_requests: 90, ..Parts::default() };
    assert_eq!(parts, expected);
}

#[test]
fn a_thread_that_is_born_for_the_request() {
    let marks = [mark(5, 100, 1, [15, 60, 7_000]), mark(5, 150, 1, [65, 60, 7_000])];
    let parts = explained(&marks, vec![span(TapSide::ServerProcess, 5, 1, 0, 150)]);
    let expected = Parts { on_cpu: 65, run_queue: 60, unknown: 25, ..Parts::default() };
    assert_eq!(parts, expected, "its accepting thread took the rest");
}

#[test]
fn a_worker_takes_over() {
    let marks = [
        mark(6, 0, 77, [500, 0, 0]),
        mark(5, 100, 1, [0, 0, 0]),
        mark(6, 300, 2, [540, 5, 0]), // the worker's call; since its last message it ran 40 and waited 5
        mark(6, 400, 2, [550, 5, 0]),
        mark(5, 500, 1, [30, 0, 0]),
    ];
    let spans = vec![call(6, 2, 1, 300, 400), span(TapSide::ServerProcess, 5, 1, 100, 500)];
    let parts = explained(&marks, spans);
    assert_eq!((parts.on_cpu, parts.run_queue), (40 + 10 + 30, 5));
    assert_eq!((parts.children, parts.blocked), (90, 0));
    assert_eq!(parts.unknown, 400 - 80 - 5 - 90, "how long one thread waited for the other was not seen");
}

#[test]
fn without_clocks_nothing_is_said_and_nothing_waits() {
    let mut explainer = Explainer::default();
    let mut out = Vec::new();
    explainer.push(Arc::new(span(TapSide::ServerProcess, 5, 1, 0, 100)), &mut |s| out.push(s));
    assert!(out.len() == 1 && Parts::of(&out[0]).is_none());
}

#[test]
fn a_request_waits_for_calls_whose_cause_is_not_decided() {
    let mut explainer = Explainer::default();
    explainer.marks(&[mark(5, 0, 1, [0, 0, 0])]);
    let mut out = 0;
    explainer.push(Arc::new(span(TapSide::ServerProcess, 5, 1, 0, 100)), &mut |_| out += 1);
    let mut release = |now_us: u64, undecided_us: Option<u64>| {
        explainer.release(now_us * US, &|_| undecided_us.map(|us| us * US), &mut |_| out += 1);
        out
    };
    assert_eq!(release(110, None), 0, "its calls may still come");
    assert_eq!(release(30_000, Some(50)), 0, "a call within it is not decided");
    assert_eq!(release(30_000, Some(150)), 1, "all calls up to its end are");
}

/// Whatever clocks say, the parts add up to the duration.
#[test]
fn parts_always_add_up() {
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..2_000 {
        let marks: Vec<_> = (0..random(12))
            .map(|_| {
                let (tid, time, exchange) = (5 + random(3) as u32, random(400), random(5));
                mark(tid, time, exchange, [random(600), random(300), random(300)])
            })
            .chain([mark(5, 100, 1, [0, 0, 0]), mark(5, 300, 1, [90, 20, 10])])
            .collect();
        let calls = (2..5).map(|x| {
            let from = random(300);
            call(5 + random(3) as u32, x, 1, from, from + random(200))
        });
        let mut spans: Vec<_> = calls.collect();
        spans.push(span(TapSide::ServerProcess, 5, 1, 100, 300));
        explained(&marks, spans);
    }
}
