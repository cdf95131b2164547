//! Spans with a provisional cause wait until the real cause is known.
//!
//! No thread wakes a worker that takes work from a queue which is never empty. Its cause shows only when it hands its
//! result back, after its calls were answered. So the spans of these calls, and no others, are kept for a moment.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::event::{is_provisional, AliasKind, CauseAlias, Wake};
use wirespan_model::{Evidence, Span};

/// How long a span waits for its real cause after its end, ns. A trace waits equally long for its spans.
const WAIT_NS: u64 = 1_000_000_000;
/// How long a real cause is remembered, ns. A span comes late if its connection is read to the end.
const KNOWN_NS: u64 = 10_000_000_000;
/// How long a real cause may still be replaced, ns. A worker releases locks before it hands over its result, and so
/// wakes threads that are not its waiter.
const SETTLED_NS: u64 = 1_000_000;
/// Most provisional causes in a chain (workers of workers) that are followed.
const MAX_DEPTH: usize = 8;
/// Most spans, and most causes, that are kept. Beyond it the oldest goes.
const MAX_KEPT: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct ProvisionalCauses {
    /// Waiting spans, by provisional cause.
    waiting: FxHashMap<u64, Vec<Span>>,
    /// Provisional causes of waiting spans with the time of their first span (Unix ns), oldest first.
    order: VecDeque<(u64, u64)>,
    /// Real cause of each provisional cause.
    real: FxHashMap<u64, u64>,
    /// When the spans of a resolved provisional cause go on (Unix ns), and that cause, earliest first.
    due: VecDeque<(u64, u64)>,
    /// Cause that counts if the real one stays unknown, with its evidence.
    guesses: FxHashMap<u64, (u64, Evidence)>,
    /// Provisional cause under which the same worker acted before, by the one that follows it.
    before: FxHashMap<u64, u64>,
    /// Provisional causes with an entry above and the time of the entry (Unix ns), oldest first.
    known: VecDeque<(u64, u64)>,
    /// Wake-ups of threads with a provisional cause, and when they came (Unix ns), oldest first; and those that need
    /// not wait any longer.
    waking: VecDeque<(u64, Wake)>,
    woken: Vec<Wake>,
    /// Number of waiting spans.
    held: usize,
    last_ns: u64,
}

impl ProvisionalCauses {
    /// Hands a span on, unless its cause is provisional.
    pub(crate) fn pass(&mut self, span: Span, sink: &mut dyn FnMut(Span)) {
        let Some(cause) = span.cause.filter(|c| is_provisional(*c)) else { return sink(span) };
        self.last_ns = self.last_ns.max(span.end_ns);
        if self.real.contains_key(&cause) {
            self.due.push_back((self.last_ns + SETTLED_NS, cause));
        }
        let list = self.waiting.entry(cause).or_default();
        if list.is_empty() {
            self.order.push_back((self.last_ns, cause));
        }
        list.push(span);
        self.held += 1;
    }

    /// Takes a wake-up. It waits if the woken thread has a provisional cause.
    pub(crate) fn wake(&mut self, wake: Wake) {
        self.last_ns = self.last_ns.max(wake.time_ns);
        if is_provisional(wake.cause) {
            self.waking.push_back((self.last_ns, wake));
        } else if self.woken.len() < MAX_KEPT {
            self.woken.push(wake);
        }
    }

    /// Takes the wake-ups that need not wait any longer. Without a real cause they have the provisional one.
    pub(crate) fn wakes(&mut self) -> Vec<Wake> {
        std::mem::take(&mut self.woken)
    }

    /// Takes what is known of a provisional cause.
    pub(crate) fn resolve(&mut self, alias: &CauseAlias) {
        self.last_ns = self.last_ns.max(alias.time_ns);
        let evidence = match alias.kind {
            AliasKind::Name => None,
            AliasKind::Woken => Some(Evidence::WakeUp),
            AliasKind::Guess => Some(Evidence::Inferred),
            AliasKind::Born => return, // no name: `Orders` knows it
        };
        if let Some(evidence) = evidence {
            self.guesses.insert(alias.provisional, (alias.cause, evidence));
            if is_provisional(alias.cause) && alias.provisional < alias.cause {
                self.before.insert(alias.cause, alias.provisional);
            }
            return self.known.push_back((self.last_ns, alias.provisional));
        }
        self.real.insert(alias.provisional, alias.cause);
        self.known.push_back((self.last_ns, alias.provisional));
        self.due.push_back((self.last_ns + SETTLED_NS, alias.provisional));
    }

