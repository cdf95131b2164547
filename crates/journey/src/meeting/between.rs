//! Times from one host to another, each with its bounds.

use crate::clocks::Bounds;
use crate::histogram::rank;
use crate::live::Heat;
use std::collections::VecDeque;
use wirespan_model::Latency;

/// Quantiles are those of so many packets, the newest.
const NEWEST: usize = 65_536;

/// Times from a place at one host to a place at another.
#[derive(Clone, Debug, Default)]
pub struct Between {
    /// Bounds of the newest packets.
    newest: VecDeque<Latency>,
    /// The middle of each.
    heat: Heat,
    packets: u64,
    unknown: u64,
    /// When packets left and came that wait for the first comparison of the clocks; of `unknown`.
    waiting: Vec<(u64, u64)>,
}

impl Between {
    /// A packet that left the one host and came to the other, each by its own clock.
    pub(super) fn add(&mut self, left_ns: u64, came_ns: u64, ahead: Option<Bounds>) {
        self.packets += 1;
        match ahead {
            Some(ahead) => self.time(left_ns, came_ns, ahead),
            None => self.unknown += 1,
        }
    }

    /// As [`Between::add`], where the clocks were not compared yet.
    pub(super) fn wait(&mut self, left_ns: u64, came_ns: u64) {
        self.add(left_ns, came_ns, None);
        if self.waiting.len() < NEWEST {
            self.waiting.push((left_ns, came_ns));
        }
    }

    /// Gives packets that wait their times. `ahead`: what is known of the clocks when a packet left and came.
    pub(super) fn settle(&mut self, ahead: impl Fn(u64, u64) -> Option<Bounds>) {
        for (left_ns, came_ns) in std::mem::take(&mut self.waiting) {
            if let Some(ahead) = ahead(left_ns, came_ns) {
                self.unknown -= 1;
                self.time(left_ns, came_ns, ahead);
            }
        }
    }

    fn time(&mut self, left_ns: u64, came_ns: u64, ahead: Bounds) {
        let raw = i128::from(came_ns).wrapping_sub(i128::from(left_ns)) as f64;
        let bounds = Latency::between(raw - ahead.high_ns, raw - ahead.low_ns);
        let within = bounds.unwrap_or(Latency::exact(0));
        if self.newest.len() == NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(within);
        self.heat.add(left_ns, within.low_ns + (within.high_ns - within.low_ns) / 2);
    }

    /// Packets that went this way.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Of these, packets of which no time is known, because the clocks could not be compared.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// The times, in the middle of their bounds.
    pub fn heat(&self) -> &Heat {
        &self.heat
    }

    /// Quantiles: this share of the newest packets took at most so long.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> Option<[Latency; N]> {
        if self.newest.is_empty() {
            return None;
        }
        let sorted = |of: fn(&Latency) -> u64| {
            let mut all: Vec<u64> = self.newest.iter().map(of).collect();
            all.sort_unstable();
            all
        };
        // If each time lies within its bounds, their quantile lies between the quantiles of the bounds.
        let (lows, highs) = (sorted(|w| w.low_ns), sorted(|w| w.high_ns));
        Some(shares.map(|share| {
            let at = rank(lows.len() as u64, share) as usize - 1;
            let of = |all: &[u64]| all.get(at).copied().unwrap_or(0);
            Latency { low_ns: of(&lows), high_ns: of(&highs) }
        }))
    }
}
