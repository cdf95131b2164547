//! Whether the hand-overs that the kernel claims hold in a process.
//!
//! A worker that is woken does not always do what it was woken for: another may have taken that from the queue before.
//! Where that happens, some calls end after the request was answered for which they are claimed to have been made.
//! Where a service does not wait for a kind of call at all, most of that kind do, and the claims stand.

use rustc_hash::{FxHashMap, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use wirespan_model::{Evidence, Span};

/// So many claims in a row that held, and the next ones are believed at once.
const PROVEN: u32 = 200;
/// Claims of a kind that failed from which on none is believed, unless it is one of so many, or this share of all of
/// the kind.
const FAILURES: u32 = 2;
const RARE: u32 = 500;
const MANNER: f64 = 0.7;
/// So many in a row, and what failed before was of another time: a virtual machine that had not compiled its methods
/// yet.
const FORGIVEN: u32 = 1_000;
/// Of claims that are wrong, one of so many shows; and what is believed of claims at least, and doubted.
const UNNOTICED: f64 = 3.0;
const LEAST_SHARE: f64 = 0.02;
/// Claims judged after which what was before counts half.
const FADE_AFTER: u32 = 2_000;
/// Kinds of calls, and claims and answers, that are kept.
const MAX_KINDS: usize = 256;
const MAX_KEPT: usize = 4_096;

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    judged: u32,
    failed: u32,
}

impl Kind {
    /// Nobody waits for calls of this kind.
    fn is_manner(&self) -> bool {
        f64::from(self.failed) >= MANNER * f64::from(self.judged)
    }
}

#[derive(Debug, Default)]
pub(super) struct Trial {
    kinds: FxHashMap<u64, Kind>,
    /// Claims whose request has not ended: by exchange, kind of call and its end.
    claims: FxHashMap<u64, Vec<(u64, u64)>>,
    /// The same exchanges, oldest first.
    order: VecDeque<u64>,
    /// When requests were answered, by exchange, and these, oldest first.
    answers: FxHashMap<u64, u64>,
    answered: VecDeque<u64>,
    held: u32,
    failed: bool,
}

/// Whether a claim is of a sort that may fail: of a thread that was woken, or started and may be a worker by now.
pub(super) fn is_tried(span: &Span) -> bool {
    let by_thread = match span.cause_evidence {
        Some(Evidence::WakeUp) => true,
        Some(Evidence::ChildTask) => span.tid != span.pid,
        _ => false,
    };
    by_thread && span.cause.is_some() && span.parent_span_id.is_none()
}

impl Trial {
    /// The kernel claims a cause of this call.
    pub(super) fn claimed(&mut self, span: &Span) {
        let Some(exchange) = span.cause else { return };
        let mut h = FxHasher::default();
        (span.tuple.server, &*span.protocol, &*span.operation).hash(&mut h);
        let kind = h.finish();
        if let Some(answered_ns) = self.answers.get(&exchange) {
            return self.judge(kind, span.end_ns <= *answered_ns);
        }
        let list = self.claims.entry(exchange).or_default();
        if list.is_empty() {
            self.order.push_back(exchange);
        }
        list.push((kind, span.end_ns));
        while self.order.len() > MAX_KEPT {
            self.order.pop_front().and_then(|x| self.claims.remove(&x));
        }
    }

    /// A request was answered.
    pub(super) fn served(&mut self, span: &Span) {
        for exchange in span.exchanges() {
            for (kind, end_ns) in self.claims.remove(&exchange).unwrap_or_default() {
                self.judge(kind, end_ns <= span.end_ns);
            }
            self.answers.insert(exchange, span.end_ns);
            self.answered.push_back(exchange);
            while self.answered.len() > MAX_KEPT {
                self.answered.pop_front().and_then(|x| self.answers.remove(&x));
            }
        }
    }

