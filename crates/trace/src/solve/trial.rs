//! Whether the hand-overs that the kernel claims in a process are right.
//!
//! A worker that is woken does not always do the work it was woken for: another worker may have taken that work from
//! the queue. Then some calls end after the claimed request was answered. That refutes the claims, unless most calls of
//! that kind end so late: then the service does not wait for this kind of call, and the claims may be right. A service
//! may wait for a call in all its routes but one, which answers first: a class of requests of which no claim holds says
//! nothing, either. But calls that requests enclose, whichever requests, are no such calls: all their late claims are
//! wrong.
//!
//! Where few calls of a kind have a claim and the others have none, the way in which the service hands this work over
//! is not seen, and the few claims come from something else. They are hints.

mod source;
mod tally;
#[cfg(test)]
mod tests;
mod turns;

use super::Named;
use crate::rules::trust;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
pub(super) use source::{share, PRIOR};
use source::{Known, Source};
use std::collections::VecDeque;
use std::hash::Hasher;
use tally::{Claimed, Outcome, Time};
use turns::Turns;
use wirespan_model::{Evidence, Span};

/// Wrong claims per failed claim, as only one in so many shows.
const UNNOTICED: f64 = 3.0;
/// Share of right claims from which on one is believed although the trial failed, if inference says nothing of it.
const MOSTLY: f64 = 0.9;
/// Most claimants that are told apart by their pools.
const MAX_SOURCES: usize = 256;
/// Most claims, answers and threads that are kept.
const MAX_KEPT: usize = 4_096;

/// Who makes a claim. Each such source is tried on its own: what woken threads claim says nothing of what the tasks of
/// an executor claim, and one executor nothing of another. A thread that serves requests itself and was started by
/// another one while that dealt with a request was not started for it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Claimant {
    /// Of a woken thread: a hash of its name without digits. Threads of one pool have names that differ by a number.
    pool: u64,
    is_woken: bool,
    /// A virtual thread.
    is_coroutine: bool,
    serves: bool,
}

/// A claim whose request has not ended.
#[derive(Clone, Copy, Debug)]
struct Claim {
    exchange: u64,
    /// The class of the call: all calls of a kind succeed and fail alike.
    kind: u64,
    time: Time,
    claimant: Claimant,
    tid: u32,
}

#[derive(Debug, Default)]
pub(super) struct Trial {
    sources: FxHashMap<Claimant, Source>,
    known: Known,
    /// By exchange; and the same exchanges, oldest first.
    claims: FxHashMap<u64, Vec<Claim>>,
    order: VecDeque<u64>,
    /// When requests were answered, and their class, by exchange; and these exchanges, oldest first.
    answers: FxHashMap<u64, (u64, u64)>,
    answered: VecDeque<u64>,
    /// Claims that fail by an answer, while other requests may have the same exchange and be open, the oldest first.
    late: VecDeque<Late>,
    /// Threads that have served a request.
    servers: FxHashSet<u32>,
    /// By class of call.
    shares: FxHashMap<u64, Claimed>,
    /// By claimant, whether or not its threads serve requests themselves.
    turns: FxHashMap<Claimant, Turns>,
}

