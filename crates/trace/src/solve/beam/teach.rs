//! Teaches a model what a process did, given the request of each call.

use super::chains::Chains;
use super::makers::may_make;
use super::Beam;
use crate::solve::chain::Act;
use crate::solve::model::Model;
use crate::solve::timeline::{Event, Maker};
use crate::solve::turns::place;
use rustc_hash::FxHashMap;

impl Beam {
    /// Teaches a model by these events. `makers` has the request of each call; `self` is the state before the events.
    pub(in crate::solve) fn teach(&self, events: &[Event], makers: &FxHashMap<u32, u32>, model: &mut Model) {
        let hypotheses = self.hypotheses[..1].to_vec();
        let (activations, connections) = (self.activations.clone(), self.connections.clone());
        let mut one = Beam { hypotheses, event: self.event, activations, connections, ..Beam::default() };
        one.open.clone_from(&self.open);
        for event in events {
            one.event = one.event.wrapping_add(1);
            match *event {
                Event::Read(r) => {
                    one.read(r);
                    one.visit(one.open.len() - 1, model);
                }
                Event::Replied(c) => {
                    if let Some(slot) = one.replied(&c, None) {
                        one.visit(slot, model);
                    }
                }
                Event::Sent(c) => {
                    one.calls(&c);
                    let request = match c.maker {
                        Maker::OneOf(_) if makers.contains_key(&c.id) => {
                            one.open.iter().position(|r| r.id == makers[&c.id])
                        }
                        Maker::Known(x) | Maker::Claimed(x) | Maker::OneOf(x) => {
                            model.learn_call(c.class, false, false);
                            one.open.iter().position(|r| r.owns(x))
                        }
                        Maker::Unknown(hint) => {
                            let maker = makers.get(&c.id).copied().unwrap_or(0);
                            let slot = one.guessed(&c, hint).or_else(|| one.open.iter().position(|r| r.id == maker));
                            // Learnt only where it is sure: a process's own calls go on while no request is open.
                            let is_alone = !one.open.iter().any(|r| may_make(r, &c));
                            model.learn_call(c.class, c.for_request, is_alone);
                            if let Some(hint) = hint {
                                let right = slot.is_some_and(|s| one.open[s].owns(hint.exchange));
                                model.learn_hint(hint.opinion, right);
                            }
                            slot
                        }
                        Maker::Other => None,
                    };
                    if let Some(slot) = request {
                        if let Some(holder) = one.holder(&one.hypotheses[0], &c).filter(|_| one.open.len() > 1) {
                            model.learn_together(one.company(&c), holder == slot);
                        }
                        if let Some(keeper) = one.keeper(&one.hypotheses[0], &c).filter(|_| one.open.len() > 1) {
                            model.learn_keeps(keeper == slot);
                        }
                        let r = &one.open[slot];
                        model.learn_own(r.class, c.class, r.answerer == c.actor);
                        model.outlives.learn(r, &c);
                        one.learn(slot, Act::Call(c.class), c.tid, c.start_ns, model);
                        one.sends(0, slot, &c, model.has_queues());
                        one.visit(slot, model);
                    }
                    one.writes(c.tid);
                    one.passes(&c);
                }
                Event::Answered(r) => {
                    if let Some(slot) = one.open.iter().position(|o| o.id == r.id) {
                        one.learn(slot, Act::Answer, r.tid, r.end_ns, model);
                        one.open[slot].until_ns = r.until_ns;
                        if one.answers(slot) {
                            one.visit(slot, model);
                        }
                        one.writes(r.tid);
                    }
                }
                Event::Ended(r) => one.ended(&r, None),
            }
        }
    }

    fn learn(&self, slot: usize, act: Act, tid: u32, at_ns: u64, model: &mut Model) {
        let hypothesis = &self.hypotheses[0];
        let outlook = model.outlook(act);
        let mut chains = Chains::new(self, model, act, at_ns);
        let queue = self.queue(hypothesis, tid, &outlook, &mut chains);
        model.learn_turn(act, queue.turn(slot), queue.shares(slot), queue.possible());
        let (r, s) = (&self.open[slot], &hypothesis.states[slot]);
        model.learn_act(place(r, s), act, at_ns.saturating_sub(s.last_ns));
    }

    fn visit(&self, slot: usize, model: &mut Model) {
        model.visit(place(&self.open[slot], &self.hypotheses[0].states[slot]));
    }
}
