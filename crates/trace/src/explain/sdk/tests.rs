//! Spans of SDKs within requests whose clocks and waits are known.

use super::super::tests::{call, mark, span, US};
use super::*;
use wirespan_model::attr::WAITS;
use wirespan_model::event::ClockMark;
use wirespan_model::sdk::SdkSpan;
use wirespan_model::wait::{SpanWaits, ThreadWait, ThreadWaits, WaitKind};
use wirespan_model::{SpanId, TapSide, TraceId};

const TRACE: Option<TraceId> = Some(TraceId([7; 16]));
/// The caller's span, of which nothing else is known.
const CALLER: u64 = 0xabc;

/// An SDK's span of process 1.
fn sdk(id: u64, parent: u64, kind: SpanKind, from_us: u64, to_us: u64) -> Span {
    Span {
        id: SpanId(id),
        parent_span_id: Some(SpanId(parent)).filter(|p| p.0 != 0),
        trace_id: TRACE,
        kind,
        tap: TapSide::App,
        ..Span { tid: 0, exchange: None, socket: 0, ..span(TapSide::App, 0, 0, from_us, to_us) }
    }
}

/// Request 1 of thread 5, from 0 to 1000 µs. It ran for 600.
fn served() -> Span {
    span(TapSide::ServerProcess, 5, 1, 0, 1000)
}

fn explainer() -> Explainer {
    let mut explainer = Explainer::default();
    explainer.marks(&[mark(5, 0, 1, [100, 0, 0]), mark(5, 1000, 1, [700, 0, 0])]);
    explainer
}

/// It slept from 200 to 600 µs.
fn waits(explainer: &mut Explainer) {
    let (stopped_ns, woken_ns, ran_ns) = (200 * US, 590 * US, 600 * US);
    let sleep = ThreadWait { stopped_ns, woken_ns, ran_ns, kind: WaitKind::Sleep, ..ThreadWait::default() };
    explainer.waits(vec![ThreadWaits { pid: 1, tid: 5, waits: vec![sleep], ..ThreadWaits::default() }]);
}

/// Takes spans of sockets, then reports; gives all that comes out until `until_us`.
fn told(explainer: &mut Explainer, seen: Vec<Span>, reports: Vec<Span>, until_us: u64) -> Vec<Arc<Span>> {
    let mut out = Vec::new();
    seen.into_iter().for_each(|s| explainer.push(Arc::new(s), &mut |s| out.push(s)));
    let (ready, held) = explainer.report(reports.into_iter().map(Arc::new).collect(), 1_000 * US);
    explainer.hold(held);
    explainer.release(until_us * US, &|_| None, &mut |s| out.push(s));
    out.extend(ready);
    out.retain(|s| s.tap == TapSide::App);
    out
}

/// On a processor, ready, blocked, in calls, not known; in µs, and the evidence.
fn parts(spans: &[Arc<Span>], id: u64) -> ([u64; 5], String) {
    let span = spans.iter().find(|s| s.id == SpanId(id)).unwrap();
    let parts = Parts::of(span).unwrap_or_default();
    let evidence = span.text(WAIT_EVIDENCE).unwrap_or_default().to_string();
    if !evidence.is_empty() {
        assert_eq!(parts.values().iter().sum::<u64>(), span.duration_ns(), "{parts:?}");
    }
    ([parts.on_cpu, parts.run_queue, parts.blocked, parts.children, parts.unknown].map(|ns| ns / US), evidence)
}

#[test]
fn the_waits_of_the_request_tell_what_each_span_did() {
    let mut explainer = explainer();
    waits(&mut explainer);
    let reason = (WAIT_REASON.into(), "slow".into());
    let carried = Span { trace_id: TRACE, parent_span_id: Some(SpanId(CALLER)), attrs: vec![reason], ..served() };
    let inner = [sdk(11, 10, SpanKind::Internal, 100, 300), sdk(12, 10, SpanKind::Internal, 700, 900)];
    let reports = [&inner[..], &[sdk(10, CALLER, SpanKind::Server, 10, 990)]].concat();
    let out = told(&mut explainer, vec![carried], reports, 30_000);
    assert_eq!(parts(&out, 11), ([100, 0, 100, 0, 0], "context".into()));
    assert_eq!(parts(&out, 12), ([200, 0, 0, 0, 0], "context".into()));
    assert_eq!(parts(&out, 10), ([580, 10, 390, 0, 0], "context".into()));
    let waits: Vec<usize> = out.iter().map(|s| SpanWaits::of(s).unwrap().waits.len()).collect();
    assert_eq!(waits, [1, 0, 1], "each has those of its own time");
    assert!(out.iter().all(|s| s.text(WAIT_REASON) == Some("slow")));
}

