//! Whether the hand-overs that the kernel claims in a process are right.
//!
//! A worker that is woken does not always do the work it was woken for: another worker may have taken that work from
//! the queue. Then some calls end after the claimed request was answered. That refutes the claims, unless most calls of
//! that kind end so late: then the service does not wait for this kind of call, and the claims may be right. A service
//! may wait for a call in all its routes but one, which answers first: a class of requests of which no claim holds says
//! nothing, either. But calls that requests enclose, whichever requests, are no such calls: all their late claims are
//! wrong.

use super::tally::{Calls, Kind, Outcome, Time};
use super::Named;
use crate::rules::trust;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use wirespan_model::{Evidence, Span};

/// Number of right claims in a row after which further claims are believed at once.
const PROVEN: u32 = 200;
/// Number of right claims in a row after which earlier failures are forgiven: they were of a virtual machine that had
/// not compiled its methods yet.
const FORGIVEN: u32 = 1_000;
/// Wrong claims per failed claim, as only one in so many shows; and the least share of right, and of wrong, claims.
const UNNOTICED: f64 = 3.0;
const LEAST_SHARE: f64 = 0.02;
/// Share of right claims from which on one is believed although the trial failed, if inference says nothing of it.
const MOSTLY: f64 = 0.9;
/// As many claims as this count as judged before any was.
const PRIOR: f64 = 20.0;
/// Judged claims after which earlier ones count half.
const FADE_AFTER: u32 = 2_000;
/// Most kinds of calls, and most claims and answers, that are kept.
const MAX_KINDS: usize = 512;
const MAX_KEPT: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Trial {
    /// By kind of call and class of request.
    kinds: FxHashMap<(u64, u64), Kind>,
    /// The same by kind of call: each call asks for their sum.
    calls: FxHashMap<u64, Calls>,
    /// Kinds of calls whose claims have failed.
    failing: FxHashSet<u64>,
    /// Kinds of calls that lie within requests, whichever requests.
    enclosed: FxHashSet<u64>,
    /// Claims whose request has not ended: by exchange, the kind of each call and its time.
    claims: FxHashMap<u64, Vec<(u64, Time)>>,
    /// The same exchanges, oldest first.
    order: VecDeque<u64>,
    /// When requests were answered, and their class, by exchange; and these exchanges, oldest first.
    answers: FxHashMap<u64, (u64, u64)>,
    answered: VecDeque<u64>,
    held: u32,
}

/// Whether a claim may fail: it is of a thread that was woken, or that was started and may be a worker by now.
pub(super) fn is_tried(span: &Span) -> bool {
    let by_thread = match span.cause_evidence {
        Some(Evidence::WakeUp) => true,
        Some(Evidence::ChildTask) => span.tid != span.pid,
        _ => false,
    };
    by_thread && span.cause.is_some() && span.parent_span_id.is_none()
}

/// All calls of a kind succeed and fail alike.
pub(super) fn kind_of(span: &Span) -> u64 {
    let mut h = FxHasher::default();
    (span.tuple.server, &*span.protocol, &*span.operation).hash(&mut h);
    h.finish()
}

impl Trial {
    /// Adds a call with a cause claimed by the kernel.
    pub(super) fn add_claim(&mut self, span: &Span) {
        let Some(exchange) = span.cause else { return };
        let kind = kind_of(span);
        if let Some((answered_ns, request)) = self.answers.get(&exchange).copied() {
            return self.judge((kind, request), Outcome::of((span.start_ns, span.end_ns), answered_ns));
        }
        let list = self.claims.entry(exchange).or_default();
        if list.is_empty() {
            self.order.push_back(exchange);
        }
        list.push((kind, (span.start_ns, span.end_ns)));
        while self.order.len() > MAX_KEPT {
            self.order.pop_front().and_then(|x| self.claims.remove(&x));
        }
    }

