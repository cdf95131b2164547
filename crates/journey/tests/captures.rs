//! Captures of a client, of gateways and of a server, each with a clock of its own: one way, in the right order, with
//! times whose bounds contain the truth.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::net::IpAddr;
use wirespan_journey::captures::{align, Capture, Found};
use wirespan_model::packet::Passage;
use wirespan_model::{hop, Endpoint, FiveTuple, Span, SpanId, TapSide, Transport};

const US: i64 = 1_000;
const MS: i64 = 1_000_000;
const START: i64 = 1_700_000_000_000_000_000;

/// A place of the simulated way.
#[derive(Clone, Debug)]
struct Point {
    /// Its clock minus the true time, ns.
    skew: i64,
    /// How much its clock gains, as a share of time.
    drift: f64,
    /// Routers between it and the place before.
    routers: u8,
    /// Addresses that are valid here.
    client: &'static str,
    server: &'static str,
}

fn point(skew: i64, routers: u8) -> Point {
    Point { skew, drift: 0.0, routers, client: "10.0.0.1", server: "10.0.0.2" }
}

impl Point {
    fn clock(&self, truth: i64) -> u64 {
        (truth + self.skew + ((truth - START) as f64 * self.drift) as i64) as u64
    }
}

/// One request: the true times at which it and its response pass each place.
#[derive(Clone, Debug)]
struct Exchange {
    there: Vec<i64>,
    back: Vec<i64>,
}

/// A request that needs `legs[n].0` to place `n + 1` and `legs[n].1` back.
fn exchange(at: i64, legs: &[(i64, i64)], work: i64) -> Exchange {
    let mut there = vec![at];
    legs.iter().for_each(|(forth, _)| there.push(there[there.len() - 1] + forth));
    let mut back = vec![there[there.len() - 1] + work];
    legs.iter().rev().for_each(|(_, home)| back.insert(0, back[0] + home));
    Exchange { there, back }
}

/// What each place captured.
fn captured(points: &[Point], exchanges: &[Exchange]) -> Vec<Capture> {
    let capture = |(n, p): (usize, &Point)| {
        let end = |ip: &str, port| Endpoint::new(ip.parse::<IpAddr>().unwrap(), port);
        let (client, server) = (end(p.client, 40_000), end(p.server, 80));
        let before: u8 = points[..=n].iter().map(|p| p.routers).sum();
        let behind: u8 = points[n + 1..].iter().map(|p| p.routers).sum();
        let mut capture = Capture { name: format!("{n}.pcap"), ..Capture::default() };
        for (number, e) in (0u32..).zip(exchanges) {
            let (request_seq, response_seq) = (1000 + number * 100, 9000 + number * 50);
            let (start_ns, response_ns) = (p.clock(e.there[n]), p.clock(e.back[n]));
            let passage = |to_server: bool| Passage {
                socket: 7,
                time_ns: if to_server { start_ns } else { response_ns },
                seq: if to_server { request_seq } else { response_seq },
                len: if to_server { 100 } else { 50 },
                ttl: 64 - if to_server { before } else { behind },
                ascending: (client < server) == to_server,
            };
            capture.passages.extend([passage(true), passage(false)]);
            capture.spans.push(Span {
                id: SpanId(u64::from(number) * 10 + n as u64 + 1),
                tap: TapSide::Capture,
                start_ns,
                response_ns,
                end_ns: response_ns,
                socket: 7,
                request_seq: Some(request_seq),
                response_seq: Some(response_seq),
                request_bytes: 100,
                response_bytes: 50,
                tuple: FiveTuple { transport: Transport::Tcp, client, server },
                ..Span::default()
            });
        }
        capture
    };
    points.iter().enumerate().map(capture).collect()
}

/// Aligns captures that are given in this order. Returns them in the order of the way.
fn aligned(captures: Vec<Capture>, given: &[usize]) -> (Found, Vec<Capture>) {
    let mut captures: Vec<Option<Capture>> = captures.into_iter().map(Some).collect();
    let mut all: Vec<Capture> = given.iter().map(|n| captures[*n].take().unwrap()).collect();
    let found = align(&mut all);
    for (n, capture) in given.iter().zip(all) {
        captures[*n] = Some(capture);
    }
    (found, captures.into_iter().map(Option::unwrap).collect())
}

fn number(span: &Span, key: &str) -> i64 {
    span.number(key).unwrap_or_else(|| panic!("no {key} in {:?}", span.attrs))
}

