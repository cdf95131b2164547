//! Two hosts with simulated clocks: the bounds contain the truth, whatever the network does.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use wirespan_journey::clocks::{Clocks, Drift, MOST_DRIFT};

const SECOND: u64 = 1_000_000_000;

/// Their clock: `skew` ahead of ours at time 0, and gaining `drift` on it.
#[derive(Clone, Copy, Debug)]
struct There {
    skew: i64,
    drift: f64,
}

impl There {
    fn ahead(self, here: u64) -> f64 {
        self.skew as f64 + here as f64 * self.drift
    }

    fn clock(self, here: u64) -> u64 {
        (here as f64 + self.ahead(here)) as u64
    }
}

/// One packet each way at this time of ours, with these times under way.
fn exchange(clocks: &mut Clocks, there: There, at: u64, forth: u64, back: u64) {
    clocks.sent(at, there.clock(at + forth));
    clocks.received(there.clock(at + forth), at + forth + back);
}

#[test]
fn five_quiet_packets_each_way_give_a_narrow_interval() {
    let there = There { skew: 123_456_800, drift: 0.0 };
    let mut clocks = Clocks::new(60 * SECOND);
    for n in 0..5 {
        exchange(&mut clocks, there, SECOND + n * 1_000_000, 2_100 + n * 300, 2_500 + n * 200);
    }
    let ahead = clocks.ahead(SECOND + 5_000_000).unwrap();
    assert!(ahead.width_ns() <= 10_000.0, "{ahead:?}");
    assert!((ahead.middle_ns() - 123_456_800.0).abs() < 5_000.0, "{ahead:?}");
}

#[test]
fn the_order_in_which_packets_are_told_does_not_matter() {
    let there = There { skew: -3_123_456_789, drift: -180e-6 };
    let times = [(0, 3_000, 2_600), (26, 8_000, 1_700), (27, 2_600, 1_400), (31, 3_000, 1_600), (32, 2_500, 1_300)];
    let told = |order: [usize; 5]| {
        let mut clocks = Clocks::new(60 * SECOND);
        for (ms, forth, back) in order.map(|n| times[n]) {
            exchange(&mut clocks, there, 10 * SECOND + ms * 1_000_000, forth, back);
        }
        clocks.reading().narrowest().unwrap().1
    };
    let in_order = told([0, 1, 2, 3, 4]);
    // Packets that are told one behind the other may give narrower bounds.
    assert!(in_order.width_ns() < 4_000.0, "{in_order:?}");
    for order in [[4, 3, 2, 1, 0], [4, 0, 3, 1, 2], [1, 4, 0, 2, 3], [2, 3, 4, 0, 1]] {
        assert_eq!(told(order), in_order, "{order:?}");
    }
}

#[test]
fn slow_packets_after_a_pause_do_not_widen_the_narrowest_interval() {
    let there = There { skew: 123_456_800, drift: 200e-6 };
    let mut clocks = Clocks::new(60 * SECOND);
    for n in 0..5 {
        exchange(&mut clocks, there, SECOND + n * 10_000_000, 6_000 - n * 900, 3_000);
    }
    let later = SECOND + 300_000_000;
    exchange(&mut clocks, there, later, 30_000, 40_000);
    assert!(clocks.ahead(later).unwrap().width_ns() > 20_000.0, "the clocks may have gone apart meanwhile");
    let (at, ahead) = clocks.reading().narrowest().unwrap();
    assert!(ahead.width_ns() <= 6_000.0, "{at} {ahead:?}");
    let truth = there.ahead(at);
    assert!(ahead.low_ns - 8.0 <= truth && truth <= ahead.high_ns + 8.0, "{truth} {ahead:?}");
    assert_eq!(Clocks::new(SECOND).reading().narrowest(), None);
}

#[test]
fn the_sign_says_which_clock_is_ahead() {
    let there = There { skew: -5 * SECOND as i64, drift: 0.0 };
    let mut clocks = Clocks::new(60 * SECOND);
    exchange(&mut clocks, there, 10 * SECOND, 50_000, 50_000);
    let ahead = clocks.ahead(10 * SECOND).unwrap();
    assert!(ahead.high_ns < -4.9e9 && ahead.low_ns > -5.1e9, "{ahead:?}");
}

#[test]
fn one_way_says_nothing() {
    let mut clocks = Clocks::new(60 * SECOND);
    clocks.sent(SECOND, SECOND + 7);
    assert_eq!(clocks.ahead(SECOND), None);
    assert_eq!(clocks.latency(SECOND, SECOND + 7), None);
}

#[test]
fn a_drift_is_found_with_its_bounds() {
    let there = There { skew: 1_000_000, drift: 40e-6 };
    let mut clocks = Clocks::new(60 * SECOND);
    for n in 0..600 {
        exchange(&mut clocks, there, SECOND + n * SECOND / 10, 20_000, 20_000);
    }
    let Drift { least, most } = clocks.drift().unwrap();
    assert!(least <= 40e-6 && 40e-6 <= most && most - least < 3e-6, "{least:e} to {most:e}");
}

#[test]
fn packets_that_contradict_each_other_say_that_a_clock_was_set() {
    let mut clocks = Clocks::new(60 * SECOND);
    exchange(&mut clocks, There { skew: 0, drift: 0.0 }, SECOND, 10_000, 10_000);
    exchange(&mut clocks, There { skew: 3_000_000_000, drift: 0.0 }, 2 * SECOND, 10_000, 10_000);
    assert_eq!(clocks.ahead(2 * SECOND), None);
    clocks.forget();
    exchange(&mut clocks, There { skew: 3_000_000_000, drift: 0.0 }, 3 * SECOND, 10_000, 10_000);
    assert!(clocks.ahead(3 * SECOND).is_some());
}

proptest! {
    /// Congestion in one direction, in both or in turns: the interval widens, and the truth stays inside. So does the
    /// latency of each packet.
    #[test]
    fn the_truth_is_inside(
        skew in -10_000_000_000i64..10_000_000_000,
        drift in -MOST_DRIFT * 0.99..MOST_DRIFT * 0.99,
        packets in prop::collection::vec((1u64..200_000_000, 1_000u64..5_000_000, 1_000u64..5_000_000), 1..200),
    ) {
        let there = There { skew, drift };
        let mut clocks = Clocks::new(10 * SECOND);
        let mut now = 100 * SECOND;
        for (pause, forth, back) in packets {
            now += pause;
            exchange(&mut clocks, there, now, forth, back);
            let ahead = clocks.ahead(now).unwrap();
            // The simulated clock is rounded to ns.
            prop_assert!(ahead.low_ns <= there.ahead(now) + 8.0, "{ahead:?} but {}", there.ahead(now));
            prop_assert!(ahead.high_ns >= there.ahead(now) - 8.0, "{ahead:?} but {}", there.ahead(now));
            let (at, narrowest) = clocks.reading().narrowest().unwrap();
            let truth = there.ahead(at);
            prop_assert!(narrowest.width_ns() <= ahead.width_ns() + 1e-3);
            prop_assert!(narrowest.low_ns - 8.0 <= truth && truth <= narrowest.high_ns + 8.0, "{narrowest:?} {truth}");
            let latency = clocks.latency(now, there.clock(now + forth)).unwrap();
            // Their clock gains on ours also while the packet is under way.
            let slack = 8.0 + forth as f64 * MOST_DRIFT;
            let inside = latency.low_ns - slack <= forth as f64 && forth as f64 <= latency.high_ns + slack;
            prop_assert!(inside, "{latency:?} but {forth}");
        }
    }
}