#[derive(Clone, Copy, Debug)]
struct Late {
    claim: Claim,
    outcome: Outcome,
    /// The class of the request that was answered, and when.
    request: u64,
    answered_ns: u64,
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

/// A hash of a thread's name without its digits.
fn pool(name: &str) -> u64 {
    let mut h = FxHasher::default();
    name.bytes().filter(|b| !b.is_ascii_digit()).for_each(|b| h.write_u8(b));
    h.finish()
}

impl Trial {
    /// Adds a call of this class with a cause claimed by the kernel; `may_share`: several requests may have that
    /// exchange.
    pub(super) fn add_claim(&mut self, span: &Span, kind: u64, may_share: bool) {
        let Some(exchange) = span.cause else { return };
        self.count(kind, true);
        let claim = self.claim_of(span, kind);
        let claimant = Claimant { serves: false, ..claim.claimant };
        if self.turns.len() < MAX_SOURCES || self.turns.contains_key(&claimant) {
            self.turns.entry(claimant).or_default().add(span, exchange);
        }
        if let Some((answered_ns, request)) = self.answers.get(&exchange).copied() {
            let outcome = Outcome::of(claim.time, answered_ns);
            if outcome == Outcome::Holds || !may_share {
                return self.judge(claim, request, outcome);
            }
            return self.late.push_back(Late { claim, outcome, request, answered_ns });
        }
        let list = self.claims.entry(exchange).or_default();
        if list.is_empty() {
            self.order.push_back(exchange);
        }
        list.push(claim);
        while self.order.len() > MAX_KEPT {
            self.order.pop_front().and_then(|x| self.claims.remove(&x));
        }
    }

    /// Adds a call of this class without a claim.
    pub(super) fn add_unclaimed(&mut self, kind: u64) {
        self.count(kind, false);
    }

    fn count(&mut self, kind: u64, is_claimed: bool) {
        if self.shares.len() < MAX_KEPT || self.shares.contains_key(&kind) {
            self.shares.entry(kind).or_default().add(is_claimed);
        }
    }

    /// Whether few calls of this class have a claim.
    pub(super) fn is_rare(&self, kind: u64) -> bool {
        self.shares.get(&kind).is_some_and(Claimed::is_rare)
    }

    fn claim_of(&self, span: &Span, kind: u64) -> Claim {
        let exchange = span.cause.unwrap_or_default();
        Claim { exchange, kind, time: (span.start_ns, span.end_ns), claimant: self.claimant(span), tid: span.tid }
    }

    fn claimant(&self, span: &Span) -> Claimant {
        let is_coroutine = span.coroutine != 0;
        let serves = !is_coroutine && self.servers.contains(&span.tid);
        let is_woken = span.cause_evidence == Some(Evidence::WakeUp);
        Claimant { pool: if is_woken { pool(&span.comm) } else { 0 }, is_woken, is_coroutine, serves }
    }

    /// A claim was tested by better evidence.
    pub(super) fn test(&mut self, span: &Span, kind: u64, holds: bool) {
        self.judge(self.claim_of(span, kind), 0, if holds { Outcome::Holds } else { Outcome::Fails });
    }

    /// Calls of this class lie within requests, or no longer do.
    pub(super) fn enclose(&mut self, kind: u64, are_enclosed: bool) {
        let changed = if are_enclosed { self.known.enclosed.insert(kind) } else { self.known.enclosed.remove(&kind) };
        if changed {
            self.sources.values_mut().for_each(|source| source.decide(kind, &self.known.enclosed));
        }
    }

    /// Adds a request that was answered; `request`: its class, `longest_ns`: how long requests take.
    pub(super) fn add_answer(&mut self, span: &Span, request: u64, longest_ns: u64) {
        if span.coroutine == 0 && self.servers.len() < MAX_KEPT {
            self.servers.insert(span.tid);
        }
        self.known.served.add(request);
        let (may_share, answered_ns) = (span.message_id.is_some(), span.end_ns);
        for exchange in span.exchanges() {
            for claim in self.claims.remove(&exchange).unwrap_or_default() {
                let outcome = Outcome::of(claim.time, answered_ns);
                if outcome == Outcome::Holds || !may_share {
                    self.judge(claim, request, outcome);
                } else {
                    self.late.push_back(Late { claim, outcome, request, answered_ns });
                }
            }
            if may_share {
                self.judge_late(exchange, answered_ns, request);
            }
            self.answers.insert(exchange, (span.end_ns, request));
            self.answered.push_back(exchange);
            while self.answered.len() > MAX_KEPT {
                self.answered.pop_front().and_then(|x| self.answers.remove(&x));
            }
        }
        // By now, every request with their exchange has been answered.
        let is_over = |late: &Late| late.answered_ns.saturating_add(longest_ns) < answered_ns;
        while self.late.front().is_some_and(is_over) || self.late.len() > MAX_KEPT {
            let Some(Late { claim, outcome, request, .. }) = self.late.pop_front() else { break };
            self.judge(claim, request, outcome);
        }
    }

