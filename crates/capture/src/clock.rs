//! Kernel time (CLOCK_MONOTONIC) → Unix time.

use rustix::time::{clock_getres, clock_gettime, ClockId};

/// A step of the wall clock up to this is followed little by little, ns; a larger one at once: hosts would drift apart.
const SMOOTH_NS: u64 = 50_000_000;
/// By so little at a time: a span whose beginning and end, or whose parent and child, are a second apart, is off by half of
/// what times of one host may be (`SAME_HOST_NS` of wirespan-trace).
const PART_OF_ELAPSED: u64 = 2000;

/// Offset between the two clocks, sampled. Somebody may step the wall clock: [`Clock::refresh`] follows, so that what is
/// under way while that happens is not torn apart.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_ns: u64,
    /// When it was last brought closer to the wall clock, monotonic.
    followed_ns: u64,
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
        Clock { offset_ns: best.1, followed_ns: ns(ClockId::Monotonic) }
    }

    /// Takes a new sample, and comes closer to it.
    pub fn refresh(&mut self) {
        self.follow(Clock::now());
    }

    fn follow(&mut self, new: Clock) {
        let off = new.offset_ns.wrapping_sub(self.offset_ns) as i64;
        if off.unsigned_abs() > SMOOTH_NS {
            *self = new;
            return;
        }
        let most = (new.followed_ns.saturating_sub(self.followed_ns) / PART_OF_ELAPSED) as i64;
        self.offset_ns = self.offset_ns.wrapping_add_signed(off.clamp(-most, most));
        self.followed_ns = new.followed_ns;
    }

    /// Monotonic ns → Unix ns.
    pub fn to_unix(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.wrapping_add(self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    #[test]
    fn a_small_step_is_followed_little_by_little() {
        for (step, back) in [(30 * MS, false), (30 * MS, true)] {
            let wall = |n: u64| Clock {
                offset_ns: if back { 1000 * SECOND - step } else { 1000 * SECOND + step },
                followed_ns: n * SECOND,
            };
            let mut clock = Clock { offset_ns: 1000 * SECOND, followed_ns: 0 };
            for n in 1..=59 {
                let before = clock.to_unix(n * SECOND);
                clock.follow(wall(n));
                assert_eq!(clock.to_unix(n * SECOND).abs_diff(before), MS / 2, "second {n}");
            }
            clock.follow(wall(60));
            clock.follow(wall(61));
            assert_eq!(clock.offset_ns, wall(0).offset_ns);
        }
    }

    #[test]
    fn a_large_step_is_followed_at_once() {
        let mut clock = Clock { offset_ns: 1000 * SECOND, followed_ns: 0 };
        let set = Clock { offset_ns: 990 * SECOND, followed_ns: SECOND };
        clock.follow(set);
        assert_eq!(clock.to_unix(0), 990 * SECOND);
    }
}
