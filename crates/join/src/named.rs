//! Jobs that are named by an id. A process takes messages from a queue, keeps some of them for later, and gives them to
//! its workers by a pipe. But a job goes by the id that was in its message: in what a worker reads from the pipe, and
//! in what the taker strikes off at the queue.

use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::VecDeque;
use wirespan_model::broker::{
    brings_work, delivered_ids, hashes, is_delivery, is_script, took_by_script, ELEMENTS_PUT, ELEMENTS_STRUCK,
    ELEMENTS_TAKEN, ELEMENT_IDS,
};
use wirespan_model::event::{is_provisional, AliasKind, CauseAlias, Handed};
use wirespan_model::span::CAUSE_SPAN;
use wirespan_model::{Evidence, Span, SpanId, TapSide, Value};

/// Most ids that are remembered; beyond it the oldest goes.
const MAX_IDS: usize = 65_536;
/// Most deliveries that are remembered for an id. An id of more deliveries names their sender or their queue.
const MAX_SHARED: usize = 8;
/// Most actors, and most workers' jobs, that are remembered.
const MAX_ACTORS: usize = 16_384;
/// Longest time between the script that showed an element and the first call for it, ns.
const SOON_NS: u64 = 1_000_000_000;
/// Longest time between two calls of a job, ns.
const PAUSE_NS: u64 = 60_000_000_000;

/// An exchange that brought messages, and the process that took them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delivery {
    exchange: u64,
    pid: u32,
    /// The span of the message, where one exchange may bring several.
    span: Option<SpanId>,
}

