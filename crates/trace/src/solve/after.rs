//! Which requests go on after their answer, and for how long.
//!
//! A handler may answer first and make calls then: it sends a mail, or writes down what happened. The request of a call
//! is sought among those that are open, so it must be known which of them are at work after their answer. Two things
//! tell it, both without any hypothesis about who made which call:
//!
//! - calls whose request is certain, and that began after its answer;
//! - a class of calls that comes shortly after answers to one class of requests, far more often than other calls do,
//!   while neither one class of requests nor requests at all enclose it.

use super::delays::{start_of_bucket, Delays, BUCKETS};
use super::timeline::{Call, Class, Event, Maker, Request};
use super::within::Within;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Most pairs of a class of calls and a class of requests that are compared.
const MAX_PAIRS: usize = 1_024;
/// Answered requests that are remembered.
const MAX_ANSWERED: usize = 512;
/// Calls of a class from which on something can be said; from the second number on old ones count half.
const FEW: f64 = 16.0;
const MANY: f64 = 2_000.0;
/// The share of a class of calls that lies within requests of one class, if these make them, but for one: the class of
/// requests is not known before the first has answered.
const ENCLOSED: f64 = 0.99;
/// The share of a class of calls that follows an answer, if the answered requests make them.
const FOLLOWS: f64 = 0.95;
/// Evidence for requests that enclose a class of calls, and evidence of each call that follows an answer: ln of how
/// much likelier the calls lie so than others.
const TELLING: f64 = 4.0;
const TELLING_EACH: f64 = 0.3;
/// Less evidence of each call suffices if all of them together say so much, and so many times more than for any other
/// class of requests.
const LEAST_TELLING_EACH: f64 = 0.1;
const TELLING_IN_ALL: f64 = 8.0;
const CLEARER: f64 = 3.0;
/// Still less suffices for requests within which no calls lie, if they are as many as the calls, by so much.
const IDLE_TELLING_EACH: f64 = 0.05;
const IDLE_TELLING_IN_ALL: f64 = 3.0;
const AS_MANY: f64 = 1.1;
/// Least number of late calls per request.
const LEAST_RATE: f64 = 0.25;
/// Of the late calls, this share has ended when a request counts as ended; and how much longer it is given.
const ENDED: f64 = 0.97;
const LONGER: f64 = 1.25;
/// Longest time for which a request goes on, ns.
const LONGEST_NS: f64 = 5e9;

/// How calls lie in time to the requests of a class.
#[derive(Clone, Debug, Default)]
struct Lie {
    /// Calls that lie within a request.
    enclosed: f64,
    /// From the last answer to the begin of a call, and to its end.
    begins: Delays,
    ends: Delays,
}

impl Lie {
    fn fade(&mut self) {
        self.enclosed /= 2.0;
        self.begins.fade();
        self.ends.fade();
    }
}

/// What is known of the requests of a class.
#[derive(Clone, Debug, Default)]
struct Served {
    answers: f64,
    last_answer_ns: u64,
    /// Calls that are certain to have begun after their request's answer, from the answer to their end.
    late: Delays,
    /// Calls of all classes.
    all: Lie,
}

#[derive(Debug, Default)]
pub(super) struct After {
    open: Vec<Request>,
    answered: VecDeque<Request>,
    served: FxHashMap<Class, Served>,
    /// Calls in all, and by class.
    calls: f64,
    of_class: FxHashMap<Class, f64>,
    /// By class of the call and of the request.
    pairs: FxHashMap<(Class, Class), Lie>,
    /// How long requests of a class go on after their answer, ns.
    lasts: FxHashMap<Class, u64>,
    /// The same, as the times of all events suggested at the last training.
    told: FxHashMap<Class, u64>,
}

/// How much an observed share says against a share by chance, per observation.
fn says(observed: f64, chance: f64) -> f64 {
    let part = |o: f64, c: f64| if o > 0.0 { o * (o / c).ln() } else { 0.0 };
    match observed > chance {
        true => part(observed, chance) + part(1.0 - observed, 1.0 - chance),
        false => 0.0,
    }
}

