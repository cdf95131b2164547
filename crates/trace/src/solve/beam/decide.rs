//! Decides which request made a call, once every request that might have made it has answered.

use super::trails::Trails;
use super::{Beam, Hypothesis, Pending, Step, MAX_PENDING, MAX_STEPS};
use crate::solve::timeline::Request;
use crate::solve::SolverConfig;
use rustc_hash::{FxHashMap, FxHashSet};
use wirespan_model::SpanId;

/// The decision on a call: its request, if any, and the confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::solve) struct Decision {
    pub(in crate::solve) call: u32,
    pub(in crate::solve) request: Option<Request>,
    pub(in crate::solve) confidence: f32,
    /// The next likely requests.
    pub(in crate::solve) others: [Option<(SpanId, f32)>; OTHERS],
    /// Only one request was possible, or none that was seen: the kernel's cause is kept.
    pub(in crate::solve) confirmed: bool,
}

/// Requests beside the likeliest that a decision names.
pub(in crate::solve) const OTHERS: usize = 2;

impl Decision {
    /// Nothing is known of this call.
    pub(in crate::solve) fn of(call: u32) -> Self {
        Decision { call, request: None, confidence: 0.0, others: [None; OTHERS], confirmed: false }
    }

    /// Whether no request is likely enough.
    pub(in crate::solve) fn is_open(&self, config: &SolverConfig) -> bool {
        self.request.is_none() || self.confidence < config.min_confidence
    }
}

impl Beam {
    /// The request of each undecided call, as the best hypothesis has it.
    pub(in crate::solve) fn guesses(&self, out: &mut FxHashMap<u32, u32>) {
        let Some(best) = self.hypotheses.first() else { return };
        let mut at = best.step;
        while let Some(step) = at.checked_sub(1).and_then(|i| self.steps.get(i as usize)) {
            out.insert(step.call, step.request);
            at = step.before;
        }
    }

    /// Decides each call whose possible requests have all answered, and keeps the hypotheses that agree.
    pub(super) fn decide(&mut self, now_ns: u64, out: &mut Vec<Decision>) {
        let mut at = 0;
        while at < self.pending.len() {
            if self.pending[at].until_ns > now_ns && self.pending.len() <= MAX_PENDING {
                at += 1;
                continue;
            }
            let Pending { call, candidates, class, doubt, .. } = self.pending.remove(at);
            let named_makers = self.named_makers(call);
            let mut shares: FxHashMap<u32, f64> = FxHashMap::default();
            for (hypothesis, request) in self.hypotheses.iter().zip(&named_makers) {
                *shares.entry(*request).or_default() += hypothesis.score.exp();
            }
            let mut shares: Vec<(u32, f64)> = shares.into_iter().collect();
            shares.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            // The hypotheses that are left decide; what was dropped only takes confidence from them.
            doubt.correct(&mut shares);
            let Some(&(request, share)) = shares.first() else { continue };
            shares[1..].sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            self.keep(&named_makers, request);
            let confidence = |share: f64| self.calibration.confidence(class, share, candidates == 1) as f32;
            let named = |(id, share): &(u32, f64)| Some((self.named.get(id)?.span, confidence(*share)));
            let mut others = [None; OTHERS];
            others.iter_mut().zip(shares[1..].iter().filter_map(named)).for_each(|(to, other)| *to = Some(other));
            let confidence = confidence(share);
            let request = self.named.get(&request).copied();
            out.push(Decision { call, request, confidence, others, confirmed: candidates == 0 });
        }
    }

    /// Keeps the hypotheses that name this request for a call that was decided.
    fn keep(&mut self, named_makers: &[u32], request: u32) {
        let Some(best) = named_makers.iter().position(|named| *named == request) else { return };
        if named_makers.iter().all(|named| *named == request) {
            return;
        }
        let before = std::mem::take(&mut self.hypotheses);
        let part = |(hypothesis, named): (&Hypothesis, &u32)| {
            let weight = hypothesis.score.exp();
            [weight, if *named == request { weight } else { 0.0 }]
        };
        let parts: Vec<[f64; 2]> = before.iter().zip(named_makers).map(part).collect();
        self.doubts(&before, &parts, best);
        let kept = before.into_iter().zip(named_makers).filter(|(_, named)| **named == request);
        self.hypotheses = kept.map(|(hypothesis, _)| hypothesis).collect();
        self.settle();
    }

    /// The request of a call in each hypothesis.
    fn named_makers(&self, call: u32) -> Vec<u32> {
        let mut trails = Trails::of(&self.hypotheses);
        loop {
            let Some(steps) = trails.steps(&self.steps) else { return vec![0; self.hypotheses.len()] };
            if steps.iter().any(|s| s.call == call) {
                let step = |hypothesis: usize| Some(steps[trails.of_hypothesis(hypothesis)]);
                let request = |hypothesis| step(hypothesis).filter(|s| s.call == call).map_or(0, |s| s.request);
                return (0..self.hypotheses.len()).map(request).collect();
            }
            trails.go_back(&steps);
        }
    }

    /// Forgets steps that lead to no open decision.
    pub(super) fn clear_away(&mut self) {
        if self.pending.is_empty() {
            self.steps.clear();
            self.named.clear();
            self.hypotheses.truncate(1);
            self.hypotheses.iter_mut().for_each(|w| (w.step, w.score) = (0, 0.0));
        } else if self.steps.len() > MAX_STEPS {
            let wanted: FxHashSet<u32> = self.pending.iter().map(|p| p.call).collect();
            let mut kept: Vec<Step> = Vec::new();
            let mut moved: FxHashMap<u32, u32> = FxHashMap::from_iter([(0, 0)]);
            for hypothesis in &mut self.hypotheses {
                let mut path = Vec::new();
                let mut at = hypothesis.step;
                while !moved.contains_key(&at) {
                    path.push(at);
                    at = self.steps[at as usize - 1].before;
                }
                let mut to = moved[&at];
                for from in path.into_iter().rev() {
                    let step = self.steps[from as usize - 1];
                    if wanted.contains(&step.call) {
                        kept.push(Step { before: to, ..step });
                        to = kept.len() as u32;
                    }
                    moved.insert(from, to);
                }
                hypothesis.step = to;
            }
            let named: FxHashSet<u32> = kept.iter().map(|s| s.request).collect();
            self.named.retain(|id, _| named.contains(id));
            self.steps = kept;
        }
    }
}
