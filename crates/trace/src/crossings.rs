//! Times between two points of a request's way that are of different hosts, with their errors.
//!
//! The clocks of two hosts differ by an unknown amount. But a request cannot arrive before it was sent, and neither can
//! its response: so each request that went from one host to the other and came back bounds that amount from both sides.
//! All requests of the trace between the same two hosts bound it together. Request and response together are exact: the
//! difference of two durations compares no clocks.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::{hop, Evidence, Span, SpanId, Trace, Value};

/// Clocks that are kept by NTP drift apart by no more than this share of time (`MAXFREQ` of the kernel, for two).
const MOST_DRIFT: f64 = 1000e-6;

/// A request from a point at one host to the next point, at another.
struct Crossing {
    child: usize,
    parent: usize,
    /// When it was sent, by the clock of the parent, ns.
    at_ns: u64,
    /// How far the clock of the child is ahead, ns.
    ahead: [f64; 2],
}

fn difference(a: u64, b: u64) -> f64 {
    // Exact for clocks that differ by less than 2⁵³ ns.
    i128::from(a).wrapping_sub(i128::from(b)) as f64
}

/// The crossing from this parent to this child; `None` if one saw no response, or if they contradict each other.
fn crossing(n: usize, p: usize, child: &Span, parent: &Span) -> Option<Crossing> {
    let answered = child.response_ns > 0 && parent.response_ns > 0;
    let ahead = [difference(child.response_ns, parent.response_ns), difference(child.start_ns, parent.start_ns)];
    let is_one = answered && ahead[0] <= ahead[1];
    is_one.then_some(Crossing { child: n, parent: p, at_ns: parent.start_ns, ahead })
}

