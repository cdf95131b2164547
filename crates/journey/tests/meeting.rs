//! Packets of two and three simulated hosts, whose clocks differ: what met is told with bounds that contain the truth.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use wirespan_journey::meeting::{Meeting, Sight, Stay};
use wirespan_model::packet::{Route, TCP, UDP};
use wirespan_model::Latency;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_790_000_000 * SECOND;

/// The clock of a host: ahead of the truth at the start, and gaining on it.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    skew: i64,
    drift: f64,
}

impl Clock {
    fn ahead(self, truth: u64) -> f64 {
        self.skew as f64 + (truth as f64 - START as f64) * self.drift
    }

    fn at(self, truth: u64) -> u64 {
        truth.saturating_add_signed(self.ahead(truth).round() as i64)
    }
}

fn route(protocol: u8, back: bool) -> Route {
    let (a, b) = (("10.0.0.1".parse().unwrap(), 40_000), ("10.0.0.2".parse().unwrap(), 80));
    let ((source, source_port), (destination, destination_port)) = if back { (b, a) } else { (a, b) };
    Route { source, destination, source_port, destination_port, protocol }
}

/// Sequence number of the last byte.
fn last(seq: u32, len: u32) -> u64 {
    u64::from(seq.wrapping_add(len - 1))
}

/// A packet at one host at this true time.
fn stay(route: Route, seq: u32, len: u32, clock: Clock, truth: u64) -> Stay {
    let sight = Sight { place: 7, route, time_ns: clock.at(truth) };
    let number = if route.protocol == UDP { u64::from(seq) + 1 } else { last(seq, len) };
    let (again, came_in, went_out, dropped) = (false, false, false, false);
    Stay { entry: sight, exit: sight, seq, len, number, again, came_in, went_out, dropped }
}

fn left(of: Stay) -> Stay {
    Stay { went_out: true, ..of }
}

fn came(of: Stay) -> Stay {
    Stay { came_in: true, ..of }
}

fn through(of: Stay, clock: Clock, truth: u64) -> Stay {
    let exit = Sight { time_ns: clock.at(truth), place: 8, ..of.exit };
    Stay { came_in: true, went_out: true, exit, ..of }
}

/// One packet each way between hosts 0 and 1, from this true time on, which need so long.
fn exchange(meeting: &mut Meeting, clocks: [Clock; 2], seq: u32, at: u64, times: [u64; 2]) {
    let now_ms = (at - START) / 1_000_000;
    for (back, [from, to]) in [(false, [0usize, 1]), (true, [1, 0])] {
        let sent = at + u64::from(back) * (times[0] + 1000);
        let route = route(TCP, back);
        meeting.add(from as u32, left(stay(route, seq, 10, clocks[from], sent)), now_ms);
        let arrived = sent + times[usize::from(back)];
        meeting.add(to as u32, came(stay(route, seq, 10, clocks[to], arrived)), now_ms);
    }
}

fn p50(meeting: &Meeting, from: u32, to: u32) -> Option<Latency> {
    let (_, between) = meeting.passages().find(|(((a, _), (b, _)), _)| (*a, *b) == (from, to))?;
    between.quantiles([0.5]).map(|[p50]| p50)
}

#[test]
fn packets_of_two_hosts_meet_and_their_time_has_bounds() {
    let clocks = [Clock::default(), Clock { skew: -3_000_000_000, drift: 40e-6 }];
    let mut meeting = Meeting::default();
    for n in 0..20 {
        exchange(&mut meeting, clocks, n * 10, START + u64::from(n) * SECOND / 10, [150_000, 160_000]);
    }
    meeting.finish();
    for host in [0, 1] {
        let tally = meeting.tally(host);
        assert_eq!((tally.met, tally.only_left, tally.only_came, tally.unclear), (20, 0, 0, 0), "{tally:?}");
    }
    let within = p50(&meeting, 0, 1).unwrap();
    assert!(within.low_ns <= 150_000 && 150_000 <= within.high_ns, "{within:?}");
    let compared = meeting.clocks().next().unwrap();
    assert_eq!((compared.hosts, compared.packets, compared.set), ((0, 1), (20, 20), 0));
    let (bounds, truth) = (compared.ahead.unwrap(), clocks[1].ahead(compared.at_ns));
    assert!(bounds.low_ns <= truth && truth <= bounds.high_ns, "{bounds:?} {truth}");
    // The bounds of the clocks are as wide as a round trip, so they leave the time of one direction open.
    assert_eq!(within.known(), None, "{within:?}");
}

