//! Converts kernel time (CLOCK_MONOTONIC) to Unix time.

use std::collections::VecDeque;

use rustix::time::{clock_getres, clock_gettime, ClockId};

/// Largest step of the wall clock that is followed little by little, ns. A larger step is followed at once, or the
/// times of this host would differ from those of other hosts for too long.
const SMOOTH_NS: u64 = 50_000_000;
/// A small step is followed by at most one such part of the time that has passed. Times that are a second apart are
/// then off by 0.5 ms, half of the error that wirespan-trace allows between times of one host (`SAME_HOST_NS`).
const PART_OF_ELAPSED: u64 = 2000;

/// Number of earlier offsets that are kept, one a second. The kernel may hold back the record of a request for its
/// response, at most for so many seconds.
const REMEMBERED: usize = 256;

/// Offset between the two clocks, sampled. [`Clock::refresh`] follows a wall clock that is stepped, slowly enough that
/// requests which are under way keep their order. A time is converted with the offset of the moment when the time was
/// taken, not of the moment when its record is read.
#[derive(Clone, Debug)]
pub struct Clock {
    offset_ns: u64,
    /// Since when that offset holds, monotonic.
    since_ns: u64,
    /// Earlier offsets, oldest first: since when each held, and the offset.
    before: VecDeque<(u64, u64)>,
    /// When the offset was last compared with the wall clock, monotonic.
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
    /// Samples both clocks several times, and takes the sample whose two readings lie closest together.
    pub fn now() -> Self {
        let sample = || {
            let before = ns(ClockId::Monotonic);
            let wall = ns(ClockId::Realtime);
            let after = ns(ClockId::Monotonic);
            (after - before, wall.wrapping_sub(before + (after - before) / 2))
        };
        let best = (0..5).map(|_| sample()).min_by_key(|s| s.0).unwrap_or_else(sample);
        Clock { offset_ns: best.1, since_ns: 0, before: VecDeque::new(), followed_ns: ns(ClockId::Monotonic) }
    }

    /// Takes a new sample, and moves the offset towards it.
    pub fn refresh(&mut self) {
        self.follow(Clock::now());
    }

    fn follow(&mut self, new: Clock) {
        let off = new.offset_ns.wrapping_sub(self.offset_ns) as i64;
        let most = (new.followed_ns.saturating_sub(self.followed_ns) / PART_OF_ELAPSED) as i64;
        let step = if off.unsigned_abs() > SMOOTH_NS { off } else { off.clamp(-most, most) };
        self.followed_ns = new.followed_ns;
        if step == 0 {
            return;
        }
        if self.before.len() == REMEMBERED {
            self.before.pop_front();
        }
        self.before.push_back((self.since_ns, self.offset_ns));
        self.offset_ns = self.offset_ns.wrapping_add_signed(step);
        self.since_ns = new.followed_ns;
    }

    /// The present time, Unix ns.
    pub fn time(&self) -> u64 {
        self.to_unix(ns(ClockId::Monotonic))
    }

    /// Converts monotonic ns to Unix ns.
    pub fn to_unix(&self, monotonic_ns: u64) -> u64 {
        let offset_ns = if monotonic_ns >= self.since_ns { self.offset_ns } else { self.offset_at(monotonic_ns) };
        monotonic_ns.wrapping_add(offset_ns)
    }

    #[cold]
    fn offset_at(&self, monotonic_ns: u64) -> u64 {
        let then = self.before.iter().rev().find(|(since, _)| monotonic_ns >= *since).or(self.before.front());
        then.map_or(self.offset_ns, |(_, offset)| *offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn clock(offset_ns: u64, followed_ns: u64) -> Clock {
        Clock { offset_ns, since_ns: 0, before: VecDeque::new(), followed_ns }
    }

    #[test]
    fn a_small_step_is_followed_little_by_little() {
        for (step, back) in [(30 * MS, false), (30 * MS, true)] {
            let wall = |n: u64| clock(if back { 1000 * SECOND - step } else { 1000 * SECOND + step }, n * SECOND);
            let mut clock = clock(1000 * SECOND, 0);
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
        let mut clock = clock(1000 * SECOND, 0);
        clock.follow(self::clock(990 * SECOND, SECOND));
        assert_eq!(clock.to_unix(SECOND), 991 * SECOND);
    }

    #[test]
    fn a_time_before_a_step_of_the_clock_is_converted_with_the_old_offset() {
        let mut clock = clock(1000 * SECOND, 0);
        let times: Vec<u64> = (0..20).map(|n| n * SECOND).collect();
        let before: Vec<u64> = times.iter().map(|t| clock.to_unix(*t)).collect();
        for n in 20..2 * REMEMBERED as u64 {
            clock.follow(self::clock(if n % 2 == 0 { 1001 * SECOND } else { 1000 * SECOND }, n * SECOND));
            if n < REMEMBERED as u64 {
                assert_eq!(times.iter().map(|t| clock.to_unix(*t)).collect::<Vec<_>>(), before, "{n}");
            }
        }
        assert!(clock.before.len() <= REMEMBERED);
        assert_eq!(clock.to_unix(500 * SECOND), 1501 * SECOND);
        assert_eq!(clock.to_unix(501 * SECOND), 1501 * SECOND);
    }
}