impl After {
    /// When a request with this answer has ended.
    pub(super) fn until_ns(&self, class: Class, end_ns: u64) -> u64 {
        end_ns + self.lasts.get(&class).copied().unwrap_or(0)
    }

    /// The longest time for which a request goes on after its answer, ns.
    pub(super) fn longest_ns(&self) -> u64 {
        self.lasts.values().copied().max().unwrap_or(0)
    }

    /// Forgets what calls whose request is certain have shown.
    pub(super) fn forget_late(&mut self) {
        self.served.values_mut().for_each(|served| served.late = Delays::default());
        self.lasts.clear();
    }

    /// Sets the end of each request by what is known now. Returns the ends that come after these events.
    pub(super) fn extend(&self, events: &mut Vec<Event>) -> Vec<Event> {
        let Some(last_ns) = events.last().map(Event::at_ns) else { return Vec::new() };
        events.retain(|event| !matches!(event, Event::Ended(r) if r.until_ns < self.until_ns(r.class, r.end_ns)));
        let mut ended = Vec::new();
        for event in events.iter_mut() {
            let (Event::Read(r) | Event::Answered(r)) = event else { continue };
            let until_ns = self.until_ns(r.class, r.end_ns);
            let goes_on = until_ns > r.until_ns;
            r.until_ns = until_ns.max(r.until_ns);
            if let (true, Event::Answered(r)) = (goes_on, event) {
                ended.push(Event::Ended(*r));
            }
        }
        let later = ended.extract_if(.., |event| event.at_ns() > last_ns).collect();
        if !ended.is_empty() {
            events.append(&mut ended);
            events.sort_by_key(Event::at_ns);
        }
        later
    }

    /// Learns from events in their order, of which `within` has learnt already.
    pub(super) fn learn(&mut self, events: &[Event], within: &Within) {
        for event in events {
            match event {
                Event::Read(r) => self.open.push(*r),
                Event::Answered(r) => self.answer(r),
                Event::Sent(c) => self.call(c),
                Event::Replied(_) | Event::Ended(_) => {}
            }
        }
        self.conclude(within);
    }

    fn answer(&mut self, r: &Request) {
        self.open.retain(|open| open.id != r.id);
        let served = self.served.entry(r.class).or_default();
        served.answers += 1.0;
        served.last_answer_ns = r.end_ns;
        if self.answered.len() >= MAX_ANSWERED {
            self.answered.pop_front();
        }
        self.answered.push_back(*r);
    }

    fn call(&mut self, c: &Call) {
        if let Maker::Known(exchange) = c.maker {
            if let Some(r) = self.answered.iter().rev().find(|r| r.owns(exchange)) {
                self.served.entry(r.class).or_default().late.add(c.end_ns.saturating_sub(r.end_ns));
            }
        }
        self.calls += 1.0;
        let enclosing: Vec<Class> = self.open.iter().filter(|r| r.end_ns >= c.end_ns).map(|r| r.class).collect();
        let calls = self.of_class.entry(c.class).or_default();
        *calls += 1.0;
        if *calls >= MANY {
            self.fade();
        }
        for (class, served) in &mut self.served {
            let has_room = self.pairs.len() < MAX_PAIRS || self.pairs.contains_key(&(c.class, *class));
            let pair = has_room.then(|| self.pairs.entry((c.class, *class)).or_default());
            let is_enclosed = enclosing.contains(class);
            for lie in [Some(&mut served.all), pair].into_iter().flatten() {
                lie.enclosed += f64::from(u8::from(is_enclosed));
                if served.last_answer_ns > 0 {
                    lie.begins.add(c.start_ns.saturating_sub(served.last_answer_ns));
                    lie.ends.add(c.end_ns.saturating_sub(served.last_answer_ns));
                }
            }
        }
    }

    fn fade(&mut self) {
        self.calls /= 2.0;
        self.of_class.values_mut().for_each(|calls| *calls /= 2.0);
        self.pairs.values_mut().for_each(Lie::fade);
        for served in self.served.values_mut() {
            served.answers /= 2.0;
            served.late.fade();
            served.all.fade();
        }
    }