#[test]
fn without_waits_only_that_is_told_which_has_no_room_elsewhere() {
    let mut explainer = explainer();
    let carried = Span { trace_id: TRACE, parent_span_id: Some(SpanId(CALLER)), ..served() };
    let reports = vec![sdk(10, CALLER, SpanKind::Server, 50, 950), sdk(11, 10, SpanKind::Internal, 100, 300)];
    let out = told(&mut explainer, vec![carried], reports, 30_000);
    assert_eq!(parts(&out, 10), ([500, 0, 300, 0, 100], "context".into()));
    assert_eq!(parts(&out, 11), ([0, 0, 0, 0, 200], "context".into()));
    assert!(out.iter().all(|s| s.text(WAITS).is_none()));
}

#[test]
fn a_span_waits_for_the_end_of_its_request() {
    let mut explainer = explainer();
    let early = sdk(11, 0, SpanKind::Internal, 100, 900);
    assert!(told(&mut explainer, vec![], vec![early], 1_000).is_empty());
    assert_eq!(explainer.sdk_stats().waiting, 1);
    assert!(told(&mut explainer, vec![served()], vec![], 1_100).is_empty(), "its calls may still come");
    let out = told(&mut explainer, vec![], vec![], 30_000);
    assert_eq!(parts(&out, 11), ([400, 0, 200, 0, 200], "process".into()));
    assert_eq!(explainer.sdk_stats(), SdkStats { explained: 1, ..SdkStats::default() });
}

#[test]
fn a_span_waits_for_its_parent_which_may_know_the_request_better() {
    let mut explainer = explainer();
    let carried = Span { trace_id: TRACE, parent_span_id: Some(SpanId(CALLER)), ..served() };
    assert!(told(&mut explainer, vec![carried], vec![sdk(11, 10, SpanKind::Internal, 100, 900)], 30_000).is_empty());
    let out = told(&mut explainer, vec![], vec![sdk(10, CALLER, SpanKind::Server, 10, 990)], 60_000);
    assert_eq!([parts(&out, 10).1, parts(&out, 11).1], ["context", "context"]);
    let orphan = sdk(13, 12, SpanKind::Internal, 100, 900);
    assert!(told(&mut explainer, vec![], vec![orphan], 90_000).is_empty());
    let out = told(&mut explainer, vec![], vec![], 2_100_000);
    assert_eq!(parts(&out, 13).1, "process");
}

#[test]
fn a_call_that_carries_the_trace_tells_the_request() {
    let mut explainer = explainer();
    explainer.marks(&[mark(5, 300, 2, [200, 0, 0]), mark(5, 800, 2, [250, 0, 0])]);
    let asks = Span { parent_span_id: Some(SpanId(12)), trace_id: TRACE, ..call(5, 2, 1, 300, 800) };
    let unnamed = |span: Span| Span { pid: 0, ..span };
    let reports = [
        sdk(12, 10, SpanKind::Client, 280, 820),
        sdk(11, 10, SpanKind::Internal, 300, 800),
        sdk(10, 0, SpanKind::Server, 10, 990),
    ];
    let out = told(&mut explainer, vec![asks, served()], reports.map(unnamed).into(), 30_000);
    assert_eq!(parts(&out, 11), ([50, 0, 0, 450, 0], "call".into()));
    let ([on_cpu, .., children, _], evidence) = parts(&out, 12);
    assert_eq!((on_cpu >= 50, children, &*evidence), (true, 450, "call"));
}

#[test]
fn one_of_several_requests_at_once_is_known_by_the_thread() {
    let mut explainer = explainer();
    explainer.marks(&[mark(6, 5, 2, [0, 0, 0]), mark(6, 995, 2, [900, 0, 0])]);
    let mut other = span(TapSide::ServerProcess, 6, 2, 5, 995);
    other.exchange = Some(wirespan_model::ExchangeRange { first: 0, last: 0 });
    let named = Span { tid: 6, ..sdk(11, 0, SpanKind::Internal, 10, 990) };
    let reports = vec![named, sdk(12, 0, SpanKind::Internal, 10, 990)];
    let out = told(&mut explainer, vec![served(), other], reports, 30_000);
    assert_eq!(parts(&out, 11), ([890, 0, 80, 0, 10], "process".into()));
    assert_eq!(out.len(), 1, "the other one may be either's: {out:?}");
    let out = told(&mut explainer, vec![], vec![], 13_000_000);
    assert_eq!(parts(&out, 12), ([0; 5], String::new()));
    assert_eq!(explainer.sdk_stats().unexplained, 1);
}

#[test]
fn a_job_without_a_request_is_told_by_its_thread() {
    let mut explainer = Explainer::default();
    explainer.marks(&[mark(5, 0, 9, [100, 0, 0]), mark(5, 1000, 9, [700, 50, 0])]);
    let job = Span { tid: 5, ..sdk(11, 0, SpanKind::Internal, 20, 990) };
    let other = Span { tid: 6, ..sdk(12, 0, SpanKind::Internal, 20, 990) };
    let out = told(&mut explainer, vec![], vec![job, other], 2_100_000);
    assert_eq!((out.len(), parts(&out, 11)), (1, ([570, 20, 320, 0, 60], "thread".into())));
}

