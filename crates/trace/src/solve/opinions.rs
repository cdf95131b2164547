//! Whether opinions of the kernel on an event loop have to be judged, or may be believed at once.
//!
//! In a proxy, or in a loop that has one request at a time under way, the request that was read first in a turn is
//! always the right one. There a judgement would cost time and bring nothing. So opinions are believed for a while
//! after many were right in a row; then some are judged again.

use super::beam::Decision;
use super::calibration::SUREST;
use wirespan_model::{Evidence, Span};

/// Number of right opinions in a row after which they are believed, and for how many calls.
const PROVEN: u32 = 500;
const BELIEVED: u32 = 10_000;
/// A judgement counts if it is at least so sure.
const SURE: f32 = 0.9;
/// Before anything is judged, so many opinions count as judged, and so many as right.
const PRIOR: [f32; 2] = [10.0, 4.5];
/// Number of recent judgements that count.
const RECENT: f32 = 200.0;

#[derive(Debug, Default)]
pub(super) struct Opinions {
    held: u32,
    believed: u32,
    /// Recent judgements, and how many of them confirmed the opinion.
    judged: f32,
    right: f32,
}

impl Opinions {
    /// A call was decided.
    pub(super) fn judge(&mut self, span: &Span, decision: &Decision) {
        let Some(claimed) = span.cause.filter(|_| is_opinion(span)) else { return };
        let Some(request) = decision.request else { return };
        if decision.confidence < SURE {
            return;
        }
        let holds = request.owns(claimed);
        let keep = 1.0 - 1.0 / RECENT;
        self.judged = self.judged * keep + 1.0;
        self.right = self.right * keep + f32::from(u8::from(holds));
        self.held = if holds { self.held + 1 } else { 0 };
        if self.held >= PROVEN {
            (self.held, self.believed) = (0, BELIEVED);
        }
    }

    /// The confidence of a decision: if the kernel's opinion names the same request, either of them suffices.
    pub(super) fn confidence(&self, span: &Span, decision: &Decision) -> f32 {
        let claimed = span.cause.filter(|_| is_opinion(span));
        let agree = claimed.zip(decision.request).is_some_and(|(claimed, request)| request.owns(claimed));
        if !agree {
            return decision.confidence;
        }
        let right = (self.right + PRIOR[1]) / (self.judged + PRIOR[0]);
        (1.0 - (1.0 - decision.confidence) * (1.0 - right)).min(SUREST as f32)
    }

    /// Whether the next opinion is believed.
    pub(super) fn are_believed(&mut self) -> bool {
        self.believed = self.believed.saturating_sub(1);
        self.believed > 0
    }
}

/// Whether the kernel's claim may fail in an event loop: the loop may have read other requests since it read the one
/// that is named, and a connection may be used first by another request than by the one that opened it.
pub(super) fn is_opinion(span: &Span) -> bool {
    matches!(span.cause_evidence, Some(Evidence::EventLoop | Evidence::Connect))
        && span.cause.is_some()
        && span.parent_span_id.is_none()
}

#[cfg(test)]
mod tests {
    use super::super::timeline::Request;
    use super::*;
    use wirespan_model::{ExchangeRange, SpanId};

    fn request() -> Request {
        let exchange = ExchangeRange { first: 1, last: 1 };
        let (span, stream) = (SpanId(1), None);
        Request { id: 1, class: 1, start_ns: 0, end_ns: 9, exchange, tid: 1, stream, span, is_shared: false }
    }

    fn judged(opinions: &mut Opinions, claimed: u64) {
        let span = Span { cause: Some(claimed), cause_evidence: Some(Evidence::EventLoop), ..Span::default() };
        let decision = Decision { request: Some(request()), confidence: 0.99, ..Decision::of(1) };
        opinions.judge(&span, &decision);
    }

    #[test]
    fn opinions_that_held_are_believed_for_a_while() {
        let mut opinions = Opinions::default();
        (1..PROVEN).for_each(|_| judged(&mut opinions, 1));
        assert!(!opinions.are_believed());
        judged(&mut opinions, 1);
        let believed = (0..2 * BELIEVED).filter(|_| opinions.are_believed()).count();
        assert_eq!(believed, BELIEVED as usize - 1);
    }

    #[test]
    fn what_two_agree_on_is_surer_than_what_one_says() {
        let span =
            |claimed| Span { cause: Some(claimed), cause_evidence: Some(Evidence::EventLoop), ..Span::default() };
        let decision = Decision { request: Some(request()), confidence: 0.3, ..Decision::of(1) };
        let mut opinions = Opinions::default();
        assert!((0.5..0.7).contains(&opinions.confidence(&span(1), &decision)));
        assert_eq!(opinions.confidence(&span(2), &decision), 0.3, "they disagree");
        (0..100).for_each(|i| judged(&mut opinions, 1 + i % 2));
        assert!((0.6..0.7).contains(&opinions.confidence(&span(1), &decision)), "half of the opinions are right");
        (0..400).for_each(|_| judged(&mut opinions, 1));
        assert!(opinions.confidence(&span(1), &decision) > 0.9);
    }

    #[test]
    fn one_wrong_opinion_begins_the_count_anew() {
        let mut opinions = Opinions::default();
        (0..3 * PROVEN).for_each(|i| judged(&mut opinions, if i % (PROVEN - 1) == 0 { 2 } else { 1 }));
        assert!(!opinions.are_believed());
    }
}
