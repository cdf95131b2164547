//! Whether opinions of the kernel on an event loop have to be judged, or may be believed at once.
//!
//! In a proxy, or in a loop that has one request at a time under way, the request that was read first in a turn is
//! always the right one. There a judgement would cost time and bring nothing. So opinions are believed for a while
//! after many were right in a row; then some are judged again.

use super::beam::Decision;
use super::process::is_opinion;
use wirespan_model::Span;

/// Number of right opinions in a row after which they are believed, and for how many calls.
const PROVEN: u32 = 500;
const BELIEVED: u32 = 10_000;
/// A judgement counts if it is at least so sure.
const SURE: f32 = 0.9;

#[derive(Debug, Default)]
pub(super) struct Opinions {
    held: u32,
    believed: u32,
}

impl Opinions {
    /// A call was decided.
    pub(super) fn judge(&mut self, span: &Span, decision: &Decision) {
        let Some(claimed) = span.cause.filter(|_| is_opinion(span)) else { return };
        let Some(request) = decision.request else { return };
        if decision.confidence < SURE {
            return;
        }
        self.held = if request.owns(claimed) { self.held + 1 } else { 0 };
        if self.held >= PROVEN {
            *self = Opinions { held: 0, believed: BELIEVED };
        }
    }

    /// Whether the next opinion is believed.
    pub(super) fn are_believed(&mut self) -> bool {
        self.believed = self.believed.saturating_sub(1);
        self.believed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::Request;
    use super::*;
    use wirespan_model::{Evidence, ExchangeRange, SpanId};

    fn judged(opinions: &mut Opinions, claimed: u64) {
        let span = Span { cause: Some(claimed), cause_evidence: Some(Evidence::EventLoop), ..Span::default() };
        let exchange = ExchangeRange { first: 1, last: 1 };
        let request = Request {
            id: 1,
            class: 1,
            start_ns: 0,
            end_ns: 9,
            exchange,
            tid: 1,
            stream: None,
            span: SpanId(1),
            is_shared: false,
        };
        let decision = Decision { request: Some(request), confidence: 0.99, ..Decision::of(1) };
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
    fn one_wrong_opinion_begins_the_count_anew() {
        let mut opinions = Opinions::default();
        (0..3 * PROVEN).for_each(|i| judged(&mut opinions, if i % (PROVEN - 1) == 0 { 2 } else { 1 }));
        assert!(!opinions.are_believed());
    }
}
