//! What leads to what, by time alone: how many acts of a kind follow on an event of a kind, and after how long.
//!
//! [`super::leads`] asks which of a thread's last reads an act follows. A timer follows none of them, nor does a call
//! that another thread makes, or one that waited for a free connection. But such an act comes after its event as often
//! as the others of its kind, and its delay is like theirs, while acts of other requests come at any time. So each
//! event is taken to lead to acts of each kind at a rate and with delays of its own, and each act to have one reason
//! among the events before it. Rates and delays are found by expectation and maximisation. Whether a request was open
//! does not matter, so that calls after an answer are found as well.
//!
//! The reasons of calls, followed back to a request, are a first guess of all causes: most of it is right, and its
//! mistakes have no order.

mod seen;

use super::delays::{start_of_bucket, Delays};
use super::leads::{Kind, Lead, Leads};
use super::timeline::{Class, Event, Request};
use rustc_hash::{FxHashMap, FxHashSet};
use seen::{Link, Reason, Seen, BUCKETS};

/// Rounds of learning.
const ROUNDS: usize = 12;
/// Acts of a kind that an event leads to before anything is learnt.
const FIRST_RATE: f64 = 0.3;
/// The share of a kind's acts without a reason before anything is learnt, and the fewest of them.
const FIRST_NOTHING: f64 = 0.05;
const LEAST_NOTHING: f64 = 0.1;
/// Delays spread evenly over the buckets count as so many.
const EVEN: f64 = 0.5;
/// Share of the likelihood from which on the request of a call is sure.
const SURE: f64 = 0.8;
/// Calls of a class that requests of a class make after their answer: the share of the requests that do, and of such
/// calls of these requests. Fewer requests than so many say nothing.
const LATE_SHARE_OF_REQUESTS: f64 = 0.15;
const LATE_SHARE: f64 = 0.97;
/// And the share of all calls of these requests: among calls that are made before the answer, those that others made
/// look late.
const MOSTLY_LATE: f64 = 0.6;
const FEW: f64 = 5.0;
/// Each of them has to say so much for being made by such a request: a clock's calls come at any time.
const TELLING_EACH: f64 = 0.5;
/// Until this share of them has begun, and so many times as long, a request goes on: short delays are the surer ones.
const BEGUN: f64 = 0.95;
const LONGER: f64 = 2.0;
/// And a call longer, than which this share is shorter: the next one may wait for it.
const LONG_CALL: f64 = 0.9;
/// Longest time for which a request goes on, ns.
const LONGEST_NS: f64 = 5e9;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Timed {
    pub(super) leads: Leads,
    /// The request of each call whose reason leads to one.
    pub(super) makers: FxHashMap<u32, u32>,
    /// How long requests of a class go on after their answer, ns.
    pub(super) lasts: FxHashMap<Class, u64>,
}

impl Timed {
    pub(super) fn learn(events: &[Event]) -> Timed {
        let seen = Seen::of(events);
        let rates = Rates::learn(&seen);
        let leads = seen.pairs.iter().zip(&rates.of_pair).filter_map(|((reason, kind), rate)| match reason {
            Reason::Led(lead) => Some((*lead, *kind, *rate)),
            Reason::Freed(_) => None,
        });
        let found = makers(&seen, &rates);
        Timed {
            leads: Leads::of(leads),
            lasts: lasts(events, &found),
            makers: found.into_iter().map(|(call, made)| (call, made.request)).collect(),
        }
    }
}

/// The likeliest request of a call.
#[derive(Clone, Copy, Debug)]
struct Made {
    request: u32,
    /// Its share of the likelihood.
    share: f64,
    /// ln of how much likelier the call is at this time than at any other.
    says: f64,
}

/// How often, and after how long, events of a kind lead to acts of a kind.
#[derive(Debug)]
struct Rates {
    of_pair: Vec<f64>,
    /// By pair: density of delays per nanosecond, a bucket each.
    delays: Vec<[f32; BUCKETS]>,
    /// Acts of a kind that nothing leads to, per nanosecond.
    nothing: FxHashMap<Kind, f64>,
    /// By pair: the acts from which this was learnt, in all and a bucket each.
    counts: Vec<(f64, [f32; BUCKETS])>,
}