#[test]
fn packets_that_are_joined_before_the_clocks_are_compared_have_times_later() {
    let clocks = [Clock::default(), Clock { skew: 2_000_000_000, drift: 0.0 }];
    let mut meeting = Meeting::default();
    // The second host tells of its packets 1.5 s later than the first one, as the agent of a busy machine does.
    let [late_ms, took] = [1_500, 150_000];
    for n in 0..20 {
        let (seq, now_ms) = (n as u32 * 10, n * 50);
        let at = START + now_ms * 1_000_000;
        for (back, [from, to]) in [(false, [0usize, 1]), (true, [1, 0])] {
            let told = |host: usize| now_ms + if host == 1 { late_ms } else { 0 };
            let sent = at + u64::from(back) * 1_000_000;
            let route = route(TCP, back);
            meeting.add(from as u32, left(stay(route, seq, 10, clocks[from], sent)), told(from));
            meeting.add(to as u32, came(stay(route, seq, 10, clocks[to], sent + took)), told(to));
        }
    }
    let unknown = |meeting: &Meeting| meeting.passages().map(|(_, b)| b.unknown()).sum::<u64>();
    meeting.turn(4_500);
    assert_eq!(unknown(&meeting), 11, "packets of the first host only are joined so far");
    meeting.turn(5_600);
    assert_eq!(unknown(&meeting), 0);
    meeting.finish();
    let (packets, within) = (meeting.passages().map(|(_, b)| b.packets()).sum::<u64>(), p50(&meeting, 0, 1).unwrap());
    assert_eq!((packets, unknown(&meeting)), (40, 0));
    assert!(within.low_ns <= took && took <= within.high_ns, "{within:?}");
}

#[test]
fn a_slow_packet_between_quick_ones_is_known_with_its_error() {
    let clocks = [Clock { skew: 77, drift: 0.0 }, Clock { skew: 2_000_000_000, drift: -20e-6 }];
    let mut meeting = Meeting::default();
    for n in 0..200 {
        let forth = if n % 2 == 0 { 4_000 } else { 900_000 };
        exchange(&mut meeting, clocks, n * 10, START + u64::from(n) * SECOND / 100, [forth, 5_000]);
    }
    meeting.finish();
    let (_, between) = meeting.passages().find(|(((a, _), _), _)| *a == 0).unwrap();
    let [p99] = between.quantiles([0.99]).unwrap();
    let (middle, error) = p99.known().unwrap();
    assert!(middle.abs_diff(900_000) <= error && error < 20_000, "{p99:?}");
    assert_eq!((between.packets(), between.unknown()), (200, 0));
}

#[test]
fn the_last_byte_of_a_segment_is_found_in_what_was_cut() {
    let clock = Clock::default();
    let mut meeting = Meeting::default();
    // Sent as one, across the end of the sequence numbers; received in four parts, the last of them together with more.
    let begin = u32::MAX - 2000;
    meeting.add(0, left(stay(route(TCP, false), begin, 4000, clock, START)), 0);
    meeting.add(0, left(stay(route(TCP, false), begin.wrapping_add(4000), 500, clock, START + 1)), 0);
    for (n, (offset, len)) in (0u64..).zip([(0, 1400), (1400, 1400), (2800, 1700)]) {
        let seq = begin.wrapping_add(offset);
        meeting.add(1, came(stay(route(TCP, false), seq, len, clock, START + 50_000 + n * 1000)), 0);
    }
    meeting.finish();
    assert_eq!((meeting.tally(0).met, meeting.tally(0).only_left, meeting.tally(1).only_came), (2, 0, 0));
    let (_, between) = meeting.passages().next().unwrap();
    assert_eq!((between.packets(), between.unknown()), (2, 2), "one direction says nothing of the clocks");
    assert_eq!(between.quantiles([0.5]), None);
}

