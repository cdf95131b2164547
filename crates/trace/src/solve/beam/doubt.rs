//! What is left out of sight when hypotheses are dropped.
//!
//! A beam keeps the likeliest hypotheses. Those that gave a call to another request may all be among the dropped ones,
//! although they were nearly as likely: then the rest agree, and agreement says nothing. Two calls that may have been
//! exchanged are an example: once the first is decided, all hypotheses that are left agree on the second. So each call
//! remembers how much of the doubt about it went with what was dropped.

use super::trails::Trails;
use super::{Beam, Hypothesis, LARGEST_GAP};
use rustc_hash::FxHashMap;

/// Odds beyond which nothing more is learnt from a number.
const MOST_ODDS: f64 = 1e6;

/// Doubt about the request that the best hypothesis names for a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// The request that is doubted.
    request: u32,
    /// The odds of the other requests were so many times higher than the hypotheses that are left show.
    factor: f64,
    /// The odds of other requests that no hypothesis names any more.
    gone: f64,
}

impl Doubt {
    pub(super) fn none(request: u32) -> Doubt {
        Doubt { request, factor: 1.0, gone: 0.0 }
    }

    /// Hypotheses were dropped. `before` and `after`: the share of those that name another request than this one.
    fn drops(&mut self, request: u32, before: f64, after: f64) {
        if self.request != request {
            (self.request, self.factor) = (request, 1.0 / self.factor);
        }
        let odds = |share: f64| share / (1.0 - share).max(1.0 / MOST_ODDS);
        if after > 0.0 {
            self.factor = (self.factor * odds(before) / odds(after)).clamp(1.0 / MOST_ODDS, MOST_ODDS);
        } else {
            self.gone = (self.gone + self.factor * odds(before)).min(MOST_ODDS);
            self.factor = 1.0;
        }
    }

    /// Turns the weights of requests, as the hypotheses that are left have them, into shares.
    pub(super) fn correct(&self, weights: &mut [(u32, f64)]) {
        let mut all = 0.0;
        for (request, weight) in weights.iter_mut() {
            if *request == self.request {
                all += *weight * self.gone;
            } else {
                *weight *= self.factor;
            }
            all += *weight;
        }
        weights.iter_mut().for_each(|(_, weight)| *weight /= all.max(1.0 / MOST_ODDS));
    }
}

/// A hypothesis with one more step: its score, the hypothesis before, and the slot of the request that it names.
pub(super) type Next = (f64, usize, Option<usize>);

impl Beam {
    /// A split has led to hypotheses of which some are followed, the best first, and the others are dropped. Returns
    /// the doubt about the call that was split.
    pub(super) fn doubts_of_split(&mut self, before: &[Hypothesis], kept: &[Next], dropped: &[Next]) -> Doubt {
        let Some(&(best, from, slot)) = kept.first() else { return Doubt::none(0) };
        let mut doubt = Doubt::none(slot.map_or(0, |s| self.open[s].id));
        if dropped.is_empty() {
            return doubt;
        }
        let mut parts = vec![[0.0; 2]; before.len()];
        let mut others = [[0.0; 2]; 2];
        for (next, stays) in [(kept, 1.0), (dropped, 0.0)] {
            for (score, w, named) in next.iter().filter(|next| next.0 >= best - LARGEST_GAP) {
                let weight = (score - best).exp();
                for sum in [&mut parts[*w], &mut others[usize::from(*named != slot)]] {
                    *sum = [sum[0] + weight, sum[1] + stays * weight];
                }
            }
        }
        let [same, other] = others;
        let share = |part: usize| other[part] / (same[part] + other[part]);
        doubt.drops(doubt.request, share(0), share(1));
        self.doubts(before, &parts, from);
        doubt
    }

    /// Hypotheses are about to be dropped. `parts`: of each hypothesis, its weight and the part of it that stays;
    /// `best`: the one that the best of those that stay is, or comes from.
    pub(super) fn doubts(&mut self, hypotheses: &[Hypothesis], parts: &[[f64; 2]], best: usize) {
        let sum = |part: usize| parts.iter().map(|p| p[part]).sum::<f64>();
        let (all, kept) = (sum(0), sum(1));
        let mut trails = Trails::of(hypotheses);
        let mut found: FxHashMap<u32, (u32, f64, f64)> = FxHashMap::default();
        // Before the step that they have in common, nothing is dropped.
        while !trails.are_one() {
            let Some(steps) = trails.steps(&self.steps) else { break };
            let step = |hypothesis: usize| steps[trails.of_hypothesis(hypothesis)];
            let named = step(best);
            let others = parts.iter().enumerate().filter(|(w, _)| step(*w).request != named.request);
            let [before, after] = others.fold([0.0; 2], |[b, a], (_, [all, kept])| [b + all, a + kept]);
            if before > 0.0 {
                found.insert(named.call, (named.request, before / all, after / kept));
            }
            trails.go_back(&steps);
        }
        for pending in &mut self.pending {
            if let Some((request, before, after)) = found.get(&pending.call) {
                pending.doubt.drops(*request, *before, *after);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of request 1, if this share of the hypotheses that are left names it, and the rest request 2.
    fn share(doubt: &Doubt, of_one: f64) -> f64 {
        let mut weights = [(1, of_one), (2, 1.0 - of_one)];
        doubt.correct(&mut weights);
        weights[0].1
    }

    #[test]
    fn doubt_that_was_dropped_stays() {
        let mut doubt = Doubt::none(1);
        assert_eq!(share(&doubt, 1.0), 1.0);
        doubt.drops(1, 0.4, 0.0);
        assert!((share(&doubt, 1.0) - 0.6).abs() < 1e-9);
    }

    #[test]
    fn what_is_dropped_evenly_changes_nothing_and_evidence_still_counts() {
        let mut doubt = Doubt::none(1);
        doubt.drops(1, 0.4, 0.4);
        assert!((share(&doubt, 0.6) - 0.6).abs() < 1e-9);
        assert!((share(&doubt, 0.99) - 0.99).abs() < 1e-9);
        doubt.drops(1, 0.4, 0.1);
        assert!((share(&doubt, 0.9) - 0.6).abs() < 1e-9);
        assert!(share(&doubt, 0.999) > 0.99);
    }

    #[test]
    fn what_speaks_against_the_one_speaks_for_the_other() {
        let mut doubt = Doubt::none(1);
        doubt.drops(1, 0.4, 0.1);
        assert!((share(&doubt, 0.5) - 1.0 / 7.0).abs() < 1e-6);
        doubt.drops(2, 0.5, 0.5);
        assert!((share(&doubt, 0.5) - 1.0 / 7.0).abs() < 1e-6);
    }
}