#[test]
fn spans_of_others_wait_shortly_and_go_as_they_came() {
    let mut explainer = explainer();
    let foreign = Span { pid: 99, ..sdk(11, 0, SpanKind::Internal, 100, 200) };
    assert!(told(&mut explainer, vec![], vec![foreign.clone()], 1_000).is_empty());
    let out = told(&mut explainer, vec![], vec![], 1_600_000);
    assert_eq!(out, [Arc::new(foreign.clone())]);
    let (ready, held) = Explainer::default().report(vec![Arc::new(foreign)], 0);
    assert_eq!((ready.len(), held.len()), (1, 0), "nothing is traced here");
}

#[test]
fn a_worker_of_the_request_is_not_taken_for_the_thread_that_waits_for_it() {
    let mut explainer = explainer();
    let wait = |from_us: u64, to_us: u64| ThreadWait {
        stopped_ns: from_us * US,
        woken_ns: to_us * US,
        ran_ns: to_us * US,
        kind: WaitKind::Lock,
        ..ThreadWait::default()
    };
    let waits = vec![wait(0, 210), wait(400, 450), wait(800, 2_000)];
    explainer.waits(vec![ThreadWaits { pid: 1, tid: 8, waits, ..ThreadWaits::default() }]);
    let worker = Span { tid: 8, ..sdk(11, 0, SpanKind::Internal, 210, 800) };
    let out = told(&mut explainer, vec![served()], vec![worker], 30_000);
    assert_eq!(parts(&out, 11), ([540, 0, 50, 0, 0], "process".into()));
}

#[test]
fn what_a_process_publishes_tells_the_request_of_two_that_are_under_way() {
    let mut explainer = explainer();
    let other = Span { id: SpanId(2), tid: 6, ..span(TapSide::ServerProcess, 6, 2, 0, 1000) };
    let marks = [mark(6, 0, 2, [0, 0, 0]), mark(6, 1000, 2, [300, 0, 0])];
    explainer.marks(&marks.map(|mark| ClockMark { exchange: 2, ..mark }));
    let exchange = |span: &Span| span.exchange.unwrap().first;
    let seen = |id, tid, cause| {
        let (trace_id, span_id) = (TRACE.unwrap(), SpanId(id));
        SdkSpan { pid: 1, tid, cause, trace_id, span_id, time_ns: 500 * US }
    };
    explainer.sdk_spans(served().host_id, &[seen(11, 5, exchange(&served())), seen(12, 6, exchange(&other))]);
    let nameless = |id| Span { pid: 0, ..sdk(id, 0, SpanKind::Internal, 0, 1000) };
    let reports = vec![nameless(11), nameless(12), nameless(13)];
    let out = told(&mut explainer, vec![other], reports, 30_000);
    assert_eq!(parts(&out, 12), ([300, 0, 700, 0, 0], "thread-context".into()));
    assert_eq!(out.len(), 1, "the request of the other one has not ended");
    let out = told(&mut explainer, vec![served()], vec![], 60_000);
    assert_eq!(parts(&out, 11), ([600, 0, 400, 0, 0], "thread-context".into()));
    let out = told(&mut explainer, vec![], vec![], 9_000_000);
    assert_eq!(parts(&out, 13).1, "", "of which nothing was seen");
}

#[test]
fn requests_that_follow_each_other_closely_are_told_apart_by_their_times() {
    let mut explainer = explainer();
    let request = |n: u64| {
        let mut request = span(TapSide::ServerProcess, 5, n, n * 400, n * 400 + 350);
        request.exchange = Some(wirespan_model::ExchangeRange { first: n, last: n });
        request
    };
    // Of three requests of 350 µs, the span of the second one and two below it, one of which is quick; the clock of the
    // program is 30 µs late, and the last request comes later.
    let reports = vec![
        sdk(10, 0, SpanKind::Server, 440, 760),
        sdk(11, 10, SpanKind::Internal, 450, 600),
        sdk(12, 10, SpanKind::Internal, 751, 759),
    ];
    let out = told(&mut explainer, vec![request(0)], reports, 30_000);
    assert!(out.is_empty(), "the first one was not under way then: {out:?}");
    let out = told(&mut explainer, vec![request(1), request(2)], vec![], 60_000);
    assert_eq!([10, 11, 12].map(|id| parts(&out, id).1), ["process", "process", "process"]);
    let of = |id: u64| explainer.request_of(&sdk(id, 10, SpanKind::Internal, 751, 759), Place { pid: 1, tid: 0 });
    assert_eq!(of(12).map(|(request, _)| request.start_ns), Some(400 * US));
}
