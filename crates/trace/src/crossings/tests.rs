#![allow(clippy::unwrap_used)]
use super::*;
use crate::link;
use wirespan_model::{Endpoint, FiveTuple, TapSide, Transport};

/// The second host's clock is so far ahead, ns.
const SKEW: i64 = -3_000_000_000;
const START: u64 = 1_790_000_000_000_000_000;

/// A request that is `there` and `back` on the way between the hosts, and is answered after `took`: the view of the
/// client's process, the client's device, the server's device and the server's process.
fn way(id: u64, at: u64, there: u64, back: u64, took: u64) -> Vec<Arc<Span>> {
    way_by(|truth| truth.saturating_add_signed(SKEW), id, [at, there, back, took])
}

/// As above. `clock`: what the second host's clock shows.
fn way_by(clock: impl Fn(u64) -> u64, id: u64, [at, there, back, took]: [u64; 4]) -> Vec<Arc<Span>> {
    let end = |last, port| Endpoint { ip: [10, 0, 0, last].into(), port };
    let tuple = FiveTuple { client: end(1, 40_000), server: end(2, 80), transport: Transport::Tcp };
    // Each device is 1 µs from its process.
    let view = |n: u64, tap, host_id, from: u64, to: u64| {
        let shown = |truth: u64| if host_id == 2 { clock(START + truth) } else { START + truth };
        Arc::new(Span {
            id: SpanId(id * 10 + n),
            tap,
            host_id,
            tuple,
            start_ns: shown(from),
            response_ns: shown(to),
            end_ns: shown(to),
            request_seq: Some(id as u32 * 100),
            response_seq: Some(id as u32 * 100 + 7),
            ..Span::default()
        })
    };
    let came = at + 2_000 + there;
    vec![
        view(1, TapSide::ClientProcess, 1, at, came + took + back + 2_000),
        view(2, TapSide::ClientNic, 1, at + 1_000, came + took + back + 1_000),
        view(3, TapSide::ServerNic, 2, came - 1_000, came + took + 1_000),
        view(4, TapSide::ServerProcess, 2, came, came + took),
    ]
}

fn told(spans: Vec<Arc<Span>>) -> Vec<Trace> {
    let mut traces = link(spans);
    traces.iter_mut().for_each(|trace| cross_hosts(trace, Vec::new()));
    traces
}

fn of(trace: &Trace, tap: TapSide, key: &str) -> Option<i64> {
    trace.spans.iter().find(|s| s.span.tap == tap).unwrap().span.number(key)
}

#[test]
fn the_time_between_two_hosts_is_exact_for_both_directions_and_open_for_one() {
    let traces = told(way(1, 0, 40_000, 60_000, 500_000));
    assert_eq!((traces.len(), traces[0].spans.len()), (1, 4), "clocks that differ by seconds: one way");
    assert_eq!(of(&traces[0], TapSide::ServerNic, hop::ROUND_TRIP), Some(100_000));
    // The clocks may have gone apart by 1000 ppm meanwhile.
    assert_eq!(of(&traces[0], TapSide::ServerNic, hop::ROUND_TRIP_ERROR), Some(502));
    assert_eq!(of(&traces[0], TapSide::ServerNic, hop::REQUEST), None);
    // Hops of one host are compared by one clock.
    assert_eq!(of(&traces[0], TapSide::ServerProcess, hop::ROUND_TRIP), None);
    let clocks = |s: &&wirespan_model::TraceSpan| s.span.attrs.iter().any(|(k, _)| k == hop::CLOCKS);
    assert_eq!(traces[0].spans.iter().filter(clocks).count(), 1);
}

#[test]
fn spans_of_a_wrong_clock_are_shown_by_the_clock_where_the_trace_begins() {
    let traces = told(way(1, 0, 40_000, 60_000, 500_000));
    let spans: Vec<_> = traces[0].spans.iter().map(|s| &s.span).collect();
    // Each point lies within the one before.
    for pair in spans.windows(2) {
        assert!(pair[0].start_ns <= pair[1].start_ns && pair[1].response_ns <= pair[0].response_ns, "{pair:?}");
        assert_eq!((pair[1].response_ns, pair[1].duration_ns() > 0), (pair[1].end_ns, true));
    }
    for (n, span) in spans.iter().enumerate() {
        let [ahead, error] = [hop::CLOCK_AHEAD, hop::CLOCK_ERROR].map(|key| span.number(key));
        match n {
            // Both devices of the request bound the clocks by the time between the two hosts.
            2 | 3 => {
                let (ahead, error) = (ahead.unwrap(), error.unwrap());
                assert!((ahead - SKEW).abs() <= error && (50_000..51_000).contains(&error), "{span:?}");
            }
            _ => assert_eq!((ahead, error), (None, None)),
        }
    }
}

#[test]
fn clocks_that_may_be_right_are_left_alone() {
    let mut spans = way(1, 0, 40_000, 60_000, 500_000);
    for span in &mut spans {
        if span.host_id == 2 {
            let span = Arc::make_mut(span);
            let right = |ns: u64| ns.saturating_add_signed(-SKEW + 30_000);
            (span.start_ns, span.response_ns, span.end_ns) =
                (right(span.start_ns), right(span.response_ns), right(span.end_ns));
        }
    }
    let before: Vec<u64> = spans.iter().map(|s| s.start_ns).collect();
    let traces = told(spans);
    assert_eq!(traces[0].spans.iter().map(|s| s.span.start_ns).collect::<Vec<_>>(), before);
    assert_eq!(of(&traces[0], TapSide::ServerNic, hop::CLOCK_AHEAD), None);
    assert_eq!(of(&traces[0], TapSide::ServerNic, hop::ROUND_TRIP), Some(100_000));
}