    /// A claim was tested by better evidence.
    pub(super) fn test(&mut self, span: &Span, holds: bool) {
        self.judge((kind_of(span), 0), if holds { Outcome::Holds } else { Outcome::Fails });
    }

    /// Calls of this kind lie within requests, or no longer do.
    pub(super) fn enclose(&mut self, span: &Span, are_enclosed: bool) {
        let kind = kind_of(span);
        let changed = if are_enclosed { self.enclosed.insert(kind) } else { self.enclosed.remove(&kind) };
        if changed {
            self.decide(kind);
        }
    }

    /// Adds a request that was answered; `request`: its class.
    pub(super) fn add_answer(&mut self, span: &Span, request: u64) {
        for exchange in span.exchanges() {
            for (kind, time) in self.claims.remove(&exchange).unwrap_or_default() {
                self.judge((kind, request), Outcome::of(time, span.end_ns));
            }
            self.answers.insert(exchange, (span.end_ns, request));
            self.answered.push_back(exchange);
            while self.answered.len() > MAX_KEPT {
                self.answered.pop_front().and_then(|x| self.answers.remove(&x));
            }
        }
    }

    fn judge(&mut self, kind: (u64, u64), outcome: Outcome) {
        let kind = if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(&kind) { kind } else { (0, 0) };
        let k = self.kinds.entry(kind).or_default();
        k.judged += 1;
        k.failed += u32::from(outcome != Outcome::Holds);
        k.later += u32::from(outcome == Outcome::FailsLater);
        if k.judged >= FADE_AFTER {
            (k.judged, k.failed, k.later) = (k.judged / 2, k.failed / 2, k.later / 2);
        }
        if outcome == Outcome::Holds {
            self.held = self.held.saturating_add(1);
        } else if !k.answers_first() {
            self.held = 0;
        }
        if self.held == FORGIVEN {
            self.kinds.values_mut().for_each(|k| (k.failed, k.later) = (0, 0));
            self.failing.clear();
            self.calls.clear();
            self.kinds.iter().for_each(|((call, _), k)| self.calls.entry(*call).or_default().add(k));
        }
        let mut calls = Calls::default();
        self.kinds.iter().filter(|((call, _), _)| *call == kind.0).for_each(|(_, k)| calls.add(k));
        self.calls.insert(kind.0, calls);
        self.decide(kind.0);
    }

    /// Whether the claims of a kind of calls fail.
    fn decide(&mut self, call: u64) {
        let is_enclosed = self.enclosed.contains(&call);
        if self.calls.get(&call).is_some_and(|calls| calls.fail(is_enclosed)) {
            self.failing.insert(call);
        } else {
            self.failing.remove(&call);
        }
    }

    /// Whether claims are not believed in this process.
    pub(super) fn has_failed(&self) -> bool {
        !self.failing.is_empty()
    }

    /// About which share of the claims is right.
    pub(super) fn share(&self) -> f64 {
        let counted = self.calls.iter().filter_map(|(kind, calls)| calls.counted(self.enclosed.contains(kind)));
        let (judged, failed) = counted.fold((0, 0), |(j, f), c| (j + c.judged, f + c.failed));
        (1.0 - UNNOTICED * f64::from(failed) / f64::from(judged.max(1))).clamp(LEAST_SHARE, 1.0 - LEAST_SHARE)
    }

    /// The claim of a hand-over, with what is known of such claims in this process.
    pub(super) fn claim(&self, span: &Span) -> Option<Named> {
        let (exchange, evidence) = span.cause.zip(span.cause_evidence).filter(|_| is_tried(span))?;
        Some(Named { exchange, evidence, confidence: self.confidence(trust(evidence)), span: None })
    }

    /// The probability that a claim is right: what answers have shown of this process's claims, with `before` as if
    /// some claims had shown that.
    fn confidence(&self, before: f32) -> f64 {
        let known = f64::from(self.calls.values().map(|calls| calls.all.judged).sum::<u32>());
        (f64::from(before) * PRIOR + self.share() * known) / (PRIOR + known)
    }

