//! What is said of a span in the end, and how it is written into the span.

use super::beam::OTHERS;
use super::timeline::Request;
use super::{opinions, trial, SolverStats, CANDIDATES, CONFIDENCE};
use std::borrow::Cow;
use std::sync::Arc;
use wirespan_model::attr::CAUSE_SPAN;
use wirespan_model::{Evidence, Span, SpanId, Value};

/// Requests below this probability are no candidates.
const LEAST_CANDIDATE: f32 = 0.05;

/// Of about 3,250 inferences with at least this probability, 6 were wrong, in records of ten frameworks with ten users.
/// Of those with 0.9 to 0.98, 99 of 100 were with Node's frameworks, but 86 with Java's virtual threads.
const NEARLY_CERTAIN: f64 = 0.98;
/// What is told of the others at most: as near as can be to what they were (0.93), and not shown as 0.90.
const DOUBTFUL: f64 = 0.894;
/// Inferences below `LIKELY` were right less often than they say, by this much: answers prove least where requests are
/// alike. Counted over 5,000 of them, of the same records; half of the records say it as the other half does.
const LIKELY: f64 = 0.8;
const LESS: f64 = 0.09;
/// A request is told at all if it is more likely than not.
const LEAST_TOLD: f64 = 0.5;

/// The request that probably made a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) request: Request,
    pub(super) confidence: f32,
    pub(super) others: [Option<(SpanId, f32)>; OTHERS],
}

/// The exchange of the request that made a call, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Named {
    pub(super) exchange: u64,
    pub(super) evidence: Evidence,
    pub(super) confidence: f64,
    /// The span of the request, where others may have the same exchange.
    pub(super) span: Option<SpanId>,
}

/// The outcome for a span that waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// The cause that the kernel claims is kept; of a hand-over it is known how often such claims are right.
    Kept(Option<Named>),
    Found(Found),
    /// A fact names the request.
    Named(Named),
    /// No request is likely enough.
    Open,
    /// The span did not wait: it is new.
    Made,
}

impl Verdict {
    /// The span as it goes on, if a link needs so much confidence.
    pub(super) fn written(self, span: Arc<Span>, least: f32, stats: &mut SolverStats) -> Arc<Span> {
        match self {
            Verdict::Made => span,
            Verdict::Kept(claim) => kept(span, claim),
            Verdict::Named(named) => {
                stats.inferred += 1;
                with_cause(span, named)
            }
            Verdict::Found(f) if f.confidence >= least => {
                stats.inferred += 1;
                solved(span, f)
            }
            Verdict::Found(f) => {
                stats.open += 1;
                with_candidates(unsolved(span), f)
            }
            Verdict::Open => {
                stats.open += 1;
                unsolved(span)
            }
        }
    }
}

/// The confidence in an inference as it is told, from how certain it is of itself.
fn told_of_inference(confidence: f64) -> f64 {
    if (LEAST_TOLD..LIKELY).contains(&confidence) {
        (confidence - LESS).max(LEAST_TOLD)
    } else {
        told(confidence)
    }
}

/// The confidence in a link as it is told. From 0.9 on, people act on a link without a second
/// look, so what is not nearly certain stays below.
fn told(confidence: f64) -> f64 {
    if confidence < NEARLY_CERTAIN {
        confidence.min(DOUBTFUL)
    } else {
        confidence
    }
}

fn solved(mut span: Arc<Span>, found: Found) -> Arc<Span> {
    let own = Arc::make_mut(&mut span);
    // What confirms the kernel's opinion leaves its evidence.
    if !(opinions::is_opinion(own) && own.cause.is_some_and(|claimed| found.request.owns(claimed))) {
        (own.cause, own.cause_evidence) = (Some(found.request.exchange.first), Some(Evidence::Inferred));
    }
    own.attrs.push((Cow::Borrowed(CONFIDENCE), Value::Float(told_of_inference(f64::from(found.confidence)))));
    if found.request.is_shared {
        own.attrs.push((Cow::Borrowed(CAUSE_SPAN), Value::Str(found.request.span.to_string().into())));
    }
    span
}

pub(super) fn kept(span: Arc<Span>, claim: Option<Named>) -> Arc<Span> {
    match claim {
        Some(claim) => with_cause(span, claim),
        None => span,
    }
}

/// What confirms the kernel's claim leaves its evidence.
fn with_cause(mut span: Arc<Span>, named: Named) -> Arc<Span> {
    let own = Arc::make_mut(&mut span);
    if own.cause != Some(named.exchange) {
        (own.cause, own.cause_evidence) = (Some(named.exchange), Some(named.evidence));
    }
    own.attrs.push((Cow::Borrowed(CONFIDENCE), Value::Float(told(named.confidence))));
    if let Some(request) = named.span {
        own.attrs.push((Cow::Borrowed(CAUSE_SPAN), Value::Str(request.to_string().into())));
    }
    span
}

/// Removes a guess that is not likely enough, or a claim of a failed trial; an unknown cause has no evidence.
fn unsolved(mut span: Arc<Span>) -> Arc<Span> {
    if span.cause_evidence == Some(Evidence::Inferred) || trial::is_tried(&span) || opinions::is_opinion(&span) {
        let own = Arc::make_mut(&mut span);
        (own.cause, own.cause_evidence) = (None, None);
    }
    span
}

/// Says which requests may have made a call that has no parent.
fn with_candidates(mut span: Arc<Span>, found: Found) -> Arc<Span> {
    let all = std::iter::once((found.request.span, found.confidence)).chain(found.others.into_iter().flatten());
    let mut likely: Vec<_> = all.filter(|(_, confidence)| *confidence >= LEAST_CANDIDATE).collect();
    likely.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<_> = likely.iter().map(|(request, confidence)| format!("{request}:{confidence:.2}")).collect();
    if !words.is_empty() {
        Arc::make_mut(&mut span).attrs.push((Cow::Borrowed(CANDIDATES), Value::Str(words.join(" ").into())));
    }
    span
}

#[cfg(test)]
mod tests {
    use super::{told, told_of_inference, DOUBTFUL};

    #[test]
    fn what_is_not_nearly_certain_is_told_below_nine_in_ten() {
        assert_eq!([0.5, 0.88, 0.93, 0.979].map(told), [0.5, 0.88, DOUBTFUL, DOUBTFUL]);
        assert_eq!([0.98, 0.995].map(told), [0.98, 0.995]);
        assert_eq!(format!("{DOUBTFUL:.2}"), "0.89");
    }

    #[test]
    fn a_likely_inference_is_told_with_less_than_it_says_of_itself_and_never_more_than_a_likelier_one() {
        assert_eq!([0.3, 0.5, 0.55, 0.7, 0.8, 0.93].map(told_of_inference), [0.3, 0.5, 0.5, 0.61, 0.8, DOUBTFUL]);
        let all: Vec<f64> = (0..1000).map(|n| told_of_inference(f64::from(n) / 1000.0)).collect();
        assert!(all.is_sorted());
    }
}
