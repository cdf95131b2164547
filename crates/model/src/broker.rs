//! Messages that a span handed to a broker, or got from one: where they lie there, so that both ends find each other.

use crate::attr::Value;
use crate::key::{hash64, Key, KeyKind};
use crate::span::{Span, SpanKind, Status, TapSide};
use smallvec::SmallVec;

/// Which way the messages went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Handed to the broker.
    Sent,
    /// Got from the broker.
    Received,
}

/// How a connection to a broker brings a client work, which it begins when it has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivers {
    /// Unasked, once it has subscribed.
    Pushed,
    /// When it asks for more; it does that for nobody's sake.
    Pulled,
}

/// Consecutive messages at one place of a broker: a partition of a Kafka topic, a JetStream stream, or one message by
/// its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Which way.
    pub way: Way,
    /// Hash of the system and the place.
    pub place: u64,
    /// First offset.
    pub first: u64,
    /// Last offset.
    pub last: u64,
}

/// Offsets that share a key.
const BLOCK: u64 = 64;
/// Most keys of a passage: 4096 messages. Of more, the first are found.
const MAX_KEYS: u64 = 64;

impl Passage {
    /// Whether a message is in both.
    pub fn overlaps(&self, other: &Passage) -> bool {
        self.place == other.place && self.first <= other.last && other.first <= self.last
    }

    /// Keys of the blocks of offsets that it touches.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let (first, last) = (self.first / BLOCK, self.last / BLOCK);
        (first..=last.min(first + MAX_KEYS - 1)).map(|block| {
            let value = hash64(&[b"message", &self.place.to_le_bytes(), &block.to_le_bytes()]);
            Key { kind: KeyKind::Message, value }
        })
    }
}

/// The messages that a span moved, as far as they can be named for certain.
pub fn passages(span: &Span) -> SmallVec<[Passage; 1]> {
    if matches!(span.status, Status::ClientError | Status::ServerError) {
        return SmallVec::new();
    }
    match &*span.protocol {
        "kafka" => kafka(span),
        "nats" => jetstream(span).into_iter().collect(),
        "amqp" => by_id(span).into_iter().collect(),
        _ => SmallVec::new(),
    }
}

/// Whether a client asked for messages: what it got it works on afterwards, outside of this span.
pub fn pulls(span: &Span) -> bool {
    span.tap == TapSide::ClientProcess && span.protocol == "kafka" && span.operation == "Fetch"
}

/// Whether a subscriber was handed messages.
pub fn pushed(span: &Span) -> bool {
    span.tap == TapSide::ServerProcess && span.kind == SpanKind::Consumer
}

/// Whether work came with it.
pub fn delivers(span: &Span) -> bool {
    pushed(span) || pulls(span) && passages(span).iter().any(|p| p.way == Way::Received)
}

fn text<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    span.attrs.iter().find_map(|(k, v)| match v {
        Value::Str(s) if k == key => Some(&**s),
        _ => None,
    })
}

fn number(span: &Span, key: &str) -> Option<u64> {
    span.attrs.iter().find_map(|(k, v)| match v {
        Value::Int(n) if k == key => u64::try_from(*n).ok(),
        _ => None,
    })
}

fn kafka(span: &Span) -> SmallVec<[Passage; 1]> {
    let way = match &*span.operation {
        "Produce" => Way::Sent,
        "Fetch" => Way::Received,
        _ => return SmallVec::new(),
    };
    let passage = |topic: &str, partition: &str, first: u64, last: u64| {
        let place = hash64(&[b"kafka", topic.as_bytes(), partition.as_bytes()]);
        Passage { way, place, first, last: last.max(first) }
    };
    if let Some(list) = text(span, "wirespan.kafka.partitions") {
        // `topic/partition:first-last …`; the last is empty where it is not known.
        return list
            .split(' ')
            .filter_map(|one| {
                let (place, range) = one.rsplit_once(':')?;
                let (topic, partition) = place.rsplit_once('/')?;
                let (first, last) = range.split_once('-')?;
                let first = first.parse().ok()?;
                Some(passage(topic, partition, first, last.parse().unwrap_or(first)))
            })
            .collect();
    }
    let one = || {
        let topic = text(span, "messaging.destination.name").or_else(|| text(span, "wirespan.kafka.topic_id"))?;
        let first = number(span, "kafka.offset")?;
        let last = number(span, "wirespan.kafka.last_offset").unwrap_or(first);
        Some(passage(topic, text(span, "messaging.destination.partition.id")?, first, last))
    };
    one().into_iter().collect()
}

