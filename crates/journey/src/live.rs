//! Journeys added up while they come: for each leg the times of all packets, and those of each of the last seconds.

use crate::{Histogram, Journey, Leg, Summary};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Seconds that are kept apart.
pub const SECONDS: usize = 60;
const SECOND_NS: u64 = 1_000_000_000;

/// Times, as a whole and by the second in which the packets were sent.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    all: Histogram,
    /// Unix second, in ascending order.
    seconds: VecDeque<(u64, Histogram)>,
}

impl Heat {
    /// Adds a time of a packet that was sent at `at_ns`, Unix ns.
    pub(crate) fn add(&mut self, at_ns: u64, ns: u64) {
        self.all.add(ns);
        let second = at_ns / SECOND_NS;
        let at = self.seconds.partition_point(|(s, _)| *s < second);
        if self.seconds.get(at).is_none_or(|(s, _)| *s != second) {
            let is_old = at == 0 && self.seconds.len() >= SECONDS;
            if is_old {
                return;
            }
            self.seconds.insert(at, (second, Histogram::default()));
            let newest = self.seconds.back().map_or(second, |(s, _)| *s);
            while self.seconds.front().is_some_and(|(s, _)| s + SECONDS as u64 <= newest) {
                self.seconds.pop_front();
            }
        }
        if let Some((_, of)) = self.seconds.iter_mut().rev().find(|(s, _)| *s == second) {
            of.add(ns);
        }
    }

    /// All times.
    pub fn all(&self) -> &Histogram {
        &self.all
    }

    /// Those of each of the last [`SECONDS`] seconds that has any: the Unix second, and its times.
    pub fn seconds(&self) -> impl Iterator<Item = (u64, &Histogram)> {
        self.seconds.iter().map(|(second, of)| (*second, of))
    }
}

/// Journeys, added up for a picture that changes while they come.
#[derive(Clone, Debug, Default)]
pub struct Live {
    summary: Summary,
    legs: FxHashMap<Leg, Heat>,
    total: Heat,
}

impl Live {
    /// Adds a journey.
    pub fn add(&mut self, journey: &Journey) {
        self.summary.add(journey);
        let at_ns = journey.start_ns();
        for pair in journey.steps.windows(2) {
            let [from, to] = pair else { continue };
            let leg = Leg { from: from.place.clone(), to: to.place.clone() };
            self.legs.entry(leg).or_default().add(at_ns, to.time_ns.saturating_sub(from.time_ns));
        }
        if journey.dropped.is_none() && journey.steps.len() > 1 {
            self.total.add(at_ns, journey.duration_ns());
        }
    }

    /// All but the times by second.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The legs, in the order in which packets pass them, with the mean difference between one time and the next, ns.
    pub fn legs(&self) -> impl Iterator<Item = (&Leg, &Heat, u64)> {
        let ordered = self.summary.legs().into_iter();
        ordered.filter_map(move |(leg, times)| Some((leg, self.legs.get(leg)?, times.jitter())))
    }

    /// From the first to the last place of a journey that was not dropped.
    pub fn total(&self) -> &Heat {
        &self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_minute_is_kept_by_second() {
        let mut heat = Heat::default();
        for second in 0..100 {
            heat.add(second * SECOND_NS, 1000);
        }
        // A little late, and too late.
        heat.add(95 * SECOND_NS, 2000);
        heat.add(7 * SECOND_NS, 3000);
        let kept: Vec<u64> = heat.seconds().map(|(second, _)| second).collect();
        assert_eq!(kept, (40..100).collect::<Vec<_>>());
        assert_eq!(heat.seconds().find(|(second, _)| *second == 95).map(|(_, of)| of.count()), Some(2));
        assert_eq!(heat.all().count(), 102);
    }

    #[test]
    fn a_pause_empties_the_minute() {
        let mut heat = Heat::default();
        heat.add(0, 1000);
        heat.add(500 * SECOND_NS, 1000);
        assert_eq!(heat.seconds().map(|(second, _)| second).collect::<Vec<_>>(), [500]);
    }
}
