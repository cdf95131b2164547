//! The steps of several hypotheses, walked back together. Hypotheses share most of their steps, so each is followed
//! once.

use super::{Hypothesis, Step};

/// All hypotheses have assigned the same calls, in the same order. So the steps of all trails are of one call.
#[derive(Debug)]
pub(super) struct Trails {
    /// Index of the step at which each trail stands, plus one.
    at: Vec<u32>,
    /// The trail of each hypothesis.
    of: Vec<usize>,
}

/// The place of this step among `all`, to which it is added if it is not there.
fn joined(all: &mut Vec<u32>, step: u32) -> usize {
    all.iter().position(|known| *known == step).unwrap_or_else(|| {
        all.push(step);
        all.len() - 1
    })
}

impl Trails {
    /// At the last step of each hypothesis.
    pub(super) fn of(hypotheses: &[Hypothesis]) -> Trails {
        let mut at = Vec::with_capacity(hypotheses.len());
        let of = hypotheses.iter().map(|hypothesis| joined(&mut at, hypothesis.step)).collect();
        Trails { at, of }
    }

    /// Whether all hypotheses have these steps in common, from here on back.
    pub(super) fn are_one(&self) -> bool {
        self.at.len() <= 1
    }

    pub(super) fn of_hypothesis(&self, hypothesis: usize) -> usize {
        self.of[hypothesis]
    }

    /// The step of each trail; `None` at their beginning.
    pub(super) fn steps(&self, all: &[Step]) -> Option<Vec<Step>> {
        self.at.iter().map(|at| all.get(at.checked_sub(1)? as usize).copied()).collect()
    }

    /// Goes back by one step. `steps`: those at which the trails stand.
    pub(super) fn go_back(&mut self, steps: &[Step]) {
        let mut before = Vec::with_capacity(steps.len());
        let to: Vec<usize> = steps.iter().map(|step| joined(&mut before, step.before)).collect();
        if before.len() < self.at.len() {
            self.of.iter_mut().for_each(|trail| *trail = to[*trail]);
        }
        self.at = before;
    }
}
