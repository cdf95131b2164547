//! The acts of a process, and the events before each that may have led to it.

use crate::solve::delays::bucket;
use crate::solve::leads::{Kind, Lead};
use crate::solve::timeline::{Class, Event, Maker, Request};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Events before an act that may have led to it, at most, and for how long.
const MOST_BEFORE: usize = 256;
const LONGEST_NS: u64 = 1_000_000_000;
/// Delays that are longer are not told apart.
pub(super) const BUCKETS: usize = 42;
/// Most pairs of an event and an act.
const MOST_PAIRS: usize = 16_384;

/// An event that may lead to acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reason {
    Led(Lead),
    /// A connection for calls of this class became free.
    Freed(Class),
}

/// An event before an act.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) lead: Lead,
    /// Of the request or the call.
    pub(super) id: u32,
    at_ns: u64,
    /// Its request, if that is certain.
    pub(super) owner: Option<u32>,
}

/// One possible reason of an act.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Index in [`Seen::pairs`].
    pub(super) pair: u32,
    /// Of the delay.
    pub(super) bucket: u8,
    /// Index in [`Seen::sources`].
    pub(super) source: u32,
}

#[derive(Debug)]
pub(super) struct Act {
    pub(super) kind: Kind,
    /// `None`: an answer.
    pub(super) call: Option<u32>,
    pub(super) at_ns: u64,
    links: Range<usize>,
}

/// What is certain of an act.
#[derive(Clone, Copy)]
struct Known {
    /// Its request.
    owner: Option<u32>,
    /// The call whose reply freed its connection.
    freed: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) sources: Vec<Source>,
    pub(super) acts: Vec<Act>,
    links: Vec<Link>,
    pub(super) pairs: Vec<(Reason, Kind)>,
    numbers: FxHashMap<(Reason, Kind), u32>,
    /// How often each reason was there.
    pub(super) times: FxHashMap<Reason, f64>,
    /// From the first event to the last.
    pub(super) time_ns: u64,
}

impl Seen {
    pub(super) fn of(events: &[Event]) -> Seen {
        let mut seen = Seen::default();
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            seen.time_ns = last.at_ns().saturating_sub(first.at_ns());
        }
        let mut requests: Vec<Request> = Vec::new();
        // The last reply on each connection that carried nothing since.
        let mut free: FxHashMap<u64, u32> = FxHashMap::default();
        for event in events {
            match *event {
                Event::Read(r) => {
                    requests.push(r);
                    seen.add(Source { lead: Lead::Read(r.class), id: r.id, at_ns: r.start_ns, owner: Some(r.id) });
                }
                Event::Replied(c) => {
                    let owner = owner(&requests, c.maker);
                    free.insert(c.socket, c.id);
                    *seen.times.entry(Reason::Freed(c.class)).or_default() += 1.0;
                    seen.add(Source { lead: Lead::Replied(c.class), id: c.id, at_ns: c.end_ns, owner });
                }
                Event::Sent(c) => {
                    let known = Known { owner: owner(&requests, c.maker), freed: free.remove(&c.socket) };
                    seen.act(Kind::Call(c.class), Some(c.id), c.start_ns, known);
                }
                Event::Answered(r) => {
                    seen.act(Kind::Answer(r.class), None, r.end_ns, Known { owner: Some(r.id), freed: None });
                }
                Event::Ended(_) => {}
            }
        }
        seen
    }

    pub(super) fn links(&self, act: &Act) -> &[Link] {
        self.links.get(act.links.clone()).unwrap_or_default()
    }

    fn add(&mut self, source: Source) {
        *self.times.entry(Reason::Led(source.lead)).or_default() += 1.0;
        self.sources.push(source);
    }

    fn act(&mut self, kind: Kind, call: Option<u32>, at_ns: u64, known: Known) {
        let first = self.links.len();
        let from = self.sources.len().saturating_sub(MOST_BEFORE);
        for n in (from..self.sources.len()).rev() {
            let source = self.sources[n];
            let delay_ns = at_ns.saturating_sub(source.at_ns);
            if delay_ns > LONGEST_NS {
                break;
            }
            // What is certain of either must agree.
            if source.owner.zip(known.owner).is_some_and(|(one, other)| one != other) {
                continue;
            }
            let freed = match source.lead {
                Lead::Replied(class) if known.freed == Some(source.id) => Some(Reason::Freed(class)),
                _ => None,
            };
            let bucket = bucket(delay_ns).min(BUCKETS - 1) as u8;
            for reason in [Some(Reason::Led(source.lead)), freed].into_iter().flatten() {
                if let Some(pair) = self.pair(reason, kind) {
                    self.links.push(Link { pair, bucket, source: n as u32 });
                }
            }
        }
        self.acts.push(Act { kind, call, at_ns, links: first..self.links.len() });
    }

    /// The number of a pair; `None` if there are too many.
    fn pair(&mut self, reason: Reason, kind: Kind) -> Option<u32> {
        let next = self.pairs.len();
        if let Some(pair) = self.numbers.get(&(reason, kind)) {
            return Some(*pair);
        }
        if next >= MOST_PAIRS {
            return None;
        }
        self.numbers.insert((reason, kind), next as u32);
        self.pairs.push((reason, kind));
        Some(next as u32)
    }
}

/// The request of a call of which it is certain.
fn owner(requests: &[Request], maker: Maker) -> Option<u32> {
    let Maker::Known(exchange) = maker else { return None };
    requests.iter().rev().take(MOST_BEFORE).find(|r| r.owns(exchange)).map(|r| r.id)
}