#[test]
fn a_part_that_was_sent_again_is_told_apart_from_the_whole() {
    let clock = Clock::default();
    let mut meeting = Meeting::default();
    let of = |seq, len, at| stay(route(TCP, false), seq, len, clock, START + at);
    // A queue cut the whole, and dropped the bytes 1000 to 2000. They were sent again. A host tells the whole once more
    // for the part.
    meeting.add(0, left(of(0, 3000, 0)), 0);
    meeting.add(0, Stay { number: 1999, dropped: true, ..of(0, 3000, 0) }, 0);
    meeting.add(0, left(Stay { again: true, ..of(1000, 1000, 9_000_000) }), 0);
    meeting.add(1, came(of(0, 1000, 50_000)), 0);
    meeting.add(1, came(of(2000, 1000, 60_000)), 0);
    meeting.add(1, came(of(1000, 1000, 9_050_000)), 0);
    meeting.finish();
    let (here, there) = (meeting.tally(0), meeting.tally(1));
    assert_eq!((here.met, here.unclear, here.only_left, here.dropped, there.only_came), (2, 0, 0, 1, 0));
    assert_eq!(meeting.passages().next().unwrap().1.packets(), 2);
    // Received as one, and a part once more.
    let mut meeting = Meeting::default();
    meeting.add(0, left(of(0, 3000, 0)), 0);
    meeting.add(0, left(Stay { again: true, ..of(1000, 1000, 9_000) }), 0);
    meeting.add(0, left(Stay { number: 1999, ..of(0, 3000, 0) }), 0);
    for number in [2999, 1999] {
        meeting.add(1, came(Stay { number, ..of(0, 3000, 50_000) }), 0);
    }
    meeting.add(1, came(Stay { again: true, ..of(1000, 1000, 59_000) }), 0);
    meeting.finish();
    let tally = meeting.tally(0);
    assert_eq!((tally.met, tally.unclear, tally.only_left, meeting.tally(1).only_came), (2, 0, 0, 0), "{tally:?}");
}

#[test]
fn what_one_host_saw_alone_is_counted_there() {
    let clock = Clock::default();
    let mut meeting = Meeting::default();
    let of = |seq| stay(route(UDP, false), seq, 10, clock, START);
    meeting.add(0, left(of(1)), 0);
    meeting.add(1, came(of(2)), 0);
    meeting.add(0, Stay { dropped: true, ..of(3) }, 0);
    meeting.add(0, of(4), 0);
    // Equal datagrams: it is not known which one arrived.
    meeting.add(0, left(of(5)), 0);
    meeting.add(0, left(of(5)), 0);
    meeting.add(1, came(of(5)), 0);
    meeting.left_out(1, 3);
    // Nothing is said too early.
    meeting.turn(3_000);
    assert_eq!((meeting.tally(0).only_left, meeting.tally(1).only_came), (0, 0));
    meeting.turn(5_000);
    assert_eq!((meeting.tally(0).only_left, meeting.tally(1).only_came), (1, 0));
    meeting.turn(9_000);
    meeting.finish();
    let (here, there) = (meeting.tally(0), meeting.tally(1));
    assert_eq!((here.whole, here.met, here.unclear, here.only_left, here.dropped), (1, 2, 2, 1, 1), "{here:?}");
    assert_eq!((there.only_came, there.left_out, there.met), (1, 3, 0), "{there:?}");
    assert_eq!(meeting.passages().count(), 0);
}

#[test]
fn a_host_between_two_others_is_passed_in_order_and_two_are_not() {
    let clock = Clock::default();
    let of = |seq| stay(route(UDP, false), seq, 10, clock, START);
    for middles in 1..=2 {
        let mut meeting = Meeting::default();
        meeting.add(0, left(of(1)), 0);
        for host in 1..=middles {
            meeting.add(host, through(of(1), clock, START + 500), 0);
        }
        meeting.add(9, came(of(1)), 0);
        meeting.finish();
        let passages: Vec<_> = meeting.passages().map(|(((a, p), (b, _)), _)| (*a, *p, *b)).collect();
        match middles {
            1 => assert_eq!(passages, [(0, 7, 1), (1, 8, 9)]),
            _ => assert_eq!((passages.len(), meeting.tally(0).unordered), (0, 1)),
        }
    }
}

