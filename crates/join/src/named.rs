//! Jobs that are named by an id. A process takes messages from a queue, keeps some of them for later, and gives them to
//! its workers by a pipe. But a job goes by the id that was in its message: in what a worker reads from the pipe, and
//! in what the taker strikes off at the queue.

use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::VecDeque;
use wirespan_model::attr::CAUSE_SPAN;
use wirespan_model::broker::{
    brings_work, delivered_ids, hashes, is_delivery, is_script, took_by_script, ELEMENTS_PUT, ELEMENTS_STRUCK,
    ELEMENTS_TAKEN, ELEMENT_IDS,
};
use wirespan_model::event::{is_provisional, AliasKind, CauseAlias, Handed};
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
    /// By a cause that the kernel tells: the script that has taken an element on its behalf since. An event loop that
    /// was told of work, and then took it by a script, goes on under the cause of what told it.
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
mod tests;
