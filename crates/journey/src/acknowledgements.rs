//! Acknowledgements without payload. They say nothing of the way of bytes, but a transfer in one direction has nothing
//! else that goes back, and the clocks of two hosts can be compared only by packets in both directions.
//!
//! An acknowledgement is followed as a datagram: it is known again by a hash of what its header has beside the
//! addresses (numbers, window, and the times and gaps in its options). Only a share is followed if there are many. The
//! hash decides which ones, so that all hosts follow the same ones.

use crate::{Joiner, Journey, Settings};
use wirespan_model::packet::{Point, Route, Sighting, ACKNOWLEDGEMENT, FIN, RST, SYN, TCP};

/// Sightings in a second, above which fewer are followed.
const EACH_SECOND: u32 = 4_000;
/// Sightings that are kept at most.
const KEPT: usize = 50_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Follows acknowledgements on their way through one host.
#[derive(Debug)]
pub struct Acknowledgements {
    joiner: Joiner,
    /// Only numbers are followed in which these bits are 0. There are never fewer bits again: of two equal packets, the
    /// later one must not be followed if the first one was not.
    left_out: u32,
    second: u64,
    followed: u32,
}

impl Default for Acknowledgements {
    fn default() -> Self {
        let joiner = Joiner::new(Settings { kept: KEPT, ..Settings::default() });
        Acknowledgements { joiner, left_out: 0, second: 0, followed: 0 }
    }
}

impl Acknowledgements {
    /// Takes a sighting, if it is of an acknowledgement at a device.
    pub fn see(&mut self, s: &Sighting) {
        let bare = s.route.protocol == TCP && s.len == 0 && s.flags & (SYN | FIN | RST) == 0 && !s.fragment;
        let at_device = s.point.is_arrival() || s.point.is_departure() || s.point == Point::Drop;
        // The low bits of the kernel's hash depend on less than the high ones.
        if !bare || !at_device || s.hash == 0 || (s.hash >> 16) & self.left_out != 0 {
            return;
        }
        if s.time_ns / SECOND_NS != self.second {
            (self.second, self.followed) = (s.time_ns / SECOND_NS, 0);
        }
        self.followed += 1;
        if self.followed > EACH_SECOND {
            self.left_out = self.left_out << 1 | 1;
            self.followed = 0;
        }
        let route = Route { protocol: ACKNOWLEDGEMENT, ..s.route };
        self.joiner.add(&Sighting { route, ..s.clone() });
    }

    /// See [`Joiner::pass`].
    pub fn pass(&mut self, now_ns: u64) {
        self.joiner.pass(now_ns);
    }

    /// The ways of those that were seen first some time ago; of all at the `end`. They are not journeys of bytes, and
    /// belong into no table.
    pub fn due(&mut self, end: bool) -> Vec<Journey> {
        if end {
            self.joiner.finish()
        } else {
            self.joiner.due()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::test_support::sighting;

    fn bare(time_ns: u64, point: Point, hash: u32) -> Sighting {
        Sighting { time_ns, point, hash, ..sighting(TCP, 77, 0) }
    }

    #[test]
    fn an_acknowledgement_is_followed_from_device_to_device_and_a_packet_with_bytes_is_not() {
        let mut all = Acknowledgements::default();
        all.see(&bare(10, Point::Queue, 5));
        all.see(&bare(20, Point::Receive, 5));
        all.see(&bare(30, Point::Tcp, 5));
        all.see(&bare(11, Point::Queue, 0));
        all.see(&Sighting { flags: FIN, ..bare(12, Point::Queue, 6) });
        all.see(&Sighting { len: 1, ..bare(13, Point::Queue, 7) });
        let ways = all.due(true);
        assert_eq!(ways.len(), 1, "{ways:?}");
        assert_eq!(ways[0].steps.iter().map(|step| step.time_ns).collect::<Vec<_>>(), [10, 20]);
        assert_eq!(ways[0].route.protocol, ACKNOWLEDGEMENT);
    }

    #[test]
    fn of_many_all_hosts_follow_the_same_ones_and_never_more_again() {
        let (mut busy, mut quiet) = (Acknowledgements::default(), Acknowledgements::default());
        for n in 0..40_000u32 {
            let s = bare(u64::from(n), Point::Queue, n.wrapping_mul(2_654_435_761) | 1);
            busy.see(&s);
            if n >= 39_000 {
                quiet.see(&s);
            }
        }
        let late = |all: &mut Acknowledgements| {
            all.due(true).iter().filter(|way| way.start_ns() >= 39_000).map(|way| way.number).collect::<Vec<_>>()
        };
        let (busy, quiet) = (late(&mut busy), late(&mut quiet));
        assert!(!busy.is_empty() && busy.len() < 500, "{}", busy.len());
        assert_eq!(quiet.len(), 1_000);
        assert!(busy.iter().all(|number| quiet.contains(number)));
    }
}
