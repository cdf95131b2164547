//! What leads to what: which acts follow on which kinds of events, found without any hypothesis.
//!
//! A thread reads something, and acts upon it: at once, or a little later, where a driver gathers what it sends. Each
//! act was led to by one of the last reads, or by none of them (it had waited in a queue). How many acts of a kind an
//! event of a kind leads to is learnt by expectation and maximisation, as words of two languages are aligned: an act
//! that has one possible reason teaches what the reasons of others are.
//!
//! A call on the connection on which the thread has just read another call's answer may owe nothing to that answer but
//! the connection: a pool has handed it on. So this is a reason of its own, [`Reason::Freed`].

use super::chain::Act;
use super::timeline::{Call, Class, Event};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Rounds of learning.
const ROUNDS: usize = 40;
/// Acts of a kind that each reason leads to before anything is learnt; nothing leads to few.
const FIRST_RATE: f64 = 0.5;
const FIRST_NOTHING: f64 = 0.05;
/// Activations of a thread before the present one in which the reason of an act is sought, and most events of a thread.
const BEFORE: u32 = 2;
const MAX_EVENTS: usize = 64;

/// An event that may lead to acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lead {
    Read(Class),
    Replied(Class),
}

/// What may have led to an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reason {
    AtOnce(Lead),
    /// The thread has done something else since.
    Later(Lead),
    /// A connection for calls of this class became free.
    Freed(Class),
    Nothing,
}

/// An act, with the class of the request that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Call(Class),
    Answer(Class),
}

impl Kind {
    pub(super) fn of(act: Act, request: Class) -> Kind {
        match act {
            Act::Call(class) => Kind::Call(class),
            Act::Answer => Kind::Answer(request),
        }
    }
}

/// How many acts of each kind an event leads to.
#[derive(Debug, Default)]
pub(super) struct Leads(FxHashMap<Lead, FxHashMap<Kind, f64>>);

impl Leads {
    pub(super) fn learn(events: &[Event]) -> Leads {
        let seen = Seen::of(events);
        let mut leads = Leads::default();
        for ((reason, kind), rate) in seen.rates() {
            if let Reason::AtOnce(lead) | Reason::Later(lead) = reason {
                *leads.0.entry(lead).or_default().entry(kind).or_default() += rate;
            }
        }
        leads
    }

    pub(super) fn of(rates: impl IntoIterator<Item = (Lead, Kind, f64)>) -> Leads {
        let mut leads = Leads::default();
        for (lead, kind, rate) in rates {
            leads.0.entry(lead).or_default().insert(kind, rate);
        }
        leads
    }

    pub(super) fn rate(&self, lead: Lead, kind: Kind) -> f64 {
        self.0.get(&lead).and_then(|rates| rates.get(&kind)).copied().unwrap_or_default()
    }

    pub(super) fn rates(&self, lead: Lead) -> impl Iterator<Item = (Kind, f64)> + '_ {
        self.0.get(&lead).into_iter().flatten().map(|(kind, rate)| (*kind, *rate))
    }
}

/// Something that a thread has read.
#[derive(Clone, Copy, Debug)]
struct Source {
    lead: Lead,
    /// Of the request or the call.
    id: u32,
    /// The connection of a reply, if it carries one call at a time.
    freed: Option<u64>,
    activation: u32,
    event: usize,
}

/// What a thread has read last.
#[derive(Debug, Default)]
struct Thread {
    activation: u32,
    has_acted: bool,
    sources: VecDeque<Source>,
}

/// The acts with what may have led to them, and how often each reason was there.
#[derive(Debug, Default)]
struct Seen {
    acts: Vec<(Kind, Vec<Reason>)>,
    times: FxHashMap<Reason, f64>,
}

impl Seen {
    fn of(events: &[Event]) -> Seen {
        let shared = multiplexed(events);
        let mut seen = Seen::default();
        let mut threads: FxHashMap<u32, Thread> = FxHashMap::default();
        // Of connections that carry several calls at a time: the last two writes.
        let mut writes: FxHashMap<u64, [(usize, u64); 2]> = FxHashMap::default();
        for (event, what) in events.iter().enumerate() {
            match *what {
                Event::Read(r) => {
                    let source = Source { lead: Lead::Read(r.class), id: r.id, freed: None, activation: 0, event };
                    seen.reads(threads.entry(r.tid).or_default(), source);
                }
                Event::Replied(c) => {
                    let freed = (!shared.contains(&c.socket)).then_some(c.socket);
                    let source = Source { lead: Lead::Replied(c.class), id: c.id, freed, activation: 0, event };
                    seen.reads(threads.entry(c.tid).or_default(), source);
                }
                Event::Sent(c) => {
                    let since = shared.contains(&c.socket).then(|| written(&mut writes, &c, event));
                    seen.acts(threads.entry(c.tid).or_default(), Kind::Call(c.class), c.socket, 0, since);
                }
                Event::Answered(r) => {
                    seen.acts(threads.entry(r.tid).or_default(), Kind::Answer(r.class), 0, r.id, None);
                }
                Event::Ended(_) => {}
            }
        }
        seen
    }

    fn reads(&mut self, thread: &mut Thread, source: Source) {
        if std::mem::take(&mut thread.has_acted) {
            thread.activation += 1;
        }
        if thread.sources.len() >= MAX_EVENTS {
            thread.sources.pop_front();
        }
        thread.sources.push_back(Source { activation: thread.activation, ..source });
        for reason in [Reason::AtOnce(source.lead), Reason::Later(source.lead)] {
            *self.times.entry(reason).or_default() += 1.0;
        }
        if let (Lead::Replied(class), Some(_)) = (source.lead, source.freed) {
            *self.times.entry(Reason::Freed(class)).or_default() += 1.0;
        }
    }

