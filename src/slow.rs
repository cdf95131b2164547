//! Which requests are slow: those that take longer than a given time, or longer than most requests of their endpoint
//! have taken lately. The kernel sends the waits of requests that exceed the threshold of their process; that is the
//! least threshold of the endpoints of the process.

use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::VecDeque;
use wirespan_capture::WaitOptions;
use wirespan_model::attr::WAIT_REASON;
use wirespan_model::wait::ThreadWaits;
use wirespan_model::{Span, TapSide, Text, Value};

/// A learnt threshold is not below this: shorter requests are not worth an explanation.
const FLOOR_NS: u64 = 1_000_000;
/// The threshold of an endpoint of which little is known.
const BEGIN_NS: u64 = 20_000_000;
/// Requests of an endpoint that are remembered; one in so many of them was slow, and fewest of which one learns.
const RECENT: usize = 200;
const ONE_IN: usize = 20;
const FEWEST: usize = 20;
/// After so many requests the threshold is learnt anew.
const LEARN_EVERY: u32 = 10;
/// Most endpoints; beyond it, those of a process that are new are not learnt.
const MOST_ENDPOINTS: usize = 4_096;
/// Most requests of the sample that are remembered until their span is finished.
const MOST_SAMPLED: usize = 4_096;

/// How it is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// By this duration, ns.
    Fixed(u64),
    /// By what is usual.
    Learnt,
}

impl Rule {
    /// What the kernel is told at the start.
    pub(crate) fn options(self, one_of: u32) -> WaitOptions {
        let threshold_ns = match self {
            Rule::Fixed(ns) => ns,
            Rule::Learnt => BEGIN_NS,
        };
        WaitOptions { threshold_ns, one_of }
    }
}

/// Decides it for each request.
pub(crate) struct Slow {
    rule: Rule,
    endpoints: FxHashMap<(u32, String), Endpoint>,
    /// Exchanges whose waits have come although they were not slow, oldest first.
    sampled: VecDeque<u64>,
    /// What the kernel knows.
    told: FxHashMap<u32, u64>,
}

/// What is usual at one endpoint of one process.
struct Endpoint {
    recent: VecDeque<u64>,
    since_learnt: u32,
    threshold_ns: u64,
}

impl Endpoint {
    fn new() -> Self {
        Endpoint { recent: VecDeque::new(), since_learnt: 0, threshold_ns: BEGIN_NS }
    }

    fn learn(&mut self, duration_ns: u64) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(duration_ns);
        self.since_learnt += 1;
        if self.recent.len() < FEWEST || self.since_learnt < LEARN_EVERY {
            return;
        }
        self.since_learnt = 0;
        let mut all: Vec<u64> = self.recent.iter().copied().collect();
        let at = all.len() - 1 - all.len() / ONE_IN;
        self.threshold_ns = (*all.select_nth_unstable(at).1).max(FLOOR_NS);
    }
}

impl Slow {
    pub(crate) fn new(rule: Rule) -> Self {
        Slow { rule, endpoints: FxHashMap::default(), sampled: VecDeque::new(), told: FxHashMap::default() }
    }

    /// Waits have come.
    pub(crate) fn waits(&mut self, waits: &ThreadWaits) {
        if waits.exchange == 0 || waits.slow {
            return;
        }
        if self.sampled.len() == MOST_SAMPLED {
            self.sampled.pop_front();
        }
        self.sampled.push_back(waits.exchange);
    }

    /// Writes into a span why its waits are wanted, if they are.
    pub(crate) fn judge(&mut self, span: &mut Span) {
        if span.tap != TapSide::ServerProcess {
            return;
        }
        let reason = if span.duration_ns() >= self.threshold_ns(span) {
            "slow"
        } else if span.exchange.is_some_and(|own| self.sampled.iter().any(|x| own.contains(*x))) {
            "sample"
        } else {
            return;
        };
        span.attrs.push((Cow::Borrowed(WAIT_REASON), Value::Str(Text::const_new(reason))));
    }

    /// The threshold of the endpoint before this request.
    fn threshold_ns(&mut self, span: &Span) -> u64 {
        if let Rule::Fixed(ns) = self.rule {
            return ns;
        }
        let key = (span.pid, format!("{} {}", span.operation, form(&span.target)));
        if self.endpoints.len() >= MOST_ENDPOINTS && !self.endpoints.contains_key(&key) {
            return BEGIN_NS;
        }
        let endpoint = self.endpoints.entry(key).or_insert_with(Endpoint::new);
        let threshold_ns = endpoint.threshold_ns;
        endpoint.learn(span.duration_ns());
        threshold_ns
    }

    /// The thresholds of processes that have changed, for the kernel.
    pub(crate) fn changes(&mut self) -> Vec<(u32, u64)> {
        let mut least: FxHashMap<u32, u64> = FxHashMap::default();
        for ((pid, _), endpoint) in &self.endpoints {
            let own = least.entry(*pid).or_insert(u64::MAX);
            *own = endpoint.threshold_ns.min(*own);
        }
        least.retain(|pid, ns| self.told.insert(*pid, *ns) != Some(*ns));
        least.into_iter().collect()
    }
}

/// A target without its query and with its numbers and ids left out: requests of one form do the same work.
pub(crate) fn form(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let part = |part: &str| if part.contains(|c: char| c.is_ascii_digit()) { "*" } else { part }.to_string();
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::ExchangeRange;

    fn reason(slow: &mut Slow, target: &str, ms: u64) -> Option<String> {
        let (tap, exchange) = (TapSide::ServerProcess, Some(ExchangeRange { first: 7, last: 8 }));
        let mut span = Span { tap, pid: 1, exchange, target: target.into(), end_ns: ms * 1_000_000, ..Span::default() };
        slow.judge(&mut span);
        span.text(WAIT_REASON).map(str::to_string)
    }

    #[test]
    fn targets_of_one_form() {
        assert_eq!(form("/cart/17?x=1"), form("/cart/a3f"));
        assert_ne!(form("/cart/17"), form("/pay/17"));
    }

    #[test]
    fn a_fixed_threshold_and_a_sample() {
        let mut slow = Slow::new(Rule::Fixed(50_000_000));
        assert_eq!(reason(&mut slow, "/", 50).as_deref(), Some("slow"));
        assert_eq!(reason(&mut slow, "/", 49), None);
        slow.waits(&ThreadWaits { exchange: 8, ..ThreadWaits::default() });
        assert_eq!(reason(&mut slow, "/", 49).as_deref(), Some("sample"));
        assert!(slow.changes().is_empty());
    }

    #[test]
    fn each_endpoint_learns_what_is_usual_and_the_kernel_knows_the_least() {
        let mut slow = Slow::new(Rule::Learnt);
        for n in 0..100 {
            reason(&mut slow, "/quick/1", if n % 10 == 0 { 9 } else { 4 });
            reason(&mut slow, "/report", 300);
        }
        assert_eq!(reason(&mut slow, "/quick/2", 8), None);
        assert_eq!(reason(&mut slow, "/quick/3", 10).as_deref(), Some("slow"));
        assert_eq!(reason(&mut slow, "/report", 299), None);
        assert_eq!(slow.changes(), [(1, 9_000_000)]);
        assert!(slow.changes().is_empty(), "nothing is new");
        for _ in 0..RECENT {
            reason(&mut slow, "/quick/1", 0);
        }
        assert_eq!(slow.changes(), [(1, FLOOR_NS)]);
    }
}
