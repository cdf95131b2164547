//! Whether calls of a class and answers to a class of requests belong together, by their numbers alone.
//!
//! If a request makes so many calls after each answer, then the calls to come never go below none and stay few. Two
//! independent counts drift apart, as a random walk does.

/// Calls that may come before their request's answer, as spans are lost: so many, and one in so many.
const MISSES: f64 = 1.0;
const CALLS_A_MISS: f64 = 200.0;
/// Evidence that calls and answers belong together: ln of how unlikely a random walk stays within such bounds.
const BOUND: f64 = 10.0;

/// If each answer is followed by a certain number of calls: the calls to come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance {
    due: f64,
    most: f64,
    steps: f64,
    misses: f64,
}

impl Balance {
    /// So many calls have come, and so many were due.
    pub(super) fn begin(calls: f64, due: f64) -> Self {
        let due = due - calls;
        Balance { due, most: due, steps: 0.0, misses: (-due).max(0.0) }
    }

    pub(super) fn answer(&mut self, calls: f64) {
        self.due += calls;
        self.most = self.most.max(self.due);
        self.steps += 1.0;
    }

    pub(super) fn call(&mut self) {
        self.steps += 1.0;
        self.due -= 1.0;
        if self.due < 0.0 {
            self.misses += 1.0;
        }
    }

    /// Goes on with what is due now, and forgets how it came to that.
    pub(super) fn renew(&mut self) {
        let due = self.due.max(0.0);
        *self = Balance { due, most: due, ..Balance::default() };
    }

    /// How much speaks for their belonging together, if enough does: ln of how unlikely it is by chance. A random walk
    /// stays for n steps between two bounds w apart with a likelihood of about exp(-n π² / 2 w²).
    pub(super) fn evidence(&self) -> Option<f64> {
        if self.misses > MISSES + self.steps / CALLS_A_MISS {
            return None;
        }
        let width = self.most + 2.0;
        let evidence = self.steps * std::f64::consts::PI.powi(2) / (2.0 * width * width);
        (evidence >= BOUND).then_some(evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_numbers_drift_apart() {
        let mut b = Balance::begin(0.0, 1.0);
        for n in 0..400_u64 {
            // As many of each, in an order of no meaning.
            match n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 & 1 == 0 && n % 7 != 3 || n % 11 == 5 {
                true => b.answer(1.0),
                false => b.call(),
            }
        }
        assert_eq!(b.evidence(), None, "{b:?}");
    }

    #[test]
    fn one_call_after_each_answer_is_told_and_one_before_is_not() {
        let (mut after, mut before) = (Balance::begin(0.0, 0.0), Balance::begin(0.0, 0.0));
        for _ in 0..60 {
            after.answer(1.0);
            after.call();
            before.call();
            before.answer(1.0);
        }
        assert!(after.evidence().is_some() && before.evidence().is_none(), "{after:?} {before:?}");
    }
}
