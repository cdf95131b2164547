//! Spans whose cause is provisional wait until it has its name.
//!
//! A worker that takes from a queue which is never empty is woken by nobody; for whom it acted shows when it hands its
//! result back, after its calls were answered. So these spans, and only these, are kept for a moment.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::event::{is_provisional, AliasKind, CauseAlias};
use wirespan_model::{Evidence, Span};

/// How long a span waits for the name of its cause after its end, ns: as long as a trace is waited for.
const WAIT_NS: u64 = 1_000_000_000;
/// How long a name is known, ns: spans of connections that are read to their end come late.
const KNOWN_NS: u64 = 10_000_000_000;
/// How long a name may still change, ns: a worker gives locks back before its result, and wakes who waits for them.
const SETTLED_NS: u64 = 1_000_000;
/// Workers of workers that are followed.
const MAX_DEPTH: usize = 8;
/// Spans and names that are kept at most; beyond it the oldest goes.
const MAX_KEPT: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Naming {
    /// Spans that wait, by provisional cause.
    waiting: FxHashMap<u64, Vec<Span>>,
    /// The same causes, in order of the time at which they were first met.
    order: VecDeque<(u64, u64)>,
    names: FxHashMap<u64, u64>,
    /// When spans whose cause has a name go on, and that cause, in this order.
    due: VecDeque<(u64, u64)>,
    guesses: FxHashMap<u64, (u64, Evidence)>,
    /// What the same worker sent before it, by the cause of what it sent then.
    before: FxHashMap<u64, u64>,
    told: VecDeque<(u64, u64)>,
    held: usize,
    last_ns: u64,
}

impl Naming {
    /// Hands a span on, unless it has to wait.
    pub(crate) fn pass(&mut self, span: Span, sink: &mut dyn FnMut(Span)) {
        let Some(cause) = span.cause.filter(|c| is_provisional(*c)) else { return sink(span) };
        self.last_ns = self.last_ns.max(span.end_ns);
        if self.names.contains_key(&cause) {
            self.due.push_back((self.last_ns + SETTLED_NS, cause));
        }
        let list = self.waiting.entry(cause).or_default();
        if list.is_empty() {
            self.order.push_back((self.last_ns, cause));
        }
        list.push(span);
        self.held += 1;
    }

    /// A cause has its name.
    pub(crate) fn name(&mut self, alias: &CauseAlias) {
        self.last_ns = self.last_ns.max(alias.time_ns);
        let evidence = match alias.kind {
            AliasKind::Name => None,
            AliasKind::Woken => Some(Evidence::WakeUp),
            AliasKind::Guess => Some(Evidence::Inferred),
        };
        if let Some(evidence) = evidence {
            self.guesses.insert(alias.provisional, (alias.cause, evidence));
            if is_provisional(alias.cause) && alias.provisional < alias.cause {
                self.before.insert(alias.cause, alias.provisional);
            }
            return self.told.push_back((self.last_ns, alias.provisional));
        }
        self.names.insert(alias.provisional, alias.cause);
        self.told.push_back((self.last_ns, alias.provisional));
        self.due.push_back((self.last_ns + SETTLED_NS, alias.provisional));
    }

    /// Hands on what has its name.
    fn settle(&mut self, now_ns: u64, sink: &mut dyn FnMut(Span)) {
        while let Some((_, cause)) = self.due.front().copied().filter(|(due, _)| *due <= now_ns) {
            self.due.pop_front();
            let Some(name) = self.names.get(&cause).copied() else { continue };
            for mut span in self.release(cause) {
                called(&mut span, name);
                sink(span);
            }
            let mut after = cause;
            while let Some(before) = self.before.remove(&after) {
                for mut span in self.release(before) {
                    (span.cause, span.cause_evidence) = (Some(name), Some(Evidence::Inferred));
                    sink(span);
                }
                after = before;
            }
        }
    }

    /// Hands on what has its name, and what waited too long, with a guess or without a cause; how many without.
    pub(crate) fn give_up(&mut self, now_ns: u64, sink: &mut dyn FnMut(Span)) -> u64 {
        self.settle(now_ns, sink);
        let mut given_up = 0;
        while let Some((since, cause)) = self.order.front().copied() {
            if now_ns.saturating_sub(since) < WAIT_NS && self.held <= MAX_KEPT {
                break;
            }
            self.order.pop_front();
            for mut span in self.release(cause) {
                (span.cause, span.cause_evidence) = self.best_guess(cause).unzip();
                given_up += u64::from(span.cause.is_none());
                sink(span);
            }
        }
        while let Some((since, provisional)) = self.told.front().copied() {
            if now_ns.saturating_sub(since) < KNOWN_NS && self.told.len() <= MAX_KEPT {
                break;
            }
            self.told.pop_front();
            self.names.remove(&provisional);
            self.guesses.remove(&provisional);
            self.before.remove(&provisional);
        }
        given_up
    }

    /// Who it may have been. A worker's worker is believed no more than the worker.
    fn best_guess(&self, mut cause: u64) -> Option<(u64, Evidence)> {
        let mut weakest = Evidence::WakeUp;
        for _ in 0..MAX_DEPTH {
            if !is_provisional(cause) {
                return Some((cause, weakest));
            }
            if let Some(name) = self.names.get(&cause) {
                cause = *name;
            } else {
                let (guess, evidence) = self.guesses.get(&cause)?;
                (cause, weakest) = (*guess, weakest.max(*evidence));
            }
        }
        None
    }

