//! Latencies in logarithmic buckets: 8 per power of two, so that a percentile is off by at most about 6 %.

use serde::{Deserialize, Serialize};

const STEPS: u32 = 3;

/// Counts of durations in ns. Empty until the first value; grows to a few hundred buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

fn bucket(ns: u64) -> usize {
    if ns < 1 << STEPS {
        return ns as usize;
    }
    let log = 63 - ns.leading_zeros();
    let step = (ns >> (log - STEPS)) & ((1 << STEPS) - 1);
    (((log - STEPS + 1) << STEPS) as u64 + step) as usize
}

/// Smallest value of a bucket.
fn floor(bucket: usize) -> u64 {
    let (octave, step) = ((bucket >> STEPS) as u32, (bucket & ((1 << STEPS) - 1)) as u64);
    match octave {
        0 => step,
        _ => ((1 << STEPS) + step) << (octave - 1),
    }
}

impl Histogram {
    /// Counts a duration.
    pub fn add(&mut self, ns: u64) {
        let b = bucket(ns);
        if self.buckets.len() <= b {
            self.buckets.resize(b + 1, 0);
        }
        self.buckets[b] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Histogram) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, ns; 0 if empty.
    pub fn mean_ns(&self) -> u64 {
        u64::try_from(self.sum_ns / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// Largest value, ns; 0 if empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Value below which the share `p` (0–1) of the values lies, ns (middle of its bucket); 0 if empty.
    pub fn percentile_ns(&self, p: f64) -> u64 {
        let rank = ((p.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (b, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                let (low, high) = (floor(b), floor(b + 1).saturating_sub(1));
                return (low + (high - low) / 2).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet_without_a_hole() {
        for b in 0..480 {
            assert_eq!(bucket(floor(b)), b, "floor of {b}");
            assert_eq!(bucket(floor(b + 1) - 1), b, "end of {b}");
        }
        assert!(bucket(u64::MAX) < 512);
    }

    #[test]
    fn percentiles_are_within_a_bucket() {
        let mut h = Histogram::default();
        (1..=100_000u64).for_each(|n| h.add(n * 1000));
        for (p, exact) in [(0.5, 50_000_000u64), (0.95, 95_000_000), (0.99, 99_000_000)] {
            let got = h.percentile_ns(p);
            assert!(got.abs_diff(exact) * 100 <= exact * 7, "{p}: {got} for {exact}");
        }
        assert_eq!((h.count(), h.max_ns(), h.mean_ns()), (100_000, 100_000_000, 50_000_500));
        assert_eq!(Histogram::default().percentile_ns(0.5), 0);
    }
}
