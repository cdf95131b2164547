//! Records of Kafka: where a span has put them, or from where it has them.

use super::{number, MessageRange, Transfer};
use crate::key::hash64;
use crate::span::{Span, TapSide};
use smallvec::SmallVec;

/// Attribute with the batches of records that a span of Kafka moved, each by an [`ElementHash`] of its sum and its
/// times: `topic/partition:first-last=hash,… …`. Offsets of a producer that gets no answer are its own.
pub const KAFKA_BATCHES: &str = "wirespan.kafka.batches";

pub(super) fn ranges(span: &Span) -> SmallVec<[MessageRange; 1]> {
    let transfer = match &*span.operation {
        "Produce" | CREATE => Transfer::Sent,
        "Fetch" | PROCESS => Transfer::Received,
        _ => return SmallVec::new(),
    };
    let range = |part: &Records<'_>| MessageRange { transfer, place: part.place(), first: part.first, last: part.last };
    // A record's number in its batch is the same at both ends.
    let batch = |(part, name): (Records<'_>, u64)| {
        let place = hash64(&[b"kafka batch", &name.to_le_bytes()]);
        let (from, to) = match &*span.operation {
            PROCESS => number(span, "kafka.offset").map_or((part.first, part.last), |offset| (offset, offset)),
            CREATE => return MessageRange { transfer, place, first: part.first, last: part.last },
            _ => (part.first, part.last),
        };
        let (first, last) = (from.saturating_sub(part.first), to.saturating_sub(part.first));
        MessageRange { transfer, place, first, last }
    };
    kafka_records(span).iter().map(range).chain(kafka_batches(span).map(batch)).collect()
}

/// The batches of records that a span of Kafka moved, with their names.
pub fn kafka_batches(span: &Span) -> impl Iterator<Item = (Records<'_>, u64)> {
    span.text(KAFKA_BATCHES).unwrap_or_default().split(' ').flat_map(|of_place| {
        let (place, list) = of_place.rsplit_once(':').unwrap_or_default();
        let (topic, partition) = place.rsplit_once('/').unwrap_or_default();
        list.split(',').filter_map(move |one| {
            let (offsets, name) = one.split_once('=')?;
            let (first, last) = offsets.split_once('-')?;
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            Some((Records { topic, partition, first, last }, u64::from_str_radix(name, 16).ok()?))
        })
    })
}

/// Operation of the span of one record on which a consumer of Kafka works.
pub const PROCESS: &str = "process";

/// Operation of the span of one record that a producer sent together with those of other requests. Its batch, if it has
/// one, has the record's number in it.
pub const CREATE: &str = "create";

/// Attribute of a span whose records have spans of their own.
pub const KAFKA_CREATED: &str = "wirespan.kafka.created";

/// The records that a producer sent: by offset if the broker has told it, else by number in their batch, with its name.
pub fn kafka_produced(span: &Span) -> SmallVec<[(Records<'_>, Option<u64>); 1]> {
    let told = kafka_records(span);
    match told.is_empty() {
        true => kafka_batches(span).map(|(part, name)| (part, Some(name))).collect(),
        false => told.into_iter().map(|part| (part, None)).collect(),
    }
}

/// Consecutive records of a partition of Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    /// Name of the topic, or its id if the name is not known.
    pub topic: &'a str,
    /// Number of the partition.
    pub partition: &'a str,
    /// First offset.
    pub first: u64,
    /// Last offset; the first if it is not known.
    pub last: u64,
}

impl Records<'_> {
    /// As in [`MessageRange`].
    pub fn place(&self) -> u64 {
        hash64(&[b"kafka", self.topic.as_bytes(), self.partition.as_bytes()])
    }
}

/// The records that a span of Kafka moved, in their order.
pub fn kafka_records(span: &Span) -> SmallVec<[Records<'_>; 1]> {
    if let Some(list) = span.text("wirespan.kafka.partitions") {
        // `topic/partition:first-last …`; the last is empty if it is not known.
        return list
            .split(' ')
            .filter_map(|one| {
                let (place, offsets) = one.rsplit_once(':')?;
                let (topic, partition) = place.rsplit_once('/')?;
                let (first, last) = offsets.split_once('-')?;
                let first = first.parse().ok()?;
                Some(Records { topic, partition, first, last: last.parse().unwrap_or(first).max(first) })
            })
            .collect();
    }
    let one = || {
        let (topic, partition) = kafka_place(span)?;
        let first = number(span, "kafka.offset")?;
        let last = number(span, "wirespan.kafka.last_offset").unwrap_or(first).max(first);
        Some(Records { topic, partition, first, last })
    };
    one().into_iter().collect()
}

fn kafka_place(span: &Span) -> Option<(&str, &str)> {
    let topic = span.text("messaging.destination.name").or_else(|| span.text("wirespan.kafka.topic_id"))?;
    Some((topic, span.text("messaging.destination.partition.id")?))
}

/// Places, as in [`MessageRange`], each with the offset up to which a consumer of Kafka says that it has received
/// messages. One commit is for all partitions on which the consumer has worked since the last one.
pub fn kafka_commits(span: &Span) -> SmallVec<[(u64, u64); 1]> {
    if span.protocol != "kafka" || span.operation != "OffsetCommit" || span.tap != TapSide::ClientProcess {
        return SmallVec::new();
    }
    let listed = kafka_records(span);
    if !listed.is_empty() {
        return listed.iter().map(|part| (part.place(), part.first)).collect();
    }
    let one = kafka_place(span).zip(number(span, "wirespan.kafka.committed_offset"));
    let place = |((topic, partition), first)| (Records { topic, partition, first, last: first }.place(), first);
    one.map(place).into_iter().collect()
}