fn way_of_operation(span: &Span) -> Option<Way> {
    match text(span, "messaging.operation.type")? {
        "create" | "send" => Some(Way::Sent),
        "process" | "receive" => Some(Way::Received),
        _ => None,
    }
}

fn jetstream(span: &Span) -> Option<Passage> {
    let place = hash64(&[b"nats", text(span, "wirespan.nats.stream")?.as_bytes()]);
    let sequence = number(span, "wirespan.nats.stream_sequence")?;
    Some(Passage { way: way_of_operation(span)?, place, first: sequence, last: sequence })
}

/// A message that its sender gave an id.
fn by_id(span: &Span) -> Option<Passage> {
    let place = hash64(&[span.protocol.as_bytes(), b"id", text(span, "messaging.message.id")?.as_bytes()]);
    Some(Passage { way: way_of_operation(span)?, place, first: 0, last: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(operation: &str, attrs: &[(&'static str, Value)]) -> Span {
        let attrs = attrs.iter().map(|(k, v)| ((*k).into(), v.clone())).collect();
        Span { protocol: "kafka".into(), operation: operation.into(), attrs, status: Status::Ok, ..Span::default() }
    }

    fn at(topic: &str, partition: &str, first: i64, last: i64) -> [(&'static str, Value); 4] {
        [
            ("messaging.destination.name", topic.into()),
            ("messaging.destination.partition.id", partition.into()),
            ("kafka.offset", first.into()),
            ("wirespan.kafka.last_offset", last.into()),
        ]
    }

    #[test]
    fn batches_meet_where_they_share_an_offset() {
        let one = |operation, attrs: &[_]| passages(&span(operation, attrs))[0];
        let sent = one("Produce", &at("orders", "0", 60, 70));
        let shared = |other: Passage| {
            let keys: Vec<Key> = sent.keys().collect();
            assert_eq!(keys.len(), 2, "60–70 touches two blocks");
            other.keys().any(|k| keys.contains(&k)) && sent.overlaps(&other)
        };
        assert!(shared(one("Fetch", &at("orders", "0", 70, 500))));
        assert!(shared(one("Fetch", &at("orders", "0", 0, 60))));
        assert!(!shared(one("Fetch", &at("orders", "0", 71, 500))));
        assert!(!shared(one("Fetch", &at("orders", "1", 60, 70))));
        assert!(!shared(one("Fetch", &at("bills", "0", 60, 70))));
    }

    #[test]
    fn several_partitions_are_read_from_their_list() {
        let list = ("wirespan.kafka.partitions", Value::from("orders/0:5-7 orders/11:9-"));
        let all = passages(&span("Fetch", &[list]));
        assert_eq!(all.iter().map(|p| (p.first, p.last)).collect::<Vec<_>>(), [(5, 7), (9, 9)]);
        assert_ne!(all[0].place, all[1].place);
    }

    #[test]
    fn what_says_nothing_or_failed_moves_nothing() {
        assert!(passages(&span("Metadata", &at("orders", "0", 1, 2))).is_empty());
        assert!(passages(&span("Fetch", &at("orders", "0", 1, 2)[..2])).is_empty());
        let mut failed = span("Produce", &at("orders", "0", 1, 2));
        failed.status = Status::ServerError;
        assert!(passages(&failed).is_empty());
        let huge = passages(&span("Fetch", &at("orders", "0", 0, i64::MAX)))[0];
        assert_eq!(huge.keys().count() as u64, MAX_KEYS);
    }
}
