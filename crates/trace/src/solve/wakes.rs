//! Calls whose answers woke the threads that waited for them.
//!
//! Threads that share a connection wait for their answers. The loop that reads the connection wakes one thread after
//! the other, in the order of the answers. So if a read brought as many answers as threads were woken after it, each
//! answer was for the thread in the same place, and its call was made for that thread's request. If fewer threads were
//! woken, because some did not sleep yet or waited for nothing, the places that are left open by the order alone stay
//! open.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use wirespan_model::event::{exchange_socket, is_provisional, Wake};
use wirespan_model::Span;

/// Most reads, connections and requests that are remembered.
const MAX_READS: usize = 16_384;
const MAX_SOCKETS: usize = 4_096;
const MAX_REQUESTS: usize = 65_536;
/// Most answers of one read that are matched.
const MAX_ANSWERS: usize = 256;

/// A connection, and when it was read, Unix ns.
type At = (u64, u64);

/// An answer that a read has completed.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Position of its first byte on the connection.
    seq: u32,
    /// Number of the call, if its maker is asked for.
    call: Option<u32>,
    /// When the call was sent, Unix ns.
    start_ns: u64,
    /// The request that made it, if that is certain.
    known: Option<u64>,
}

/// A thread that was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Woken {
    time_ns: u64,
    /// The request for which it acts.
    exchange: u64,
}

/// A read, and what followed it.
#[derive(Debug, Default)]
struct Read {
    answers: Vec<Answer>,
    /// The threads that were woken.
    woken: Vec<Woken>,
    /// Calls and the requests that made them, once they are matched.
    named: Option<Vec<(u32, u64)>>,
}

#[derive(Debug, Default)]
pub(super) struct Wakes {
    reads: FxHashMap<At, Read>,
    /// The same, oldest first.
    order: VecDeque<At>,
    /// Connections whose reader wakes threads.
    sockets: FxHashSet<u64>,
    /// When requests were read, by exchange.
    began: FxHashMap<u64, u64>,
}

impl Wakes {
    /// Whether the threads that wait for answers on this connection are woken by its reader.
    pub(super) fn tell_of(&self, socket: u64) -> bool {
        self.sockets.contains(&socket)
    }

    /// Adds a wake-up. Those of workers come later.
    pub(super) fn add(&mut self, wake: &Wake) {
        if self.sockets.len() >= MAX_SOCKETS {
            self.sockets.clear();
        }
        self.sockets.insert(wake.socket.0);
        let read = self.read((wake.socket.0, wake.read_ns));
        if read.woken.len() < MAX_ANSWERS {
            read.woken.push(Woken { time_ns: wake.time_ns, exchange: wake.cause });
        }
    }

    /// Adds a request that the process has answered.
    pub(super) fn add_request(&mut self, span: &Span) {
        if self.began.len() >= MAX_REQUESTS {
            self.began.clear();
        }
        self.began.extend(span.exchanges().map(|exchange| (exchange, span.start_ns)));
    }

    /// Adds a call; `id` is its number, if its maker is asked for.
    pub(super) fn add_answer(&mut self, span: &Span, id: Option<u32>) {
        if !self.tell_of(span.socket) {
            return;
        }
        let known = span.cause.filter(|_| id.is_none());
        let read = self.read((span.socket, span.end_ns));
        if read.answers.len() < MAX_ANSWERS {
            let seq = span.response_seq.unwrap_or(0);
            read.answers.push(Answer { seq, call: id, start_ns: span.start_ns, known });
        }
    }

    fn read(&mut self, at: At) -> &mut Read {
        if !self.reads.contains_key(&at) {
            self.order.push_back(at);
            while self.order.len() > MAX_READS {
                self.order.pop_front().and_then(|oldest| self.reads.remove(&oldest));
            }
        }
        self.reads.entry(at).or_default()
    }

    /// The request that made this call, if the wake-ups tell. Everything that came with the answer must have come.
    pub(super) fn maker(&mut self, call: u32, socket: u64, end_ns: u64) -> Option<u64> {
        let Wakes { reads, began, .. } = self;
        let read = reads.get_mut(&(socket, end_ns))?;
        let named = read.named.get_or_insert_with(|| matched(&mut read.answers, &mut read.woken, began));
        named.iter().find(|(id, _)| *id == call).map(|(_, exchange)| *exchange)
    }
}

/// Whether this request may have made the call: it had been read before.
fn fits(answer: &Answer, cause: u64, began: &FxHashMap<u64, u64>) -> bool {
    if is_provisional(cause) {
        return true;
    }
    answer.known.is_none_or(|known| exchange_socket(known) == exchange_socket(cause))
        && began.get(&cause).is_none_or(|start_ns| *start_ns <= answer.start_ns)
}

