//! The events of a process in order of time: requests read and answered, calls sent and answered.

use super::after::After;
use super::answerers::{answerer, Actor};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hash;
use wirespan_model::event::{by_message, exchange_socket, PROVISIONAL};
use wirespan_model::net::Endpoint;
use wirespan_model::{ExchangeRange, Span, SpanId};

/// Class of a request or of a call: all that have the same structure. 0 is "any other".
pub(super) type Class = u16;

/// Most classes of a kind.
const MAX_CLASSES: usize = 127;
/// Most connections that are remembered.
const MAX_SERVED: usize = 65_536;

/// A request that the process served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) id: u32,
    pub(super) class: Class,
    pub(super) start_ns: u64,
    /// When the last of its answer had left: a streamed answer leaves while its request makes calls.
    pub(super) end_ns: u64,
    /// When it has ended: with its answer, or later, if it makes calls after it.
    pub(super) until_ns: u64,
    pub(super) exchange: ExchangeRange,
    /// The thread that read it.
    pub(super) tid: u32,
    pub(super) answerer: Actor,
    /// A name that no other request has, if others may have the same exchange.
    pub(super) stream: Option<u64>,
    pub(super) span: SpanId,
    /// Other requests may have the same exchange: requests of one connection that were read in one call.
    pub(super) is_shared: bool,
}

/// A name of a request that no other has, if others may have the same exchange: by its stream, or as a message of one
/// call that brought several.
pub(super) fn own_name(span: &Span) -> Option<u64> {
    let message = || Some(by_message(span.exchange?.first, span.id.0, span.message_id?));
    span.stream_exchange().or_else(message)
}

impl Request {
    pub(super) fn owns(&self, exchange: u64) -> bool {
        self.exchange.contains(exchange) || self.stream == Some(exchange)
    }
}

/// What is known about the request that made a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// The request that owns this exchange, for certain.
    Known(u64),
    /// Any of the requests; the kernel may have a guess.
    Unknown(Option<Hint>),
    /// The request that owns this exchange, by a claim of the kernel whose kind is on trial in this process.
    Claimed(u64),
    /// One of the requests that own this exchange, for certain.
    OneOf(u64),
    /// Unknown, and not asked for.
    Other,
}

/// The kernel's opinion on the request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    pub(super) exchange: u64,
    pub(super) opinion: Opinion,
}

/// Why the kernel names a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opinion {
    /// It does not know, and guesses.
    Guess = 0,
    /// A hand-over; the trial of such claims failed.
    HandOver = 1,
    /// The request was the first that the thread read in this turn of its event loop.
    FirstOfTurn = 2,
    /// The request opened the connection; another one may have been the first to use it.
    Opener = 3,
}

pub(super) const OPINIONS: usize = 4;

/// A call that the process made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) id: u32,
    pub(super) class: Class,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) maker: Maker,
    /// The thread that sent it, and the actor.
    pub(super) tid: u32,
    pub(super) actor: Actor,
    /// The kernel knows that the call was made for some request.
    pub(super) for_request: bool,
    /// Cookie of its connection.
    pub(super) socket: u64,
    /// The called server: calls of it may wait for the same free connections.
    pub(super) peer: u16,
}

/// An event; the variants stand in the order of events that have the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    Read(Request),
    Replied(Call),
    Sent(Call),
    Answered(Request),
    /// Nothing more comes of a request that went on after its answer.
    Ended(Request),
}

impl Event {
    fn order(&self) -> u8 {
        match self {
            Event::Read(_) => 0,
            Event::Replied(_) => 1,
            Event::Sent(_) => 2,
            Event::Answered(_) => 3,
            Event::Ended(_) => 4,
        }
    }

    fn id(&self) -> u32 {
        match self {
            Event::Read(r) | Event::Answered(r) | Event::Ended(r) => r.id,
            Event::Sent(c) | Event::Replied(c) => c.id,
        }
    }

    pub(super) fn at_ns(&self) -> u64 {
        match self {
            Event::Read(r) => r.start_ns,
            Event::Answered(r) => r.end_ns,
            Event::Sent(c) => c.start_ns,
            Event::Replied(c) => c.end_ns,
            Event::Ended(r) => r.until_ns,
        }
    }
}

/// An event, and the stream position of its first byte: it orders events that came by one system call.
#[derive(Debug, PartialEq)]
struct Due(Event, u32);

impl Eq for Due {}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |d: &Due| (d.0.at_ns(), d.0.order(), d.1, d.0.id());
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Events that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    due: BinaryHeap<Reverse<Due>>,
    /// Events before this time were taken.
    taken_to: u64,
    next: u32,
    classes: [FxHashMap<u64, Class>; 2],
    /// Called servers.
    peers: FxHashMap<Endpoint, u16>,
    /// Connections on which requests came.
    served: FxHashSet<u64>,
}

