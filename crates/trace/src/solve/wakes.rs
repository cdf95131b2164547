//! Calls whose answers woke the threads that waited for them.
//!
//! Threads that share a connection wait for their answers. The loop that reads the connection wakes one thread after
//! the other, in the order of the answers. So if a read brought as many answers as threads were woken after it, each
//! answer was for the thread in the same place, and its call was made for that thread's request. If fewer threads were
//! woken, because some did not sleep yet or waited for nothing, the places that are left open by the order alone stay
//! open.
//!
//! A thread that waits for an answer has read its request before the call, and answers after it. Where woken threads
//! act for requests that do not lie so around any of the calls, they did not wait for answers (the loops of a reactor),
//! and no wake-up of that process is believed.

use super::lives::Lives;
use super::trial::{share, PRIOR};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use wirespan_model::event::{exchange_socket, is_provisional, Wake};
use wirespan_model::Span;

/// Most reads and connections that are remembered.
const MAX_READS: usize = 16_384;
const MAX_SOCKETS: usize = 4_096;
/// Most answers of one read that are matched.
const MAX_ANSWERS: usize = 256;

/// Confidence that an answer was for the thread that it woke, before any was tested: 385 of 389 were, of Lettuce under
/// Tomcat.
pub(super) const WOKEN: f64 = 0.99;
/// Wake-ups are believed with so many failures, or with more if only one in so many fails.
const ALLOWED: u32 = 1;
const RARE: u32 = 20;

/// A connection, and when it was read, Unix ns.
type At = (u64, u64);

/// An answer that a read has completed.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Position of its first byte on the connection.
    seq: u32,
    /// Number of the call, if its maker is asked for.
    call: Option<u32>,
    /// When the call was sent, and when the answer was read, Unix ns.
    start_ns: u64,
    end_ns: u64,
    /// The request that made it, if that is certain.
    known: Option<u64>,
}

/// A thread that was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Woken {
    time_ns: u64,
    /// The request for which it acts.
    exchange: u64,
    /// Its id; 0: not known.
    tid: u32,
    /// It may be done with that request.
    unsure: bool,
}

/// Who waited for the answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waited {
    /// The request for which the thread acts.
    pub(super) exchange: u64,
    /// The thread; 0: not known.
    pub(super) tid: u32,
}

/// A read, and what followed it.
#[derive(Debug, Default)]
struct Read {
    answers: Vec<Answer>,
    /// The threads that were woken.
    woken: Vec<Woken>,
    /// Calls and the requests that made them, once they are matched.
    named: Option<Vec<(u32, Waited)>>,
}

#[derive(Debug, Default)]
pub(super) struct Wakes {
    reads: FxHashMap<At, Read>,
    /// The same, oldest first.
    order: VecDeque<At>,
    /// Connections whose reader wakes threads.
    sockets: FxHashSet<u64>,
    /// By whether the woken threads may be done with their requests.
    tests: [Tests; 2],
}

/// Woken threads whose request is known, and those of them whose request does not lie around any call.
#[derive(Debug, Default)]
struct Tests {
    tested: u32,
    failed: u32,
}

impl Tests {
    /// About which share of such wake-ups names the right request. Of 170 of Tomcat none was wrong, and one of 295
    /// failed here. Of 81 and 240 of grpc-java 5 and 28 were wrong; 8 of 428 and 41 of 784 failed.
    fn confidence(&self) -> f64 {
        let known = f64::from(self.tested);
        (WOKEN * PRIOR + share((self.tested, self.failed)) * known) / (PRIOR + known)
    }

