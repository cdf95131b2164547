//! Rules that propose parents, strongest evidence first. [`crate::forest`] chooses among the proposals.

mod adopt;
mod carried;
mod cause;
mod choose;
mod name;
mod unseen;
mod views;
mod wire;

pub(crate) use cause::trust;
use std::sync::Arc;
use wirespan_model::{Evidence, Span};

/// Rule by which a parent was proposed; the order is the order of trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Same bytes, one observation point earlier.
    Wire,
    /// The message named the same parent as a call whose other end was not seen.
    Forwarded,
    /// The message named its parent.
    Carried,
    /// The SDK's view of the same call.
    View,
    /// The kernel saw for which request the process acted.
    Cause,
    /// Same X-Request-ID.
    RequestId,
    /// A request was inferred for which the process acted.
    Guess,
    /// Same trace id.
    TraceId,
}

/// A possible parent. Indices into the canonical order of the spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) child: u32,
    pub(crate) parent: u32,
    pub(crate) rule: Rule,
    pub(crate) evidence: Evidence,
    pub(crate) confidence: f32,
}

/// Most candidates that one rule examines per span and list. Without the bound, adversarial sets would cost quadratic
/// time.
const LOOK: usize = 64;

/// Every proposal for a set of spans in canonical order; a few per span.
pub(crate) fn candidates(spans: &[Arc<Span>]) -> Vec<Candidate> {
    let mut all = Vec::with_capacity(spans.len() * 2);
    wire::propose(spans, &mut all);
    let caused = cause::propose(spans, &mut all);
    carried::propose(spans, &caused, &mut all);
    let sdk = adopt::Sdk::of(spans);
    let adopted = adopt::propose(spans, &sdk, &caused, &mut all);
    views::propose(spans, &sdk, &caused, &adopted, &mut all);
    name::propose(spans, &mut all);
    unseen::propose(spans, &mut all);
    all
}

/// Members of a list in order of start whose start is nearest to `ns`, at most [`LOOK`].
fn nearest<'a>(list: &'a [u32], spans: &'a [Arc<Span>], ns: u64) -> &'a [u32] {
    let at = list.partition_point(|i| spans[*i as usize].start_ns < ns);
    &list[at.saturating_sub(LOOK / 2)..(at + LOOK / 2).min(list.len())]
}

/// Members of a list in order of start that start at or before `ns`, the latest [`LOOK`].
fn before<'a>(list: &'a [u32], spans: &'a [Arc<Span>], ns: u64) -> &'a [u32] {
    let at = list.partition_point(|i| spans[*i as usize].start_ns <= ns);
    &list[at.saturating_sub(LOOK)..at]
}