#[test]
fn a_request_at_three_places_is_one_way_whatever_the_clocks_say() {
    let points = [point(0, 0), point(-3000 * MS, 1), point(5000 * MS, 0)];
    let exchanges: Vec<Exchange> = (0..20)
        .map(|n| exchange(START + n * 10 * MS, &[(100 * US + n * US, 80 * US), (30 * US, 40 * US + n * US)], MS))
        .collect();
    for given in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let (found, captures) = aligned(captured(&points, &exchanges), &given);
        assert_eq!((found.connections, found.unordered), (1, 0));
        for (n, e) in exchanges.iter().enumerate() {
            let spans: Vec<&Span> = captures.iter().map(|c| &c.spans[n]).collect();
            assert_eq!(spans.iter().map(|s| s.hop_position()).collect::<Vec<_>>(), [1, 2, 3]);
            assert_eq!(
                spans.iter().map(|s| s.tap).collect::<Vec<_>>(),
                [TapSide::ClientNic, TapSide::ServerNode, TapSide::ServerNic]
            );
            assert_eq!(spans[1].text(hop::EVIDENCE), Some("ttl"));
            assert_eq!(spans[2].text(hop::EVIDENCE), Some("round-trip"));
            // For both directions together, only the drift of the clocks matters.
            let both = |n: usize| (e.back[n] - e.there[n]) - (e.back[n + 1] - e.there[n + 1]);
            for n in [1, 2] {
                let [told, error] = [hop::ROUND_TRIP, hop::ROUND_TRIP_ERROR].map(|key| number(spans[n], key));
                assert!((told - both(n - 1)).abs() <= error && error <= 2 * US, "{told} ± {error}");
            }
            for (n, span) in spans.iter().enumerate().skip(1) {
                for (key, error, truth) in [
                    (hop::REQUEST, hop::REQUEST_ERROR, e.there[n] - e.there[n - 1]),
                    (hop::RESPONSE, hop::RESPONSE_ERROR, e.back[n - 1] - e.back[n]),
                ] {
                    if let (Some(told), Some(error)) = (span.number(key), span.number(error)) {
                        assert!((told - truth).abs() <= error + 1, "{key} {told} ± {error}, truth {truth}");
                    }
                }
            }
            // By one clock, the places follow each other.
            assert!(spans.windows(2).all(|w| w[0].start_ns <= w[1].start_ns && w[0].end_ns >= w[1].end_ns));
            assert!(spans.iter().all(|s| s.end_ns - s.start_ns < 2 * MS as u64));
        }
    }
}

#[test]
fn a_gateway_that_translates_addresses_is_on_the_way_twice_in_one_capture() {
    let points = [point(0, 0), point(700 * MS, 0), Point { routers: 1, ..point(700 * MS, 0) }, point(-90 * MS, 0)];
    let mut points = points.to_vec();
    (points[1].client, points[1].server) = ("10.0.0.1", "10.9.9.9");
    (points[0].client, points[0].server) = ("10.0.0.1", "10.9.9.9");
    (points[2].client, points[2].server) = ("10.5.0.1", "10.5.0.2");
    (points[3].client, points[3].server) = ("10.5.0.1", "10.5.0.2");
    let exchanges: Vec<Exchange> = (0..8)
        .map(|n| exchange(START + n * MS, &[(50 * US, 60 * US), (5 * US, 6 * US), (70 * US, 40 * US)], 100 * US))
        .collect();
    let mut captures = captured(&points, &exchanges);
    // The gateway captured both of its sides.
    let mut inner = captures.remove(2);
    inner.spans.iter_mut().for_each(|s| s.socket = 8);
    inner.passages.iter_mut().for_each(|p| p.socket = 8);
    captures[1].spans.extend(inner.spans);
    captures[1].passages.extend(inner.passages);
    let found = align(&mut captures);
    assert_eq!((found.connections, found.unordered), (1, 0));
    let first = &captures[1].spans[0];
    let second = &captures[1].spans[8];
    assert_eq!((first.hop_position(), second.hop_position()), (2, 3));
    assert_eq!((first.tap, second.tap), (TapSide::ClientNode, TapSide::ServerNode));
    // One clock saw both sides: there is no error.
    assert_eq!((number(second, hop::REQUEST), number(second, hop::REQUEST_ERROR)), (5 * US, 0));
    assert_eq!((number(second, hop::RESPONSE), number(second, hop::RESPONSE_ERROR)), (6 * US, 0));
    assert_eq!(captures[2].spans[0].hop_position(), 4);
}

#[test]
fn lost_bytes_are_those_of_the_hop_in_which_they_were_lost() {
    let points = [point(0, 0), point(0, 0), point(0, 0)];
    let exchanges: Vec<Exchange> =
        (0..4).map(|n| exchange(START + n * 10 * MS, &[(50 * US, 50 * US), (50 * US, 50 * US)], MS)).collect();
    let mut captures = captured(&points, &exchanges);
    // The second request was lost behind the second place, and sent again.
    for (n, capture) in captures.iter_mut().enumerate() {
        let again = capture.passages.iter().find(|p| p.seq == 1100).copied().unwrap();
        if n < 2 {
            capture.passages.push(Passage { time_ns: again.time_ns + 200_000, ..again });
        }
    }
    align(&mut captures);
    let lost = |place: usize, n: usize| captures[place].spans[n].number(hop::LOST_BYTES);
    assert_eq!((lost(1, 1), lost(2, 1)), (None, Some(100)));
    assert_eq!((lost(1, 2), lost(2, 2)), (None, None));
}