    fn have_failed(&self) -> bool {
        self.failed > ALLOWED && self.failed > self.tested / RARE
    }
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
            read.woken.push(Woken { time_ns: wake.time_ns, exchange: wake.cause, tid: wake.tid, unsure: wake.unsure });
        }
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
            let (start_ns, end_ns) = (span.start_ns, span.end_ns);
            read.answers.push(Answer { seq, call: id, start_ns, end_ns, known });
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

    /// The thread that made this call, and for which request, if the wake-ups tell; and the confidence in that.
    /// Everything that came with the answer must have come.
    pub(super) fn maker(&mut self, call: u32, (socket, end_ns): At, lives: &Lives) -> Option<(Waited, f64)> {
        let Wakes { reads, tests, .. } = self;
        let Read { answers, woken, named } = reads.get_mut(&(socket, end_ns))?;
        // A thread that was done with its request may have brought the answer to one that waits in its own.
        let unsure = woken.iter().all(|w| w.unsure);
        let tests = &mut tests[usize::from(unsure)];
        let named = named.get_or_insert_with(|| {
            woken.retain(|w| w.unsure == unsure);
            for w in woken.iter().filter(|w| lives.has(w.exchange)) {
                tests.tested += 1;
                tests.failed += u32::from(!answers.iter().any(|answer| fits(answer, w.exchange, lives)));
            }
            matched(answers, woken, lives)
        });
        if tests.have_failed() {
            return None;
        }
        named.iter().find(|(id, _)| *id == call).map(|(_, waited)| (*waited, tests.confidence()))
    }
}

/// Whether this request may have made the call: it had been read before, and was answered after.
fn fits(answer: &Answer, cause: u64, lives: &Lives) -> bool {
    if is_provisional(cause) {
        return true;
    }
    answer.known.is_none_or(|known| exchange_socket(known) == exchange_socket(cause))
        && lives.may_enclose(cause, answer.start_ns, answer.end_ns)
}

/// Matches woken threads with answers, both in order. Named are the pairs that every such match has.
fn matched(answers: &mut [Answer], woken: &mut Vec<Woken>, lives: &Lives) -> Vec<(u32, Waited)> {
    let first = answers.first().map_or(0, |a| a.seq);
    // Sequence numbers wrap around.
    answers.sort_by_key(|a| a.seq.wrapping_sub(first) as i32);
    woken.sort_by_key(|w| w.time_ns);
    // A thread may be woken several times for one answer.
    woken.dedup_by_key(|w| (w.exchange, w.tid));
    let earliest = embed(woken.iter(), answers.iter(), lives);
    let latest = embed(woken.iter().rev(), answers.iter().rev(), lives);
    let (Some(earliest), Some(latest)) = (earliest, latest) else { return Vec::new() };
    let pairs = woken.iter().zip(earliest).zip(latest.into_iter().rev().map(|at| answers.len() - 1 - at));
    let sure = pairs.filter(|((w, first), last)| first == last && !is_provisional(w.exchange));
    sure.filter_map(|((w, at), _)| Some((answers[at].call?, Waited { exchange: w.exchange, tid: w.tid }))).collect()
}

