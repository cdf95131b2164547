//! Claims that name a request long after its answer, because their actor works for all requests by now.
//!
//! A library may start a coroutine when the first request needs it, and keep it: a writer of Kafka that gathers
//! messages, a loop that sends for a connection. To the kernel, it acts for that first request for ever. A
//! handler may also answer first and make calls then, but then each request does so. So a claim is not believed if its
//! request was answered, and has made many more calls of that kind since than requests of its class make.

use rustc_hash::{FxHashMap, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use wirespan_model::{Evidence, Span};

/// Calls after the answer from which on it is told whether a request makes too many; and how many times as many as
/// others it makes then. Both are high: a job that a request starts, and that makes many calls after the answer, has a
/// claim that is right.
const FEW: u32 = 16;
const TOO_MANY: f64 = 10.0;
/// Other requests of its class that must have been answered since, as nothing else tells what is usual.
const OTHERS: f64 = 4.0;
/// Most requests that are remembered, and most kinds of calls.
const MAX_REQUESTS: usize = 4_096;
const MAX_KINDS: usize = 512;

/// What requests of a class have done since they were first seen.
#[derive(Debug, Default)]
struct Served {
    answers: f64,
    /// Calls after the answer, by kind.
    late: FxHashMap<u64, f64>,
}

#[derive(Debug)]
struct Request {
    answered_ns: u64,
    class: u64,
    /// Which answer of its class it was.
    place: f64,
    /// Calls after the answer, by kind.
    late: FxHashMap<u64, u32>,
}

#[derive(Debug, Default)]
pub(super) struct Workers {
    /// By exchange; and the same exchanges, oldest first.
    requests: FxHashMap<u64, Request>,
    order: VecDeque<u64>,
    of_class: FxHashMap<u64, Served>,
}

/// Whether a claim is inherited: its thread or coroutine was started or woken by one that acted for the request.
pub(super) fn inherits(span: &Span) -> bool {
    matches!(span.cause_evidence, Some(Evidence::Coroutine | Evidence::WakeUp | Evidence::ChildTask))
}

/// Whether a coroutine has inherited a claim. What threads claim is tried in another way ([`trial`](super::trial)).
fn is_inherited(span: &Span) -> bool {
    inherits(span) && span.coroutine != 0 && span.parent_span_id.is_none()
}

fn kind_of(span: &Span) -> u64 {
    let mut h = FxHasher::default();
    (span.tuple.server, &*span.protocol, &*span.operation).hash(&mut h);
    h.finish()
}

impl Workers {
    /// Adds a request of this class that was answered.
    pub(super) fn add_request(&mut self, span: &Span, class: u64) {
        if self.of_class.len() >= MAX_KINDS && !self.of_class.contains_key(&class) {
            self.of_class.clear();
        }
        let served = self.of_class.entry(class).or_default();
        served.answers += 1.0;
        let place = served.answers;
        for exchange in span.exchanges() {
            if self.order.len() >= MAX_REQUESTS {
                self.order.pop_front().and_then(|oldest| self.requests.remove(&oldest));
            }
            self.order.push_back(exchange);
            let late = FxHashMap::default();
            self.requests.insert(exchange, Request { answered_ns: span.end_ns, class, place, late });
        }
    }

    /// Whether a call's claim cannot be believed, because its actor has become a worker for all requests.
    pub(super) fn made(&mut self, call: &Span) -> bool {
        let Some(exchange) = call.cause.filter(|_| is_inherited(call)) else { return false };
        let Some(request) = self.requests.get_mut(&exchange) else { return false };
        if request.answered_ns >= call.start_ns {
            return false;
        }
        let (kind, Some(served)) = (kind_of(call), self.of_class.get_mut(&request.class)) else { return false };
        if served.late.len() >= MAX_KINDS {
            served.late.clear();
        }
        let (own, all) = (request.late.entry(kind).or_default(), served.late.entry(kind).or_default());
        *own += 1;
        *all += 1.0;
        let usual = (*all - f64::from(*own)) / (served.answers - 1.0).max(1.0);
        let is_known = *own >= FEW && served.answers - request.place >= OTHERS;
        is_known && f64::from(*own) > TOO_MANY * (usual + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::test_support::SpanBuilder;
    use wirespan_model::Status;

    const MS: u64 = 1_000_000;
    const ROUTE: u64 = 1;

    /// The request `n`, which is answered 10 ms after it was read.
    fn request(n: u64, at_ns: u64) -> Span {
        let span = SpanBuilder::server(n).request("http", "GET", "/job").time(at_ns, at_ns + 10 * MS);
        span.status(Status::Ok, 200).exchange(n, n).build()
    }

    fn call(of: u64, at_ns: u64, evidence: Evidence) -> Span {
        let span = SpanBuilder::client(99).request("kafka", "Produce", "ship").time(at_ns, at_ns);
        Span { coroutine: 7, ..span.status(Status::OneWay, None).cause(of, evidence).build() }
    }

    #[test]
    fn a_writer_that_the_first_request_started_does_not_act_for_it_for_ever() {
        let mut workers = Workers::default();
        let made: Vec<bool> = (1..40)
            .map(|n| {
                let made = workers.made(&call(1, n * 20 * MS + 5 * MS, Evidence::Coroutine));
                workers.add_request(&request(n, n * 20 * MS), ROUTE);
                made
            })
            .collect();
        let first = made.iter().position(|made| *made);
        assert_eq!(first, Some(FEW as usize), "sixteen calls after the answer are few");
        assert!(made[FEW as usize..].iter().all(|made| *made));
        // What another request does after its answer is its own, and so is what the first one did before.
        assert!(!workers.made(&call(15, 900 * MS, Evidence::WakeUp)));
        assert!(!workers.made(&call(1, 25 * MS, Evidence::WakeUp)));
        assert!(!workers.made(&call(1, 900 * MS, Evidence::Wire)));
        assert!(!workers.made(&Span { coroutine: 0, ..call(1, 900 * MS, Evidence::WakeUp) }));
    }

    #[test]
    fn handlers_that_answer_first_make_their_calls_however_many() {
        let mut workers = Workers::default();
        for n in 1..50 {
            workers.add_request(&request(n, n * 20 * MS), ROUTE);
            for late in 0..8 {
                let at_ns = n * 20 * MS + (11 + late) * MS;
                assert!(!workers.made(&call(n, at_ns, Evidence::Coroutine)), "{n} {late}");
            }
        }
    }

    /// One route in twenty answers and then makes calls, more or fewer.
    #[test]
    fn a_job_of_a_rare_route_keeps_its_calls() {
        let mut workers = Workers::default();
        for n in 1..400 {
            let is_job = n % 20 == 0;
            workers.add_request(&request(n, n * 20 * MS), if is_job { 2 } else { ROUTE });
            for late in 0..if is_job { 20 + n / 8 } else { 0 } {
                let at_ns = n * 20 * MS + 11 * MS + late;
                assert!(!workers.made(&call(n, at_ns, Evidence::Coroutine)), "{n} {late}");
            }
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut workers = Workers::default();
        for n in 1..10_000 {
            workers.add_request(&request(n, n * 20 * MS), ROUTE);
        }
        assert!(workers.requests.len() <= MAX_REQUESTS && workers.order.len() <= MAX_REQUESTS);
    }
}