    /// Hands on the spans whose real cause is settled.
    fn settle(&mut self, now_ns: u64, sink: &mut dyn FnMut(Span)) {
        while let Some((_, cause)) = self.due.front().copied().filter(|(due, _)| *due <= now_ns) {
            self.due.pop_front();
            let Some(real) = self.real.get(&cause).copied() else { continue };
            for mut span in self.release(cause) {
                set_real_cause(&mut span, real);
                sink(span);
            }
            let mut after = cause;
            while let Some(before) = self.before.remove(&after) {
                for mut span in self.release(before) {
                    (span.cause, span.cause_evidence) = (Some(real), Some(Evidence::Inferred));
                    sink(span);
                }
                after = before;
            }
        }
    }

    /// Hands on the spans whose real cause is settled by `now_ns`, and those that waited too long: with a guess, else
    /// without a cause. Returns the number of spans without a cause.
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
        while let Some((since, mut wake)) = self.waking.front().copied() {
            if now_ns.saturating_sub(since) < WAIT_NS && self.waking.len() <= MAX_KEPT {
                break;
            }
            self.waking.pop_front();
            wake.cause = self.real.get(&wake.cause).copied().filter(|real| *real != 0).unwrap_or(wake.cause);
            if self.woken.len() < MAX_KEPT {
                self.woken.push(wake);
            }
        }
        while let Some((since, provisional)) = self.known.front().copied() {
            if now_ns.saturating_sub(since) < KNOWN_NS && self.known.len() <= MAX_KEPT {
                break;
            }
            self.known.pop_front();
            self.real.remove(&provisional);
            self.guesses.remove(&provisional);
            self.before.remove(&provisional);
        }
        given_up
    }

    /// The best guess for a provisional cause. The guess for a worker's worker is as weak as its weakest step.
    fn best_guess(&self, mut cause: u64) -> Option<(u64, Evidence)> {
        let mut weakest = Evidence::WakeUp;
        for _ in 0..MAX_DEPTH {
            if !is_provisional(cause) {
                return Some((cause, weakest));
            }
            if let Some(real) = self.real.get(&cause) {
                cause = *real;
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

/// Sets the real cause. 0 means: a cause that will never be known; it is left to the solver.
fn set_real_cause(span: &mut Span, cause: u64) {
    span.cause = (cause != 0).then_some(cause);
    if cause == 0 {
        span.cause_evidence = Some(Evidence::Inferred);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::event::PROVISIONAL;
    use wirespan_model::SocketId;

    fn span(cause: u64, end_ns: u64) -> Span {
        Span { cause: Some(cause), cause_evidence: Some(Evidence::WakeUp), end_ns, ..Span::default() }
    }

    fn alias(kind: AliasKind, provisional: u64, cause: u64) -> CauseAlias {
        CauseAlias { kind, provisional: PROVISIONAL | provisional, cause, time_ns: 100 }
    }

    fn causes_of(spans: &[Span]) -> Vec<(Option<u64>, Option<Evidence>)> {
        spans.iter().map(|s| (s.cause, s.cause_evidence)).collect()
    }

    #[test]
    fn only_a_span_with_a_provisional_cause_waits_for_the_real_one() {
        let (mut causes, mut out) = (ProvisionalCauses::default(), Vec::new());
        causes.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        causes.pass(span(7, 50), &mut |s| out.push(s));
        assert_eq!(causes_of(&out), [(Some(7), Some(Evidence::WakeUp))]);
        causes.resolve(&alias(AliasKind::Name, 1, 9));
        // A span that ends later finds the real cause.
        causes.pass(span(PROVISIONAL | 1, 60), &mut |s| out.push(s));
        assert_eq!(causes.give_up(100 + SETTLED_NS - 1, &mut |s| out.push(s)), 0);
        assert_eq!(out.len(), 1);
        assert_eq!(causes.give_up(100 + SETTLED_NS, &mut |s| out.push(s)), 0);
        assert_eq!(causes_of(&out[1..]), [(Some(9), Some(Evidence::WakeUp)); 2]);
        assert_eq!(causes.held, 0);
    }

    #[test]
    fn of_two_real_causes_at_once_the_last_counts() {
        let (mut causes, mut out) = (ProvisionalCauses::default(), Vec::new());
        causes.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        causes.resolve(&alias(AliasKind::Name, 1, 8));
        causes.resolve(&alias(AliasKind::Name, 1, 9));
        causes.give_up(100 + SETTLED_NS, &mut |s| out.push(s));
        assert_eq!(causes_of(&out), [(Some(9), Some(Evidence::WakeUp))]);
    }

    #[test]
    fn a_cause_that_stays_unknown_is_left_to_the_solver() {
        let (mut causes, mut out) = (ProvisionalCauses::default(), Vec::new());
        causes.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        causes.resolve(&alias(AliasKind::Name, 1, 0));
        causes.pass(span(PROVISIONAL | 1, 60), &mut |s| out.push(s));
        causes.give_up(100 + SETTLED_NS, &mut |s| out.push(s));
        assert_eq!(causes_of(&out), [(None, Some(Evidence::Inferred)); 2]);
    }

    #[test]
    fn without_a_real_cause_the_waker_of_the_worker_counts() {
        let (mut causes, mut out) = (ProvisionalCauses::default(), Vec::new());
        for n in 1..=3 {
            causes.pass(span(PROVISIONAL | n, 100), &mut |s| out.push(s));
        }
        causes.resolve(&alias(AliasKind::Woken, 1, 9));
        causes.resolve(&alias(AliasKind::Guess, 2, PROVISIONAL | 1));
        assert_eq!(causes.give_up(100 + WAIT_NS - 1, &mut |s| out.push(s)), 0);
        assert!(out.is_empty());
        assert_eq!(causes.give_up(100 + WAIT_NS, &mut |s| out.push(s)), 1);
        let expected = [(Some(9), Some(Evidence::WakeUp)), (Some(9), Some(Evidence::Inferred)), (None, None)];
        assert_eq!(causes_of(&out), expected);
    }

    #[test]
    fn a_wake_up_of_a_worker_waits_for_its_real_cause() {
        let (socket, read_ns, time_ns) = (SocketId(7), 90, 100);
        let wake = |cause| Wake { pid: 1, tid: 2, unsure: false, socket, read_ns, cause, time_ns };
        let mut causes = ProvisionalCauses::default();
        causes.wake(wake(7));
        (1..=3).for_each(|n| causes.wake(wake(PROVISIONAL | n)));
        assert_eq!(causes.wakes(), [wake(7)]);
        causes.resolve(&alias(AliasKind::Name, 1, 8));
        causes.resolve(&alias(AliasKind::Woken, 2, 9));
        causes.give_up(100 + WAIT_NS - 1, &mut |_| {});
        assert_eq!(causes.wakes(), []);
        causes.give_up(100 + WAIT_NS, &mut |_| {});
        assert_eq!(causes.wakes(), [wake(8), wake(PROVISIONAL | 2), wake(PROVISIONAL | 3)]);
    }

    #[test]
    fn earlier_calls_of_a_worker_take_the_cause_of_its_last_call_as_inferred() {
        let (mut causes, mut out) = (ProvisionalCauses::default(), Vec::new());
        causes.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        causes.resolve(&alias(AliasKind::Guess, 1, PROVISIONAL | 2));
        causes.pass(span(PROVISIONAL | 2, 60), &mut |s| out.push(s));
        causes.resolve(&alias(AliasKind::Name, 2, 9));
        causes.give_up(100 + SETTLED_NS, &mut |s| out.push(s));
        assert_eq!(causes_of(&out), [(Some(9), Some(Evidence::WakeUp)), (Some(9), Some(Evidence::Inferred))]);
    }

    #[test]
    fn aliases_in_a_circle_end() {
        let (mut causes, mut out) = (ProvisionalCauses::default(), Vec::new());
        causes.pass(span(PROVISIONAL | 1, 50), &mut |s| out.push(s));
        causes.resolve(&alias(AliasKind::Guess, 1, PROVISIONAL | 2));
        causes.resolve(&alias(AliasKind::Guess, 2, PROVISIONAL | 1));
        assert_eq!(causes.give_up(u64::MAX, &mut |s| out.push(s)), 1);
        assert!(causes.real.is_empty() && causes.guesses.is_empty() && causes.before.is_empty());
    }
}
