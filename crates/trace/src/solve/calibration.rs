//! From the share of hypotheses that agree on a link to the probability that the link is right.
//!
//! Hypotheses may agree on the same mistake, so their agreement alone says little. Two tests from outside tell how far
//! the hypotheses of a process can be trusted. First, a call whose request is certain: would the best hypothesis have
//! named it? Second, where there is no such call, answers (each names its request): how often was it another one's
//! turn?

/// An inference is never certain.
const SUREST: f64 = 0.99;
/// Number of recent calls, and of recent answers, that count.
const RECENT: f64 = 200.0;
/// Number of tests that weigh as much as the answers.
const FEW_TESTS: f64 = 10.0;
/// Trust lost per failed test, and per surprise beyond the usual (measured with `bench/accuracy`). A test counts
/// little, as it is taken before later events, which correct many mistakes, are known.
const FAILURE: f64 = 0.4;
const CALM: f64 = 0.1;
const DISTRUST: f64 = 2.2;
const LEAST: f64 = 0.2;
/// Odds of a right link = (share × trust as odds)^SHARPER × e^BIAS, fitted to 16,000 links of `bench/accuracy`: of the
/// links with share × trust of 0.95, 0.85 and 0.75, 85, 30 and 7 % are right.
const SHARPER: f64 = 1.75;
const BIAS: f64 = -3.45;

#[derive(Clone, Copy, Debug)]
pub(super) struct Calibration {
    /// How often, of late, a request answered out of turn.
    surprise: f64,
    /// Recent calls whose request is certain, and how many of them the best hypothesis named.
    tested: f64,
    passed: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Calibration { surprise: CALM, tested: 0.0, passed: 0.0 }
    }
}

impl Calibration {
    /// A request answered; `turn` is the likelihood that it was its turn.
    pub(super) fn answered(&mut self, turn: f64) {
        self.surprise += (1.0 - turn - self.surprise) / RECENT;
    }

    /// A call whose request is certain was tested; several requests might have made it.
    pub(super) fn test(&mut self, passed: bool) {
        let keep = 1.0 - 1.0 / RECENT;
        self.tested = self.tested * keep + 1.0;
        self.passed = self.passed * keep + f64::from(u8::from(passed));
    }

    fn trust(&self) -> f64 {
        let calm = (1.0 - DISTRUST * (self.surprise - CALM).max(0.0)).max(LEAST);
        let failed = (self.tested - self.passed) / self.tested.max(1.0);
        let weight = self.tested / (self.tested + FEW_TESTS);
        weight * (1.0 - FAILURE * failed) + (1.0 - weight) * calm
    }

    /// The probability that a link is right, if this share of the hypotheses agrees on it.
    pub(super) fn confidence(&self, share: f64) -> f64 {
        let agreed = (share * self.trust()).clamp(1.0 - SUREST, SUREST);
        let odds = (agreed / (1.0 - agreed)).powf(SHARPER) * BIAS.exp();
        (odds / (1.0 + odds)).min(SUREST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(turns: f64, tests: &[bool]) -> Calibration {
        let mut c = Calibration::default();
        (0..2000).for_each(|_| c.answered(turns));
        tests.iter().for_each(|t| c.test(*t));
        c
    }

    #[test]
    fn without_tests_answers_out_of_turn_take_the_trust() {
        assert!(after(1.0, &[]).confidence(1.0) > 0.985);
        assert!((0.15..0.3).contains(&after(0.8, &[]).confidence(1.0)));
        assert!(after(0.3, &[]).confidence(1.0) < 0.01);
    }

    #[test]
    fn tests_count_more_than_answers() {
        assert!(after(0.3, &[true; 400]).confidence(1.0) > 0.8);
        let half: Vec<bool> = (0..400).map(|i| i % 2 == 0).collect();
        assert!((0.2..0.5).contains(&after(1.0, &half).confidence(1.0)));
        assert!(after(1.0, &half).confidence(0.5) < 0.1);
    }
}
