//! How far the explanations of a process can be trusted: from the share of them that agree to the share of links that
//! are right.
//!
//! Explanations agree with each other on what they all get wrong, so their agreement says little. Two things test them
//! from outside. A call whose maker is certain: whether the best explanation would have named it. Where there is no
//! such call, the answers, each of which says for whom it is: how often it was somebody else's turn.

/// An inference is never certain.
const SUREST: f64 = 0.99;
/// So many calls, and answers, count.
const RECENT: f64 = 200.0;
/// So many tests count as much as the answers.
const FEW_TESTS: f64 = 10.0;
/// What a failed test, and a surprise beyond what is usual, take from the trust (measured with `bench/accuracy`). A
/// test is taken before what follows is known, which mends many mistakes.
const FAILURE: f64 = 0.4;
const CALM: f64 = 0.1;
const DISTRUST: f64 = 2.2;
const LEAST: f64 = 0.2;
/// What comes of both is right nearly always, or worth little: its odds to this power, times e to the other, are those
/// of a right link (fitted to 16,000 links of `bench/accuracy`: of those that would be given 0.95, 0.85 and 0.75, 85,
/// 30 and 7 % are right).
const SHARPER: f64 = 1.75;
const BIAS: f64 = -3.45;

#[derive(Clone, Copy, Debug)]
pub(super) struct Calibration {
    /// How often it was not the turn of who answered, of late.
    surprise: f64,
    /// Calls whose maker is certain, of late, and how many of them were named.
    tested: f64,
    passed: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Calibration { surprise: CALM, tested: 0.0, passed: 0.0 }
    }
}

impl Calibration {
    /// Somebody answered; how likely it was its turn.
    pub(super) fn answered(&mut self, turn: f64) {
        self.surprise += (1.0 - turn - self.surprise) / RECENT;
    }

    /// There was a call whose maker is certain, among several who might have made it.
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

    /// How likely a link is right on which this share of the explanations agrees.
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
