//! Times counted by their size, so that quantiles need no list of all times.

use std::collections::BTreeMap;

/// Buckets of each doubling of time. A quantile is the middle of its bucket, so it is wrong by less than 1 %.
const PER_DOUBLING: u64 = 1 << PLACES;
const PLACES: u32 = 6;

/// Which of so many sorted times, counted from 1, is that below which this share of all lies, 0 to 1 (nearest rank).
/// All quantiles are told by this rule, so that each table tells the same ones.
pub(crate) fn rank(times: u64, share: f64) -> u64 {
    ((times as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1)
}

/// How many times lie in each bucket. Those below 64 ns have a bucket each, then each doubling has 64 of equal width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: BTreeMap<u16, u64>,
    times: u64,
    sum_ns: u64,
}

fn bucket(ns: u64) -> u16 {
    let Some(doubling) = ns.max(1).ilog2().checked_sub(PLACES) else { return ns as u16 };
    // At most 57 · 64 + 127.
    (u64::from(doubling) * PER_DOUBLING + (ns >> doubling)) as u16
}

/// The shortest time of a bucket.
fn begin(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let Some(doubling) = (bucket / PER_DOUBLING).checked_sub(1) else { return bucket };
    (PER_DOUBLING + bucket % PER_DOUBLING) << doubling
}

/// The half of a doubling in which a time lies: number `2 n` begins at 2ⁿ ns, number `2 n + 1` at 1.5 · 2ⁿ ns.
fn half(ns: u64) -> u16 {
    let doubling = ns.max(1).ilog2();
    let upper = doubling > 0 && ns >> (doubling - 1) & 1 == 1;
    doubling as u16 * 2 + u16::from(upper)
}

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, ns: u64) {
        *self.counts.entry(bucket(ns)).or_default() += 1;
        self.times += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.times
    }

    /// Their mean, ns; 0 if there is none.
    pub fn mean(&self) -> u64 {
        self.sum_ns.checked_div(self.times).unwrap_or(0)
    }

    /// The time below which this share of all lies, 0 to 1, within 1 %; 0 if there is none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = rank(self.times, share);
        let mut before = 0;
        let found = self.counts.iter().find(|(_, n)| {
            before += **n;
            before >= wanted
        });
        found.map_or(0, |(bucket, _)| {
            let first = begin(*bucket);
            first + begin(bucket + 1).saturating_sub(first + 1) / 2
        })
    }

    /// The halves of doublings that have times: number and count. Number `2 n` begins at 2ⁿ ns, number `2 n + 1` at
    /// 1.5 · 2ⁿ ns.
    pub fn halves(&self) -> Vec<(u16, u64)> {
        let mut out: Vec<(u16, u64)> = Vec::new();
        for (bucket, n) in &self.counts {
            let half = half(begin(*bucket));
            match out.last_mut().filter(|(last, _)| *last == half) {
                Some((_, count)) => *count += n,
                None => out.push((half, *n)),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_lies_in_its_bucket(ns in any::<u64>(), size in 0u32..64) {
            let ns = ns >> size;
            let bucket = bucket(ns);
            prop_assert!(begin(bucket) <= ns);
            prop_assert!(bucket == 3775 || ns < begin(bucket + 1), "{} {}", bucket, ns);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_times(
            times in prop::collection::vec(1u64..10_000_000_000, 1..200),
            share in 0.0..1.0f64,
        ) {
            let mut histogram = Histogram::default();
            times.iter().for_each(|ns| histogram.add(*ns));
            let mut sorted = times;
            sorted.sort_unstable();
            let at = rank(sorted.len() as u64, share) as usize - 1;
            let (is, told) = (sorted[at] as f64, histogram.quantile(share) as f64);
            prop_assert!((is - told).abs() <= is * 0.01, "{} {}", is, told);
        }
    }

    #[test]
    fn halves_add_up() {
        let mut histogram = Histogram::default();
        for ns in [0, 1, 2, 3, 1024, 1535, 1536, 2047, 2048] {
            histogram.add(ns);
        }
        assert_eq!(histogram.halves(), [(0, 2), (2, 1), (3, 1), (20, 2), (21, 2), (22, 1)]);
        assert_eq!((histogram.count(), histogram.mean()), (9, 8196 / 9));
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
