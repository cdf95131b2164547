//! Messages that a loop publishes for several requests with one write, each given to its own request.
//!
//! A driver of RabbitMQ on an event loop gathers what the handlers of a turn publish, and writes it when they are done,
//! often after their answers. Nothing is answered to a publication, and the kernel knows one request for all of the
//! write: the one that was read last. But the messages stand in the order in which the requests were read, and what is
//! published after a request was read is for no request of an earlier turn ([`align`](super::align)). Where handlers
//! publish in another order, as they wait for something first, the alignment explains little, and the connection is
//! left to the solver.

use super::align::{evidence, Align, Call, Given, Mark, Unit};
use super::calibration::SUREST;
use super::signature::Signatures;
use super::{Named, Verdict};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use wirespan_model::event::exchange_socket;
use wirespan_model::{Evidence, ExchangeRange, Span, SpanId, SpanKind, Status};

/// Most connections on which messages are published.
const MAX_CONNECTIONS: usize = 64;
/// Most connections that are known to bring requests.
const MAX_SERVED: usize = 65_536;
/// Most requests that are remembered.
const MAX_REQUESTS: usize = 16_384;
/// Recent requests, which a new connection knows.
const RECENT: usize = 4_096;
/// How well messages must be explained, and how many decide that first.
const LEAST_FIT: f64 = 0.5;
const JUDGED: u32 = 60;
/// Messages of a connection that is left to the solver, after which it is tried again.
const LEFT: u32 = 20_000;

const MESSAGING_SYSTEM: &str = "messaging.system.name";

/// A request that may have published.
#[derive(Clone, Copy, Debug)]
struct Request {
    exchange: ExchangeRange,
    span: SpanId,
    /// Other requests may have the same exchange.
    is_shared: bool,
}

#[derive(Debug, Default)]
struct Connection {
    align: Align,
    waiting: FxHashMap<u64, Arc<Span>>,
    /// Times at which messages were published that belong to no turn yet; and the last of those that do.
    published: BTreeSet<u64>,
    last_ns: u64,
    decided: u32,
    /// Messages that are still left to the solver.
    left: u32,
}

#[derive(Debug, Default)]
pub(super) struct Batches {
    connections: FxHashMap<u64, Connection>,
    served: FxHashSet<u64>,
    requests: BTreeMap<u64, Request>,
    recent: VecDeque<Unit>,
    number: u64,
    signatures: Signatures,
}

/// A message that a client publishes and nobody answers.
fn is_published(span: &Span) -> bool {
    span.protocol == "amqp" && span.kind == SpanKind::Producer && span.status == Status::OneWay
}

impl Connection {
    /// A turn ends with what it publishes: the next message is for a request that was read after that.
    fn mark_turns(&mut self, requests: &VecDeque<Unit>, goal_ns: u64) {
        let mut read: Vec<u64> = requests.iter().map(|unit| unit.from_ns).collect();
        read.sort_unstable();
        let later = self.published.split_off(&goal_ns.saturating_add(1));
        for at_ns in std::mem::replace(&mut self.published, later) {
            let next = read.partition_point(|read| *read <= self.last_ns);
            if let Some(first_ns) = read.get(next).filter(|first_ns| **first_ns < at_ns && self.last_ns > 0) {
                self.align.add_mark(Mark { at_ns: *first_ns, place: 0, number: first_ns + 1 });
            }
            self.last_ns = at_ns;
        }
    }
}

impl Batches {
    /// Adds a request that was answered.
    pub(super) fn add_request(&mut self, span: &Span) {
        // What a broker asks of its client is not for a user.
        let Some(exchange) = span.exchange.filter(|_| span.text(MESSAGING_SYSTEM).is_none()) else { return };
        if self.served.len() >= MAX_SERVED {
            self.served.clear();
        }
        self.served.insert(exchange_socket(exchange.first));
        self.number += 1;
        let request = Request { exchange, span: span.id, is_shared: span.message_id.is_some() };
        self.requests.insert(self.number, request);
        if self.requests.len() > MAX_REQUESTS {
            self.requests.pop_first();
        }
        let unit = Unit {
            class: self.signatures.of_request(span),
            from_ns: span.start_ns,
            exchange: exchange.first,
            place: (0, span.start_ns),
            name: self.number,
        };
        self.connections.values_mut().for_each(|connection| connection.align.add_unit(unit));
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(unit);
    }

    /// Whether the process has answered requests.
    pub(super) fn serve(&self) -> bool {
        self.number > 0
    }

    /// Whether a call is a message that a loop published, probably for a request, and waits.
    pub(super) fn takes(&mut self, span: &Span) -> bool {
        let is_opinion = span.cause_evidence == Some(Evidence::EventLoop) && span.parent_span_id.is_none();
        let is_for_request = span.cause.is_some_and(|cause| self.served.contains(&exchange_socket(cause)));
        if !(is_published(span) && is_opinion && is_for_request) {
            return false;
        }
        if self.connections.len() >= MAX_CONNECTIONS && !self.connections.contains_key(&span.socket) {
            return false;
        }
        let connection = self.connections.entry(span.socket).or_insert_with(|| {
            let mut new = Connection::default();
            self.recent.iter().for_each(|unit| new.align.add_unit(*unit));
            new
        });
        if connection.left > 0 {
            connection.left -= 1;
            if connection.left == 0 && connection.waiting.is_empty() {
                self.connections.remove(&span.socket);
            }
            return false;
        }
        if connection.decided >= JUDGED && connection.align.fit() < LEAST_FIT {
            connection.left = LEFT;
            return false;
        }
        true
    }