    /// Another request with this exchange was answered: what lies within it holds.
    fn judge_late(&mut self, exchange: u64, answered_ns: u64, request: u64) {
        let holds = |late: &Late| {
            late.claim.exchange == exchange && Outcome::of(late.claim.time, answered_ns) == Outcome::Holds
        };
        let (held, late): (VecDeque<Late>, VecDeque<Late>) =
            std::mem::take(&mut self.late).into_iter().partition(holds);
        self.late = late;
        held.into_iter().for_each(|late| self.judge(late.claim, request, Outcome::Holds));
    }

    fn judge(&mut self, claim: Claim, request: u64, outcome: Outcome) {
        let serves = claim.claimant.serves || !claim.claimant.is_coroutine && self.servers.contains(&claim.tid);
        self.known.judge((claim.kind, request), claim.exchange, outcome);
        let mut claimant = Claimant { serves, ..claim.claimant };
        if self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&claimant) {
            claimant.pool = 0;
        }
        let source = self.sources.entry(claimant).or_default();
        source.judge((claim.kind, request), (claim.exchange, outcome), &self.known);
    }

    /// Whether claims like this one are not believed in this process.
    pub(super) fn has_failed(&self, span: &Span) -> bool {
        self.source(span).is_some_and(Source::has_failed)
    }

    fn source(&self, span: &Span) -> Option<&Source> {
        let claimant = self.claimant(span);
        self.sources.get(&claimant).or_else(|| self.sources.get(&Claimant { pool: 0, ..claimant }))
    }

    /// Whether claims of any source are not believed.
    pub(super) fn any_failed(&self) -> bool {
        self.sources.values().any(Source::has_failed)
    }

    /// About which share of the claims is right that are not believed; of all, if all are believed.
    pub(super) fn share(&self) -> f64 {
        let any_failed = self.any_failed();
        let sources = self.sources.values().filter(|source| source.has_failed() || !any_failed);
        share(
            sources
                .map(|s| s.counted(&self.known.enclosed))
                .fold((0, 0), |(j, f), (judged, failed)| (j + judged, f + failed)),
        )
    }

    /// The claim of a hand-over, with what is known of such claims in this process.
    pub(super) fn claim(&self, span: &Span) -> Option<Named> {
        let (exchange, evidence) = span.cause.zip(span.cause_evidence).filter(|_| is_tried(span))?;
        let before = f64::from(trust(evidence));
        let claimant = Claimant { serves: false, ..self.claimant(span) };
        let is_loop = self.turns.get(&claimant).is_some_and(Turns::is_loop);
        let enclosed = &self.known.enclosed;
        let confidence = self.source(span).map_or(before, |source| source.confidence(before, is_loop, enclosed));
        Some(Named { exchange, evidence, confidence, span: None })
    }

    /// Whether a claim is believed where nothing else is known: not all that failed were wrong.
    pub(super) fn believes(&self, span: &Span) -> bool {
        is_tried(span) && self.source(span).is_some_and(|source| share(source.counted(&self.known.enclosed)) > MOSTLY)
    }

    /// Whether claims of such calls name requests of one rare class.
    pub(super) fn are_of_one_class(&self, span: &Span, kind: u64) -> bool {
        self.source(span).is_some_and(|source| source.are_of_one_class(kind))
    }

    /// Whether claims like this one are believed at once.
    pub(super) fn is_over(&self, span: &Span) -> bool {
        self.source(span).is_some_and(Source::is_over)
    }
}