#[test]
fn a_quick_request_bounds_the_time_of_a_slow_one_and_the_truth_is_within() {
    let mut spans = way(1, 0, 5_000, 6_000, 10_000);
    // Two requests of one trace: their callers carry its id.
    spans.extend(way(2, 1_000_000, 4_000_000, 9_000, 10_000));
    let trace_id = Some(wirespan_model::TraceId([7; 16]));
    let spans = spans.into_iter().map(|s| Arc::new(Span { trace_id, ..Span::clone(&s) })).collect();
    let traces = told(spans);
    let all = traces.iter().flat_map(|trace| &trace.spans);
    let slow = all.map(|s| &s.span).find(|s| s.id == SpanId(23)).unwrap();
    let [there, error, back] =
        [hop::REQUEST, hop::REQUEST_ERROR, hop::RESPONSE].map(|key| slow.number(key).unwrap_or(-1));
    let both = [hop::ROUND_TRIP, hop::ROUND_TRIP_ERROR].map(|key| slow.number(key).unwrap());
    assert!((both[0] - 4_009_000).abs() <= both[1] && both[1] <= 12, "{both:?}");
    assert!((4_000_000 - there).abs() <= error && (9_000 - back).abs() <= error, "{there} {back} ± {error}");
    assert!((0..20_000).contains(&error), "{error}");
}

#[test]
fn both_directions_together_are_right_within_the_drift_of_the_clocks() {
    // The second clock gains 180 ppm, and the request is there for a second: by the clocks, its way took −80 µs.
    let clock = |truth: u64| truth + (truth - START) * 180 / 1_000_000;
    let second = 1_000_000_000;
    let slow = way_by(clock, 1, [10 * second, 40_000, 60_000, second]);
    let quick: Vec<_> = (2..22).flat_map(|n| way_by(clock, n, [(n - 2) * second, 5_000, 6_000, 10_000])).collect();
    for (around, most) in [(Vec::new(), 1_000_000), (quick, 1_000)] {
        let mut trace = link(slow.clone()).remove(0);
        cross_hosts(&mut trace, around);
        let [both, error] =
            [hop::ROUND_TRIP, hop::ROUND_TRIP_ERROR].map(|key| of(&trace, TapSide::ServerNic, key).unwrap());
        assert!((both - 100_000).abs() <= error && error < most, "{both} ± {error}");
    }
}

/// The times of a trace's hop between the hosts: there and back, each with its error.
fn directions(trace: &Trace) -> [Option<(i64, i64)>; 2] {
    [(hop::REQUEST, hop::REQUEST_ERROR), (hop::RESPONSE, hop::RESPONSE_ERROR)].map(|(key, error)| {
        let value = |key| of(trace, TapSide::ServerNic, key);
        Some((value(key)?, value(error)?))
    })
}

/// Whether the error of a time is at most so great, and the truth within.
fn is_known(told: Option<(i64, i64)>, truth: i64, most: i64) -> bool {
    told.is_some_and(|(ns, error)| (ns - truth).abs() <= error && error <= most)
}

#[test]
fn requests_of_other_traces_bound_the_clocks_whatever_the_clocks_drift() {
    let drifts = |truth: u64| truth.saturating_add_signed(SKEW + ((truth - START) as f64 * 180e-6) as i64);
    let second = 1_000_000_000;
    // A quick request each second, but for ten seconds around a slow one that lasts for two.
    let quick = |n: u64| way_by(drifts, n, [n * second, 5_000, 6_000, 10_000]);
    let around: Vec<_> = (1..40).filter(|n| !(15..25).contains(n)).flat_map(quick).collect();
    let slow = || link(way_by(drifts, 50, [20 * second, 4_000_000, 9_000_000, 2 * second])).remove(0);
    let mut alone = slow();
    cross_hosts(&mut alone, Vec::new());
    assert_eq!(directions(&alone), [None, None]);
    let mut trace = slow();
    cross_hosts(&mut trace, around);
    let [there, back] = directions(&trace);
    // Five seconds of unknown drift would be 5 ms: the requests bound the drift, too.
    assert!(is_known(there, 4_000_000, 20_000) && is_known(back, 9_000_000, 20_000), "{there:?} {back:?}");
}

#[test]
fn if_a_clock_was_set_meanwhile_the_requests_of_the_trace_itself_count() {
    let trace_id = Some(wirespan_model::TraceId([7; 16]));
    let mut spans = way(1, 0, 5_000, 6_000, 10_000);
    spans.extend(way(2, 1_000_000, 4_000_000, 9_000, 10_000));
    let spans = spans.into_iter().map(|s| Arc::new(Span { trace_id, ..Span::clone(&s) })).collect();
    let mut traces = link(spans);
    let was_set = |truth: u64| truth.saturating_add_signed(SKEW + 70_000_000);
    let around = way_by(was_set, 3, [30_000_000, 5_000, 6_000, 10_000]);
    traces.iter_mut().for_each(|trace| cross_hosts(trace, around.clone()));
    let slow = traces.iter().flat_map(|trace| &trace.spans).map(|s| &s.span).find(|s| s.id == SpanId(23)).unwrap();
    let [there, error] = [hop::REQUEST, hop::REQUEST_ERROR].map(|key| slow.number(key).unwrap_or(-1));
    assert!((4_000_000 - there).abs() <= error && error < 20_000, "{there} ± {error}");
}

#[test]
fn views_that_contradict_each_other_tell_no_time() {
    let mut spans = way(1, 0, 40_000, 60_000, 500_000);
    // The server says that it took longer than the client waited.
    Arc::make_mut(&mut spans[2]).response_ns += 10_000_000;
    let traces = told(spans);
    assert_eq!(of(&traces[0], TapSide::ServerNic, hop::ROUND_TRIP), None);
}
