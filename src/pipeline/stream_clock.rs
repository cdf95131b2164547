//! The clock of the trace stream: the time in which spans could have come.
//!
//! A trace is complete when no span of it has come for a while. Wall time does not measure that: no span can come while
//! the agent's thread is not scheduled, while the disk blocks it, or while the machine is suspended. So this clock adds
//! up the pauses between two reports that everything was read, and counts no pause for more than [`LONGEST`].

use std::time::{Duration, Instant};

/// The capture thread reports this often that everything was read, even if there is no span.
pub(crate) const REPORT_EVERY: Duration = Duration::from_millis(200);
/// Most that one pause counts.
const LONGEST: Duration = Duration::from_millis(300);

/// Adds up the time. Its zero means nothing.
#[derive(Debug)]
pub(crate) struct StreamClock {
    passed: Duration,
    last: Instant,
}

impl StreamClock {
    pub(crate) fn new(now: Instant) -> Self {
        StreamClock { passed: Duration::ZERO, last: now }
    }

    /// A report came: everything that had come by `now` was read.
    pub(crate) fn caught_up(&mut self, now: Instant) {
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
    fn a_machine_that_stood_still_counts_as_one_short_pause() {
        let start = Instant::now();
        let mut clock = StreamClock::new(start);
        for n in 1..=10 {
            clock.caught_up(start + REPORT_EVERY * n);
        }
        assert_eq!(clock.passed_ns(), 2_000_000_000);
        // No thread ran for a minute; then two reports come at once.
        let resumed = start + REPORT_EVERY * 10 + Duration::from_secs(60);
        clock.caught_up(resumed);
        clock.caught_up(resumed + Duration::from_millis(1));
        assert_eq!(clock.passed_ns(), 2_301_000_000);
        // Another thread may have read its clock earlier.
        clock.caught_up(resumed);
        assert_eq!(clock.passed_ns(), 2_301_000_000);
    }
}