/// The place of each woken thread among the answers, as early as the order allows; `None` if they do not fit.
fn embed<'a>(
    mut woken: impl Iterator<Item = &'a Woken>,
    mut answers: impl Iterator<Item = &'a Answer>,
    lives: &Lives,
) -> Option<Vec<usize>> {
    let (mut places, mut next) = (Vec::new(), 0);
    woken.try_for_each(|w| {
        let at = next + answers.position(|answer| fits(answer, w.exchange, lives))?;
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
        let (mut wakes, mut lives) = (Wakes::default(), Lives::default());
        for number in 1..=4 {
            let exchange = Some(ExchangeRange { first: request(number), last: request(number) });
            lives.add(&Span { exchange, start_ns: 100 * number, end_ns: 1_000 + number, ..Span::default() });
        }
        let answered = Some(ExchangeRange { first: request(5), last: request(5) });
        lives.add(&Span { exchange: answered, start_ns: 100, end_ns: READ - 1, ..Span::default() });
        // Wake-ups of workers come later.
        for (n, cause) in woken.iter().enumerate().rev() {
            let (socket, time_ns) = (SocketId(7), READ + n as u64);
            wakes.add(&Wake { pid: 1, tid: 0, unsure: false, socket, read_ns: READ, cause: *cause, time_ns });
        }
        // Sequence numbers wrap around, and spans come in any order.
        let seq = |n: usize| u32::MAX.wrapping_sub(4).wrapping_add(5 * n as u32);
        for (n, start_ns) in starts.iter().enumerate().rev() {
            let span =
                Span { socket: 7, start_ns: *start_ns, end_ns: READ, response_seq: Some(seq(n)), ..Span::default() };
            wakes.add_answer(&span, Some(n as u32));
        }
        (0..starts.len() as u32).map(|n| Some(wakes.maker(n, (7, READ), &lives)?.0.exchange)).collect()
    }

    #[test]
    fn the_nth_answer_is_for_the_nth_thread_that_is_woken() {
        let (a, b, c) = (request(1), request(2), request(3));
        assert_eq!(makers(&[b, a, c], &[500, 510, 520]), [Some(b), Some(a), Some(c)]);
        assert_eq!(makers(&[b, b, a], &[500, 510]), [Some(b), Some(a)], "one thread is woken twice");
    }

    #[test]
    fn two_threads_may_act_for_requests_of_one_read() {
        let (mut wakes, mut lives) = (Wakes::default(), Lives::default());
        let exchange = Some(ExchangeRange { first: request(1), last: request(1) });
        lives.add(&Span { exchange, start_ns: 100, end_ns: 1_000, ..Span::default() });
        for (tid, time_ns) in [(31, 901), (32, 902), (32, 903)] {
            wakes.add(&Wake {
                pid: 1,
                tid,
                unsure: false,
                socket: SocketId(7),
                read_ns: READ,
                cause: request(1),
                time_ns,
            });
        }
        for n in 0..2 {
            let times = Span { start_ns: 500, end_ns: READ, ..Span::default() };
            wakes.add_answer(&Span { socket: 7, response_seq: Some(n), ..times }, Some(n));
        }
        let tids = [0, 1].map(|n| wakes.maker(n, (7, READ), &lives).map(|(waited, _)| waited.tid));
        assert_eq!(tids, [Some(31), Some(32)]);
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
    fn an_answered_request_makes_no_call() {
        // Request 5 was answered before the answer to the call was read.
        assert_eq!(makers(&[request(1)], &[590]), [Some(request(1))]);
        assert_eq!(makers(&[request(5)], &[590]), [None]);
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

    /// What 200 wake-ups say, each of the only thread that waits; one in `one_in` acts for a request that was answered.
    fn told(one_in: u64) -> Vec<Option<(Waited, f64)>> {
        let (mut wakes, mut lives) = (Wakes::default(), Lives::default());
        let socket = SocketId(7);
        let tell = |n| {
            let (at, cause) = (10_000 * (n + 1), request(n));
            let end_ns = if n % one_in == one_in - 1 { at + 50 } else { at + 5_000 };
            let exchange = Some(ExchangeRange { first: cause, last: cause });
            lives.add(&Span { exchange, start_ns: at, end_ns, ..Span::default() });
            wakes.add(&Wake { pid: 1, tid: 0, unsure: false, socket, read_ns: at + 900, cause, time_ns: at + 901 });
            wakes.add_answer(&Span { socket: 7, start_ns: at + 20, end_ns: at + 900, ..Span::default() }, Some(1));
            wakes.maker(1, (7, at + 900), &lives)
        };
        (0..200).map(tell).collect()
    }

    #[test]
    fn threads_that_wait_for_no_answer_are_not_believed() {
        let named = told(2);
        assert_eq!(
            named[..3].iter().map(|w| w.map(|(w, _)| w.exchange)).collect::<Vec<_>>(),
            [Some(request(0)), None, Some(request(2))]
        );
        assert_eq!(named[3..].iter().flatten().count(), 0);
    }

    #[test]
    fn failures_that_are_too_few_to_tell_cost_confidence() {
        let last = |one_in| told(one_in).into_iter().flatten().next_back().map_or(0.0, |(_, confidence)| confidence);
        assert!(last(1_000) > 0.98);
        assert!((0.85..0.95).contains(&last(25)), "{}", last(25));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut wakes = Wakes::default();
        for n in 0..3 * MAX_READS as u64 {
            wakes.add(&Wake {
                pid: 1,
                tid: 0,
                unsure: false,
                socket: SocketId(n),
                read_ns: n,
                cause: request(n),
                time_ns: n,
            });
        }
        assert!(wakes.reads.len() <= MAX_READS && wakes.order.len() <= MAX_READS);
        assert!(wakes.sockets.len() <= MAX_SOCKETS);
    }
}
