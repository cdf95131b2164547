//! Requests that the kernel names by their order on a connection.
//!
//! One read brings several requests of HTTP/2. A server whose task reads the connection makes a task for each of them,
//! in their order, and the kernel sees these tasks begin. It cannot read the ids of the streams, so it names the n-th
//! task after the n-th request that came from a certain read on ([`ordered`]). That name is replaced here, when it
//! comes in, by that of the stream: the request was read, and so seen, before its task began.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::event::{by_stream, exchange_socket, STREAM_BITS};
use wirespan_model::order::{ordered, ORDER_BITS};
use wirespan_model::{Event, Evidence};

/// Most requests that are remembered, over all connections; the oldest goes first.
const MAX_REQUESTS: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Orders {
    connections: FxHashMap<u64, Connection>,
    /// The connections of the requests that are remembered, oldest first.
    oldest: VecDeque<u64>,
}

#[derive(Debug, Default)]
struct Connection {
    /// For each request, in order: the exchange that completed its head, and its stream.
    requests: VecDeque<(u64, u64)>,
    /// The exchange of the last request that was forgotten.
    forgotten: Option<u64>,
}

impl Orders {
    /// A server has read a request on this stream, whose head this exchange completed.
    pub(crate) fn add(&mut self, exchange: u64, stream: u64) {
        let socket = exchange_socket(exchange);
        self.connections.entry(socket).or_default().requests.push_back((exchange, stream));
        self.oldest.push_back(socket);
        while self.oldest.len() > MAX_REQUESTS {
            let Some(socket) = self.oldest.pop_front() else { break };
            let Some(connection) = self.connections.get_mut(&socket) else { continue };
            connection.forgotten = connection.requests.pop_front().map(|(exchange, _)| exchange);
            if connection.requests.is_empty() {
                self.connections.remove(&socket);
            }
        }
    }

    /// Replaces a cause that names a request by its order. One that is not known any more is left to the solver.
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
        let Some((socket, low, number)) = ordered(*cause) else { return };
        let stream = self.connections.get(&socket).and_then(|c| c.stream(low, number));
        match stream.and_then(|stream| by_stream(socket, stream)) {
            Some(named) => *cause = named,
            None => (*cause, *evidence) = (0, Some(Evidence::Inferred)),
        }
    }
}

impl Connection {
    /// The stream of the n-th request from the exchange with these last bits on.
    fn stream(&self, low: u64, number: usize) -> Option<u64> {
        let (newest, _) = *self.requests.back()?;
        let first = newest - ((newest & STREAM_BITS).wrapping_sub(low) & ORDER_BITS);
        if self.forgotten.is_some_and(|forgotten| forgotten >= first) {
            return None;
        }
        let at = self.requests.partition_point(|(exchange, _)| *exchange < first) + number.checked_sub(1)?;
        self.requests.get(at).map(|(_, stream)| *stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::event::{BY_STREAM, NUMBER_BITS};

    const SOCKET: u64 = 77;

    fn exchange(number: u64) -> u64 {
        SOCKET << NUMBER_BITS | number
    }

    /// As `by_order()` of the kernel programs makes it.
    fn name(number: u64, n: u64) -> u64 {
        BY_STREAM | SOCKET << NUMBER_BITS | (number & ORDER_BITS) << 9 | n << 1
    }

    fn real(orders: &Orders, cause: u64) -> (u64, Option<Evidence>) {
        let (mut cause, mut evidence) = (cause, Some(Evidence::Coroutine));
        orders.replace(&mut cause, &mut evidence);
        (cause, evidence)
    }

    fn stream(id: u64) -> (u64, Option<Evidence>) {
        (by_stream(SOCKET, id).expect("a name"), Some(Evidence::Coroutine))
    }

    #[test]
    fn the_nth_task_is_for_the_nth_request_of_the_reads_since_its_maker_slept() {
        let mut orders = Orders::default();
        for (number, id) in [(5, 1), (5, 3), (6, 5), (9, 7), (9, 9)] {
            orders.add(exchange(number), id);
        }
        assert_eq!([1, 2, 3].map(|n| real(&orders, name(5, n))), [stream(1), stream(3), stream(5)]);
        assert_eq!([1, 2].map(|n| real(&orders, name(9, n))), [stream(7), stream(9)]);
        // A read that has completed no head is followed by one that has.
        assert_eq!(real(&orders, name(8, 1)), stream(7));
        // More tasks than requests: not known.
        assert_eq!(real(&orders, name(9, 3)), (0, Some(Evidence::Inferred)));
    }

    #[test]
    fn numbers_of_exchanges_wrap_and_other_causes_stay() {
        let mut orders = Orders::default();
        orders.add(exchange(ORDER_BITS - 1), 11);
        orders.add(exchange(ORDER_BITS + 2), 13);
        assert_eq!(real(&orders, name(ORDER_BITS - 1, 1)), stream(11));
        assert_eq!(real(&orders, name(ORDER_BITS + 2, 1)), stream(13));
        for cause in [exchange(4), stream(5).0, wirespan_model::event::PROVISIONAL | 4, 0] {
            assert_eq!(real(&orders, cause).0, cause);
        }
    }

    #[test]
    fn what_is_forgotten_names_nothing_wrong() {
        let mut orders = Orders::default();
        for id in 0..MAX_REQUESTS as u64 + 2 {
            orders.add(exchange(id / 2), 2 * id + 1);
        }
        assert_eq!(orders.oldest.len(), MAX_REQUESTS);
        assert_eq!(real(&orders, name(MAX_REQUESTS as u64 / 2, 1)), stream(2 * MAX_REQUESTS as u64 + 1));
        let late = real(&orders, name(0, 1)).0;
        assert_ne!(late, stream(1).0);
    }
}