    /// `since`: the first event after what was written before on the connection.
    fn acts(&mut self, thread: &mut Thread, kind: Kind, socket: u64, request: u32, since: Option<usize>) {
        thread.has_acted = true;
        let mut reasons = Vec::new();
        for source in &thread.sources {
            let age = thread.activation - source.activation;
            if since.map_or(age > BEFORE, |since| source.event < since) {
                continue;
            }
            match (source.lead, kind) {
                // A request answers itself.
                (Lead::Read(_), Kind::Answer(_)) if source.id != request => continue,
                (Lead::Replied(class), Kind::Call(_)) if age == 0 && source.freed == Some(socket) => {
                    reasons.push(Reason::Freed(class));
                }
                _ => {}
            }
            reasons.push(if age == 0 && since.is_none() {
                Reason::AtOnce(source.lead)
            } else {
                Reason::Later(source.lead)
            });
        }
        reasons.push(Reason::Nothing);
        *self.times.entry(Reason::Nothing).or_default() += 1.0;
        self.acts.push((kind, reasons));
    }

    /// How many acts of each kind a reason leads to.
    fn rates(&self) -> impl Iterator<Item = ((Reason, Kind), f64)> {
        // Each pair has a number, so that the rounds look nothing up.
        let mut numbers: FxHashMap<(Reason, Kind), usize> = FxHashMap::default();
        let mut number = |reason: &Reason, kind: Kind| {
            let next = numbers.len();
            *numbers.entry((*reason, kind)).or_insert(next)
        };
        let acts: Vec<Vec<usize>> =
            self.acts.iter().map(|(kind, reasons)| reasons.iter().map(|r| number(r, *kind)).collect()).collect();
        let mut pairs: Vec<((Reason, Kind), usize)> = numbers.into_iter().collect();
        pairs.sort_unstable_by_key(|(_, number)| *number);
        let first = |reason| if reason == Reason::Nothing { FIRST_NOTHING } else { FIRST_RATE };
        let mut rates: Vec<f64> = pairs.iter().map(|((reason, _), _)| first(*reason)).collect();
        for _ in 0..ROUNDS {
            let mut sums = vec![0.0; rates.len()];
            for pairs in &acts {
                let all: f64 = pairs.iter().map(|pair| rates[*pair]).sum();
                pairs.iter().for_each(|pair| sums[*pair] += rates[*pair] / all.max(1e-12));
            }
            rates = sums.into_iter().zip(&pairs).map(|(sum, ((reason, _), _))| sum / self.times[reason]).collect();
        }
        pairs.into_iter().map(|(pair, _)| pair).zip(rates)
    }
}

/// The first event after the last write on a connection, before this one.
fn written(writes: &mut FxHashMap<u64, [(usize, u64); 2]>, c: &Call, event: usize) -> usize {
    let [last, before] = writes.entry(c.socket).or_default();
    if last.1 != c.start_ns {
        (*before, *last) = (*last, (event, c.start_ns));
    }
    before.0
}

/// Connections on which a call was sent while another one waited for its answer.
fn multiplexed(events: &[Event]) -> FxHashSet<u64> {
    let mut free_ns: FxHashMap<u64, u64> = FxHashMap::default();
    let mut shared = FxHashSet::default();
    for event in events {
        let Event::Sent(c) = event else { continue };
        let free = free_ns.entry(c.socket).or_default();
        if *free > c.start_ns {
            shared.insert(c.socket);
        }
        *free = (*free).max(c.end_ns);
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::testing::{call, request};

    const GET: Class = 1;
    const SELECT: Class = 2;
    const PAGE: Class = 1;
    const LIST: Class = 2;

    /// Two requests at a time, of random classes. Pages ask the cache on one connection for all, which gathers what it
    /// sends; lists ask the database at once, each on a connection of its own.
    fn events() -> Vec<Event> {
        let (mut events, mut random) = (Vec::new(), 1_u32);
        for turn in 0..200_u32 {
            let at = u64::from(turn) * 1_000;
            for i in 0..2_u32 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let class = if random >> 31 == 0 { PAGE } else { LIST };
                let (id, read, replied) = (turn * 4 + i + 1, at + 10 * u64::from(i), at + 300 + 20 * u64::from(i));
                let (call_class, socket, sent) =
                    if class == PAGE { (GET, 7, at + 100) } else { (SELECT, 100 + u64::from(id), read + 1) };
                let r = request(id, class, (read, replied + 1));
                let c = Call { socket, ..call(id + 10_000, call_class, (sent, replied)) };
                events.extend([Event::Read(r), Event::Sent(c), Event::Replied(c), Event::Answered(r)]);
            }
        }
        events.sort_by_key(Event::at_ns);
        events
    }

    #[test]
    fn each_read_leads_to_its_call_at_once_or_gathered() {
        let leads = Leads::learn(&events());
        assert!(leads.rate(Lead::Read(LIST), Kind::Call(SELECT)) > 0.85);
        assert!(leads.rate(Lead::Read(PAGE), Kind::Call(GET)) > 0.85);
        assert!(leads.rate(Lead::Read(LIST), Kind::Call(GET)) < 0.1);
        assert!(leads.rate(Lead::Read(PAGE), Kind::Call(SELECT)) < 0.1);
    }

    #[test]
    fn replies_lead_to_answers_of_their_class() {
        // As few requests are open, the read of each request explains its answer as well.
        let leads = Leads::learn(&events());
        assert!(leads.rate(Lead::Replied(GET), Kind::Answer(PAGE)) > 0.45);
        assert!(leads.rate(Lead::Replied(SELECT), Kind::Answer(LIST)) > 0.45);
        assert!(leads.rate(Lead::Replied(SELECT), Kind::Answer(PAGE)) < 0.1);
    }
}
