//! Which requests are slow: those that take longer than a given time, or longer than most requests of their endpoint
//! have taken lately. The kernel sends the waits of requests that exceed the threshold of their process; that is the
//! least threshold of the endpoints of the process.

mod learn;
mod rule;

pub(crate) use rule::{form, Knobs, Rule, Scoped, Want};

use learn::Endpoint;
use rule::named;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::VecDeque;
use wirespan_capture::WaitOptions;
use wirespan_model::attr::{WAIT_REASON, WAKEUPS};
use wirespan_model::wait::ThreadWaits;
use wirespan_model::{Span, TapSide, Text, Value};

/// The threshold of an endpoint of which little is known.
const BEGIN_NS: u64 = 20_000_000;
/// Most endpoints; beyond it, those of a process that are new are not learnt.
const MOST_ENDPOINTS: usize = 4_096;
/// Most processes whose thresholds are known; beyond it, those that are new have the general one.
const MOST_PROCESSES: usize = 4_096;
/// Most requests of the sample that are remembered until their span is finished.
const MOST_SAMPLED: usize = 4_096;
/// Most rules that users have given while it runs.
const MOST_ASKED: usize = 64;
/// While a user has asked for waits, at least one in so many other requests is taken: enough for a comparison in a
/// minute.
const ASKED_ONE_OF: u32 = 10;
/// The threshold of a process of which no request is slow.
const NEVER_NS: u64 = u64::MAX;

/// What a user has asked for while it runs.
struct Asked {
    rule: Scoped,
    want: Want,
    until_ns: u64,
}

/// Decides it for each request.
pub(crate) struct Slow {
    /// Of the configuration. The first that fits decides.
    rules: Vec<Scoped>,
    /// Asked for while it runs, with the time at which each ends, Unix ns; these come first, the latest before all.
    asked: Vec<Asked>,
    /// What is recorded besides waits, unless an order says something else.
    want: Want,
    /// One in so many other requests is taken, too.
    one_of: u32,
    endpoints: FxHashMap<(u32, String), Endpoint>,
    /// The services of processes.
    services: FxHashMap<u32, Text>,
    /// Exchanges whose waits have come although they were not slow, oldest first.
    sampled: VecDeque<u64>,
    /// What the kernel knows of processes, and of those that are not named to it.
    told: FxHashMap<u32, u64>,
    told_general: u64,
}

impl Slow {
    /// By the rules of the configuration.
    pub(crate) fn new(rules: Vec<Scoped>, one_of: u32, want: Want) -> Self {
        let mut slow = Slow {
            rules,
            asked: Vec::new(),
            want,
            one_of,
            endpoints: FxHashMap::default(),
            services: FxHashMap::default(),
            sampled: VecDeque::new(),
            told: FxHashMap::default(),
            told_general: NEVER_NS,
        };
        slow.told_general = slow.least();
        slow
    }

    fn all(&self) -> impl Iterator<Item = &Scoped> {
        self.wanted().map(|(rule, _)| rule)
    }

    /// The same, with what is recorded.
    fn wanted(&self) -> impl Iterator<Item = (&Scoped, Want)> {
        let asked = self.asked.iter().rev().map(|asked| (&asked.rule, asked.want));
        asked.chain(self.rules.iter().map(|rule| (rule, self.want)))
    }

    /// The least threshold that any request may have.
    fn least(&self) -> u64 {
        let thresholds = self.all().map(|scoped| match scoped.rule {
            Rule::Fixed(ns) => ns,
            Rule::Learnt => BEGIN_NS,
        });
        thresholds.min().unwrap_or(NEVER_NS)
    }

    /// What the kernel is told; `None` if no waits are recorded. A process whose service is not known yet has the least
    /// threshold.
    pub(crate) fn options(&self) -> Option<WaitOptions> {
        self.all().next().map(|_| WaitOptions {
            threshold_ns: self.least(),
            one_of: self.one_of(),
            kernel_stack: self.wanted().any(|(_, want)| want.kernel_stack),
            user_stack: self.wanted().any(|(_, want)| want.user_stack),
        })
    }

    fn one_of(&self) -> u32 {
        match self.asked.is_empty() {
            true => self.one_of,
            false => self.one_of.min(ASKED_ONE_OF),
        }
    }

