//! A belief about how a process orders its work, the model that is learnt under it, and how it is learnt.

use super::beam::{Beam, Decision, Effort};
use super::belief::BELIEFS;
use super::model::{Debts, Model, Outlives};
use super::timed::Timed;
use super::timeline::Event;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// How often a training goes over its events.
pub(super) const ROUNDS: usize = 5;
/// `Model::step_weight` in each round of training, and after it. In the first rounds only the step counts: what is
/// learnt of whole sequences of calls would repeat the wrong assignments made so far.
const WEIGHTS: [f64; ROUNDS] = [1e9, 1e9, 1e9, 20.0, 5.0];
const LAST_WEIGHT: f64 = 2.0;
/// Round from which on guesses of the kernel count: how often they are right is learnt without them.
const GUESSES_FROM_ROUND: usize = 3;

/// One candidate belief about how the process orders its work, with the model learnt under it and its hypotheses.
pub(super) struct Candidate {
    pub(super) beam: Beam,
    pub(super) model: Model,
    /// ln of the likelihood of the events that it was trained with, and of those since.
    pub(super) likelihood: f64,
}

/// What events show without any hypothesis.
#[derive(Debug)]
pub(super) struct Shown {
    /// By the order of reads and acts, and by time.
    debts: [Arc<Debts>; 2],
    /// The request of each call, by time.
    makers: FxHashMap<u32, u32>,
    outlives: Outlives,
}

impl Shown {
    pub(super) fn by(events: &[Event], timed: Timed) -> Shown {
        let debts = [Arc::new(Debts::learn(events)), Arc::new(Debts::of(timed.leads))];
        Shown { debts, outlives: Outlives::of(events, &timed.makers), makers: timed.makers }
    }
}

/// Each belief, with nothing learnt. `beam`: what is known of the open requests.
pub(super) fn candidates(beam: &Beam) -> Vec<Candidate> {
    let candidate = |belief| Candidate { beam: beam.clone(), model: Model::new(belief), likelihood: 0.0 };
    BELIEFS.into_iter().map(candidate).collect()
}

impl Candidate {
    /// The request of each call, as the beam has it.
    fn makers(beam: &Beam, decided: &[Decision]) -> FxHashMap<u32, u32> {
        let mut makers = FxHashMap::default();
        beam.guesses(&mut makers);
        let made = |d: &Decision| (d.call, d.request.map_or(0, |r| r.id));
        makers.extend(decided.iter().filter(|d| !d.confirmed).map(made));
        makers
    }

    /// One round of learning from events anew: all [`ROUNDS`] of them, one after the other, begin without knowledge.
    /// What was learnt from the first few events would repeat their mistakes.
    pub(super) fn train(&mut self, round: usize, events: &[Event], shown: &Shown, effort: Effort) {
        let mut learnt = self.model.anew();
        if round == 0 && learnt.belief.begins_by_time {
            Beam::default().teach(events, &shown.makers, &mut learnt);
            self.model = learnt;
            return;
        }
        if round == 0 {
            self.model = self.model.anew();
            self.model.outlives = shown.outlives.clone();
            self.model.debts = self.model.belief.led.map(|led| shown.debts[usize::from(led.timed)].clone());
        }
        (self.model.step_weight, self.model.uses_guesses) = (WEIGHTS[round], round >= GUESSES_FROM_ROUND);
        let (mut beam, mut decided) = (Beam::default(), Vec::new());
        beam.run(events, &self.model, effort, &mut decided);
        self.likelihood = beam.likelihood;
        Beam::default().teach(events, &Self::makers(&beam, &decided), &mut learnt);
        self.model = learnt;
    }

    /// Solves events; `learns`: they were not in the training.
    pub(super) fn run(&mut self, events: &[Event], learns: bool, effort: Effort) -> Vec<Decision> {
        let mut model = self.model.clone();
        (model.step_weight, model.uses_guesses) = (LAST_WEIGHT, true);
        let (mut beam, mut decided) = (self.beam.clone(), Vec::new());
        beam.run(events, &model, effort, &mut decided);
        if learns {
            self.beam.teach(events, &Self::makers(&beam, &decided), &mut self.model);
            self.model.fade();
        }
        self.likelihood += beam.likelihood - self.beam.likelihood;
        self.beam = beam;
        decided
    }
}

/// The events to train with: all, or the last ones after the reads of the requests that were open at that time.
pub(super) fn recent(history: &[Event], most: usize) -> Vec<Event> {
    let (before, events) = history.split_at(history.len().saturating_sub(most));
    let answered: FxHashSet<u32> =
        before.iter().filter_map(|e| if let Event::Answered(r) = e { Some(r.id) } else { None }).collect();
    let open = before.iter().filter(|e| matches!(e, Event::Read(r) if !answered.contains(&r.id)));
    open.chain(events).copied().collect()
}