#[test]
fn a_clock_that_was_set_is_noticed_and_compared_anew() {
    let mut clocks = [Clock::default(), Clock::default()];
    let mut meeting = Meeting::default();
    for (n, skew) in [0, 5_000_000_000, 5_000_000_000].into_iter().enumerate() {
        clocks[1].skew = skew;
        for m in 0..10 {
            let at = START + (n as u64 * 10 + m) * SECOND;
            exchange(&mut meeting, clocks, (n as u32 * 10 + m as u32) * 10, at, [10_000, 10_000]);
            meeting.turn((at - START) / 1_000_000);
        }
    }
    meeting.finish();
    let compared = meeting.clocks().next().unwrap();
    let bounds = compared.ahead.unwrap();
    assert!(compared.set > 0 && bounds.low_ns <= 5e9 && 5e9 <= bounds.high_ns, "{compared:?}");
}

proptest! {
    /// Whatever the clocks and the network do: losses and segments sent again, and congestion one way.
    #[test]
    fn all_bounds_contain_the_truth(
        skews in prop::array::uniform2(-5_000_000_000i64..5_000_000_000),
        drifts in prop::array::uniform2(-200i64..200),
        packets in prop::collection::vec((1_000u64..40_000_000, 0u8..4, any::<bool>(), 1_000u64..400_000_000), 1..120),
    ) {
        let clocks = [0, 1].map(|n| Clock { skew: skews[n], drift: drifts[n] as f64 * 1e-6 });
        let (mut meeting, mut at) = (Meeting::default(), START);
        let mut truths = [Vec::new(), Vec::new()];
        for (n, (delay, fate, back, pause)) in packets.into_iter().enumerate() {
            at += pause;
            let now_ms = (at - START) / 1_000_000;
            let [from, to] = if back { [1, 0] } else { [0, 1] };
            let seq = n as u32 * 10;
            let first = stay(route(TCP, back), seq, 10, clocks[from], at);
            meeting.add(from as u32, left(first), now_ms);
            let mut arrives = |meeting: &mut Meeting, sent: u64, again: bool| {
                let of = stay(route(TCP, back), seq, 10, clocks[to], sent + delay);
                meeting.add(to as u32, came(Stay { again, ..of }), now_ms);
                truths[from].push(delay);
            };
            // Lost and sent again; lost for ever; both arrive; arrives.
            let again = at + 200_000_000;
            let second = Stay { again: true, ..stay(route(TCP, back), seq, 10, clocks[from], again) };
            match fate {
                0 => {
                    meeting.add(from as u32, left(second), now_ms);
                    let of = stay(route(TCP, back), seq, 10, clocks[to], again + delay);
                    meeting.add(to as u32, came(of), now_ms);
                }
                1 => {}
                2 => {
                    arrives(&mut meeting, at, false);
                    meeting.add(from as u32, left(second), now_ms);
                    arrives(&mut meeting, again, true);
                }
                _ => arrives(&mut meeting, at, false),
            }
            meeting.turn(now_ms);
        }
        meeting.finish();
        for compared in meeting.clocks() {
            prop_assert_eq!(compared.set, 0);
            let Some(bounds) = compared.ahead else { continue };
            // The first clock's time, as the truth.
            let truth = compared.at_ns.saturating_add_signed(-(clocks[0].ahead(compared.at_ns) as i64));
            let ahead = clocks[1].ahead(truth) - clocks[0].ahead(truth);
            let slack = 3.0 + 5e9 * 4e-10;
            prop_assert!(bounds.low_ns - slack <= ahead && ahead <= bounds.high_ns + slack, "{:?} {}", compared, ahead);
        }
        for (((from, _), _), between) in meeting.passages() {
            let mut truth = truths[*from as usize].clone();
            truth.sort_unstable();
            prop_assert_eq!(between.packets() as usize, truth.len());
            if between.unknown() == 0 {
                for share in [0.0, 0.5, 0.99, 1.0] {
                    let within = between.quantiles([share]).unwrap()[0];
                    let is = truth[((truth.len() as f64 * share).ceil() as usize).max(1) - 1];
                    prop_assert!(within.low_ns <= is + 5 && is <= within.high_ns + 5, "{} {:?} {}", share, within, is);
                }
            }
        }
    }
}
