//! Records of Kafka that a producer has gathered from several requests, each given to its own.
//!
//! A producer keeps what it is given for some milliseconds and sends it all at once. One request of Kafka then carries
//! records of several users, and no cause is right for it. So each of its records stands as a call of its own while
//! causes are inferred, in the order of the batch. If all turn out to be of one request, the produce has that cause.
//! Else each record gets a span of its own (`create`, as OpenTelemetry's conventions call it), with its request as
//! parent, and with the link to its consumer; the produce has no parent.

use super::workers::inherits;
use super::{confidence, trial, CONFIDENCE};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use wirespan_model::attr::{Value, CAUSE_SPAN};
use wirespan_model::broker::{kafka_produced, Records, CREATE, KAFKA_BATCHES, KAFKA_CREATED};
use wirespan_model::key::hash64;
use wirespan_model::{Evidence, Span, SpanId, Status, TapSide};

/// Most records of a produce that are followed one by one.
const MAX_RECORDS: u64 = 64;

/// Most connections that are remembered.
const MAX_CONNECTIONS: usize = 4_096;
/// Produces of one request each, after which a connection is known to gather for one request only, unless one in `RARE`
/// was of several.
const FEW: u32 = 10;
const RARE: u32 = 20;

/// A produce whose records are decided one by one.
#[derive(Debug)]
struct Sent {
    produce: Arc<Span>,
    /// Its records, and how many of them are not decided.
    records: Vec<Arc<Span>>,
    left: usize,
}

/// How many produces of several records had one request, and how many had several.
#[derive(Clone, Copy, Debug, Default)]
struct Habit {
    one: u32,
    several: u32,
}

impl Habit {
    /// Whether the connection gathers what several requests send. Until something is known it may.
    fn gathers(self) -> bool {
        self.one < FEW || self.several > self.one / RARE
    }
}

#[derive(Debug, Default)]
pub(super) struct Gathered {
    sent: FxHashMap<SpanId, Sent>,
    /// Connections on which several records were sent at once, by host and socket.
    habits: FxHashMap<(u64, u64), Habit>,
    /// Which record of which produce a span stands for.
    parts: FxHashMap<SpanId, (SpanId, usize)>,
}

/// Whether several requests may have given a producer what this span sent.
pub(super) fn may_be_gathered(span: &Span) -> bool {
    span.protocol == "kafka"
        && span.operation == "Produce"
        && span.tap == TapSide::ClientProcess
        && matches!(span.status, Status::Ok | Status::OneWay)
        && span.parent_span_id.is_none()
        // The thread that has read the request sends for it alone.
        && span.cause_evidence != Some(Evidence::Thread)
}

