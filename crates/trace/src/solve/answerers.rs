//! Which thread or coroutine answers which request. A coroutine, and a thread that waits for each of its calls, works
//! on one request at a time, and then answers it. So its calls are for the request that it answers next, if that was
//! open all the while.
//!
//! An event loop sends one call, or an answer, while it waits for another call, which tells it apart. Where coroutines
//! are seen, a thread says nothing. Nor does a thread that has read another request before that answer: its answers
//! wait in a queue (Pistache), and it goes on meanwhile.

use super::timeline::own_name;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use wirespan_model::attr::{ANSWER_COROUTINE, ANSWER_THREAD};
use wirespan_model::broker::is_delivery;
use wirespan_model::{ExchangeRange, Span, SpanId, Value};

/// Most threads, and most answers and reads of requests, that are remembered.
const MAX_THREADS: usize = 4_096;
const MAX_ANSWERS: usize = 16_384;
/// Calls from which on it can be said that a thread, or a whole process, waits for each call; and during one in so many
/// its thread may do something else.
const TELLING: u32 = 8;
const RARE: u32 = 100;
/// Calls of a thread, or of a process, after which earlier ones count half: a loop with one user waits for each call.
const FADE_AFTER: u32 = 512;

#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    calls: u32,
    /// Calls during which the thread did something else.
    broken: u32,
}

impl Waits {
    fn add(&mut self, is_broken: bool) {
        self.calls += 1;
        self.broken += u32::from(is_broken);
        if self.calls >= FADE_AFTER {
            (self.calls, self.broken) = (self.calls / 2, self.broken / 2);
        }
    }

    fn are_sure(&self) -> bool {
        self.calls >= TELLING && self.broken * RARE <= self.calls
    }
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answered {
    pub(super) span: SpanId,
    pub(super) exchange: ExchangeRange,
    /// A name that no other request has, if others may have the same exchange.
    pub(super) stream: Option<u64>,
    socket: u64,
    start_ns: u64,
    end_ns: u64,
    /// It is a message of a broker: many wait to be worked on, and an actor takes one after the other.
    is_delivery: bool,
}

#[derive(Debug, Default)]
struct Acts {
    /// Of a thread.
    waits: Waits,
    /// The last call.
    start_ns: u64,
    end_ns: u64,
    socket: u64,
    answers: VecDeque<Answered>,
    /// The last requests that the thread has read, whoever answered them, in the order of their starts.
    reads: VecDeque<Answered>,
}

/// A thread or a coroutine that reads requests, makes calls and sends answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Actor {
    Thread(u32),
    /// It may go on on another thread.
    Coroutine(u64),
}

impl Actor {
    pub(super) fn of(tid: u32, coroutine: u64) -> Self {
        if coroutine == 0 {
            Self::Thread(tid)
        } else {
            Self::Coroutine(coroutine)
        }
    }
}

/// Who answered a request.
pub(super) fn answerer(span: &Span) -> Actor {
    let number = |wanted: &str| {
        span.attrs.iter().find_map(|(key, value)| match value {
            Value::Int(number) if key == wanted => Some(*number),
            _ => None,
        })
    };
    let coroutine = number(ANSWER_COROUTINE).map_or(span.coroutine, |id| id as u64);
    Actor::of(number(ANSWER_THREAD).map_or(span.tid, |tid| tid as u32), coroutine)
}

#[derive(Debug, Default)]
pub(super) struct Answerers {
    actors: FxHashMap<Actor, Acts>,
    /// Who gave the answers that are remembered, the oldest first; and which threads have read requests.
    order: VecDeque<Actor>,
    readers: VecDeque<u32>,
    all: Waits,
    has_coroutines: bool,
}

impl Answerers {
    /// Forgets the oldest answer.
    fn forget(&mut self) {
        let Some(actor) = self.order.pop_front() else { return };
        let Some(acts) = self.actors.get_mut(&actor) else { return };
        acts.answers.pop_front();
        if acts.answers.is_empty() && matches!(actor, Actor::Coroutine(_)) {
            self.actors.remove(&actor);
        }
    }

