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
mod tests {
    use super::*;
    use crate::solve::answerers::Actor;
    use wirespan_model::{ExchangeRange, SpanId};

    const MS: u64 = 1_000_000;

    fn request(id: u32, class: Class, start_ns: u64, end_ns: u64) -> Request {
        let exchange = ExchangeRange { first: id.into(), last: id.into() };
        let (span, stream, until_ns) = (SpanId(id.into()), None, end_ns);
        Request {
            id,
            class,
            start_ns,
            end_ns,
            until_ns,
            exchange,
            tid: 1,
            answerer: Actor::of(1, 0),
            stream,
            span,
            is_shared: false,
        }
    }

    fn sent(id: u32, class: Class, start_ns: u64, maker: Maker) -> Event {
        let (end_ns, for_request) = (start_ns + MS, true);
        Event::Sent(Call { id, class, start_ns, end_ns, maker, tid: 1, actor: Actor::of(1, 0), for_request, socket: 1 })
    }

    fn learnt(of: impl Fn(u64) -> Vec<Event>) -> After {
        let mut after = After::default();
        let mut events: Vec<Event> = (1..60).flat_map(of).collect();
        events.sort_by_key(Event::at_ns);
        let mut within = Within::default();
        within.learn(&events);
        after.learn(&events, &within);
        after
    }

    /// A request of class 1 that answers after one millisecond.
    fn short(n: u64) -> [Event; 2] {
        let r = request(n as u32, 1, n * 100 * MS, (n * 100 + 1) * MS);
        [Event::Read(r), Event::Answered(r)]
    }

    #[test]
    fn calls_whose_request_is_certain_tell_how_long_it_goes_on() {
        let after = learnt(|n| {
            let late = sent(1_000 + n as u32, 5, (n * 100 + 20) * MS, Maker::Known(n));
            [short(n).to_vec(), vec![late]].concat()
        });
        let lasts = after.until_ns(1, 0);
        assert!((20 * MS..40 * MS).contains(&lasts), "{lasts}");
        assert_eq!(after.until_ns(2, 7), 7, "nothing is known of another class");
    }

    #[test]
    fn requests_that_enclose_calls_do_not_go_on() {
        let after = learnt(|n| {
            // A second request follows soon, as a user's next one does, and makes the call.
            let next = request(500 + n as u32, 2, (n * 100 + 2) * MS, (n * 100 + 30) * MS);
            let call = sent(1_000 + n as u32, 5, (n * 100 + 3) * MS, Maker::Unknown(None));
            [short(n).to_vec(), vec![Event::Read(next), call, Event::Answered(next)]].concat()
        });
        assert_eq!(after.longest_ns(), 0);
    }

    /// One user. Calls of one class are made by requests of two classes, each time soon after the last answer.
    #[test]
    fn calls_that_requests_of_several_classes_enclose_are_not_late() {
        let after = learnt(|n| {
            let class = (n % 2) as Class + 1;
            let r = request(n as u32, class, n * 100 * MS, (n * 100 + 60) * MS);
            let (both, own) = (n * 100 + 2, n * 100 + 30 + u64::from(class));
            let call = |class, at| sent(1_000 + n as u32, class, at * MS, Maker::Unknown(None));
            vec![Event::Read(r), call(5, both), call(10 + class, own), Event::Answered(r)]
        });
        assert_eq!(after.longest_ns(), 0);
    }

    /// On a busy machine calls come so long after their request's answer that others like it have been answered since:
    /// of 40 calls of class 5 all begin within 16 ms of the last answer, and of 360 others 329.
    #[test]
    fn requests_that_make_no_calls_before_they_answer_may_make_them_later() {
        let goes_on = |answers, enclosed| {
            let mut lie = [Lie::default(), Lie { enclosed, ..Lie::default() }];
            for i in 0..400 {
                let begins_ns = if i < 369 { 8 * MS } else { 90 * MS };
                lie[1].begins.add(begins_ns);
                lie[1].ends.add(begins_ns + MS);
                if i < 40 {
                    lie[0].begins.add(begins_ns);
                    lie[0].ends.add(begins_ns + MS);
                }
            }
            let [own, all] = lie;
            let mut after = After { calls: 400.0, ..After::default() };
            after.of_class.insert(5, 40.0);
            after.pairs.insert((5, 1), own);
            after.served.insert(1, Served { answers, all, ..Served::default() });
            after.conclude(&Within::default());
            after.until_ns(1, 0) > 0
        };
        assert!(goes_on(40.0, 0.0));
        assert!(!goes_on(80.0, 0.0), "twice as many requests");
        assert!(!goes_on(40.0, 30.0), "they make calls before they answer");
    }

    #[test]
    fn ends_are_put_in_their_order_and_those_beyond_are_returned() {
        let after = After { lasts: FxHashMap::from_iter([(1, 5 * MS)]), ..After::default() };
        let mut events = [short(1), short(2)].concat();
        let beyond = after.extend(&mut events);
        let ends = |events: &[Event]| {
            events.iter().filter(|e| matches!(e, Event::Ended(_))).map(Event::at_ns).collect::<Vec<_>>()
        };
        assert_eq!((ends(&events), ends(&beyond)), (vec![106 * MS], vec![206 * MS]));
        assert!(events.is_sorted_by_key(Event::at_ns));
        assert_eq!(after.extend(&mut events), [], "nothing is added twice");
    }
}
