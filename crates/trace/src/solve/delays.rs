//! How long after its last event a request acts: counts in halves of an octave of time.

pub(super) const BUCKETS: usize = 52;
/// Bucket 0 ends here: 2^10 ns.
const FIRST_OCTAVE: u32 = 10;

pub(super) fn bucket(delay_ns: u64) -> usize {
    let n = delay_ns.max(1);
    let octave = n.ilog2();
    if octave < FIRST_OCTAVE {
        return 0;
    }
    // Whether the delay lies in the upper half of its octave (by ratio: √2 = 1.414 = 362/256).
    let upper = (n >> (octave - 8)) >= 362;
    (((octave - FIRST_OCTAVE) as usize) * 2 + usize::from(upper) + 1).min(BUCKETS - 1)
}

/// The shortest delay of a bucket, ns.
pub(super) fn start_of_bucket(bucket: usize) -> f64 {
    match bucket.checked_sub(1) {
        Some(half_octaves) => (f64::from(FIRST_OCTAVE) + half_octaves as f64 / 2.0).exp2(),
        None => 0.0,
    }
}

/// Counts of delays by bucket.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    pub(super) n: f64,
    counts: [f32; BUCKETS],
}

impl Default for Delays {
    fn default() -> Self {
        Delays { n: 0.0, counts: [0.0; BUCKETS] }
    }
}

impl Delays {
    pub(super) fn add(&mut self, delay_ns: u64) {
        self.n += 1.0;
        self.counts[bucket(delay_ns)] += 1.0;
    }

    /// Share of a bucket, smoothed with its neighbours; `prior` counts as two observations.
    pub(super) fn share(&self, b: usize, prior: f64) -> f64 {
        let at = |i: usize| f64::from(self.counts.get(i).copied().unwrap_or(0.0));
        let near = if b == 0 { 0.75 * at(0) } else { 0.25 * at(b - 1) + 0.5 * at(b) } + 0.25 * at(b + 1);
        (near + 2.0 * prior) / (self.n + 2.0)
    }

    /// Number of delays in the buckets up to this one.
    pub(super) fn up_to(&self, bucket: usize) -> f64 {
        self.counts[..=bucket].iter().map(|c| f64::from(*c)).sum()
    }

    /// The bucket that this share of `n` delays does not exceed; `None` if fewer were counted.
    pub(super) fn quantile(&self, share: f64, n: f64) -> Option<usize> {
        let mut sum = 0.0;
        self.counts.iter().position(|c| {
            sum += f64::from(*c);
            sum >= share * n
        })
    }

    pub(super) fn fade(&mut self) {
        self.n /= 2.0;
        self.counts.iter_mut().for_each(|c| *c /= 2.0);
    }
}