    fn add_read(&mut self, tid: u32, read: Answered) {
        if self.readers.len() >= MAX_ANSWERS {
            let oldest = self.readers.pop_front().and_then(|tid| self.actors.get_mut(&Actor::Thread(tid)));
            oldest.and_then(|acts| acts.reads.pop_front());
        }
        self.readers.push_back(tid);
        let reads = &mut self.actors.entry(Actor::Thread(tid)).or_default().reads;
        let at = reads.partition_point(|a| a.start_ns <= read.start_ns);
        reads.insert(at, read);
    }

    /// Adds a request that was answered.
    pub(super) fn add_answer(&mut self, span: &Span) {
        let Some(exchange) = span.exchange else { return };
        let actor = answerer(span);
        let answered = Answered {
            span: span.id,
            exchange,
            stream: own_name(span),
            socket: span.socket,
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            is_delivery: is_delivery(span),
        };
        if span.coroutine == 0 && !answered.is_delivery {
            self.add_read(span.tid, answered);
        }
        if self.order.len() >= MAX_ANSWERS {
            self.forget();
        }
        self.order.push_back(actor);
        let answers = &mut self.actors.entry(actor).or_default().answers;
        let at = answers.partition_point(|a| a.end_ns <= answered.end_ns);
        answers.insert(at, answered);
        self.has_coroutines |= matches!(actor, Actor::Coroutine(_));
    }

    /// Adds a call. Calls come in the order of their ends.
    pub(super) fn add_call(&mut self, span: &Span) {
        if span.coroutine != 0 {
            self.has_coroutines = true;
            return;
        }
        let thread = Actor::Thread(span.tid);
        if self.actors.len() >= MAX_THREADS + MAX_ANSWERS && !self.actors.contains_key(&thread) {
            (self.actors, self.order, self.readers) = Default::default();
        }
        let thread = self.actors.entry(thread).or_default();
        // Several calls of one connection may leave in one write.
        let are_one_write = span.socket == thread.socket && span.start_ns == thread.start_ns;
        let answers_meanwhile = thread.next(span.start_ns + 1).is_some_and(|a| a.end_ns < span.end_ns);
        let is_broken = (span.start_ns < thread.end_ns && !are_one_write) || answers_meanwhile;
        thread.waits.add(is_broken);
        (thread.start_ns, thread.socket) = (span.start_ns, span.socket);
        thread.end_ns = thread.end_ns.max(span.end_ns);
        self.all.add(is_broken);
    }

    /// The request that made a call, if its coroutine or its thread tells that.
    pub(super) fn maker(&self, call: &Span) -> Option<Answered> {
        let actor = Actor::of(call.tid, call.coroutine);
        let acts = self.actors.get(&actor)?;
        if let Actor::Thread(_) = actor {
            let waits = acts.waits.are_sure() || (acts.waits.broken == 0 && self.all.are_sure());
            if self.has_coroutines || !waits {
                return None;
            }
        }
        let was_open = |a: &&Answered| a.start_ns <= call.start_ns;
        let answered = acts.next(call.end_ns).filter(was_open)?;
        // Another one with the same end left in the same write: it may be of another actor. A coroutine has one request
        // at a time, so one of two answers was given by another.
        let is_clear = match actor {
            Actor::Thread(_) => !acts.has_read_another(answered, call.start_ns),
            Actor::Coroutine(_) if answered.is_delivery => true,
            Actor::Coroutine(_) => acts.next(answered.end_ns + 1).filter(was_open).is_none(),
        };
        (is_clear && acts.ends_at(answered.end_ns) == 1).then_some(*answered)
    }
}

impl Acts {
    /// The first answer that has ended by no earlier time than this.
    fn next(&self, at_ns: u64) -> Option<&Answered> {
        self.answers.get(self.answers.partition_point(|a| a.end_ns < at_ns))
    }

    /// Whether another connection brought the thread a request after this one, which was open at this time.
    fn has_read_another(&self, answered: &Answered, at_ns: u64) -> bool {
        let begun = |at_ns: u64| self.reads.partition_point(|a| a.start_ns <= at_ns);
        let (from, to) = (begun(answered.start_ns), begun(at_ns));
        let mut since = self.reads.range(from.min(to)..to);
        since.any(|a| a.socket != answered.socket && a.end_ns >= at_ns)
    }