    /// Adds a rule until this time. False if there are too many.
    pub(crate) fn ask(&mut self, rule: Scoped, knobs: Knobs, until_ns: u64) -> bool {
        if self.asked.len() == MOST_ASKED {
            return false;
        }
        self.asked.push(Asked { rule, want: knobs.over(self.want), until_ns });
        self.told_general = self.least();
        true
    }

    /// Ends the rules that were asked for the same requests at this time, if they would last longer.
    pub(crate) fn end(&mut self, of: &Scoped, now_ns: u64) {
        for asked in self.asked.iter_mut().filter(|asked| asked.rule.is_same(of)) {
            asked.until_ns = asked.until_ns.min(now_ns);
        }
    }

    /// Forgets the rules whose time is over. Returns whether there were any.
    pub(crate) fn end_due(&mut self, now_ns: u64) -> bool {
        let before = self.asked.len();
        self.asked.retain(|asked| asked.until_ns > now_ns);
        if self.asked.len() == before {
            return false;
        }
        self.told_general = self.least();
        if self.all().next().is_none() {
            // The kernel forgets, too.
            *self = Slow::new(Vec::new(), self.one_of, self.want);
        }
        true
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
        if span.tap != TapSide::ServerProcess || (self.rules.is_empty() && self.asked.is_empty()) {
            return;
        }
        self.note_service(span);
        let Some((rule, want)) = self.rule_of(span) else { return };
        let reason = if span.duration_ns() >= self.threshold_ns(rule, span) {
            "slow"
        } else if span.status.is_error(span.kind) {
            "error"
        } else if span.exchange.is_some_and(|own| self.sampled.iter().any(|x| own.contains(*x))) {
            "sample"
        } else {
            return;
        };
        span.attrs.push((Cow::Borrowed(WAIT_REASON), Value::Str(Text::const_new(reason))));
        if want.metrics {
            // The number follows, once it is known.
            span.attrs.push((Cow::Borrowed(WAKEUPS), Value::Int(0)));
        }
    }

    fn rule_of(&self, span: &Span) -> Option<(Rule, Want)> {
        let fits = |scoped: &Scoped| scoped.fits(&span.resource.service, &span.operation, &span.target);
        self.wanted().find(|(scoped, _)| fits(scoped)).map(|(scoped, want)| (scoped.rule, want))
    }

    /// Whether waits of requests of this process are recorded. One whose service is not known yet counts.
    pub(crate) fn records(&self, pid: u32) -> bool {
        let service = self.services.get(&pid);
        self.all().any(|scoped| service.is_none_or(|service| scoped.is_for(service)))
    }

    fn note_service(&mut self, span: &Span) {
        let known = self.services.get(&span.pid);
        let room = known.is_some() || self.services.len() < MOST_PROCESSES;
        if room && known.is_none_or(|service| **service != *span.resource.service) {
            self.services.insert(span.pid, span.resource.service.as_ref().into());
        }
    }

