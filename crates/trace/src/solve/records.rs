//! Records of Kafka, each with the calls that its consumer made for it.
//!
//! A fetch brings many records, and nothing settles them one by one. But a consumer works on them one after the other,
//! in the order in which the fetch has them ([`align`](super::align)). A committed offset also tells how far it is. So
//! each record gets a span of its own, of kind consumer, from its first call to the end of its last one. Where a
//! process works on several records at once, the alignment explains its calls badly, and they keep the fetch as their
//! cause. A consumer that commits each record by itself tells more ([`turns`]).

mod turns;

use self::turns::{Moved, Turns};
use super::align::{evidence, Align, Call, Mark, Unit};
use super::calibration::SUREST;
use super::signature::Signatures;
use super::{Named, Verdict};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use wirespan_model::attr::Value;
use wirespan_model::broker::{asks_for_messages, kafka_batches, kafka_commits, kafka_records};
use wirespan_model::broker::{Records as Fetched, KAFKA_BATCHES, PROCESS};
use wirespan_model::event::{by_message, exchange_socket};
use wirespan_model::key::hash64;
use wirespan_model::{ExchangeRange, Housekeeping, Span, SpanId, SpanKind, Status, TapSide};

/// Most connections that are known to bring records.
const MAX_SOCKETS: usize = 1_024;
/// Most records of which the place is remembered, and most records of one fetch.
const MAX_RECORDS: usize = 65_536;
const MAX_FETCHED: u64 = 4_096;
/// How well calls must be explained.
const LEAST_FIT: f64 = 0.3;
/// A record's span ends so long after its last call, if no other record follows, ns.
const LINGER_NS: u64 = 1_000_000_000;

/// A record that was fetched.
#[derive(Debug)]
struct Record {
    fetch: Arc<Span>,
    topic: Box<str>,
    partition: Box<str>,
    place: u64,
    offset: u64,
    cause: u64,
    /// First start and last end of its calls, and the thread of the first.
    worked: Option<(u64, u64, u32)>,
    /// Its calls, and the class of its topic.
    calls: u32,
    class: u64,
    /// More records follow it in its fetch, of which nothing was seen: the fetch was longer than what is captured.
    is_cut: bool,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    align: Align,
    turns: Turns,
    /// By place, the class of its records, and the first offset that was fetched.
    places: FxHashMap<u64, (u64, u64)>,
    /// By place and offset.
    numbers: FxHashMap<(u64, u64), u64>,
    /// Connections that have brought records.
    sockets: FxHashSet<u64>,
    /// By place, the offset behind the last record.
    next: FxHashMap<u64, u64>,
    records: BTreeMap<u64, Record>,
    waiting: FxHashMap<u64, Arc<Span>>,
    /// The records whose spans are not complete.
    open: Vec<u64>,
    /// By class, most calls of a record; and the last record after which some were not seen.
    most: FxHashMap<u64, u32>,
    last_cut: u64,
    number: u64,
    signatures: Signatures,
}

impl Records {
    /// Takes what a consumer's own spans tell: a fetch that brought records, or a commit.
    pub(super) fn add(&mut self, span: &Arc<Span>) {
        let commits = kafka_commits(span);
        if !commits.is_empty() {
            if self.sockets.is_empty() {
                return;
            }
            let moved: Vec<Moved> = commits.iter().map(|(place, next)| self.moved(*place, *next)).collect();
            for Moved { place, next, .. } in &moved {
                self.align.add_mark(Mark { at_ns: span.start_ns, place: *place, number: *next });
            }
            self.turns.commit(span.start_ns, &moved);
        } else if span.protocol == "kafka" && asks_for_messages(span) && span.status == Status::Ok {
            self.fetched(span);
        }
    }

    fn moved(&self, place: u64, next: u64) -> Moved {
        let known = self.places.get(&place);
        Moved { place, next, first: known.map(|(_, first)| *first), topic: known.map_or(0, |(class, _)| *class) }
    }