    fn ends_at(&self, at_ns: u64) -> usize {
        self.answers.partition_point(|a| a.end_ns <= at_ns) - self.answers.partition_point(|a| a.end_ns < at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::{SpanKind, TapSide};

    fn request(id: u64, start_ns: u64, end_ns: u64, answerer: u32) -> Span {
        let exchange = Some(ExchangeRange { first: id, last: id });
        let attrs = vec![(ANSWER_THREAD.into(), Value::Int(answerer.into()))];
        Span { id: SpanId(id), tid: 1, start_ns, end_ns, exchange, attrs, ..Span::default() }
    }

    fn call(tid: u32, start_ns: u64, end_ns: u64) -> Span {
        Span { tid, start_ns, end_ns, socket: start_ns, ..Span::default() }
    }

    fn made_by(answerers: &Answerers, call: &Span) -> Option<u64> {
        answerers.maker(call).map(|a| a.span.0)
    }

    #[test]
    fn a_thread_that_waits_for_its_calls_makes_them_for_what_it_answers_next() {
        let mut answerers = Answerers::default();
        // Both are read at the same time, by a third thread.
        for n in 0..10 {
            let at = 1_000 * n;
            [call(7, at + 10, at + 20), call(8, at + 12, at + 25), call(7, at + 30, at + 40)]
                .iter()
                .for_each(|call| answerers.add_call(call));
            answerers.add_answer(&request(2 * n, at, at + 50, 7));
            answerers.add_answer(&request(2 * n + 1, at, at + 60, 8));
        }
        assert_eq!(made_by(&answerers, &call(7, 3_010, 3_020)), Some(6));
        assert_eq!(made_by(&answerers, &call(8, 3_012, 3_025)), Some(7));
        assert_eq!(made_by(&answerers, &call(7, 3_070, 3_080)), None, "the next request was not read yet");
        assert_eq!(made_by(&answerers, &call(9, 3_010, 3_020)), None, "a thread that answers nothing");
    }

    #[test]
    fn a_loop_whose_calls_overlap_tells_nothing() {
        let mut answerers = Answerers::default();
        for n in 0..20 {
            let at = 1_000 * n;
            [call(7, at + 12, at + 25), call(7, at + 10, at + 40)].iter().for_each(|call| answerers.add_call(call));
            answerers.add_answer(&request(n, at, at + 50, 7));
        }
        assert_eq!(made_by(&answerers, &call(7, 3_010, 3_040)), None);
    }

    #[test]
    fn a_loop_that_answers_while_it_waits_tells_nothing() {
        let mut answerers = Answerers::default();
        for n in 0..20 {
            answerers.add_answer(&request(n, 1_000 * n, 1_000 * n + 30, 7));
            answerers.add_call(&call(7, 1_000 * n + 10, 1_000 * n + 40));
            answerers.add_answer(&request(100 + n, 1_000 * n, 1_000 * n + 50, 7));
        }
        assert_eq!(made_by(&answerers, &call(7, 3_010, 3_040)), None);
    }

    #[test]
    fn a_thread_that_has_read_another_request_meanwhile_tells_nothing() {
        let on = |socket, request| Span { socket, ..request };
        let mut answerers = Answerers::default();
        (0..20).for_each(|n| answerers.add_call(&call(1, 1_000 * n + 10, 1_000 * n + 20)));
        answerers.add_answer(&on(5, request(1, 0, 500, 1)));
        assert_eq!(made_by(&answerers, &call(1, 110, 120)), Some(1));
        // It reads on before its answer leaves; another thread answers that one.
        answerers.add_answer(&on(6, request(2, 100, 900, 8)));
        assert_eq!(made_by(&answerers, &call(1, 110, 120)), None);
        assert_eq!(made_by(&answerers, &call(1, 50, 60)), Some(1), "not read yet");
        // More of the same connection waits until the thread is done.
        answerers.add_answer(&on(5, request(3, 2_000, 2_500, 1)));
        answerers.add_answer(&on(5, request(4, 2_100, 2_600, 1)));
        assert_eq!(made_by(&answerers, &call(1, 2_110, 2_120)), Some(3));
    }

    #[test]
    fn what_a_thread_has_read_is_known_as_long_as_its_answers() {
        let on = |socket, request| Span { socket, ..request };
        let mut answerers = Answerers::default();
        (0..20).for_each(|n| answerers.add_call(&call(1, 1_000 * n + 10, 1_000 * n + 20)));
        answerers.add_answer(&on(5, request(1, 0, 500, 1)));
        answerers.add_answer(&on(6, request(2, 100, 900, 8)));
        (0..1_000).for_each(|n| answerers.add_answer(&on(7, request(10 + n, 2_000 * n, 2_000 * n + 50, 1))));
        assert_eq!(made_by(&answerers, &call(1, 110, 120)), None, "it had read two");
    }

    #[test]
    fn a_coroutine_makes_its_calls_for_what_it_answers_next() {
        let mut answerers = Answerers::default();
        for n in 0..20 {
            let answer = |coroutine: u64| {
                let mut span = request(2 * n + coroutine, 1_000 * n, 1_000 * n + 40 + coroutine, 7);
                span.attrs.push((ANSWER_COROUTINE.into(), Value::Int(coroutine as i64)));
                span
            };
            (0..2).for_each(|coroutine| answerers.add_answer(&answer(coroutine + 1)));
        }
        let of = |coroutine| Span { coroutine, ..call(7, 3_010, 3_030) };
        assert_eq!((made_by(&answerers, &of(1)), made_by(&answerers, &of(2))), (Some(7), Some(8)));
        assert_eq!(made_by(&answerers, &of(3)), None);
    }

    #[test]
    fn a_coroutine_works_on_one_message_after_the_other() {
        let mut answerers = Answerers::default();
        for (id, settled) in [(1, 50), (2, 100)] {
            let mut message = request(id, 0, settled, 7);
            (message.tap, message.kind) = (TapSide::ServerProcess, SpanKind::Consumer);
            message.attrs.push((ANSWER_COROUTINE.into(), Value::Int(5)));
            answerers.add_answer(&message);
        }
        let of = |at| Span { coroutine: 5, ..call(7, at, at + 10) };
        assert_eq!((made_by(&answerers, &of(10)), made_by(&answerers, &of(60))), (Some(1), Some(2)));
        assert_eq!(made_by(&answerers, &of(110)), None);
    }

    #[test]
    fn where_coroutines_are_seen_a_thread_tells_nothing() {
        let mut answerers = Answerers::default();
        (0..20).for_each(|n| answerers.add_call(&call(7, 1_000 * n + 10, 1_000 * n + 20)));
        answerers.add_answer(&request(1, 0, 50, 7));
        assert_eq!(made_by(&answerers, &call(7, 10, 20)), Some(1));
        answerers.add_call(&Span { coroutine: 5, ..call(8, 10, 20) });
        assert_eq!(made_by(&answerers, &call(7, 10, 20)), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut answerers = Answerers::default();
        for n in 0..3 * MAX_ANSWERS as u64 {
            let mut answer = request(n, n, n + 10, 7);
            answer.attrs.push((ANSWER_COROUTINE.into(), Value::Int(n as i64)));
            answerers.add_answer(&answer);
            answerers.add_call(&call(n as u32, n, n + 1));
        }
        assert!(answerers.order.len() <= MAX_ANSWERS && answerers.actors.len() <= MAX_THREADS + 2 * MAX_ANSWERS);
        let reads = answerers.actors[&Actor::Thread(1)].reads.len();
        assert!(answerers.readers.len() <= MAX_ANSWERS && reads <= MAX_ANSWERS);
    }

    #[test]
    fn answers_that_leave_together_name_no_request() {
        let mut answerers = Answerers::default();
        (0..20).for_each(|n| answerers.add_call(&call(7, 1_000 * n + 10, 1_000 * n + 20)));
        answerers.add_answer(&request(1, 0, 50, 7));
        assert_eq!(made_by(&answerers, &call(7, 10, 20)), Some(1));
        answerers.add_answer(&request(2, 0, 50, 7));
        assert_eq!(made_by(&answerers, &call(7, 10, 20)), None);
    }
}
