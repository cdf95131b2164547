//! Bytes that go in one direction only, between two simulated hosts whose clocks differ: acknowledgements compare the
//! clocks, also while the direction of the bytes is congested.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use wirespan_journey::meeting::{Meeting, Stay};
use wirespan_journey::{Acknowledgements, Joiner, Settings};
use wirespan_model::packet::{Point, Route, Sighting, TCP};
use wirespan_model::test_support::sighting;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_790_000_000 * SECOND;

/// What one host sees, by its own clock.
struct Host {
    skew: i64,
    drift: f64,
    joiner: Joiner,
    acknowledgements: Acknowledgements,
}

impl Host {
    fn new(skew: i64, drift: f64) -> Self {
        Host { skew, drift, joiner: Joiner::new(Settings::default()), acknowledgements: Acknowledgements::default() }
    }

    fn ahead(&self, truth: u64) -> f64 {
        self.skew as f64 + (truth as f64 - START as f64) * self.drift
    }

    fn see(&mut self, truth: u64, s: Sighting) {
        let s = Sighting { time_ns: truth.saturating_add_signed(self.ahead(truth).round() as i64), ..s };
        self.joiner.add(&s);
        self.acknowledgements.see(&s);
    }
}

fn packet(point: Point, seq: u32, len: u32, hash: u32) -> Sighting {
    let mut s = Sighting { point, hash, ..sighting(TCP, seq, len) };
    if len == 0 {
        let Route { source, destination, source_port, destination_port, protocol } = s.route;
        s.route = Route {
            source: destination,
            destination: source,
            source_port: destination_port,
            destination_port: source_port,
            protocol,
        };
    }
    s
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_window_contains_the_truth_while_one_direction_is_congested(
        skew in -5_000_000_000i64..5_000_000_000,
        drift in -400e-6f64..400e-6,
        base in 5_000u64..300_000,
        jam in proptest::collection::vec(0u64..50_000_000, 60),
        back in proptest::collection::vec(0u64..2_000_000, 60),
        lost in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let mut hosts = [Host::new(0, 0.0), Host::new(skew, drift)];
        let mut meeting = Meeting::default();
        let mut windows = 0;
        for (n, jam) in (0u32..).zip(&jam) {
            let at = n as usize;
            let sent = START + u64::from(n) * SECOND / 4;
            let (came, seq) = (sent + base + jam, n * 1000);
            hosts[0].see(sent, packet(Point::Queue, seq, 1000, 0));
            hosts[1].see(came, packet(Point::Receive, seq, 1000, 0));
            // The same acknowledgement may be sent twice, and the first of both may be lost; not at the start, where
            // nothing could be compared until one arrives.
            for twice in 0..1 + n % 2 {
                let acked = came + 1_000 * (1 + u64::from(twice));
                hosts[1].see(acked, packet(Point::Queue, 7, 0, 100 + n));
                if !(at > 4 && lost[at] && twice == 0) {
                    hosts[0].see(acked + base + back[at], packet(Point::Receive, 7, 0, 100 + n));
                }
            }
            let now_ms = (sent - START) / 1_000_000;
            for (number, host) in (0u32..).zip(&mut hosts) {
                let ways = host.joiner.due().into_iter().chain(host.acknowledgements.due(false));
                let stays: Vec<Stay> = ways.filter_map(|way| Stay::of(&way, |_| 1)).collect();
                stays.into_iter().for_each(|stay| meeting.add(number, stay, now_ms));
            }
            meeting.turn(now_ms);
            for compared in meeting.clocks() {
                let Some(ahead) = compared.ahead else { continue };
                let truth = hosts[1].ahead(compared.at_ns);
                prop_assert!(ahead.low_ns - 2.0 <= truth && truth <= ahead.high_ns + 2.0, "{truth} {compared:?}");
                prop_assert_eq!(compared.set, 0);
                windows += 1;
            }
        }
        // What comes back is acknowledgements alone.
        prop_assert!(windows > 10, "{windows}");
        let tally = meeting.tally(1);
        prop_assert_eq!((tally.met, tally.only_left, tally.whole), (0, 0, 0), "they are in no count: {:?}", tally);
    }
}
