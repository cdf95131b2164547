//! A request answers, and ends then or later.

use super::chains::Chains;
use super::{Acted, Beam};
use crate::solve::chain::{Act, Last};
use crate::solve::model::Model;
use crate::solve::timeline::Request;
use crate::solve::turns::place;

impl Beam {
    pub(super) fn answered(&mut self, r: &Request, model: &Model) {
        let Some(slot) = self.open.iter().position(|o| o.id == r.id) else { return };
        self.open[slot].until_ns = r.until_ns;
        if let Some(best) = self.hypotheses.first() {
            let outlook = model.outlook(Act::Answer);
            let mut chains = Chains::new(self, model, Act::Answer, r.end_ns);
            let queue = self.queue(best, r.tid, &outlook, &mut chains);
            let mut likely =
                |slot: usize| chains.look(slot, &best.states[slot]).likely + queue.share(slot).max(1e-9).ln();
            let own = likely(slot);
            let foretold = (0..self.open.len()).filter(|s| *s != slot).all(|s| likely(s) < own);
            if self.open.len() > 1 {
                self.calibration.answered(foretold);
            }
        }
        if model.belief.by_thread {
            // A belief by thread chooses among the requests of one thread only. Without this term it would always seem
            // the likelier one.
            let of_thread = self.open.iter().filter(|o| o.tid == r.tid).count();
            self.likelihood += (of_thread as f64 / self.open.len() as f64).ln();
        }
        let scores = self.scores(slot, Act::Answer, r.tid, r.end_ns, model);
        self.hypotheses.iter_mut().zip(scores).for_each(|(hypothesis, more)| hypothesis.score += more);
        self.answers(slot);
        self.writes(r.tid);
        self.settle();
    }

    /// A request answers. Returns whether it goes on.
    pub(super) fn answers(&mut self, slot: usize) -> bool {
        let r = self.open[slot];
        for hypothesis in &mut self.hypotheses {
            let s = &mut hypothesis.states[slot];
            hypothesis.acted = Acted { request: r.id, trigger: s.trigger, activation: s.activation };
            (s.last, s.last_ns, s.trigger) = (Last::Answered, r.end_ns, self.event);
        }
        let goes_on = r.until_ns > r.end_ns;
        if !goes_on {
            self.close(slot);
        }
        goes_on
    }

    /// A request that went on after its answer has ended.
    pub(super) fn ended(&mut self, r: &Request, model: Option<&Model>) {
        let Some(slot) = self.open.iter().position(|o| o.id == r.id && o.until_ns <= r.until_ns) else { return };
        if let Some(model) = model {
            for hypothesis in &mut self.hypotheses {
                hypothesis.score += model.rests(place(r, &hypothesis.states[slot]));
            }
        }
        self.close(slot);
        if model.is_some() {
            self.settle();
        }
    }

    fn close(&mut self, slot: usize) {
        self.open.swap_remove(slot);
        self.hypotheses.iter_mut().for_each(|hypothesis| {
            hypothesis.states.swap_remove(slot);
        });
    }
}
