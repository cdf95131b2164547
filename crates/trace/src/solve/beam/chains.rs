//! How likely the open requests act now, each by its own chain of events.

use super::Beam;
use crate::solve::chain::Act;
use crate::solve::model::Model;
use crate::solve::timeline::Request;
use crate::solve::turns::{place, State};

/// How an open request looks at the time of an act.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// ln of how likely the request acts so now, by its own chain.
    pub(super) likely: f64,
    /// Whether its next act may be this one.
    pub(super) ready: bool,
}

/// How the open requests look at the time of an act. Most hypotheses have a request in the same state: the model is
/// asked once per state.
pub(super) struct Chains<'a> {
    open: &'a [Request],
    model: &'a Model,
    act: Act,
    at_ns: u64,
    /// By slot: the last state that was asked for, and the answer.
    known: Vec<Option<(State, Look)>>,
}

impl<'a> Chains<'a> {
    pub(super) fn new(beam: &'a Beam, model: &'a Model, act: Act, at_ns: u64) -> Self {
        Chains { open: &beam.open, model, act, at_ns, known: vec![None; beam.open.len()] }
    }

    pub(super) fn look(&mut self, slot: usize, s: &State) -> Look {
        match &self.known[slot] {
            Some((known, look)) if known == s => *look,
            _ => {
                let place = place(&self.open[slot], s);
                let likely = self.model.act(place, self.act, self.at_ns.saturating_sub(s.last_ns));
                let look = Look { likely, ready: self.model.is_ready(place, self.act) };
                self.known[slot] = Some((*s, look));
                look
            }
        }
    }
}