/// Tells the times between hosts: what is known is an attribute of the later point, as it is of devices of one host.
pub fn cross_hosts(trace: &mut Trace) {
    let numbers: FxHashMap<SpanId, usize> = trace.spans.iter().enumerate().map(|(n, s)| (s.span.id, n)).collect();
    let (mut crossings, mut marked) = (Vec::new(), Vec::new());
    for (n, of) in trace.spans.iter().enumerate() {
        let wire = of.link.filter(|link| link.evidence == Evidence::Wire);
        let Some(p) = wire.and_then(|link| numbers.get(&link.parent).copied()) else { continue };
        let (child, parent) = (&of.span, &trace.spans[p].span);
        // Captures of several places have compared their clocks already.
        if child.host_id == parent.host_id || child.number(hop::ROUND_TRIP).is_some() {
            continue;
        }
        marked.push(n);
        crossings.extend(crossing(n, p, child, parent));
    }
    let mut told: FxHashMap<usize, Vec<(&'static str, f64)>> = FxHashMap::default();
    let mut ahead: FxHashMap<usize, [f64; 2]> = FxHashMap::default();
    for one in &crossings {
        let bounds = bounds(one, &crossings, trace);
        told.insert(one.child, times(one, bounds));
        ahead.insert(one.child, bounds);
    }
    for n in marked {
        let span = Arc::make_mut(&mut trace.spans[n].span);
        span.attrs.push((hop::CLOCKS.into(), Value::Str("two hosts".into())));
        let known = told.remove(&n).unwrap_or_default();
        span.attrs.extend(known.into_iter().map(|(key, ns)| (key.into(), Value::Int(ns.round() as i64))));
    }
    show_one_clock(trace, &numbers, &ahead);
}

/// Shows all spans by the clock of the host where their tree begins. Only a clock that must be wrong is corrected: by
/// its own times, a request would have arrived before it was sent, or been answered too late. `ahead`: bounds of each
/// span that came from another host.
fn show_one_clock(trace: &mut Trace, numbers: &FxHashMap<SpanId, usize>, ahead: &FxHashMap<usize, [f64; 2]>) {
    // How far the clock of each span is ahead, and the error. Parents come before their children.
    let mut clocks: Vec<(f64, f64)> = Vec::with_capacity(trace.spans.len());
    let mut hosts: FxHashMap<u64, (f64, f64)> = FxHashMap::default();
    for (n, of) in trace.spans.iter().enumerate() {
        let host = of.span.host_id;
        let parent = of.link.and_then(|link| numbers.get(&link.parent).copied()).filter(|p| *p < n);
        let (from, bounds) = (parent.map(|p| (trace.spans[p].span.host_id, clocks[p])), ahead.get(&n));
        let clock = match (from, bounds) {
            (Some((same, clock)), _) if same == host => clock,
            (Some((_, (before, error))), Some([low, high])) if low <= high => match *low > 0.0 || *high < 0.0 {
                true => (before + (low + high) / 2.0, error + (high - low) / 2.0),
                false => (before, error),
            },
            // Nothing but other spans of the same host says how its clock is.
            _ => hosts.get(&host).copied().unwrap_or_default(),
        };
        hosts.insert(host, clock);
        clocks.push(clock);
    }
    for (of, (ahead, error)) in trace.spans.iter_mut().zip(clocks) {
        let ahead_ns = ahead.round() as i64;
        if ahead_ns == 0 {
            continue;
        }
        let span = Arc::make_mut(&mut of.span);
        for ns in [&mut span.start_ns, &mut span.response_ns, &mut span.end_ns] {
            // No response has no time.
            *ns = if *ns == 0 { 0 } else { ns.saturating_add_signed(-ahead_ns) };
        }
        let told = [(hop::CLOCK_AHEAD, ahead_ns), (hop::CLOCK_ERROR, error.ceil() as i64)];
        span.attrs.extend(told.map(|(key, ns)| (key.into(), Value::Int(ns))));
    }
}

/// How far the clock of a crossing's child is ahead, by all crossings between the same hosts.
fn bounds(one: &Crossing, all: &[Crossing], trace: &Trace) -> [f64; 2] {
    let hosts = |of: &Crossing| (trace.spans[of.parent].span.host_id, trace.spans[of.child].span.host_id);
    let (from, to) = hosts(one);
    let [mut low, mut high] = one.ahead;
    for other in all {
        let bounds = match hosts(other) {
            same if same == (from, to) => other.ahead,
            back if back == (to, from) => [-other.ahead[1], -other.ahead[0]],
            _ => continue,
        };
        // Of a crossing the other way round, the time is of the other clock; seconds of skew are a few ms of drift.
        let aged = difference(one.at_ns, other.at_ns).abs() * MOST_DRIFT;
        (low, high) = (low.max(bounds[0] - aged), high.min(bounds[1] + aged));
    }
    [low, high]
}

/// What is known of the time of a crossing, if the clock of its child is so far ahead.
fn times(one: &Crossing, [low, high]: [f64; 2]) -> Vec<(&'static str, f64)> {
    let both = one.ahead[1] - one.ahead[0];
    let mut told = vec![(hop::ROUND_TRIP, both)];
    let width = high - low;
    // Where nothing but this request bounds the clocks, its time in one direction is open.
    if width >= 0.0 && width < both {
        let middle = |bounds: [f64; 2]| (bounds[0] + bounds[1]) / 2.0;
        let there = [one.ahead[1] - high, one.ahead[1] - low];
        let back = [low - one.ahead[0], high - one.ahead[0]];
        told.extend([(hop::REQUEST, middle(there)), (hop::REQUEST_ERROR, (width / 2.0).ceil())]);
        told.extend([(hop::RESPONSE, middle(back)), (hop::RESPONSE_ERROR, (width / 2.0).ceil())]);
    }
    told
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::link;
    use wirespan_model::{Endpoint, FiveTuple, TapSide, Transport};

    /// The second host's clock is so far ahead, ns.
    const SKEW: i64 = -3_000_000_000;
    const START: u64 = 1_790_000_000_000_000_000;

    /// A request that is `there` and `back` on the way between the hosts, and is answered after `took`: the view of the
    /// client's process, the client's device, the server's device and the server's process.
    fn way(id: u64, at: u64, there: u64, back: u64, took: u64) -> Vec<Arc<Span>> {
        let end = |last, port| Endpoint { ip: [10, 0, 0, last].into(), port };
        let tuple = FiveTuple { client: end(1, 40_000), server: end(2, 80), transport: Transport::Tcp };
        // Each device is 1 µs from its process.
        let view = |n: u64, tap, host_id, from: u64, to: u64| {
            let shown = |truth: u64| truth.saturating_add_signed(if host_id == 2 { SKEW } else { 0 });
            Arc::new(Span {
                id: SpanId(id * 10 + n),
                tap,
                host_id,
                tuple,
                start_ns: shown(START + from),
                response_ns: shown(START + to),
                end_ns: shown(START + to),
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
        traces.iter_mut().for_each(cross_hosts);
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
                2 | 3 => assert!((ahead.unwrap() - SKEW).abs() <= error.unwrap() && error == Some(50_000), "{span:?}"),
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
        assert_eq!(slow.number(hop::ROUND_TRIP), Some(4_009_000));
        assert!((4_000_000 - there).abs() <= error && (9_000 - back).abs() <= error, "{there} {back} ± {error}");
        assert!((0..20_000).contains(&error), "{error}");
    }

    #[test]
    fn views_that_contradict_each_other_tell_no_time() {
        let mut spans = way(1, 0, 40_000, 60_000, 500_000);
        // The server says that it took longer than the client waited.
        Arc::make_mut(&mut spans[2]).response_ns += 10_000_000;
        let traces = told(spans);
        assert_eq!(of(&traces[0], TapSide::ServerNic, hop::ROUND_TRIP), None);
    }
}