    fn judge(&mut self, kind: u64, holds: bool) {
        let kind = if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(&kind) { kind } else { 0 };
        let k = self.kinds.entry(kind).or_default();
        k.judged += 1;
        k.failed += u32::from(!holds);
        if k.judged >= FADE_AFTER {
            (k.judged, k.failed) = (k.judged / 2, k.failed / 2);
        }
        self.held = if holds { self.held.saturating_add(1) } else { 0 };
        if self.held == FORGIVEN {
            self.kinds.values_mut().for_each(|k| k.failed = 0);
        }
        let fails = |k: &Kind| k.failed >= FAILURES && k.failed > k.judged / RARE && !k.is_manner();
        self.failed = self.kinds.values().any(fails);
    }

    /// Claims are not believed here.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// How many of the claims are right, about.
    pub(super) fn share(&self) -> f64 {
        let counted = self.kinds.values().filter(|k| !k.is_manner());
        let (judged, failed) = counted.fold((0, 0), |(j, f), k| (j + k.judged, f + k.failed));
        (1.0 - UNNOTICED * f64::from(failed) / f64::from(judged.max(1))).clamp(LEAST_SHARE, 1.0 - LEAST_SHARE)
    }

    /// Claims are believed without waiting for more.
    pub(super) fn is_over(&self) -> bool {
        !self.failed && self.held >= PROVEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::ExchangeRange;

    fn call(cause: u64, end_ns: u64) -> Span {
        Span { cause: Some(cause), cause_evidence: Some(Evidence::WakeUp), end_ns, ..Span::default() }
    }

    fn request(exchange: u64, end_ns: u64) -> Span {
        Span { exchange: Some(ExchangeRange { first: exchange, last: exchange }), end_ns, ..Span::default() }
    }

    #[test]
    fn claims_that_hold_are_believed_soon() {
        let mut trial = Trial::default();
        for x in 1..=u64::from(PROVEN) {
            assert!(!trial.is_over());
            trial.claimed(&call(x, 50));
            trial.served(&request(x, 60));
        }
        assert!(trial.is_over() && !trial.has_failed() && trial.claims.is_empty());
    }

    #[test]
    fn calls_that_end_after_the_answer_refute_the_claims() {
        let mut trial = Trial::default();
        for x in 1..=30 {
            // The one comes before its request's end is known, the other after.
            trial.claimed(&call(x, if x % 10 == 0 { 70 } else { 50 }));
            trial.served(&request(x, 60));
            trial.claimed(&call(x, if x % 10 == 5 { 70 } else { 50 }));
        }
        assert!(trial.has_failed() && !trial.is_over());
    }

    #[test]
    fn failures_of_another_time_are_forgiven() {
        let mut trial = Trial::default();
        let mut judge = |end_ns| {
            trial.claimed(&call(1, end_ns));
            trial.served(&request(1, 60));
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
            trial.claimed(&Span { operation: "LOG".into(), ..call(x, if x % 7 == 0 { 50 } else { 70 }) });
            trial.claimed(&call(x, 50));
            trial.served(&request(x, 60));
        }
        assert!(!trial.has_failed());
    }

    #[test]
    fn what_fails_seldom_is_right_mostly() {
        let mut trial = Trial::default();
        for x in 1..=100 {
            trial.claimed(&call(x, if x % 50 == 0 { 70 } else { 50 }));
            trial.claimed(&Span { operation: "LOG".into(), ..call(x, 70) });
            trial.served(&request(x, 60));
        }
        assert!(trial.has_failed() && (0.93..0.95).contains(&trial.share()), "{}", trial.share());
        (101..=200).for_each(|x| {
            trial.claimed(&call(x, if x % 3 == 0 { 70 } else { 50 }));
            trial.served(&request(x, 60));
        });
        assert!(trial.share() < 0.5, "{}", trial.share());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut trial = Trial::default();
        for x in 1..=3 * MAX_KEPT as u64 {
            trial.claimed(&call(x, 50));
            trial.served(&request(x | 1 << 40, 60));
        }
        assert!(trial.claims.len() <= MAX_KEPT && trial.order.len() <= MAX_KEPT);
        assert!(trial.answers.len() <= MAX_KEPT && trial.answered.len() <= MAX_KEPT);
    }
}