impl Rates {
    fn learn(seen: &Seen) -> Rates {
        let widths: [f64; BUCKETS] = std::array::from_fn(|b| start_of_bucket(b + 1) - start_of_bucket(b));
        let even = widths.map(|width| (1.0 / BUCKETS as f64 / width) as f32);
        let time = seen.time_ns.max(1) as f64;
        let mut of_kind: FxHashMap<Kind, f64> = FxHashMap::default();
        seen.acts.iter().for_each(|act| *of_kind.entry(act.kind).or_default() += 1.0);
        let nothing = of_kind.iter().map(|(kind, n)| (*kind, FIRST_NOTHING * n / time)).collect();
        let pairs = seen.pairs.len();
        let (of_pair, delays, counts) = (vec![FIRST_RATE; pairs], vec![even; pairs], Vec::new());
        let mut rates = Rates { of_pair, delays, nothing, counts };
        for _ in 0..ROUNDS {
            let mut counts = vec![[0.0_f32; BUCKETS]; pairs];
            let mut none: FxHashMap<Kind, f64> = FxHashMap::default();
            for act in &seen.acts {
                let nothing = rates.nothing(act.kind);
                let all = nothing + seen.links(act).iter().map(|link| rates.density(link)).sum::<f64>();
                for link in seen.links(act) {
                    counts[link.pair as usize][usize::from(link.bucket)] += (rates.density(link) / all) as f32;
                }
                *none.entry(act.kind).or_default() += nothing / all;
            }
            let with_sum = |counts: [f32; BUCKETS]| (counts.iter().map(|count| f64::from(*count)).sum(), counts);
            rates.counts = counts.into_iter().map(with_sum).collect();
            for (n, ((reason, _), &(all, counts))) in seen.pairs.iter().zip(&rates.counts).enumerate() {
                let share = |count: f32| (f64::from(count) + EVEN / BUCKETS as f64) / (all + EVEN);
                rates.of_pair[n] = all / seen.times.get(reason).copied().unwrap_or(1.0);
                rates.delays[n] = std::array::from_fn(|b| (share(counts[b]) / widths[b]) as f32);
            }
            rates.nothing = none.into_iter().map(|(kind, n)| (kind, n.max(LEAST_NOTHING) / time)).collect();
        }
        rates
    }

    /// How likely this is the reason, per nanosecond.
    fn density(&self, link: &Link) -> f64 {
        let pair = link.pair as usize;
        self.of_pair[pair] * f64::from(self.delays[pair][usize::from(link.bucket)])
    }

    /// The same by all other acts: what was learnt from one act says nothing of it. `share`: that of this reason.
    fn density_by_others(&self, link: &Link, share: f64) -> f64 {
        let (pair, bucket) = (link.pair as usize, usize::from(link.bucket));
        let Some(&(all, counts)) = self.counts.get(pair) else { return 0.0 };
        let of = |n: f64, all: f64| (n + EVEN / BUCKETS as f64) / (all + EVEN) * all;
        let n = f64::from(counts[bucket]);
        let [others, with] = [of((n - share).max(0.0), (all - share).max(0.0)), of(n, all)];
        self.density(link) * others / with.max(f64::MIN_POSITIVE)
    }

    /// How likely there is none, per nanosecond.
    fn nothing(&self, kind: Kind) -> f64 {
        self.nothing.get(&kind).copied().unwrap_or_default()
    }
}

/// The likeliest request of each call that has one.
fn makers(seen: &Seen, rates: &Rates) -> FxHashMap<u32, Made> {
    let mut makers: FxHashMap<u32, Made> = FxHashMap::default();
    let at_any_time = at_any_time(seen);
    for act in &seen.acts {
        let Some(call) = act.call else { continue };
        // Of no request: 0.
        let mut shares: FxHashMap<u32, f64> = FxHashMap::from_iter([(0, rates.nothing(act.kind))]);
        for link in seen.links(act) {
            let source = &seen.sources[link.source as usize];
            let request = match (seen.pairs[link.pair as usize].0, source.lead) {
                (Reason::Freed(_), _) => None,
                (_, Lead::Read(_)) => Some(source.id),
                (_, Lead::Replied(_)) => source.owner.or_else(|| makers.get(&source.id).map(|made| made.request)),
            };
            *shares.entry(request.unwrap_or(0)).or_default() += rates.density(link);
        }
        let all = shares.values().sum::<f64>().max(f64::MIN_POSITIVE);
        let at_any_time = at_any_time.get(&act.kind).copied().unwrap_or(f64::INFINITY);
        let likelier = |a: &(u32, f64), b: &(u32, f64)| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0));
        if let Some((request, share)) = shares.into_iter().max_by(likelier).filter(|(request, _)| *request != 0) {
            let by_others = |link: &Link| rates.density_by_others(link, rates.density(link) / all);
            let known = rates.nothing(act.kind) + seen.links(act).iter().map(by_others).sum::<f64>();
            makers.insert(call, Made { request, share: share / all, says: (known / at_any_time).ln() });
        }
    }
    makers
}

