//! Wall time.

use anyhow::{Context as _, Result};
use std::time::{SystemTime, UNIX_EPOCH};
use wirespan_model::Span;

/// Unix time, ns.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// A clock that goes wrong, for tests of what compares the clocks of several machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Skew {
    ahead_ns: i64,
    /// As a share of time.
    drift: f64,
    since_ns: u64,
}

/// `AHEAD_NS DRIFT_PPM SINCE_UNIX_NS`: what this agent tells its server has the times of a clock that was so far ahead
/// at that time, and that gains so much.
const TEST_CLOCK: &str = "WIRESPAN_TEST_CLOCK";

impl Skew {
    /// That of the environment, if there is one.
    pub(crate) fn of_test() -> Result<Option<Self>> {
        let Ok(text) = std::env::var(TEST_CLOCK) else { return Ok(None) };
        Skew::parse(&text)
            .with_context(|| format!("{TEST_CLOCK}={text}: not AHEAD_NS DRIFT_PPM SINCE_UNIX_NS"))
            .map(Some)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split_whitespace();
        let (ahead, drift, since) = (parts.next()?, parts.next()?, parts.next()?);
        let drift = drift.parse::<f64>().ok().filter(|ppm| ppm.is_finite())? * 1e-6;
        Some(Skew { ahead_ns: ahead.parse().ok()?, drift, since_ns: since.parse().ok()? })
    }

    /// What this clock shows at a time.
    pub(crate) fn shown(&self, time_ns: u64) -> u64 {
        let passed = i128::from(time_ns) - i128::from(self.since_ns);
        let gained = (passed as f64 * self.drift).round() as i64;
        time_ns.saturating_add_signed(self.ahead_ns).saturating_add_signed(gained)
    }

    /// A span as this clock shows it.
    pub(crate) fn span(&self, span: &Span) -> Span {
        // No response has no time.
        let response_ns = if span.response_ns == 0 { 0 } else { self.shown(span.response_ns) };
        Span { start_ns: self.shown(span.start_ns), response_ns, end_ns: self.shown(span.end_ns), ..span.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_a_test_is_ahead_and_gains() {
        let skew = Skew::parse("-5000 100 1000000").expect("three numbers");
        assert_eq!((skew.shown(1_000_000), skew.shown(11_000_000)), (995_000, 10_996_000));
        let span = Span { start_ns: 1_000_000, end_ns: 11_000_000, ..Span::default() };
        let shown = skew.span(&span);
        assert_eq!((shown.start_ns, shown.response_ns, shown.end_ns), (995_000, 0, 10_996_000));
        for wrong in ["", "1 2", "x 2 3", "1 nan 3", "1 2 -3"] {
            assert_eq!(Skew::parse(wrong), None, "{wrong}");
        }
    }
}