    /// Whether a claim is believed where nothing else is known: not all that failed were wrong.
    pub(super) fn believes(trial: &Option<Self>, span: &Span) -> bool {
        is_tried(span) && trial.as_ref().is_some_and(Self::is_right_mostly)
    }

    fn is_right_mostly(&self) -> bool {
        self.share() > MOSTLY
    }

    /// Whether claims are believed at once.
    pub(super) fn is_over(&self) -> bool {
        !self.has_failed() && self.held >= PROVEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::ExchangeRange;

    /// Classes of requests.
    const ANY: u64 = 1;
    const OTHER: u64 = 2;

    fn call(cause: u64, end_ns: u64) -> Span {
        Span { cause: Some(cause), cause_evidence: Some(Evidence::WakeUp), end_ns, ..Span::default() }
    }

    fn request(exchange: u64, end_ns: u64) -> Span {
        Span { exchange: Some(ExchangeRange { first: exchange, last: exchange }), end_ns, ..Span::default() }
    }

    #[test]
    fn confidence_is_what_answers_have_shown() {
        let mut trial = Trial::default();
        assert!((trial.confidence(0.8) - 0.8).abs() < 0.01, "nothing is known yet");
        for x in 0..300 {
            trial.add_claim(&call(x, 10));
            trial.add_answer(&request(x, 20), ANY);
        }
        assert!((0.96..=0.98).contains(&trial.confidence(0.8)), "{}", trial.confidence(0.8));
        for x in 300..400 {
            trial.add_claim(&call(x, 30));
            trial.add_answer(&request(x, 20), ANY);
        }
        assert!(trial.confidence(0.8) < 0.4, "a quarter was refuted: {}", trial.confidence(0.8));
    }

    #[test]
    fn claims_that_hold_are_believed_soon() {
        let mut trial = Trial::default();
        for x in 1..=u64::from(PROVEN) {
            assert!(!trial.is_over());
            trial.add_claim(&call(x, 50));
            trial.add_answer(&request(x, 60), ANY);
        }
        assert!(trial.is_over() && !trial.has_failed() && trial.claims.is_empty());
    }

    #[test]
    fn calls_that_end_after_the_answer_refute_the_claims() {
        let mut trial = Trial::default();
        for x in 1..=30 {
            // The one comes before its request's end is known, the other after.
            trial.add_claim(&call(x, if x % 10 == 0 { 70 } else { 50 }));
            trial.add_answer(&request(x, 60), ANY);
            trial.add_claim(&call(x, if x % 10 == 5 { 70 } else { 50 }));
        }
        assert!(trial.has_failed() && !trial.is_over());
    }

    #[test]
    fn failures_of_another_time_are_forgiven() {
        let mut trial = Trial::default();
        let mut judge = |end_ns| {
            trial.add_claim(&call(1, end_ns));
            trial.add_answer(&request(1, 60), ANY);
            (trial.has_failed(), trial.is_over())
        };
        (0..10).for_each(|_| _ = judge(50));
        (0..5).for_each(|_| _ = judge(70));
        (1..FORGIVEN).for_each(|_| assert_eq!(judge(50), (true, false)));
        assert_eq!(judge(50), (false, true));
        // Two of a thousand are rare.
        (0..2).for_each(|_| assert_eq!(judge(70), (false, false)));
        assert_eq!(judge(70), (true, false));
    }

    #[test]
    fn a_kind_of_call_that_nobody_waits_for_refutes_nothing() {
        let mut trial = Trial::default();
        for x in 1..=300 {
            trial.add_claim(&Span { operation: "LOG".into(), ..call(x, if x % 7 == 0 { 50 } else { 70 }) });
            trial.add_claim(&call(x, 50));
            trial.add_answer(&request(x, 60), ANY);
        }
        assert!(!trial.has_failed());
    }

    #[test]
    fn late_claims_of_calls_that_requests_enclose_fail() {
        let mut trial = Trial::default();
        for x in 1..=20 {
            trial.add_claim(&call(x, 50));
            trial.add_claim(&Span { operation: "GET".into(), start_ns: 70, ..call(x, 80) });
            trial.add_answer(&request(x, 60), ANY);
        }
        assert!(!trial.has_failed() && trial.share() > 0.9);
        let late = Span { operation: "GET".into(), ..call(1, 80) };
        trial.enclose(&late, true);
        assert!(trial.has_failed() && trial.share() < 0.1, "{}", trial.share());
        trial.enclose(&late, false);
        assert!(!trial.has_failed());
    }

    #[test]
    fn a_route_that_answers_first_refutes_nothing() {
        let mut trial = Trial::default();
        for x in 1..=300 {
            let late = x % 5 == 0;
            trial.add_claim(&call(x, if late { 70 } else { 50 }));
            trial.add_answer(&request(x, 60), if late { OTHER } else { ANY });
        }
        assert!(!trial.has_failed() && trial.is_over() && trial.share() > 0.9, "{}", trial.share());
        // One of the other routes fails, too: the claims are wrong.
        for x in 301..=310 {
            trial.add_claim(&call(x, if x % 2 == 0 { 70 } else { 50 }));
            trial.add_answer(&request(x, 60), ANY);
        }
        assert!(trial.has_failed());
    }

    /// The first calls of a request that goes on after its answer have no better evidence than a wake-up where the
    /// runtime's probes came too late for them.
    #[test]
    fn calls_that_begin_after_the_answers_of_few_routes_say_little_of_other_claims() {
        let mut trial = Trial::default();
        let mut x = 0;
        let mut judge = |class, start_ns| {
            x += 1;
            trial.add_claim(&Span { start_ns, ..call(x, start_ns + 10) });
            trial.add_answer(&request(x, 60), class);
            (trial.has_failed(), trial.is_right_mostly())
        };
        (0..20).for_each(|_| assert_eq!(judge(ANY, 40), (false, true)));
        assert_eq!([judge(OTHER, 70), judge(OTHER, 70)], [(false, true), (true, true)]);
        assert_eq!([judge(OTHER + 1, 70), judge(OTHER + 2, 70)], [(true, true); 2]);
        assert_eq!(judge(OTHER + 3, 70), (true, false), "four routes do not go on after their answers at once");
    }

    #[test]
    fn calls_under_way_at_the_answer_refute_the_claims_of_a_route_at_once() {
        let mut trial = Trial::default();
        for x in 1..=22 {
            trial.add_claim(&call(x, if x > 20 { 70 } else { 50 }));
            trial.add_answer(&request(x, 60), if x > 20 { OTHER } else { ANY });
        }
        assert!(trial.has_failed() && !trial.is_right_mostly(), "{}", trial.share());
    }

    #[test]
    fn what_fails_seldom_is_right_mostly() {
        let mut trial = Trial::default();
        for x in 1..=100 {
            trial.add_claim(&call(x, if x % 50 == 0 { 70 } else { 50 }));
            trial.add_claim(&Span { operation: "LOG".into(), ..call(x, 70) });
            trial.add_answer(&request(x, 60), ANY);
        }
        assert!(trial.has_failed() && (0.93..0.95).contains(&trial.share()), "{}", trial.share());
        (101..=200).for_each(|x| {
            trial.add_claim(&call(x, if x % 3 == 0 { 70 } else { 50 }));
            trial.add_answer(&request(x, 60), ANY);
        });
        assert!(trial.share() < 0.5, "{}", trial.share());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut trial = Trial::default();
        for x in 1..=3 * MAX_KEPT as u64 {
            trial.add_claim(&call(x, 50));
            trial.add_answer(&request(x | 1 << 40, 60), ANY);
        }
        assert!(trial.claims.len() <= MAX_KEPT && trial.order.len() <= MAX_KEPT);
        assert!(trial.answers.len() <= MAX_KEPT && trial.answered.len() <= MAX_KEPT);
    }
}