/// Acts of each kind per nanosecond, from the first of them to the last.
fn at_any_time(seen: &Seen) -> FxHashMap<Kind, f64> {
    let mut times: FxHashMap<Kind, (f64, u64, u64)> = FxHashMap::default();
    for act in &seen.acts {
        let (n, _, last_ns) = times.entry(act.kind).or_insert((0.0, act.at_ns, 0));
        (*n, *last_ns) = (*n + 1.0, act.at_ns);
    }
    let rate = |(kind, (n, first_ns, last_ns)): (Kind, (f64, u64, u64))| (kind, n / (last_ns - first_ns).max(1) as f64);
    times.into_iter().map(rate).collect()
}

/// Calls of a class that requests of a class make.
#[derive(Debug, Default)]
struct Late {
    calls: f64,
    /// From the answer to the begin of those after it. A call may end after its request.
    begins: Delays,
    /// What these say for being made by such requests.
    says: f64,
    /// The requests that have made them. Calls that follow each other for ever all lead back to a few.
    requests: FxHashSet<u32>,
}

/// How long requests of each class go on after their answer, by calls of which the request is sure.
fn lasts(events: &[Event], makers: &FxHashMap<u32, Made>) -> FxHashMap<Class, u64> {
    let requests: FxHashMap<u32, &Request> =
        events.iter().filter_map(|event| if let Event::Read(r) = event { Some((r.id, r)) } else { None }).collect();
    let mut answers: FxHashMap<Class, f64> = FxHashMap::default();
    requests.values().for_each(|r| *answers.entry(r.class).or_default() += 1.0);
    let (mut late, mut durations) = (FxHashMap::<(Class, Class), Late>::default(), Delays::default());
    for event in events {
        let Event::Sent(c) = event else { continue };
        durations.add(c.end_ns.saturating_sub(c.start_ns));
        let Some(made) = makers.get(&c.id).filter(|made| made.share >= SURE) else { continue };
        let Some(r) = requests.get(&made.request) else { continue };
        let late = late.entry((r.class, c.class)).or_default();
        late.calls += 1.0;
        if c.start_ns >= r.end_ns {
            late.begins.add(c.start_ns - r.end_ns);
            late.says += made.says;
            late.requests.insert(r.id);
        }
    }
    let mut mostly: FxHashMap<Class, [f64; 2]> = FxHashMap::default();
    for ((request, _), late) in &late {
        let [after, all] = mostly.entry(*request).or_default();
        (*after, *all) = (*after + late.begins.n, *all + late.calls);
    }
    let call_ns = durations.quantile(LONG_CALL, durations.n).map_or(0.0, |bucket| start_of_bucket(bucket + 1));
    let mut lasts: FxHashMap<Class, u64> = FxHashMap::default();
    for ((request, _), Late { calls, begins, says, requests }) in late {
        let least = (LATE_SHARE_OF_REQUESTS * answers.get(&request).copied().unwrap_or_default()).max(FEW);
        let are_few = (requests.len() as f64) < least || begins.n < LATE_SHARE * calls;
        let [after, all] = mostly.get(&request).copied().unwrap_or_default();
        if are_few || after < MOSTLY_LATE * all || says < TELLING_EACH * begins.n {
            continue;
        }
        let Some(bucket) = begins.quantile(BEGUN, begins.n) else { continue };
        let last = lasts.entry(request).or_default();
        let begun_ns = LONGER * start_of_bucket(bucket + 1) + call_ns;
        *last = (*last).max(begun_ns.min(LONGEST_NS) as u64);
    }
    lasts
}

#[cfg(test)]
mod tests;