    /// The threshold of the endpoint before this request.
    fn threshold_ns(&mut self, rule: Rule, span: &Span) -> u64 {
        if let Rule::Fixed(ns) = rule {
            return ns;
        }
        let key = (span.pid, named(&span.operation, &span.target));
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
        let mut learnt: FxHashMap<u32, u64> = FxHashMap::default();
        for ((pid, _), endpoint) in &self.endpoints {
            let own = learnt.entry(*pid).or_insert(u64::MAX);
            *own = endpoint.threshold_ns.min(*own);
        }
        let least = |(pid, service): (&u32, &Text)| {
            let rules = self.all().filter(|scoped| scoped.is_for(service)).map(|scoped| match scoped.rule {
                Rule::Fixed(ns) => ns,
                Rule::Learnt => learnt.get(pid).copied().unwrap_or(BEGIN_NS),
            });
            (*pid, rules.min().unwrap_or(NEVER_NS))
        };
        let mut all: Vec<_> = self.services.iter().map(least).collect();
        let general = self.told_general;
        all.retain(|(pid, ns)| self.told.get(pid).copied().unwrap_or(general) != *ns);
        self.told.extend(all.iter().copied());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::learn::{FLOOR_NS, RECENT};
    use super::*;
    use std::sync::Arc;
    use wirespan_model::{ExchangeRange, Resource, SpanKind, Status};

    const MS: u64 = 1_000_000;

    fn by(rule: Rule) -> Slow {
        Slow::new(vec![Scoped::general(rule)], 100, Want::ALL)
    }

    fn of(slow: &mut Slow, service: &str, target: &str, ms: u64) -> Option<String> {
        let (tap, exchange) = (TapSide::ServerProcess, Some(ExchangeRange { first: 7, last: 8 }));
        let resource = Arc::new(Resource { service: service.into(), ..Resource::default() });
        let pid = if service.is_empty() { 1 } else { service.len() as u32 };
        let mut span = Span { tap, pid, exchange, target: target.into(), end_ns: ms * MS, resource, ..Span::default() };
        slow.judge(&mut span);
        span.text(WAIT_REASON).map(str::to_string)
    }

    fn options(threshold_ns: u64, one_of: u32) -> WaitOptions {
        WaitOptions { threshold_ns, one_of, kernel_stack: true, user_stack: true }
    }

    fn reason(slow: &mut Slow, target: &str, ms: u64) -> Option<String> {
        of(slow, "", target, ms)
    }

    fn changes(slow: &mut Slow) -> Vec<(u32, u64)> {
        let mut all = slow.changes();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_fixed_threshold_and_a_sample() {
        let mut slow = by(Rule::Fixed(50 * MS));
        assert_eq!(reason(&mut slow, "/", 50).as_deref(), Some("slow"));
        assert_eq!(reason(&mut slow, "/", 49), None);
        slow.waits(&ThreadWaits { exchange: 8, ..ThreadWaits::default() });
        assert_eq!(reason(&mut slow, "/", 49).as_deref(), Some("sample"));
        assert!(slow.changes().is_empty());
    }

    #[test]
    fn each_endpoint_learns_what_is_usual_and_the_kernel_knows_the_least() {
        let mut slow = by(Rule::Learnt);
        for n in 0..100 {
            reason(&mut slow, "/quick/1", if n % 10 == 0 { 9 } else { 4 });
            reason(&mut slow, "/report", 300);
        }
        assert_eq!(reason(&mut slow, "/quick/2", 8), None);
        assert_eq!(reason(&mut slow, "/quick/3", 10).as_deref(), Some("slow"));
        assert_eq!(reason(&mut slow, "/report", 299), None);
        assert_eq!(slow.changes(), [(1, 9 * MS)]);
        assert!(slow.changes().is_empty(), "nothing is new");
        for _ in 0..RECENT {
            reason(&mut slow, "/quick/1", 0);
        }
        assert_eq!(slow.changes(), [(1, FLOOR_NS)]);
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_each_process_has_the_least_of_its_service() {
        let rules = vec![
            Scoped::of("shop", "/cart/*", Rule::Fixed(5 * MS)),
            Scoped::of("shop", "", Rule::Fixed(80 * MS)),
            Scoped::general(Rule::Fixed(30 * MS)),
        ];
        let mut slow = Slow::new(rules, 0, Want::ALL);
        assert_eq!(slow.options(), Some(options(5 * MS, 0)));
        assert_eq!(of(&mut slow, "shop", "/cart/1", 5).as_deref(), Some("slow"));
        assert_eq!(of(&mut slow, "shop", "/pay", 79), None);
        assert_eq!(of(&mut slow, "payment", "/cart/1", 29), None);
        assert_eq!(of(&mut slow, "payment", "/cart/1", 30).as_deref(), Some("slow"));
        assert_eq!(changes(&mut slow), [(7, 30 * MS)], "the kernel has the least for others already");
    }

    #[test]
    fn a_rule_that_was_asked_for_comes_first_and_ends() {
        let mut slow = Slow::new(Vec::new(), 100, Want::ALL);
        assert_eq!((slow.options(), of(&mut slow, "shop", "/", 900)), (None, None));
        assert!(slow.ask(Scoped::of("shop", "", Rule::Fixed(2 * MS)), Knobs::default(), 1_000));
        assert_eq!(slow.options(), Some(options(2 * MS, ASKED_ONE_OF)));
        assert_eq!(of(&mut slow, "shop", "/", 2).as_deref(), Some("slow"));
        assert_eq!(of(&mut slow, "payment", "/", 900), None);
        assert_eq!(changes(&mut slow), [(7, NEVER_NS)], "the kernel sends no waits of other services");
        slow.end(&Scoped::of("shop", "/cart", Rule::Learnt), 500);
        assert!(!slow.end_due(999) && slow.end_due(1_000));
        assert!(slow.ask(Scoped::of("shop", "", Rule::Fixed(2 * MS)), Knobs::default(), 2_000));
        slow.end(&Scoped::of("shop", "", Rule::Learnt), 1_500);
        assert!(!slow.end_due(1_499) && slow.end_due(1_500));
        assert_eq!((slow.options(), of(&mut slow, "shop", "/", 900)), (None, None));
    }

    #[test]
    fn requests_that_failed_are_recorded_also_when_quick() {
        let mut slow = by(Rule::Fixed(50 * MS));
        let failed = |slow: &mut Slow, ms: u64| {
            let (tap, kind, status) = (TapSide::ServerProcess, SpanKind::Server, Status::ServerError);
            let mut span = Span { tap, kind, status, end_ns: ms * MS, ..Span::default() };
            slow.judge(&mut span);
            span.text(WAIT_REASON).map(str::to_string)
        };
        assert_eq!(failed(&mut slow, 1).as_deref(), Some("error"));
        assert_eq!(failed(&mut slow, 60).as_deref(), Some("slow"));
        assert!(slow.records(7));
        let mut other = Slow::new(vec![Scoped::of("pay", "", Rule::Learnt)], 0, Want::ALL);
        of(&mut other, "shop", "/", 1);
        assert!(!other.records(4) && other.records(5), "{:?}", other.services);
    }

    #[test]
    fn what_is_recorded_besides_is_what_anybody_wants() {
        let bare = Want { kernel_stack: false, user_stack: false, metrics: false };
        let mut slow = Slow::new(vec![Scoped::general(Rule::Fixed(50 * MS))], 0, bare);
        let now = |slow: &Slow| slow.options().map(|o| (o.kernel_stack, o.user_stack));
        let metrics = |slow: &mut Slow, ms| {
            let mut span = Span { tap: TapSide::ServerProcess, end_ns: ms * MS, ..Span::default() };
            slow.judge(&mut span);
            span.attrs.iter().any(|(key, _)| key == WAKEUPS)
        };
        assert_eq!((now(&slow), metrics(&mut slow, 60)), (Some((false, false)), false));
        let knobs = Knobs { user_stack: Some(true), metrics: Some(true), ..Knobs::default() };
        assert!(slow.ask(Scoped::of("", "", Rule::Fixed(50 * MS)), knobs, 1_000));
        assert_eq!((now(&slow), metrics(&mut slow, 60), metrics(&mut slow, 9)), (Some((false, true)), true, false));
        assert!(slow.end_due(1_000));
        assert_eq!((now(&slow), metrics(&mut slow, 60)), (Some((false, false)), false));
    }

    #[test]
    fn after_what_was_asked_for_the_configuration_holds_again() {
        let mut slow = by(Rule::Fixed(50 * MS));
        of(&mut slow, "shop", "/", 1);
        assert!(slow.ask(Scoped::of("shop", "", Rule::Fixed(2 * MS)), Knobs::default(), 1_000));
        of(&mut slow, "payment", "/", 1);
        assert_eq!(changes(&mut slow), [(7, 50 * MS)]);
        assert!(slow.end_due(1_000));
        assert_eq!(slow.options().map(|o| o.threshold_ns), Some(50 * MS));
        assert!(changes(&mut slow).is_empty());
        assert_eq!(of(&mut slow, "shop", "/", 49), None);
        for n in 0..MOST_ASKED {
            assert!(slow.ask(Scoped::of("shop", "", Rule::Learnt), Knobs::default(), 2_000), "{n}");
        }
        assert!(!slow.ask(Scoped::of("shop", "", Rule::Learnt), Knobs::default(), 2_000));
    }
}
