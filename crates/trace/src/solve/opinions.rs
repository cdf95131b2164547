//! Whether opinions of the kernel on an event loop have to be judged, or may be believed at once.
//!
//! In a proxy, or in a loop that has one request at a time under way, the request that was read first in a turn is
//! always the right one. There a judgement would cost time and bring nothing. So opinions are believed for a while
//! after many were right in a row; then some are judged again.
//!
//! Hypotheses can agree on a mistake: once one call is given to the wrong request, the next calls are shifted, too. So
//! an opinion that a judgement contradicts is weighed against it, by how often opinions of its kind were confirmed.

use super::beam::Decision;
use super::calibration::SUREST;
use super::timeline::Request;
use super::Named;
use wirespan_model::{Evidence, Span};

/// Number of right opinions in a row after which they are believed, and for how many calls.
const PROVEN: u32 = 500;
const BELIEVED: u32 = 10_000;
/// A judgement counts if it is at least so sure.
const SURE: f32 = 0.9;
/// Before anything is judged, so many opinions count as judged, and so many as right.
const PRIOR: [f32; 2] = [10.0, 4.5];
/// Number of recent judgements that count.
const RECENT: f32 = 1_000.0;

#[derive(Debug, Default)]
pub(super) struct Opinions {
    held: u32,
    believed: u32,
    /// Recent judgements by [`kind`] of opinion.
    records: [Record; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Judgements, and how many of them confirmed the opinion.
    judged: f32,
    right: f32,
}

impl Record {
    /// The probability that the next opinion is right.
    fn share(&self) -> f32 {
        (self.right + PRIOR[1]) / (self.judged + PRIOR[0])
    }
}

/// An opinion and a judgement together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Weighed {
    /// The judged request made the call.
    Judged(f32),
    /// The request that the kernel names made the call.
    Claimed(Named),
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
        let (keep, record) = (1.0 - 1.0 / RECENT, &mut self.records[kind(span)]);
        record.judged = record.judged * keep + 1.0;
        record.right = record.right * keep + f32::from(u8::from(holds));
        self.held = if holds { self.held + 1 } else { 0 };
        if self.held >= PROVEN {
            (self.held, self.believed) = (0, BELIEVED);
        }
    }

    /// Weighs a decision for this request against the kernel's opinion. If both name the same request, either of them
    /// suffices.
    pub(super) fn weigh(&self, span: &Span, request: &Request, confidence: f32) -> Weighed {
        let Some(exchange) = span.cause.filter(|_| is_opinion(span)) else { return Weighed::Judged(confidence) };
        let right = self.records[kind(span)].share();
        if request.owns(exchange) {
            return Weighed::Judged((1.0 - (1.0 - confidence) * (1.0 - right)).min(SUREST as f32));
        }
        let (claimed, judged) = (right * (1.0 - confidence), (1.0 - right) * confidence);
        let evidence = span.cause_evidence.unwrap_or(Evidence::EventLoop);
        match claimed / (claimed + judged) {
            likely if likely > 0.5 => {
                Weighed::Claimed(Named { exchange, evidence, confidence: f64::from(likely), span: None })
            }
            _ => Weighed::Judged(confidence),
        }
    }

    /// Whether the next opinion is believed.
    pub(super) fn are_believed(&mut self) -> bool {
        self.believed = self.believed.saturating_sub(1);
        self.believed > 0
    }
}

/// Which record an opinion counts in.
fn kind(span: &Span) -> usize {
    usize::from(span.cause_evidence == Some(Evidence::Connect))
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
    use super::*;
    use crate::solve::testing::request;

    fn judged(opinions: &mut Opinions, claimed: u64) {
        let span = Span { cause: Some(claimed), cause_evidence: Some(Evidence::EventLoop), ..Span::default() };
        let decision = Decision { request: Some(request(1, 1, (0, 9))), confidence: 0.99, ..Decision::of(1) };
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

    fn weighed(opinions: &Opinions, claimed: u64, confidence: f32) -> Weighed {
        let span = Span { cause: Some(claimed), cause_evidence: Some(Evidence::EventLoop), ..Span::default() };
        opinions.weigh(&span, &request(1, 1, (0, 9)), confidence)
    }

    fn agreed(opinions: &Opinions, confidence: f32) -> f32 {
        match weighed(opinions, 1, confidence) {
            Weighed::Judged(confidence) => confidence,
            Weighed::Claimed(named) => panic!("{named:?}"),
        }
    }

    #[test]
    fn what_two_agree_on_is_surer_than_what_one_says() {
        let mut opinions = Opinions::default();
        assert!((0.5..0.7).contains(&agreed(&opinions, 0.3)));
        (0..1000).for_each(|i| judged(&mut opinions, 1 + i % 2));
        assert!((0.6..0.7).contains(&agreed(&opinions, 0.3)), "half of the opinions are right");
        (0..4000).for_each(|_| judged(&mut opinions, 1));
        assert!(agreed(&opinions, 0.3) > 0.9);
    }

    #[test]
    fn an_opinion_of_a_kind_that_is_always_right_outweighs_a_judgement() {
        let mut opinions = Opinions::default();
        assert_eq!(weighed(&opinions, 2, 0.7), Weighed::Judged(0.7), "nothing is known of the kernel's opinions");
        (0..1000).for_each(|i| judged(&mut opinions, 1 + i % 2));
        assert_eq!(weighed(&opinions, 2, 0.7), Weighed::Judged(0.7), "half of them are right");
        (0..4000).for_each(|_| judged(&mut opinions, 1));
        let Weighed::Claimed(named) = weighed(&opinions, 2, 0.98) else { panic!("all of them were right") };
        assert_eq!((named.exchange, named.evidence), (2, Evidence::EventLoop));
        assert!((0.5..0.9).contains(&named.confidence), "{named:?}");
    }

    #[test]
    fn one_wrong_opinion_begins_the_count_anew() {
        let mut opinions = Opinions::default();
        (0..3 * PROVEN).for_each(|i| judged(&mut opinions, if i % (PROVEN - 1) == 0 { 2 } else { 1 }));
        assert!(!opinions.are_believed());
    }
}
