//! The time in which nothing came, as it counts for whoever waits for more.
//!
//! A thread that was not run, a disk that took its time, a machine that stopped: in such a time nothing *could* come.
//! So silence is not read from a clock. It is the sum of the pauses between two signs that what there was has been
//! read, each of which counts for little.

use std::time::{Duration, Instant};

/// The capture thread tells so often that it has nothing to tell.
pub(crate) const SIGN: Duration = Duration::from_millis(200);
/// What a pause counts for at most.
const LONGEST: Duration = Duration::from_millis(300);

/// Counts it. Nothing is said about its zero.
#[derive(Debug)]
pub(crate) struct Silence {
    passed: Duration,
    last: Instant,
}

impl Silence {
    pub(crate) fn new(now: Instant) -> Self {
        Silence { passed: Duration::ZERO, last: now }
    }

    /// A sign came.
    pub(crate) fn sign(&mut self, now: Instant) {
        self.passed += now.saturating_duration_since(self.last).min(LONGEST);
        self.last = now;
    }

    /// Time that passed, ns.
    pub(crate) fn passed_ns(&self) -> u64 {
        u64::try_from(self.passed.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_everything_is_no_silence() {
        let start = Instant::now();
        let mut silence = Silence::new(start);
        for n in 1..=10 {
            silence.sign(start + SIGN * n);
        }
        assert_eq!(silence.passed_ns(), 2_000_000_000);
        // A minute in which nobody ran, then what had been waiting, all at once.
        let resumed = start + SIGN * 10 + Duration::from_secs(60);
        silence.sign(resumed);
        silence.sign(resumed + Duration::from_millis(1));
        assert_eq!(silence.passed_ns(), 2_301_000_000);
        // A clock that is read later by the one than by the other.
        silence.sign(resumed);
        assert_eq!(silence.passed_ns(), 2_301_000_000);
    }
}