    fn release(&mut self, cause: u64) -> Vec<Span> {
        let spans = self.waiting.remove(&cause).unwrap_or_default();
        self.held -= spans.len();
        spans
    }
}

/// 0 is nobody that is known, but somebody.
fn called(span: &mut Span, cause: u64) {
    span.cause = (cause != 0).then_some(cause);
    if cause == 0 {
        span.cause_evidence = Some(Evidence::Inferred);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::event::PROVISIONAL;

    fn span(cause: u64, end_ns: u64) -> Span {
        Span { cause: Some(cause), cause_evidence: Some(Evidence::WakeUp), end_ns, ..Span::default() }
    }

    fn alias(kind: AliasKind, provisional: u64, cause: u64) -> CauseAlias {
        CauseAlias { kind, provisional: PROVISIONAL | provisional, cause, time_ns: 100 }
    }

    fn causes(spans: &[Span]) -> Vec<(Option<u64>, Option<Evidence>)> {
        spans.iter().map(|s| (s.cause, s.cause_evidence)).collect()
    }

    #[test]
    fn a_span_waits_for_the_name_of_its_cause_and_others_do_not() {
        let (mut naming, mut out) = (Naming::default(), Vec::new());
        naming.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        naming.pass(span(7, 50), &mut |s| out.push(s));
        assert_eq!(causes(&out), [(Some(7), Some(Evidence::WakeUp))]);
        naming.name(&alias(AliasKind::Name, 1, 9));
        // One that ends later finds the name.
        naming.pass(span(PROVISIONAL | 1, 60), &mut |s| out.push(s));
        assert_eq!(naming.give_up(100 + SETTLED_NS - 1, &mut |s| out.push(s)), 0);
        assert_eq!(out.len(), 1);
        assert_eq!(naming.give_up(100 + SETTLED_NS, &mut |s| out.push(s)), 0);
        assert_eq!(causes(&out[1..]), [(Some(9), Some(Evidence::WakeUp)); 2]);
        assert_eq!(naming.held, 0);
    }

    #[test]
    fn the_last_name_counts_that_comes_at_once() {
        let (mut naming, mut out) = (Naming::default(), Vec::new());
        naming.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        naming.name(&alias(AliasKind::Name, 1, 8));
        naming.name(&alias(AliasKind::Name, 1, 9));
        naming.give_up(100 + SETTLED_NS, &mut |s| out.push(s));
        assert_eq!(causes(&out), [(Some(9), Some(Evidence::WakeUp))]);
    }

    #[test]
    fn a_cause_that_nobody_will_name_is_left_to_inference() {
        let (mut naming, mut out) = (Naming::default(), Vec::new());
        naming.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        naming.name(&alias(AliasKind::Name, 1, 0));
        naming.pass(span(PROVISIONAL | 1, 60), &mut |s| out.push(s));
        naming.give_up(100 + SETTLED_NS, &mut |s| out.push(s));
        assert_eq!(causes(&out), [(None, Some(Evidence::Inferred)); 2]);
    }

    #[test]
    fn without_a_name_it_is_who_woke_the_worker_or_nobody() {
        let (mut naming, mut out) = (Naming::default(), Vec::new());
        for n in 1..=3 {
            naming.pass(span(PROVISIONAL | n, 100), &mut |s| out.push(s));
        }
        naming.name(&alias(AliasKind::Woken, 1, 9));
        naming.name(&alias(AliasKind::Guess, 2, PROVISIONAL | 1));
        assert_eq!(naming.give_up(100 + WAIT_NS - 1, &mut |s| out.push(s)), 0);
        assert!(out.is_empty());
        assert_eq!(naming.give_up(100 + WAIT_NS, &mut |s| out.push(s)), 1);
        let expected = [(Some(9), Some(Evidence::WakeUp)), (Some(9), Some(Evidence::Inferred)), (None, None)];
        assert_eq!(causes(&out), expected);
    }

    #[test]
    fn what_a_worker_sent_before_is_inferred_from_what_it_sent_last() {
        let (mut naming, mut out) = (Naming::default(), Vec::new());
        naming.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        naming.name(&alias(AliasKind::Guess, 1, PROVISIONAL | 2));
        naming.pass(span(PROVISIONAL | 2, 60), &mut |s| out.push(s));
        naming.name(&alias(AliasKind::Name, 2, 9));
        naming.give_up(100 + SETTLED_NS, &mut |s| out.push(s));
        assert_eq!(causes(&out), [(Some(9), Some(Evidence::WakeUp)), (Some(9), Some(Evidence::Inferred))]);
    }

    #[test]
    fn aliases_in_a_circle_hold_nobody_up() {
        let (mut naming, mut out) = (Naming::default(), Vec::new());
        naming.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        naming.name(&alias(AliasKind::Guess, 1, PROVISIONAL | 2));
        naming.name(&alias(AliasKind::Guess, 2, PROVISIONAL | 1));
        assert_eq!(naming.give_up(u64::MAX, &mut |s| out.push(s)), 1);
        assert!(naming.names.is_empty() && naming.guesses.is_empty() && naming.before.is_empty());
    }
}
