//! How likely the open requests act now, each by its own chain of events.

use super::Beam;
use crate::solve::chain::Act;
use crate::solve::model::Model;
use crate::solve::timeline::Request;
use crate::solve::turns::{place, State};

/// ln of how likely each open request acts now, by its own chain. Most hypotheses have a request in the same state: the
/// model is asked once per state.
pub(super) struct Chains<'a> {
    open: &'a [Request],
    model: &'a Model,
    act: Act,
    at_ns: u64,
    /// By slot: the last state that was asked for, and the answer.
    known: Vec<Option<(State, f64)>>,
}

impl<'a> Chains<'a> {
    pub(super) fn new(beam: &'a Beam, model: &'a Model, act: Act, at_ns: u64) -> Self {
        Chains { open: &beam.open, model, act, at_ns, known: vec![None; beam.open.len()] }
    }

    pub(super) fn act(&mut self, slot: usize, s: &State) -> f64 {
        match &self.known[slot] {
            Some((known, likely)) if known == s => *likely,
            _ => {
                let place = place(&self.open[slot], s);
                let likely = self.model.act(place, self.act, self.at_ns.saturating_sub(s.last_ns));
                self.known[slot] = Some((*s, likely));
                likely
            }
        }
    }
}