impl Delivery {
    /// Makes this the cause of a span.
    fn cause_of(self, span: &mut Span) {
        span.cause = Some(self.exchange);
        if let Some(id) = self.span {
            span.attrs.push((Cow::Borrowed(CAUSE_SPAN), Value::Str(id.to_string().into())));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Job {
    exchange: u64,
    /// The actor's next call belongs to this job if it begins by then, Unix ns.
    until_ns: u64,
}

/// Process, thread and coroutine.
type Actor = (u32, u32, u64);

#[derive(Debug, Default)]
pub(crate) struct NamedJobs {
    by_id: FxHashMap<u64, Vec<Delivery>>,
    ids: VecDeque<u64>,
    actors: FxHashMap<Actor, Job>,
    /// Processes that take elements by commands made for it. What their scripts show, they work on, too.
    takers: FxHashSet<u32>,
    /// Elements that were put into Redis.
    put: FxHashSet<u64>,
    put_order: VecDeque<u64>,
    /// By a cause that the kernel tells: the script that has taken an element on its behalf since, and when, Unix ns. An
    /// event loop that was told of work, and then took it by a script, goes on under the cause of what told it.
    taken_for: FxHashMap<u64, Job>,
    /// Jobs of workers that read them from pipes, by provisional cause.
    handed: FxHashMap<u64, Delivery>,
    order: VecDeque<u64>,
}

impl NamedJobs {
    /// Learns from a span which messages came, and gives it its cause if an id has told that.
    pub(crate) fn see(&mut self, span: &mut Span) {
        if let Some(exchange) = span.exchange.filter(|_| is_delivery(span)) {
            let delivery = Delivery { exchange: exchange.last, pid: span.pid, span: Some(span.id) };
            let ids: Vec<u64> = delivered_ids(span).flat_map(|id| wirespan_decode::ids::ids(id.as_bytes())).collect();
            ids.into_iter().for_each(|id| self.add(id, delivery));
        }
        if span.protocol == "redis" {
            self.note_put(span);
        }
        if span.tap != TapSide::ClientProcess {
            return self.forget_ids(span);
        }
        let actor = (span.pid, span.tid, span.coroutine);
        if self.takes_by_script(span) {
            self.take_by_script(span);
        } else if let Some(cause) = span.cause {
            match span.cause_evidence {
                Some(Evidence::EventLoop) => self.follow_script(cause, span),
                Some(Evidence::WakeUp | Evidence::Inferred) if !brings_work(span) => self.follow_job(actor, span),
                _ => drop(self.actors.remove(&actor)),
            }
            if let Some(delivery) = self.handed.get(&cause).filter(|_| is_provisional(cause)) {
                delivery.cause_of(span);
            }
        }
        if span.protocol == "redis" {
            self.see_redis(span, actor);
            self.forget_ids(span);
        }
        if span.cause.is_none() && span.cause_evidence.is_none() && !brings_work(span) {
            self.follow_job(actor, span);
        }
    }

    /// The actor's call is for the job that it has taken by a script, if any.
    fn follow_job(&mut self, actor: Actor, span: &mut Span) {
        let Some(job) = self.actors.get_mut(&actor) else { return };
        if span.start_ns > job.until_ns {
            self.actors.remove(&actor);
            return;
        }
        job.until_ns = span.end_ns.saturating_add(PAUSE_NS);
        (span.cause, span.cause_evidence) = (Some(job.exchange), Some(Evidence::Broker));
    }

    /// What an event loop calls under a cause is for the job that was taken under that cause last.
    fn follow_script(&self, cause: u64, span: &mut Span) {
        if let Some(job) = self.taken_for.get(&cause).filter(|job| span.start_ns <= job.until_ns) {
            (span.cause, span.cause_evidence) = (Some(job.exchange), Some(Evidence::Broker));
        }
    }

    /// Whether a script took an element out, by a process that works on what it takes. Nobody asks for that, whatever
    /// the actor seems to act for.
    fn takes_by_script(&self, span: &Span) -> bool {
        is_script(&span.operation)
            && self.takers.contains(&span.pid)
            && matches!(span.cause_evidence, None | Some(Evidence::EventLoop | Evidence::WakeUp | Evidence::Inferred))
            && hashes(span, ELEMENTS_TAKEN).any(|hash| self.put.contains(&hash))
    }

    /// A script takes an element. What an event loop calls under the script's cause is for that element from now on.
    fn take_by_script(&mut self, span: &mut Span) {
        let told = span.cause.filter(|_| span.cause_evidence == Some(Evidence::EventLoop));
        if let (Some(cause), Some(exchange)) = (told, span.exchange) {
            if self.taken_for.len() >= MAX_ACTORS {
                self.taken_for.clear();
            }
            let until_ns = span.end_ns.saturating_add(PAUSE_NS);
            self.taken_for.insert(cause, Job { exchange: exchange.last, until_ns });
        }
        (span.cause, span.cause_evidence) = (None, None);
    }

    /// Remembers what was put into Redis, by whichever process.
    fn note_put(&mut self, span: &Span) {
        for hash in hashes(span, ELEMENTS_PUT) {
            if self.put.insert(hash) {
                self.put_order.push_back(hash);
            }
            if self.put_order.len() > MAX_IDS {
                self.put_order.pop_front().map(|oldest| self.put.remove(&oldest));
            }
        }
    }

    fn see_redis(&mut self, span: &mut Span, actor: Actor) {
        if let Some(exchange) = span.exchange.filter(|_| brings_work(span)) {
            let delivery = Delivery { exchange: exchange.last, pid: span.pid, span: None };
            for id in hashes(span, ELEMENTS_TAKEN).chain(hashes(span, ELEMENT_IDS)) {
                self.add(id, delivery);
            }
            if !took_by_script(span) {
                if self.takers.len() >= MAX_ACTORS {
                    self.takers.clear();
                }
                self.takers.insert(span.pid);
                self.actors.remove(&actor);
            } else if self.takers.contains(&span.pid) {
                self.begin(actor, exchange.last, span.end_ns);
            }
        } else if is_guess(span) {
            let names: Vec<u64> = hashes(span, ELEMENTS_STRUCK).chain(hashes(span, ELEMENT_IDS)).collect();
            if let Some(delivery) = self.named_by(&names).filter(|d| d.pid == span.pid) {
                delivery.cause_of(span);
                span.cause_evidence = Some(Evidence::Broker);
            }
        }
        if is_script(&span.operation) && !took_by_script(span) {
            span.exchange = None;
        }
    }

    /// The actor's next calls are for this delivery.
    fn begin(&mut self, actor: Actor, exchange: u64, at_ns: u64) {
        if self.actors.len() >= MAX_ACTORS {
            self.actors.clear();
        }
        self.actors.insert(actor, Job { exchange, until_ns: at_ns.saturating_add(SOON_NS) });
    }

    /// A worker has read a job from a pipe. Returns the real cause behind the worker's provisional one, if it is known.
    pub(crate) fn handed(&mut self, handed: &Handed) -> Option<CauseAlias> {
        let delivery = self.named_by(&wirespan_decode::ids::ids(&handed.bytes))?;
        if self.order.len() >= MAX_ACTORS {
            self.order.pop_front().map(|oldest| self.handed.remove(&oldest));
        }
        self.handed.insert(handed.provisional, delivery);
        self.order.push_back(handed.provisional);
        let (provisional, cause) = (handed.provisional, delivery.exchange);
        Some(CauseAlias { provisional, cause, kind: AliasKind::Name, time_ns: handed.time_ns })
    }

    fn add(&mut self, id: u64, delivery: Delivery) {
        let list = self.by_id.entry(id).or_default();
        if list.is_empty() {
            self.ids.push_back(id);
        }
        if list.len() <= MAX_SHARED && list.last() != Some(&delivery) {
            list.push(delivery);
        }
        if self.ids.len() > MAX_IDS {
            self.ids.pop_front().map(|oldest| self.by_id.remove(&oldest));
        }
    }

    /// The delivery that has most of these ids; of several, the last one.
    fn named_by(&self, ids: &[u64]) -> Option<Delivery> {
        let mut found: Vec<(Delivery, usize)> = Vec::new();
        let lists = ids.iter().filter_map(|id| self.by_id.get(id)).filter(|list| list.len() <= MAX_SHARED);
        for delivery in lists.flatten() {
            match found.iter_mut().find(|(known, _)| known == delivery) {
                Some((_, count)) => *count += 1,
                None => found.push((*delivery, 1)),
            }
        }
        found.into_iter().max_by_key(|(_, count)| *count).map(|(delivery, _)| delivery)
    }

    /// Ids serve this purpose only: they go no further.
    fn forget_ids(&self, span: &mut Span) {
        if span.protocol == "redis" {
            span.attrs.retain(|(key, _)| key != ELEMENT_IDS && key != ELEMENTS_STRUCK);
        }
    }
}

/// Whether a loop that takes messages may have acted for another one than it read last.
fn is_guess(span: &Span) -> bool {
    span.cause.is_none() || matches!(span.cause_evidence, Some(Evidence::EventLoop | Evidence::Inferred))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_decode::ids::ids;
    use wirespan_model::event::PROVISIONAL;
    use wirespan_model::{ExchangeRange, SpanKind};

    const JOB: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    const AGAIN: &str = "1f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    const SENDER: &str = "2f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    const S: u64 = 1_000_000_000;

    fn call(operation: &str, tid: u32, at: u64) -> Span {
        Span {
            tap: TapSide::ClientProcess,
            protocol: Cow::Borrowed("redis"),
            operation: operation.into(),
            pid: 1,
            tid,
            start_ns: at,
            end_ns: at,
            ..Span::default()
        }
    }

    fn with_ids(mut span: Span, names: &[&str]) -> Span {
        let hashes: String = names.iter().map(|id| format!("{:016x} ", ids(id.as_bytes())[0])).collect();
        span.attrs.push((Cow::Borrowed(ELEMENT_IDS), Value::Str(hashes.trim().into())));
        span
    }

    /// The first thread takes a message.
    fn take(jobs: &mut NamedJobs, exchange: u64, names: &[&str]) {
        let mut span = with_ids(call("BRPOP", 1, 0), names);
        span.exchange = Some(ExchangeRange { first: exchange, last: exchange });
        span.attrs.push((Cow::Borrowed(ELEMENTS_TAKEN), Value::Str("".into())));
        jobs.see(&mut span);
        assert!(span.cause.is_none() && !span.attrs.iter().any(|(key, _)| key == ELEMENT_IDS));
    }

    fn cause(jobs: &mut NamedJobs, mut span: Span) -> Option<u64> {
        jobs.see(&mut span);
        span.cause
    }

    fn handed(jobs: &mut NamedJobs, bytes: &str) -> Option<u64> {
        let handed = Handed { provisional: PROVISIONAL | 5, time_ns: 0, bytes: bytes.into() };
        jobs.handed(&handed).map(|alias| alias.cause)
    }

    #[test]
    fn what_is_struck_off_is_for_the_message_that_it_names() {
        let mut jobs = NamedJobs::default();
        take(&mut jobs, 10, &[JOB, SENDER]);
        take(&mut jobs, 11, &[AGAIN, SENDER]);
        assert_eq!(cause(&mut jobs, with_ids(call("HDEL", 1, S), &[JOB])), Some(10));
        assert_eq!(cause(&mut jobs, call("GET", 1, S)), None, "this call names nothing");
        let mut claimed = with_ids(call("HDEL", 1, S), &[JOB]);
        (claimed.cause, claimed.cause_evidence) = (Some(11), Some(Evidence::EventLoop));
        assert_eq!(cause(&mut jobs, claimed.clone()), Some(10), "not what the loop read last");
        claimed.cause_evidence = Some(Evidence::Thread);
        assert_eq!(cause(&mut jobs, claimed), Some(11));
        let mut foreign = with_ids(call("HDEL", 1, S), &[JOB]);
        foreign.pid = 2;
        assert_eq!(cause(&mut jobs, foreign), None, "another process took it");
    }

    /// One read brings several messages of a subscriber.
    #[test]
    fn a_job_from_a_pipe_has_the_cause_of_its_delivery_among_others() {
        let mut jobs = NamedJobs::default();
        for (n, id) in [(1, JOB), (2, AGAIN)] {
            let mut span = Span {
                id: SpanId(n),
                tap: TapSide::ServerProcess,
                kind: SpanKind::Consumer,
                exchange: Some(ExchangeRange { first: 10, last: 10 }),
                ..call("basic.deliver", 1, 0)
            };
            span.attrs.push((Cow::Borrowed("messaging.message.conversation_id"), Value::Str(id.into())));
            jobs.see(&mut span);
        }
        assert_eq!(handed(&mut jobs, &format!("({AGAIN} {SENDER})")), Some(10));
        let mut job = call("GET", 7, S);
        (job.pid, job.cause) = (9, Some(PROVISIONAL | 5));
        jobs.see(&mut job);
        let (of, span) = (job.cause, job.attrs.iter().find(|(key, _)| key == CAUSE_SPAN));
        assert_eq!((of, span.map(|(_, id)| id.clone())), (Some(10), Some(Value::Str(SpanId(2).to_string().into()))));
    }

    #[test]
    fn a_taker_works_on_what_its_scripts_show() {
        let mut jobs = NamedJobs::default();
        let script = || {
            let mut span = call("EVALSHA", 4, S);
            span.exchange = Some(ExchangeRange { first: 20, last: 20 });
            span.attrs.push((Cow::Borrowed(ELEMENTS_TAKEN), Value::Str("a1".into())));
            span
        };
        cause(&mut jobs, script());
        assert_eq!(cause(&mut jobs, call("LPUSH", 4, S)), None, "this process has taken nothing");
        take(&mut jobs, 10, &[JOB]);
        cause(&mut jobs, script());
        assert_eq!(cause(&mut jobs, call("LPUSH", 4, S)), Some(20));
        assert_eq!(cause(&mut jobs, call("LPUSH", 4, 30 * S)), Some(20), "the job goes on");
        assert_eq!(cause(&mut jobs, call("LPUSH", 4, 300 * S)), None, "no job pauses that long");
        assert_eq!(cause(&mut jobs, call("LPUSH", 1, S)), None, "another thread");
    }

    /// BullMQ: a loop learns from a marker that there is work, and takes one job after the other by scripts. Sidekiq: a
    /// thread that lost the lock of its pool to another seems to act for that one.
    #[test]
    fn a_script_takes_what_was_put_whatever_its_actor_seems_to_act_for() {
        let mut jobs = NamedJobs::default();
        take(&mut jobs, 10, &[]);
        let mut put = call("EVALSHA", 3, 0);
        (put.pid, put.tap) = (2, TapSide::ServerProcess);
        put.attrs.push((Cow::Borrowed(ELEMENTS_PUT), Value::Str("a1 b2".into())));
        jobs.see(&mut put);
        let script = |element: &str, exchange: u64, evidence| {
            let mut span = call("EVALSHA", 4, S);
            span.exchange = Some(ExchangeRange { first: exchange, last: exchange });
            (span.cause, span.cause_evidence) = (Some(10), Some(evidence));
            span.attrs.push((Cow::Borrowed(ELEMENTS_TAKEN), Value::Str(element.into())));
            span
        };
        let seems = |tid, evidence| {
            let mut span = call("GET", tid, 2 * S);
            (span.cause, span.cause_evidence) = (Some(10), Some(evidence));
            span
        };
        assert_eq!(cause(&mut jobs, script("c3", 20, Evidence::EventLoop)), Some(10), "nobody has put this");
        assert_eq!(cause(&mut jobs, script("a1", 21, Evidence::Thread)), Some(10), "a call of the job of this thread");
        assert_eq!(cause(&mut jobs, script("a1", 22, Evidence::EventLoop)), None);
        assert_eq!(cause(&mut jobs, seems(4, Evidence::EventLoop)), Some(22));
        assert_eq!(cause(&mut jobs, script("b2", 23, Evidence::EventLoop)), None);
        assert_eq!(cause(&mut jobs, seems(4, Evidence::EventLoop)), Some(23), "the next job");
        assert_eq!(cause(&mut jobs, script("a1", 24, Evidence::WakeUp)), None);
        assert_eq!(cause(&mut jobs, seems(4, Evidence::Inferred)), Some(24));
        assert_eq!(cause(&mut jobs, seems(5, Evidence::Inferred)), Some(10), "another thread");
    }

    #[test]
    fn a_job_from_a_pipe_has_the_cause_of_its_message() {
        let mut jobs = NamedJobs::default();
        take(&mut jobs, 10, &[JOB, SENDER]);
        take(&mut jobs, 11, &[AGAIN, SENDER]);
        assert_eq!(handed(&mut jobs, "no id"), None);
        assert_eq!(handed(&mut jobs, &format!("({JOB} {SENDER})")), Some(10));
        // A message that came a second time has the same id: the later one counts.
        take(&mut jobs, 12, &[JOB, SENDER]);
        assert_eq!(handed(&mut jobs, &format!("({JOB} {SENDER})")), Some(12));
        let mut late = call("GET", 7, 3600 * S);
        (late.pid, late.cause) = (9, Some(PROVISIONAL | 5));
        assert_eq!(cause(&mut jobs, late), Some(12), "also of its later calls");
        (20..30).for_each(|n| take(&mut jobs, n, &[SENDER]));
        assert_eq!(handed(&mut jobs, SENDER), None, "the id of a sender names no job");
    }
}