    /// Finds the classes of requests that go on.
    fn conclude(&mut self, within: &Within) {
        let mut lasts: FxHashMap<Class, u64> = FxHashMap::default();
        let mut goes_on = |class: Class, ends: &Delays| {
            let bucket = ends.quantile(ENDED, ends.n).unwrap_or(BUCKETS - 1);
            let ns = (start_of_bucket(bucket + 1) * LONGER).min(LONGEST_NS) as u64;
            let last = lasts.entry(class).or_default();
            *last = (*last).max(ns);
        };
        for (class, served) in &self.served {
            if served.late.n >= (LEAST_RATE * served.answers).max(FEW / 4.0) {
                goes_on(*class, &served.late);
            }
        }
        for (&call, &n) in &self.of_class {
            if n < FEW || within.encloses(call) || self.served.keys().any(|request| self.encloses(*request, call, n)) {
                continue;
            }
            if let Some(request) = self.followed(call, n) {
                goes_on(request, &self.pairs[&(call, request)].ends);
            }
        }
        self.lasts = lasts;
        self.lengthen();
    }

    /// Takes what the times of all events suggest.
    pub(super) fn told(&mut self, lasts: &FxHashMap<Class, u64>) {
        self.told.clone_from(lasts);
        self.lengthen();
    }

    fn lengthen(&mut self) {
        for (class, told) in &self.told {
            let last = self.lasts.entry(*class).or_default();
            *last = (*last).max(*told);
        }
    }

    /// The share of the calls of other classes for which something holds, if it holds for so many of all and of this
    /// class.
    fn chance(&self, of_all: f64, of_class: f64, n: f64) -> f64 {
        (of_all - of_class + 1.0) / (self.calls - n + 2.0)
    }

    /// Whether requests of a class make calls of this class before they answer: they enclose nearly all of them.
    fn encloses(&self, request: Class, call: Class, n: f64) -> bool {
        let (Some(pair), Some(served)) = (self.pairs.get(&(call, request)), self.served.get(&request)) else {
            return false;
        };
        let chance = self.chance(served.all.enclosed, pair.enclosed, n);
        pair.enclosed + 1.0 >= ENCLOSED * n && n * says(pair.enclosed / n, chance) >= TELLING
    }

    /// The class of requests after whose answers calls of this class are made, if that is clear.
    fn followed(&self, call: Class, n: f64) -> Option<Class> {
        let mut follows: Vec<(f64, Class)> =
            self.served.keys().filter_map(|request| Some((self.follows(*request, call, n)?, *request))).collect();
        follows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let &(evidence, request) = follows.first()?;
        let next = follows.get(1).map_or(0.0, |second| second.0);
        let (each, all) = match self.may_only_be_followed(request, n) {
            true => (IDLE_TELLING_EACH, IDLE_TELLING_IN_ALL),
            false => (LEAST_TELLING_EACH, TELLING_IN_ALL),
        };
        let in_all = evidence >= each && n * evidence >= all && evidence >= CLEARER * next;
        (evidence >= TELLING_EACH || in_all).then_some(request)
    }

    /// Whether requests of a class make no calls before they answer, and are as many as `n` calls.
    fn may_only_be_followed(&self, request: Class, n: f64) -> bool {
        let Some(served) = self.served.get(&request) else { return false };
        served.all.enclosed * FEW <= served.answers && n.max(served.answers) <= AS_MANY * n.min(served.answers)
    }

    /// How much each call of this class says for being made after an answer to a request of a class; none if requests
    /// of that class enclose most of these calls, or if the calls are too few for it.
    fn follows(&self, request: Class, call: Class, n: f64) -> Option<f64> {
        let (pair, served) = (self.pairs.get(&(call, request))?, self.served.get(&request)?);
        if pair.enclosed > n / 2.0 || n < LEAST_RATE * served.answers {
            return None;
        }
        let within = pair.begins.quantile(FOLLOWS, n)?;
        let follow = pair.begins.up_to(within);
        let chance = self.chance(served.all.begins.up_to(within), follow, n);
        Some(says(follow / n, chance))
    }
}

#[cfg(test)]
mod tests;
