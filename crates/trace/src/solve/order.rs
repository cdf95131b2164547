//! What was learnt about whose turn it is.

use super::belief::{Turn, TURNS};

/// How likely the order of the queue and that of activations is followed, before anything is learnt.
pub(super) const ORDERS: [f64; 2] = [0.1, 0.9];
/// The same where learning begins with what leads to what.
pub(super) const LED_ORDERS: [f64; 2] = [0.5, 0.5];

/// Number of observations that a belief counts as.
const BELIEF_WEIGHT: f64 = 8.0;
/// Number of observations that the usual weight of the two orders counts as.
const ORDER_WEIGHT: f64 = 4.0;

/// How often each turn acted, and how often it was possible; and by which order.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    chosen: [f64; TURNS],
    possible: [f64; TURNS],
    orders: [f64; 2],
}

/// The turns of the queue come first, then those of an activation.
const ACTIVATION: usize = Turn::Again as usize;

impl Turns {
    /// `weights`: how likely each order is the one that was followed.
    pub(super) fn add(&mut self, chosen: [Turn; 2], weights: [f64; 2], possible: [bool; TURNS]) {
        for (turn, n) in self.possible.iter_mut().enumerate().filter(|(turn, _)| possible[*turn]) {
            *n += weights[usize::from(turn >= ACTIVATION)];
        }
        for (order, weight) in weights.into_iter().enumerate() {
            self.chosen[chosen[order] as usize] += weight;
            self.orders[order] += weight;
        }
    }

    /// How often a turn acted when it was possible; `prior` counts as [`BELIEF_WEIGHT`] observations.
    pub(super) fn share(&self, turn: Turn, prior: f64) -> f64 {
        let t = turn as usize;
        (self.chosen[t] + prior * BELIEF_WEIGHT) / (self.possible[t] + BELIEF_WEIGHT)
    }

    /// How likely each order is followed.
    pub(super) fn orders(&self, prior: [f64; 2]) -> [f64; 2] {
        let all = self.orders[0] + self.orders[1] + ORDER_WEIGHT;
        [0, 1].map(|order| (self.orders[order] + prior[order] * ORDER_WEIGHT) / all)
    }

    pub(super) fn halve(&mut self) {
        self.chosen.iter_mut().chain(&mut self.possible).chain(&mut self.orders).for_each(|n| *n /= 2.0);
    }
}
