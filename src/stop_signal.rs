//! SIGINT and SIGTERM: the user's wish that a command ends in order.

use anyhow::Result;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::time::{Duration, Instant};

/// How often the wait looks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Both signals, caught from [`StopSignal::catch`] on.
pub(crate) struct StopSignal(Signals);

impl StopSignal {
    /// The signals no longer kill this process.
    pub(crate) fn catch() -> Result<Self> {
        Ok(StopSignal(Signals::new([SIGINT, SIGTERM])?))
    }

    /// Whether a signal has come since the last call.
    pub(crate) fn came(&mut self) -> bool {
        self.0.pending().next().is_some()
    }

    /// Waits for a signal, or for this many seconds. False if `alive` says no first.
    pub(crate) fn wait(&mut self, seconds: Option<u64>, mut alive: impl FnMut() -> bool) -> bool {
        let started = Instant::now();
        let limit = seconds.map(Duration::from_secs);
        loop {
            if self.came() || limit.is_some_and(|limit| started.elapsed() >= limit) {
                return true;
            }
            if !alive() {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