#[test]
fn where_nothing_shows_the_order_the_spans_stay_as_they_were() {
    // The second place saw requests only, and no router lies between.
    let points = [point(0, 0), point(900 * MS, 0)];
    let exchanges: Vec<Exchange> = (0..5).map(|n| exchange(START + n * MS, &[(50 * US, 50 * US)], US)).collect();
    let mut captures = captured(&points, &exchanges);
    captures[1].passages.retain(|p| p.len == 100);
    captures[1].spans.iter_mut().for_each(|s| (s.response_seq, s.response_ns) = (None, 0));
    let before: Vec<Vec<Span>> = captures.iter().map(|c| c.spans.clone()).collect();
    let found = align(&mut captures);
    assert_eq!((found.connections, found.unordered), (1, 1));
    let unordered = |span: &Span| {
        let mut attrs = span.attrs.clone();
        attrs.push((hop::EVIDENCE.into(), hop::UNORDERED.into()));
        Span { attrs, ..span.clone() }
    };
    let said: Vec<Vec<Span>> = before.iter().map(|spans| spans.iter().map(unordered).collect()).collect();
    assert_eq!(captures.iter().map(|c| c.spans.clone()).collect::<Vec<_>>(), said);
    // A router between them shows it, without the other direction, but says nothing of the clocks.
    let points = [point(0, 0), point(900 * MS, 1)];
    let mut captures = captured(&points, &exchanges);
    captures[1].passages.retain(|p| p.len == 100);
    captures[1].spans.iter_mut().for_each(|s| (s.response_seq, s.response_ns) = (None, 0));
    let found = align(&mut captures);
    assert_eq!((found.unordered, found.skews[0].ahead), (0, None));
    assert_eq!(captures[1].spans[0].hop_position(), 2);
    assert_eq!(captures[1].spans[0].number(hop::REQUEST), None);
}

#[test]
fn unrelated_captures_are_left_alone() {
    let one = captured(&[point(0, 0)], &[exchange(START, &[], MS)]).remove(0);
    let mut other = captured(&[point(0, 0)], &[exchange(START, &[], MS)]).remove(0);
    other.spans[0].request_seq = Some(77);
    let mut captures = vec![one, other];
    assert_eq!(align(&mut captures), Found::default());
    assert!(captures.iter().all(|c| c.spans[0].tap == TapSide::Capture && c.spans[0].attrs.is_empty()));
}

proptest! {
    /// Any skews, drifts, delays (also congestion one way) and orders of the files.
    #[test]
    fn order_and_bounds_hold(
        skews in prop::collection::vec(-10_000i64..10_000, 4),
        drifts in prop::collection::vec(-90i64..90, 4),
        routers in prop::collection::vec(0u8..2, 4),
        delays in prop::collection::vec((5i64..2_000, 5i64..60), 30),
        given in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
    ) {
        let points: Vec<Point> = (0..4)
            .map(|n| Point { drift: drifts[n] as f64 * 1e-6, ..point(skews[n] * MS, routers[n]) })
            .collect();
        let exchanges: Vec<Exchange> = delays
            .windows(3)
            .zip(0i64..)
            .map(|(legs, n)| {
                let legs: Vec<_> = legs.iter().map(|(forth, back)| (forth * US, back * US)).collect();
                exchange(START + n * 20 * MS, &legs, 300 * US)
            })
            .collect();
        let (found, captures) = aligned(captured(&points, &exchanges), &given);
        prop_assert_eq!((found.connections, found.unordered), (1, 0));
        for skew in &found.skews {
            let (at, than) = (given[skew.capture], given[skew.than]);
            let truth = points[at].clock(START) as f64 - points[than].clock(START) as f64;
            let ahead = skew.ahead.expect("both directions were seen");
            // The clocks differ by a little more or less at another time.
            prop_assert!(ahead.low_ns - 1e6 <= truth && truth <= ahead.high_ns + 1e6, "{ahead:?} {truth}");
        }
        for (n, e) in exchanges.iter().enumerate() {
            for (place, capture) in captures.iter().enumerate().skip(1) {
                let span = &capture.spans[n];
                prop_assert_eq!(span.hop_position(), place as i64 + 1);
                if let (Some(told), Some(error)) = (span.number(hop::REQUEST), span.number(hop::REQUEST_ERROR)) {
                    let truth = e.there[place] - e.there[place - 1];
                    // Two clocks of 90 ppm, over a way of at most 6 ms, differ by about 1 µs.
                    prop_assert!((told - truth).abs() <= error + 1_500, "{told} ± {error}, truth {truth}");
                }
            }
        }
    }
}