impl Gathered {
    /// The records of a produce that [`may_be_gathered`], if each shall be decided by itself. Of a single record, only
    /// the kernel's claim is taken back, if its connection gathers records: the coroutine that waits for more of them
    /// acts for the request that came first.
    pub(super) fn split(&mut self, span: &mut Arc<Span>) -> Option<Vec<Arc<Span>>> {
        let number = |(part, _): &(Records<'_>, _)| part.last.saturating_add(1).saturating_sub(part.first);
        let number = kafka_produced(span).iter().map(number).fold(0, u64::saturating_add);
        let connection = (span.host_id, span.socket);
        let habit = self.habits.get(&connection).copied();
        if number == 1 && habit.is_some_and(Habit::gathers) && inherits(span) {
            let own = Arc::make_mut(span);
            (own.cause, own.cause_evidence) = (None, Some(Evidence::Inferred));
        }
        if !(2..=MAX_RECORDS).contains(&number) {
            return None;
        }
        if habit.is_none() {
            if self.habits.len() >= MAX_CONNECTIONS {
                self.habits.clear();
            }
            self.habits.insert(connection, Habit::default());
        }
        let records: Vec<Arc<Span>> = records(span).map(Arc::new).collect();
        self.parts.extend(records.iter().enumerate().map(|(i, part)| (part.id, (span.id, i))));
        let sent = Sent { produce: span.clone(), left: records.len(), records: records.clone() };
        self.sent.insert(span.id, sent);
        Some(records)
    }

    /// Takes a span that is decided: it goes on, unless it is a record of a produce that waits for other records.
    pub(super) fn give(&mut self, span: Arc<Span>, sink: &mut dyn FnMut(Arc<Span>)) {
        let Some((produce, i)) = self.parts.remove(&span.id) else { return sink(span) };
        let Some(sent) = self.sent.get_mut(&produce) else { return };
        if let Some(slot) = sent.records.get_mut(i) {
            *slot = span;
        }
        sent.left -= 1;
        if sent.left == 0 {
            let Some(sent) = self.sent.remove(&produce) else { return };
            let connection = (sent.produce.host_id, sent.produce.socket);
            let (one, habit) = (sent.finish(sink), self.habits.entry(connection).or_default());
            habit.one += u32::from(one == Some(true));
            habit.several += u32::from(one == Some(false));
        }
    }
}

impl Sent {
    /// All records are decided. Returns whether one request has sent them all, if that is known.
    fn finish(self, sink: &mut dyn FnMut(Arc<Span>)) -> Option<bool> {
        let Sent { mut produce, records, .. } = self;
        let of = |span: &Span| (span.cause, span.text(CAUSE_SPAN).map(str::to_owned));
        let one = records.first().map(|first| of(first)).filter(|first| records.iter().all(|r| of(r) == *first));
        let own = Arc::make_mut(&mut produce);
        match one {
            Some((None, _)) => {
                if trial::is_tried(own) {
                    (own.cause, own.cause_evidence) = (None, None);
                }
                sink(produce);
                None
            }
            Some(_) => {
                take_cause(own, &records);
                sink(produce);
                Some(true)
            }
            None => {
                (own.cause, own.cause_evidence) = (None, None);
                own.attrs.push((KAFKA_CREATED.into(), Value::Bool(true)));
                sink(produce);
                for mut record in records {
                    let own = Arc::make_mut(&mut record);
                    (own.operation, own.request_seq) = (CREATE.into(), None);
                    sink(record);
                }
                Some(false)
            }
        }
    }
}

/// Gives a produce the cause that all of its records have, as sure as the least sure of them.
fn take_cause(produce: &mut Span, records: &[Arc<Span>]) {
    let least = records.iter().min_by(|a, b| sure(a).total_cmp(&sure(b)));
    if let Some(least) = least.filter(|least| produce.cause != least.cause) {
        (produce.cause, produce.cause_evidence) = (least.cause, least.cause_evidence);
        let told = |(key, _): &&(_, _)| key == CONFIDENCE || key == CAUSE_SPAN;
        produce.attrs.extend(least.attrs.iter().filter(told).cloned());
    }
}

fn sure(span: &Span) -> f32 {
    confidence(span).unwrap_or(1.0)
}

/// A span for each record of a produce, in their order. While causes are inferred it has the operation of the produce,
/// so that it is a call of the same class as a produce with one record.
fn records(produce: &Span) -> impl Iterator<Item = Span> + '_ {
    kafka_produced(produce).into_iter().flat_map(move |(part, batch)| {
        (part.first..=part.last).map(move |number| {
            let kept = |key: &str| matches!(key, "messaging.system.name" | "messaging.client.id");
            let mut attrs: Vec<_> = produce.attrs.iter().filter(|(key, _)| kept(key)).cloned().collect();
            attrs.extend([
                ("messaging.operation.name".into(), Value::from(CREATE)),
                ("messaging.operation.type".into(), CREATE.into()),
                ("messaging.destination.name".into(), part.topic.into()),
                ("messaging.destination.partition.id".into(), part.partition.into()),
            ]);
            match batch {
                None => attrs.push(("kafka.offset".into(), Value::Int(i64::try_from(number).unwrap_or(i64::MAX)))),
                Some(name) => {
                    let text = format!("{}/{}:{number}-{number}={name:x}", part.topic, part.partition);
                    attrs.push((KAFKA_BATCHES.into(), text.into()));
                }
            }
            let place = [part.topic.as_bytes(), part.partition.as_bytes(), &number.to_le_bytes()];
            let id = hash64(&[&produce.id.0.to_le_bytes(), &hash64(&place).to_le_bytes()]);
            Span {
                id: SpanId(id.max(1)),
                target: part.topic.into(),
                // The kernel names one request, the one that began the gathering, for all records.
                cause: None,
                cause_evidence: Some(Evidence::Inferred),
                exchange: None,
                request_bytes: 0,
                response_bytes: 0,
                response_seq: None,
                message_id: None,
                trace_id: None,
                request_id: None,
                tcp: Default::default(),
                attrs,
                ..Span::clone(produce)
            }
        })
    })
}

#[cfg(test)]
mod tests;