    fn fetched(&mut self, fetch: &Arc<Span>) {
        let Some(exchange) = fetch.exchange.map(|exchange| exchange.first) else { return };
        let mut brought = false;
        for part in kafka_records(fetch) {
            let place = part.place();
            let next = self.next.entry(place).or_default();
            // A batch is fetched whole, also if the consumer has had its first records before. If the consumer has had
            // all of them, it goes back.
            let first = if part.last < *next { part.first } else { part.first.max(*next) };
            *next = part.last + 1;
            let class = hash64(&[part.topic.as_bytes()]);
            self.places.entry(place).or_insert((class, part.first));
            for offset in (first..=part.last).take(MAX_FETCHED as usize) {
                brought = true;
                self.number += 1;
                let cause = by_message(exchange, place, offset);
                let (topic, partition, fetch) = (part.topic.into(), part.partition.into(), fetch.clone());
                self.numbers.insert((place, offset), self.number);
                let (calls, worked, is_cut) = (0, None, false);
                let record = Record { fetch, topic, partition, place, offset, cause, worked, calls, class, is_cut };
                self.records.insert(self.number, record);
                self.align.add_unit(Unit {
                    class,
                    from_ns: self.records[&self.number].fetch.end_ns,
                    exchange,
                    place: (place, offset),
                    name: self.number,
                });
            }
        }
        if brought {
            let is_whole = fetch.attrs.iter().any(|(key, _)| key == "messaging.batch.message_count");
            if let Some(last) = self.records.get_mut(&self.number).filter(|_| !is_whole) {
                last.is_cut = true;
                self.last_cut = self.number;
            }
            if self.sockets.len() >= MAX_SOCKETS {
                self.sockets.clear();
            }
            self.sockets.insert(exchange_socket(exchange));
        }
        while self.records.len() > MAX_RECORDS {
            self.forget();
        }
    }

    /// Forgets the oldest record.
    fn forget(&mut self) {
        let Some((name, record)) = self.records.pop_first() else { return };
        let place = (record.place, record.offset);
        if self.numbers.get(&place) == Some(&name) {
            self.numbers.remove(&place);
        }
    }

    /// Whether the process has fetched records.
    pub(super) fn are_fetched(&self) -> bool {
        !self.sockets.is_empty()
    }

    /// Whether a call may have been made for a record: it was made for what a fetch has brought, or, in a process that
    /// serves nobody, for nothing that is known.
    pub(super) fn may_have_made(&self, span: &Span, serves: bool) -> bool {
        if self.sockets.is_empty() || span.parent_span_id.is_some() {
            return false;
        }
        // What a client says to its group is not for a record. What a driver does for its connection comes at any time.
        if span.protocol == "kafka" && span.operation != "Produce" || Housekeeping::of(span).is_some() {
            return false;
        }
        match span.cause {
            Some(cause) => self.sockets.contains(&exchange_socket(cause)),
            None => !serves,
        }
    }

