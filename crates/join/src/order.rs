//! Requests that the kernel names by their order on a connection.
//!
//! One read brings several requests of HTTP/2. A server whose task reads the connection makes a task for each of them,
//! in their order, and the kernel sees these tasks begin. It cannot read the ids of the streams, so it gives each task
//! a name that stands for the next request ([`is_ordered`]), and tells when the task began. That name is replaced here,
//! when it comes in, by that of the stream. A request that is answered, and for which no task began, was served in
//! another way: it is passed over.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::event::{by_stream, exchange_socket, PROVISIONAL};
use wirespan_model::order::is_ordered;
use wirespan_model::{Event, Evidence};

/// Most connections that are remembered, and most requests of each that wait for their task.
const MAX_CONNECTIONS: usize = 4_096;
const MAX_WAITING: usize = 1_024;
/// Most names that are remembered; the oldest goes first.
const MAX_NAMES: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// By socket.
    waiting: FxHashMap<u64, Waiting>,
    /// The stream of each name that was given.
    streams: FxHashMap<u64, u64>,
    /// The names, oldest first.
    names: VecDeque<u64>,
}

/// Requests of a connection for which no task has begun, in their order.
#[derive(Debug, Default)]
struct Waiting {
    /// The exchange that completed the head of each, and its stream.
    requests: VecDeque<(u64, u64)>,
    /// A task was seen to begin.
    begun: bool,
}

impl Orders {
    /// A server has read the head of a request on this stream, which this exchange completed.
    pub(crate) fn add(&mut self, exchange: u64, stream: u64) {
        let socket = exchange_socket(exchange);
        if self.waiting.len() >= MAX_CONNECTIONS && !self.waiting.contains_key(&socket) {
            self.waiting.clear();
        }
        let waiting = self.waiting.entry(socket).or_default();
        waiting.requests.push_back((exchange, stream));
        if waiting.requests.len() > MAX_WAITING {
            waiting.requests.pop_front();
        }
    }

    /// A server has answered the request on this stream.
    pub(crate) fn answered(&mut self, socket: u64, stream: u64) {
        if let Some(waiting) = self.waiting.get_mut(&socket) {
            waiting.requests.retain(|(_, waits)| *waits != stream);
        }
    }

    /// A task has begun, for the next request. Its maker has read since this exchange: of requests that came before the
    /// first task that is seen, the tasks were not seen.
    pub(crate) fn born(&mut self, name: u64, since: u64) {
        let socket = exchange_socket(name & !PROVISIONAL);
        let Some(waiting) = self.waiting.get_mut(&socket) else { return };
        if !std::mem::replace(&mut waiting.begun, true) {
            waiting.requests.retain(|(exchange, _)| *exchange >= since);
        }
        let Some((_, stream)) = waiting.requests.pop_front() else { return };
        // A name comes again after 32,768 exchanges.
        if self.streams.insert(name, stream).is_none() {
            self.names.push_back(name);
        }
        if self.names.len() > MAX_NAMES {
            self.names.pop_front().and_then(|oldest| self.streams.remove(&oldest));
        }
    }

    /// Replaces a cause that names a request by its order. One that is not known is left to the solver.
    pub(crate) fn name(&self, event: &mut Event) {
        match event {
            Event::Data(d) => self.replace(&mut d.cause, &mut d.cause_evidence),
            Event::Socket(e) => self.replace(&mut e.cause, &mut e.cause_evidence),
            Event::Stream(c) => self.replace(&mut c.cause, &mut c.evidence),
            Event::Alias(a) => self.replace(&mut a.cause, &mut None),
            Event::Wake(w) => self.replace(&mut w.cause, &mut None),
            Event::SdkSpan(s) => self.replace(&mut s.cause, &mut None),
            _ => {}
        }
    }

    fn replace(&self, cause: &mut u64, evidence: &mut Option<Evidence>) {
        if !is_ordered(*cause) {
            return;
        }
        let socket = exchange_socket(*cause & !PROVISIONAL);
        match self.streams.get(cause).and_then(|stream| by_stream(socket, *stream)) {
            Some(named) => *cause = named,
            None => (*cause, *evidence) = (0, Some(Evidence::Inferred)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::event::{BY_STREAM, NUMBER_BITS};

    const SOCKET: u64 = 77;

    /// As `by_order()` of the kernel programs makes it.
    fn name(exchange: u64, n: u64) -> u64 {
        BY_STREAM | SOCKET << NUMBER_BITS | exchange << 9 | n << 1
    }

    fn real(orders: &Orders, cause: u64) -> (u64, Option<Evidence>) {
        let (mut cause, mut evidence) = (cause, Some(Evidence::Coroutine));
        orders.replace(&mut cause, &mut evidence);
        (cause, evidence)
    }

    fn stream(id: u64) -> (u64, Option<Evidence>) {
        (by_stream(SOCKET, id).expect("a name"), Some(Evidence::Coroutine))
    }

    fn exchange(number: u64) -> u64 {
        SOCKET << NUMBER_BITS | number
    }

    #[test]
    fn the_next_task_is_for_the_next_request() {
        let mut orders = Orders::default();
        [(5, 1), (5, 3)].into_iter().for_each(|(number, id)| orders.add(exchange(number), id));
        orders.born(name(5, 1), exchange(5));
        orders.add(exchange(6), 5);
        (1..4).for_each(|n| orders.born(name(6, n), exchange(6)));
        let named = [name(5, 1), name(6, 1), name(6, 2)].map(|name| real(&orders, name));
        assert_eq!(named, [1, 3, 5].map(stream));
        assert_eq!(real(&orders, name(6, 3)), (0, Some(Evidence::Inferred)), "there was no request for it");
    }

    #[test]
    fn requests_whose_tasks_were_not_seen_are_passed_over() {
        let mut orders = Orders::default();
        // The first tasks began before they were probed.
        [(3, 1), (4, 3), (5, 5), (5, 7)].into_iter().for_each(|(number, id)| orders.add(exchange(number), id));
        orders.born(name(5, 1), exchange(5));
        assert_eq!(real(&orders, name(5, 1)), stream(5));
        // The next one is answered without a task.
        orders.add(exchange(6), 9);
        orders.answered(SOCKET, 7);
        orders.born(name(6, 1), exchange(6));
        assert_eq!(real(&orders, name(6, 1)), stream(9));
    }

    #[test]
    fn other_causes_stay() {
        let orders = Orders::default();
        for cause in [exchange(4), stream(5).0, PROVISIONAL | 4, 0] {
            assert_eq!(real(&orders, cause).0, cause);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut orders = Orders::default();
        for n in 0..MAX_NAMES as u64 + 10 {
            orders.add(exchange(1), 2 * n + 1);
            orders.born(BY_STREAM | SOCKET << NUMBER_BITS | n << 1, exchange(1));
        }
        (0..3_000).for_each(|id| orders.add(exchange(1), 2 * id + 1));
        (1..5_000).for_each(|socket| orders.add(socket << NUMBER_BITS, 1));
        assert!(orders.streams.len() <= MAX_NAMES && orders.names.len() <= MAX_NAMES);
        assert!(orders.waiting.len() <= MAX_CONNECTIONS);
        assert!(orders.waiting.values().all(|waiting| waiting.requests.len() <= MAX_WAITING));
    }
}
