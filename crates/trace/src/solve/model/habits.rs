//! What requests of one class do, in all.

use crate::solve::chain::Act;
use crate::solve::timeline::Class;

/// Answers of a class from which on its calls are known.
const FEW: f64 = 4.0;

/// All acts of the requests of one class: in all, answers, and calls by their class.
#[derive(Clone, Debug, Default)]
pub(super) struct Habits {
    pub(super) all: f64,
    answers: f64,
    pub(super) calls: Vec<f64>,
}

impl Habits {
    pub(super) fn of(&self, act: Act) -> f64 {
        match act {
            Act::Answer => self.answers,
            Act::Call(class) => self.calls.get(usize::from(class)).copied().unwrap_or(0.0),
        }
    }

    pub(super) fn add(&mut self, act: Act) {
        self.all += 1.0;
        match act {
            Act::Answer => self.answers += 1.0,
            Act::Call(class) => {
                let class = usize::from(class);
                self.calls.resize(self.calls.len().max(class + 1), 0.0);
                self.calls[class] += 1.0;
            }
        }
    }

    pub(super) fn halve(&mut self) {
        [&mut self.all, &mut self.answers].into_iter().chain(&mut self.calls).for_each(|n| *n /= 2.0);
    }

    /// Calls of a class per request; `None` if too few requests were seen.
    pub(super) fn expected(&self, call: Class) -> Option<f64> {
        (self.answers >= FEW).then(|| self.of(Act::Call(call)) / self.answers)
    }
}