    /// Takes a call, which waits.
    pub(super) fn add_call(&mut self, span: Arc<Span>) {
        self.number += 1;
        let class = self.signatures.of_call(&span);
        self.turns.call(&span, class);
        self.align.add_call(Call {
            class,
            start_ns: span.start_ns,
            end_ns: if span.status == Status::OneWay { span.start_ns } else { span.end_ns },
            order: span.request_seq.unwrap_or(0),
            exchange: span.cause,
            name: self.number,
        });
        self.waiting.insert(self.number, span);
    }

    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty() || !self.open.is_empty()
    }

    /// Start of the first call that is not decided.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.align.first_ns()
    }

    pub(super) fn is_due(&self, goal_ns: u64) -> bool {
        self.align.is_due(goal_ns) || self.open.iter().any(|name| self.is_over(*name, goal_ns))
    }

    fn is_over(&self, name: u64, goal_ns: u64) -> bool {
        let worked = self.records.get(&name).and_then(|record| record.worked);
        worked.is_none_or(|(_, end_ns, _)| end_ns.saturating_add(LINGER_NS) <= goal_ns)
    }

    /// Decides the calls up to a time. `least`: least probability of a link.
    pub(super) fn solve(&mut self, goal_ns: u64, least: f32, out: &mut dyn FnMut(Arc<Span>, Verdict)) {
        let given = if self.align.is_due(goal_ns) { self.align.decide(goal_ns) } else { Vec::new() };
        let fits = self.align.fit() >= LEAST_FIT;
        let told = self.turns.told();
        for one in given {
            let Some(span) = self.waiting.remove(&one.call) else { continue };
            let record = told.and_then(|(lead, confidence)| {
                let record = self.turns.at(span.start_ns, lead)?;
                Some((*self.numbers.get(&record)?, confidence))
            });
            let aligned = one.unit.filter(|_| fits && one.confidence >= f64::from(least));
            let named = match (record, aligned) {
                (Some((record, confidence)), _) => self.named(&span, record, confidence),
                (None, Some(record)) => self.named(&span, record, one.confidence),
                (None, None) => None,
            };
            out(span, named.map_or(Verdict::Kept(None), Verdict::Named));
        }
        // A record is over once another one is worked on.
        let all = std::mem::take(&mut self.open);
        let newest = all.last().copied();
        let is_over = |name: &u64| Some(*name) != newest || self.is_over(*name, goal_ns);
        let (over, open): (Vec<u64>, Vec<u64>) = all.into_iter().partition(is_over);
        self.open = open;
        for name in over {
            let Some(record) = self.records.get(&name) else { continue };
            if name > self.last_cut {
                let most = self.most.entry(record.class).or_default();
                *most = record.calls.max(*most);
            }
            if let Some(record) = span_of(record) {
                out(Arc::new(record), Verdict::Made);
            }
        }
        let from = self.align.first_unit().unwrap_or(0);
        if told.is_some() {
            return;
        }
        while self.records.first_key_value().is_some_and(|(name, _)| *name < from && !self.open.contains(name)) {
            self.forget();
        }
    }

    fn named(&mut self, span: &Span, name: u64, confidence: f64) -> Option<Named> {
        let record = self.records.get_mut(&name)?;
        // What is too much for the records that were seen was for one of those that were not.
        let most = self.most.get(&record.class).copied().or(record.is_cut.then_some(1));
        if name <= self.last_cut && most.is_some_and(|most| record.calls >= most) {
            return None;
        }
        record.calls += 1;
        let (start_ns, end_ns, tid) = record.worked.unwrap_or((span.start_ns, span.end_ns, span.tid));
        record.worked = Some((start_ns.min(span.start_ns), end_ns.max(span.end_ns), tid));
        if !self.open.contains(&name) {
            self.open.push(name);
        }
        let evidence = evidence(span, record.fetch.exchange);
        Some(Named { exchange: record.cause, evidence, confidence: confidence.min(SUREST), span: None })
    }
}

/// The span of a record on which its consumer has worked.
fn span_of(record: &Record) -> Option<Span> {
    let (start_ns, end_ns, tid) = record.worked?;
    let fetch = &record.fetch;
    let kept = |key: &str| matches!(key, "messaging.system.name" | "messaging.consumer.group.name");
    let mut attrs: Vec<_> = fetch.attrs.iter().filter(|(key, _)| kept(key)).cloned().collect();
    attrs.extend([
        ("messaging.operation.name".into(), Value::from(PROCESS)),
        ("messaging.operation.type".into(), PROCESS.into()),
        ("messaging.destination.name".into(), (&*record.topic).into()),
        ("messaging.destination.partition.id".into(), (&*record.partition).into()),
        ("kafka.offset".into(), Value::Int(i64::try_from(record.offset).unwrap_or(i64::MAX))),
    ]);
    let is_in = |(part, _): &(Fetched<'_>, u64)| {
        let here = (part.topic, part.partition) == (&*record.topic, &*record.partition);
        here && (part.first..=part.last).contains(&record.offset)
    };
    if let Some((part, name)) = kafka_batches(fetch).find(is_in) {
        let text = format!("{}/{}:{}-{}={name:x}", part.topic, part.partition, part.first, part.last);
        attrs.push((KAFKA_BATCHES.into(), text.into()));
    }
    Some(Span {
        id: SpanId(hash64(&[&fetch.id.0.to_le_bytes(), &record.cause.to_le_bytes()]).max(1)),
        tap: TapSide::ServerProcess,
        kind: SpanKind::Consumer,
        start_ns,
        response_ns: end_ns,
        end_ns,
        operation: PROCESS.into(),
        target: (&*record.topic).into(),
        exchange: Some(ExchangeRange { first: record.cause, last: record.cause }),
        cause: None,
        cause_evidence: None,
        tid,
        request_bytes: 0,
        response_bytes: 0,
        request_seq: None,
        response_seq: None,
        message_id: None,
        trace_id: None,
        parent_span_id: None,
        request_id: None,
        tcp: Default::default(),
        attrs,
        ..Span::clone(fetch)
    })
}

#[cfg(test)]
mod tests;