/// Matches woken threads with answers, both in order. Named are the pairs that every such match has.
fn matched(answers: &mut [Answer], woken: &mut Vec<Woken>, began: &FxHashMap<u64, u64>) -> Vec<(u32, u64)> {
    let first = answers.first().map_or(0, |a| a.seq);
    // Sequence numbers wrap around.
    answers.sort_by_key(|a| a.seq.wrapping_sub(first) as i32);
    woken.sort_by_key(|w| w.time_ns);
    // A thread may be woken several times for one answer.
    woken.dedup_by_key(|w| w.exchange);
    let earliest = embed(woken.iter(), answers.iter(), began);
    let latest = embed(woken.iter().rev(), answers.iter().rev(), began);
    let (Some(earliest), Some(latest)) = (earliest, latest) else { return Vec::new() };
    let pairs = woken.iter().zip(earliest).zip(latest.into_iter().rev().map(|at| answers.len() - 1 - at));
    let sure = pairs.filter(|((w, first), last)| first == last && !is_provisional(w.exchange));
    sure.filter_map(|((w, at), _)| Some((answers[at].call?, w.exchange))).collect()
}

/// The place of each woken thread among the answers, as early as the order allows; `None` if they do not fit.
fn embed<'a>(
    mut woken: impl Iterator<Item = &'a Woken>,
    mut answers: impl Iterator<Item = &'a Answer>,
    began: &FxHashMap<u64, u64>,
) -> Option<Vec<usize>> {
    let (mut places, mut next) = (Vec::new(), 0);
    woken.try_for_each(|w| {
        let at = next + answers.position(|answer| fits(answer, w.exchange, began))?;
        next = at + 1;
        places.push(at);
        Some(())
    })?;
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::{ExchangeRange, SocketId};

    const READ: u64 = 900;

    fn request(number: u64) -> u64 {
        number << 24 | 1
    }

    /// Wakes after one read, and the makers of the calls that it answered.
    fn makers(woken: &[u64], starts: &[u64]) -> Vec<Option<u64>> {
        let mut wakes = Wakes::default();
        for number in 1..=4 {
            let exchange = Some(ExchangeRange { first: request(number), last: request(number) });
            wakes.add_request(&Span { exchange, start_ns: 100 * number, ..Span::default() });
        }
        // Wake-ups of workers come later.
        for (n, cause) in woken.iter().enumerate().rev() {
            let (socket, time_ns) = (SocketId(7), READ + n as u64);
            wakes.add(&Wake { pid: 1, socket, read_ns: READ, cause: *cause, time_ns });
        }
        // Sequence numbers wrap around, and spans come in any order.
        let seq = |n: usize| u32::MAX.wrapping_sub(4).wrapping_add(5 * n as u32);
        for (n, start_ns) in starts.iter().enumerate().rev() {
            let span =
                Span { socket: 7, start_ns: *start_ns, end_ns: READ, response_seq: Some(seq(n)), ..Span::default() };
            wakes.add_answer(&span, Some(n as u32));
        }
        (0..starts.len() as u32).map(|n| wakes.maker(n, 7, READ)).collect()
    }

    #[test]
    fn the_nth_answer_is_for_the_nth_thread_that_is_woken() {
        let (a, b, c) = (request(1), request(2), request(3));
        assert_eq!(makers(&[b, a, c], &[500, 510, 520]), [Some(b), Some(a), Some(c)]);
        assert_eq!(makers(&[b, b, a], &[500, 510]), [Some(b), Some(a)], "one thread is woken twice");
    }

    #[test]
    fn fewer_threads_than_answers_name_only_what_every_order_has() {
        let (a, c, d) = (request(1), request(3), request(4));
        assert_eq!(makers(&[a], &[500, 510]), [None, None]);
        // Only the last call was made after request 4 was read.
        assert_eq!(makers(&[d], &[250, 260, 450]), [None, None, Some(d)]);
        assert_eq!(makers(&[a, d], &[150, 450]), [Some(a), Some(d)]);
        assert_eq!(makers(&[c, d], &[350, 360, 450]), [None, None, Some(d)]);
    }

    #[test]
    fn more_threads_than_answers_name_nothing() {
        assert_eq!(makers(&[request(1), request(2)], &[500]), [None]);
    }

    #[test]
    fn a_thread_whose_request_is_not_known_yet_takes_its_place_and_names_nothing() {
        let provisional = wirespan_model::event::PROVISIONAL | 9;
        assert_eq!(makers(&[provisional, request(2)], &[500, 510]), [None, Some(request(2))]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut wakes = Wakes::default();
        for n in 0..3 * MAX_READS as u64 {
            wakes.add(&Wake { pid: 1, socket: SocketId(n), read_ns: n, cause: request(n), time_ns: n });
        }
        assert!(wakes.reads.len() <= MAX_READS && wakes.order.len() <= MAX_READS);
        assert!(wakes.sockets.len() <= MAX_SOCKETS);
    }
}