    /// Takes a message, which waits.
    pub(super) fn add_call(&mut self, span: Arc<Span>) {
        let Some(connection) = self.connections.get_mut(&span.socket) else { return };
        self.number += 1;
        connection.align.add_call(Call {
            class: self.signatures.of_call(&span),
            start_ns: span.start_ns,
            end_ns: span.start_ns,
            order: span.request_seq.unwrap_or(0),
            // The last request of a turn is named for all of its messages: that says nothing.
            exchange: None,
            name: self.number,
        });
        connection.published.insert(span.start_ns);
        connection.waiting.insert(self.number, span);
    }

    pub(super) fn waits(&self) -> bool {
        self.connections.values().any(|connection| !connection.waiting.is_empty())
    }

    /// Time of the first message that is not decided.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.connections.values().filter_map(|connection| connection.align.first_ns()).min()
    }

    pub(super) fn is_due(&self, goal_ns: u64) -> bool {
        self.connections.values().any(|connection| connection.align.is_due(goal_ns))
    }

    /// Decides the messages up to a time.
    pub(super) fn solve(&mut self, goal_ns: u64, least: f32, out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        for connection in self.connections.values_mut() {
            if !connection.align.is_due(goal_ns) {
                continue;
            }
            connection.mark_turns(&self.recent, goal_ns);
            let given = connection.align.decide(goal_ns);
            connection.decided = connection.decided.saturating_add(given.len() as u32);
            let fits = connection.align.fit() >= LEAST_FIT;
            for one in given {
                let Some(span) = connection.waiting.remove(&one.call) else { continue };
                let given = Some(one).filter(|one| fits && one.confidence >= f64::from(least));
                let named = given.and_then(|one| named(&span, &one, &self.requests));
                out(span, named.map_or(Verdict::Kept(None), Verdict::Named));
            }
        }
    }
}

fn named(span: &Span, given: &Given, requests: &BTreeMap<u64, Request>) -> Option<Named> {
    let request = requests.get(&given.unit?)?;
    Some(Named {
        exchange: request.exchange.first,
        evidence: evidence(span, Some(request.exchange)),
        confidence: given.confidence.min(SUREST),
        span: request.is_shared.then_some(request.span),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::test_support::SpanBuilder;

    const MS: u64 = 1_000_000;
    const QUEUES: [(&str, &[&str]); 3] = [("/job", &["ship"]), ("/chain", &["pack", "ship"]), ("/list", &[])];

    fn request(n: u64, path: &str, at_ns: u64) -> Span {
        let span = SpanBuilder::server(n).request("http", "GET", path).time(at_ns, at_ns + 1_000);
        span.status(Status::Ok, 200).exchange((n % 10 + 1) << 24 | n, (n % 10 + 1) << 24 | n).build()
    }

    fn publication(id: u64, queue: &str, at_ns: u64, place: u32, cause: u64) -> Arc<Span> {
        let mut span = SpanBuilder::client(id)
            .request("amqp", "basic.publish", queue)
            .time(at_ns, at_ns)
            .status(Status::OneWay, None)
            .sequence(place, None)
            .cause(cause, Evidence::EventLoop)
            .build();
        (span.kind, span.socket) = (SpanKind::Producer, 99);
        Arc::new(span)
    }

    #[test]
    fn each_message_of_a_write_is_given_to_its_request() {
        let (mut batches, mut truth, mut place) = (Batches::default(), FxHashMap::default(), 0);
        let (mut n, mut given, mut right) = (0, 0, 0);
        for turn in 0..80_u64 {
            // A turn reads one to seven requests, and writes what they have published at its end.
            let (mut at_ns, mut write) = (turn * 100 * MS, Vec::new());
            for _ in 0..turn % 7 + 1 {
                n += 1;
                at_ns += MS / 10;
                let (path, queues) = QUEUES[(n * n % 7 % 3) as usize];
                let request = request(n, path, at_ns);
                batches.add_request(&request);
                let exchange = request.exchange.map_or(0, |e| e.first);
                write.extend(queues.iter().map(|queue| (*queue, exchange)));
            }
            let last = (n % 10 + 1) << 24 | n;
            for (queue, exchange) in write {
                place += 10;
                let span = publication(10_000 + u64::from(place), queue, at_ns + MS, place, last);
                truth.insert(span.id, exchange);
                assert!(batches.takes(&span));
                batches.add_call(span);
            }
        }
        batches.solve(u64::MAX, 0.5, &mut |span, verdict| {
            let Verdict::Named(named) = verdict else { panic!("{verdict:?}") };
            given += 1;
            right += usize::from(truth[&span.id] == named.exchange);
        });
        assert_eq!(given, truth.len());
        assert!(right * 100 >= given * 99, "{right} of {given}");
        assert!(!batches.waits());
    }

    #[test]
    fn only_what_a_loop_publishes_for_requests_waits() {
        let mut batches = Batches::default();
        let span = publication(1, "ship", MS, 1, 2 << 24 | 1);
        assert!(!batches.takes(&span), "nothing was served");
        batches.add_request(&request(1, "/job", 0));
        assert!(batches.takes(&span));
        let other = Span { cause: Some(77 << 24 | 1), ..Span::clone(&span) };
        assert!(!batches.takes(&other), "for a delivery");
        let certain = Span { cause_evidence: Some(Evidence::Thread), ..Span::clone(&span) };
        assert!(!batches.takes(&certain));
        let confirmed = Span { status: Status::Ok, ..Span::clone(&span) };
        assert!(!batches.takes(&confirmed));
    }
}
