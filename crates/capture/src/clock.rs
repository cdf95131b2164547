//! Kernel time (CLOCK_MONOTONIC) → Unix time.

use rustix::time::{clock_getres, clock_gettime, ClockId};

/// Offset between the two clocks, sampled. NTP may step the wall clock: [`Clock::refresh`] follows it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_ns: u64,
}

fn ns(id: ClockId) -> u64 {
    let t = clock_gettime(id);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// Length of a tick of the kernel's coarse clock (`jiffies`), ns.
pub(crate) fn tick_ns() -> u32 {
    u32::try_from(clock_getres(ClockId::MonotonicCoarse).tv_nsec).unwrap_or(4_000_000)
}

impl Clock {
    /// Samples both clocks; of several samples the one with the narrowest gap counts.
    pub fn now() -> Self {
        let sample = || {
            let before = ns(ClockId::Monotonic);
            let wall = ns(ClockId::Realtime);
            let after = ns(ClockId::Monotonic);
            (after - before, wall.wrapping_sub(before + (after - before) / 2))
        };
        let best = (0..5).map(|_| sample()).min_by_key(|s| s.0).unwrap_or_else(sample);
        Clock { offset_ns: best.1 }
    }

    /// Takes a new sample, and keeps the old one if they differ by less than 100 µs: times stay smooth.
    pub fn refresh(&mut self) {
        let new = Clock::now();
        if new.offset_ns.abs_diff(self.offset_ns) > 100_000 {
            *self = new;
        }
    }

    /// Monotonic ns → Unix ns.
    pub fn to_unix(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.wrapping_add(self.offset_ns)
    }
}
