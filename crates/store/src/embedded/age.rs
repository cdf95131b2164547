//! The time by which spans grow old. A clock that jumps forward must not delete anything.
//!
//! The time starts at the newest span that the store had when it was opened, so a jump between two runs does not count.
//! From then on it follows the wall clock, but runs at most a tenth faster than the monotonic clock: after a true pause
//! it catches up, and after a false jump there is time to set the clock right. It lags at most as long as the store was
//! closed; `max_bytes` holds at any time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time, and when it was asked last.
pub(crate) struct Age(Mutex<(u64, Instant)>);

impl Age {
    /// Starts at the newest span, Unix ns; at the wall clock's time if there is none or it is in the future.
    pub(crate) fn new(newest_ns: Option<u64>) -> Age {
        Age(Mutex::new((newest_ns.map_or(wall_ns(), |n| n.min(wall_ns())), Instant::now())))
    }

    /// The time by which spans are old, Unix ns.
    pub(crate) fn now_ns(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = state.1.elapsed();
        *state = (step(state.0, wall_ns(), elapsed), Instant::now());
        state.0
    }
}

/// The time after this much of monotonic time.
fn step(last_ns: u64, wall_ns: u64, elapsed: Duration) -> u64 {
    let most = last_ns.saturating_add((elapsed.as_nanos() * 11 / 10) as u64);
    wall_ns.min(most)
}

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const WEEK: u64 = 7 * 24 * 3600 * S;

    #[test]
    fn a_jump_forward_counts_as_the_time_that_passed() {
        let second = Duration::from_secs(1);
        let start = 2 * WEEK;
        assert_eq!(step(start, start + S, second), start + S, "a clock that is right is followed");
        let mut now = start;
        for n in 1..=3600 {
            now = step(now, start + WEEK + n * S, second);
        }
        assert_eq!(now, start + 3600 * 11 / 10 * S, "an hour after a jump by a week");
        assert_eq!(step(now, start + 3600 * S, second), start + 3600 * S, "the clock was set right");
        assert_eq!(step(start, start - WEEK, second), start - WEEK, "a jump back makes nothing old");
    }

    #[test]
    fn a_pause_is_caught_up() {
        let (mut now, mut wall) = (WEEK, WEEK + 3600 * S);
        for _ in 0..10 {
            wall += 3600 * S;
            now = step(now, wall, Duration::from_secs(3600));
        }
        assert_eq!(now, wall);
    }
}
