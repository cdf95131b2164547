#![allow(clippy::unwrap_used)]
use super::*;
use std::sync::Arc;
use wirespan_model::{ParentLink, TraceId, Value};

const START: u64 = 1_790_000_000_000_000_000;

/// A point that sees the request at one time and the first byte of the response at another.
fn point(tap: TapSide, host_id: u64, came: u64, answered: u64, attrs: &[(&'static str, i64)]) -> Span {
    let response_ns = if answered == 0 { 0 } else { START + answered };
    let attrs = attrs.iter().map(|(key, n)| ((*key).into(), Value::Int(*n))).collect();
    Span { tap, host_id, start_ns: START + came, response_ns, end_ns: START + 900_000, attrs, ..Span::default() }
}

/// One below the other, all views of one request.
fn way(points: Vec<Span>) -> Trace {
    let spans = (1u64..).zip(points).map(|(n, span)| {
        let link = ParentLink { parent: SpanId(n - 1), evidence: Evidence::Wire, confidence: 1.0 };
        let span = Arc::new(Span { id: SpanId(n), ..span });
        TraceSpan { span, link: Some(link).filter(|_| n > 1), depth: n as u32 - 1, links: Vec::new() }
    });
    Trace { id: TraceId([1; 16]), spans: spans.collect(), complete: true }
}

fn words(of: Option<Hop>) -> String {
    of.map_or(String::new(), |hop| hop.words(|ns| ns.to_string()))
}

fn shown(points: Vec<Span>) -> Vec<(String, String)> {
    let hops = hops(&way(points));
    hops.into_iter().map(|h| (words(h.from_parent), words(h.over_devices))).collect()
}

const REQUEST: (&str, &str) = (hop::REQUEST, hop::REQUEST_ERROR);
const RESPONSE: (&str, &str) = (hop::RESPONSE, hop::RESPONSE_ERROR);

#[test]
fn points_of_one_clock_have_exact_times_and_devices_add_up() {
    let shown = shown(vec![
        point(TapSide::ClientProcess, 1, 0, 100_000, &[]),
        point(TapSide::ClientNic, 1, 10_000, 95_000, &[]),
        point(TapSide::ServerNic, 1, 30_000, 90_000, &[]),
        point(TapSide::ServerProcess, 1, 31_000, 80_000, &[]),
    ]);
    let of = |n: usize| (shown[n].0.as_str(), shown[n].1.as_str());
    assert_eq!(of(0), ("", ""));
    assert_eq!(of(1), ("hop 15000  there 10000  back 5000", ""));
    assert_eq!(of(2), ("hop 25000  there 20000  back 5000", "hop 40000  there 30000  back 10000"));
    assert_eq!(of(3), ("hop 11000  there 1000  back 10000", "hop 51000  there 31000  back 20000"));
}

#[test]
fn a_span_that_says_how_long_its_hop_took_is_believed_if_the_point_before_is_its_parent() {
    let attrs = |position| [(hop::POSITION, position), (hop::REQUEST, 4_000), (hop::ROUND_TRIP, 7_000)];
    let first = point(TapSide::ClientProcess, 1, 0, 100_000, &[]);
    let second = |position| point(TapSide::ServerNic, 1, 5_000, 92_000, &attrs(position));
    assert_eq!(shown(vec![first.clone(), second(2)])[1].0, "hop 7000  there 4000  back ?");
    // The point before was another one.
    assert_eq!(shown(vec![first, second(3)])[1].0, "hop 13000  there 5000  back 8000");
}

#[test]
fn two_clocks_tell_both_directions_together_and_one_direction_with_its_error() {
    let ahead = 5_000_000_000;
    let told = |error: i64| {
        vec![
            (hop::ROUND_TRIP, 50_000),
            (REQUEST.0, 30_000),
            (REQUEST.1, error),
            (RESPONSE.0, 20_000),
            (RESPONSE.1, error),
        ]
    };
    let pair = |attrs: &[(&'static str, i64)]| {
        let client = point(TapSide::ClientProcess, 1, 0, 100_000, &[]);
        let nic = point(TapSide::ServerNic, 2, ahead, ahead + 50_000, attrs);
        let server = point(TapSide::ServerProcess, 2, ahead + 3_000, ahead + 46_000, &[]);
        let shown = shown(vec![client, nic, server]);
        [shown[1].0.clone(), shown[2].1.clone()]
    };
    // The clocks may go apart by 1000 ppm while the request is there.
    assert_eq!(pair(&[]), ["hop 50000 ± 50  there ?  back ?", "hop 57000 ± 50  there ?  back ?"]);
    let known =
        ["hop 50000  there 30000 ± 10000  back 20000 ± 10000", "hop 57000  there 33000 ± 10000  back 24000 ± 10000"];
    assert_eq!(pair(&told(10_000)), known);
    // The bounds are farther apart than the time: it is not known, although the error is smaller than the time.
    let open =
        ["hop 50000  there 30000 ± 15000  back at most 35000", "hop 57000  there 33000 ± 15000  back at most 39000"];
    assert_eq!(pair(&told(15_000)), open);
}

#[test]
fn points_that_contradict_each_other_and_points_without_response_tell_what_is_left() {
    let client = |answered| point(TapSide::ClientProcess, 1, 0, answered, &[]);
    // It says that it took longer than its caller waited.
    assert_eq!(shown(vec![client(100_000), point(TapSide::ServerProcess, 2, 0, 200_000, &[])])[1].0, "there ?");
    assert_eq!(shown(vec![client(0), point(TapSide::ServerProcess, 1, 7_000, 90_000, &[])])[1].0, "there 7000");
    // One clock, and the second point is before the first one.
    let early = point(TapSide::Capture, 1, 0, 100_000, &[]);
    let late = point(TapSide::ServerNic, 1, 90_000, 98_000, &[]);
    assert_eq!(shown(vec![late, early])[1].0, "there ?");
}

#[test]
fn a_way_that_begins_at_a_device_comes_from_no_process() {
    let nic = |came| point(TapSide::ServerNic, 1, came, 90_000, &[]);
    let shown = shown(vec![nic(0), nic(5_000), point(TapSide::ServerProcess, 1, 7_000, 90_000, &[])]);
    assert_eq!(shown[2], ("hop 2000  there 2000  back 0".to_owned(), String::new()));
}

#[test]
fn between_places_in_an_unknown_order_no_time_is_told() {
    let unordered = |mut span: Span| {
        span.attrs.push((hop::EVIDENCE.into(), hop::UNORDERED.into()));
        span
    };
    let client = point(TapSide::ClientProcess, 1, 0, 100_000, &[]);
    let place = |host, came| unordered(point(TapSide::Capture, host, came, 90_000, &[]));
    let trace = way(vec![client, place(1, 10_000), place(1, 20_000)]);
    let told: Vec<_> = hops(&trace).into_iter().map(|hops| words(hops.from_parent)).collect();
    assert_eq!(told, ["", "hop 20000  there 10000  back 10000", "there ?"]);
    let shown = crate::tree::text(&trace, crate::tree::TextOptions::default());
    assert_eq!(shown.matches("order unknown").count(), 2, "{shown}");
    let mut trace = way(vec![place(2, 10_000), place(3, 20_000)]);
    crate::cross_hosts(&mut trace, Vec::new());
    assert_eq!(trace.spans[1].span.number(hop::ROUND_TRIP), None);
}

#[test]
fn spans_that_are_not_of_the_same_request_have_no_hop() {
    let mut trace = way(vec![
        point(TapSide::ServerProcess, 1, 0, 100_000, &[]),
        point(TapSide::ClientProcess, 1, 10_000, 90_000, &[]),
    ]);
    trace.spans[1].link.as_mut().unwrap().evidence = Evidence::Thread;
    assert_eq!(hops(&trace), [Hops::default(); 2]);
}