impl Timeline {
    /// Adds a request. `after` knows how long it goes on after its answer.
    pub(super) fn request(&mut self, span: &Span, signature: u64, after: &After) {
        let Some(exchange) = span.exchange else { return };
        if self.served.len() >= MAX_SERVED {
            self.served.clear();
        }
        self.served.insert(exchange_socket(exchange.first));
        self.next = self.next.wrapping_add(1);
        let class = number(&mut self.classes[0], signature);
        let end_ns = span.end_ns.max(span.start_ns);
        let stream = own_name(span);
        let r = Request {
            id: self.next,
            class,
            start_ns: span.start_ns,
            end_ns,
            until_ns: after.until_ns(class, end_ns),
            exchange,
            tid: span.tid,
            answerer: answerer(span),
            stream,
            span: span.id,
            is_shared: span.message_id.is_some(),
        };
        // A request that is slower than any before comes after events since its start were solved. What follows can
        // still be its.
        if r.end_ns < self.taken_to {
            return;
        }
        self.push([Event::Read(r), Event::Answered(r)], span);
        if r.until_ns > r.end_ns {
            self.add_end(Event::Ended(r));
        }
    }

    /// Adds the end of a request that goes on after its answer.
    pub(super) fn add_end(&mut self, ended: Event) {
        self.due.push(Reverse(Due(ended, 0)));
    }

    /// Whether requests have come on the connection of this exchange.
    pub(super) fn has_served(&self, exchange: u64) -> bool {
        self.served.contains(&exchange_socket(exchange & !PROVISIONAL))
    }

    /// Adds a call and returns its number; `None` if it came too late.
    pub(super) fn call(&mut self, span: &Span, signature: u64, maker: Maker) -> Option<u32> {
        self.next = self.next.wrapping_add(1);
        let class = number(&mut self.classes[1], signature);
        let end_ns = span.end_ns.max(span.start_ns);
        let for_request = span.cause_evidence.is_some();
        let (id, start_ns, tid, socket) = (self.next, span.start_ns, span.tid, span.socket);
        let actor = Actor::of(span.tid, span.coroutine);
        let peer = number(&mut self.peers, span.tuple.server);
        let c = Call { id, class, start_ns, end_ns, maker, tid, actor, for_request, socket, peer };
        if c.start_ns < self.taken_to {
            return None;
        }
        self.push([Event::Sent(c), Event::Replied(c)], span);
        Some(c.id)
    }

    fn push(&mut self, [begin, end]: [Event; 2], span: &Span) {
        self.due.push(Reverse(Due(begin, span.request_seq.unwrap_or(0))));
        self.due.push(Reverse(Due(end, span.response_seq.unwrap_or(0))));
    }

    /// Takes the first events up to a time, `most` of them.
    pub(super) fn take(&mut self, until_ns: u64, most: usize) -> Vec<Event> {
        let mut taken = Vec::new();
        while taken.len() < most && self.due.peek().is_some_and(|Reverse(due)| due.0.at_ns() <= until_ns) {
            taken.extend(self.due.pop().map(|Reverse(due)| due.0));
        }
        let to = if taken.len() < most { until_ns } else { taken.last().map_or(0, Event::at_ns) };
        self.taken_to = self.taken_to.max(to);
        taken
    }

    /// About how many more slices like this one are due up to a time.
    pub(super) fn slices_left(&self, slice: &[Event], until_ns: u64) -> usize {
        let (Some(first), Some(last)) = (slice.first(), slice.last()) else { return 0 };
        let (first, last) = (first.at_ns(), last.at_ns());
        match until_ns {
            u64::MAX => self.len() / slice.len(),
            until => (until.saturating_sub(last) / (last - first).max(1)) as usize,
        }
    }

    /// Time of the first event that was not taken yet.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse(due)| due.0.at_ns())
    }

    /// Number of events up to a time that were not taken yet.
    pub(super) fn due(&self, until_ns: u64) -> usize {
        self.due.iter().filter(|Reverse(due)| due.0.at_ns() <= until_ns).count()
    }

    /// Number of events that were not taken yet.
    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

/// The number of a kind of things; 0 if there are too many kinds.
fn number<K: Eq + Hash>(known: &mut FxHashMap<K, u16>, key: K) -> u16 {
    let next = known.len() + 1;
    match known.get(&key) {
        Some(number) => *number,
        None if next > MAX_CLASSES => 0,
        None => *known.entry(key).or_insert(next as u16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::ExchangeRange;

    #[test]
    fn messages_that_came_with_one_call_have_names_of_their_own() {
        let message = |id: u64, tag: Option<u64>| Span {
            id: SpanId(id),
            exchange: Some(ExchangeRange { first: 7 << 24 | 1, last: 7 << 24 | 1 }),
            message_id: tag,
            ..Span::default()
        };
        let name = |id, tag| own_name(&message(id, tag));
        assert!(name(1, Some(1)).is_some() && name(1, Some(1)) != name(2, Some(2)));
        // Tags of two channels may be the same.
        assert_ne!(name(1, Some(1)), name(2, Some(1)));
        assert_eq!(name(1, None), None);
    }
}
