//! Ranges of time, and durations that are known within bounds.

use serde::{Deserialize, Serialize};

/// A half-open range of time, Unix ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeRange {
    /// First instant.
    pub from_ns: u64,
    /// First instant after the range.
    pub to_ns: u64,
}

impl TimeRange {
    /// All time.
    pub const ALL: TimeRange = TimeRange { from_ns: 0, to_ns: u64::MAX };
}

/// A duration that lies between two others: all that clocks of two hosts tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// At least, ns.
    pub low_ns: u64,
    /// At most, ns.
    pub high_ns: u64,
}

impl Latency {
    /// A duration that one clock measured.
    pub fn exact(ns: u64) -> Self {
        Latency { low_ns: ns, high_ns: ns }
    }

    /// Between these bounds. Nothing arrives before it was sent, so what is below zero is left out; `None` if that is
    /// all.
    pub fn between(low_ns: f64, high_ns: f64) -> Option<Self> {
        let [low, high] = [low_ns.floor().max(0.0) as u64, high_ns.ceil().max(0.0) as u64];
        (high_ns >= 0.0 && low <= high).then_some(Latency { low_ns: low, high_ns: high })
    }

    /// The middle, and how far the truth may be from it. `None` if the bounds are farther apart than the middle is from
    /// zero: then nothing is known but the upper bound.
    pub fn known(&self) -> Option<(u64, u64)> {
        let width = self.high_ns.saturating_sub(self.low_ns);
        let middle = self.low_ns + width / 2;
        (width <= middle).then_some((middle, width.div_ceil(2)))
    }

    /// In words: `30.0µs`, `61.0µs ± 12.0µs` or `at most 176µs`. `duration` writes a number of ns.
    pub fn words(&self, duration: impl Fn(u64) -> String) -> String {
        match self.known() {
            Some((ns, 0)) => duration(ns),
            Some((ns, error)) => format!("{} ± {}", duration(ns), duration(error)),
            None => format!("at most {}", duration(self.high_ns)),
        }
    }
}

impl std::ops::Add for Latency {
    type Output = Latency;

    fn add(self, other: Latency) -> Latency {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        Latency { low_ns: sum(self.low_ns, other.low_ns), high_ns: sum(self.high_ns, other.high_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_known_if_its_bounds_are_no_farther_apart_than_it_is_long() {
        let words = |low_ns, high_ns| Latency { low_ns, high_ns }.words(|ns| format!("{ns} ns"));
        assert_eq!(words(30, 30), "30 ns");
        assert_eq!(words(0, 0), "0 ns");
        assert_eq!(words(50, 150), "100 ns ± 50 ns");
        assert_eq!(words(49, 151), "at most 151 ns");
        assert_eq!(words(0, 40), "at most 40 ns");
    }

    #[test]
    fn no_time_is_less_than_nothing() {
        assert_eq!(Latency::between(-4.5, 9.5), Some(Latency { low_ns: 0, high_ns: 10 }));
        assert_eq!(Latency::between(3.5, 9.5), Some(Latency { low_ns: 3, high_ns: 10 }));
        assert_eq!(Latency::between(-9.0, -4.0), None);
        assert_eq!(Latency::between(9.0, 4.0), None);
    }
}
