//! Messages that a span sent to a broker or received from it, by their place there, so that both ends find each other.

use crate::attr::Value;
use crate::key::{hash64, Key, KeyKind};
use crate::span::{Span, SpanKind, Status, TapSide};
use smallvec::SmallVec;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Transfer of messages between a client and a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// The client sent them to the broker.
    Sent,
    /// The client received them from the broker.
    Received,
}

/// How a connection to a broker delivers work to a client. The client begins the work when it has read the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivers {
    /// Without a request for each message, once the client has subscribed.
    Pushed,
    /// When the client asks for more messages. It asks on behalf of no request.
    Pulled,
    /// As pulled, on a connection of Redis, where some commands ask for elements, and others ask for anything else.
    Taken,
}

/// Attribute with the elements that a command puts into Redis: hashes by [`ElementHash`], separated by spaces.
pub const ELEMENTS_PUT: &str = "wirespan.redis.put";
/// Attribute with the hash of the id that an entry got in a stream of Redis.
pub const ENTRY_PUT: &str = "wirespan.redis.entry";
/// Attribute with the elements that a reply takes out of Redis.
pub const ELEMENTS_TAKEN: &str = "wirespan.redis.taken";

/// Attribute with the elements that a command strikes off. It stays on this host.
pub const ELEMENTS_STRUCK: &str = "wirespan.redis.struck";
/// Attribute with the ids inside of elements that are taken or struck off. It stays on this host.
pub const ELEMENT_IDS: &str = "wirespan.redis.ids";

/// Whether the reply to a command of Redis takes elements out of it, on which the client works then.
pub fn takes_elements(command: &str) -> bool {
    const COMMANDS: [&str; 18] = [
        "BLMOVE",
        "BLMPOP",
        "BLPOP",
        "BRPOP",
        "BRPOPLPUSH",
        "BZMPOP",
        "BZPOPMAX",
        "BZPOPMIN",
        "LMOVE",
        "LMPOP",
        "LPOP",
        "RPOP",
        "RPOPLPUSH",
        "XREAD",
        "XREADGROUP",
        "ZMPOP",
        "ZPOPMAX",
        "ZPOPMIN",
    ];
    COMMANDS.binary_search(&command).is_ok()
}

/// Whether a command of Redis runs a script. It may put elements into Redis, and take some out of it.
pub fn is_script(command: &str) -> bool {
    matches!(command, "EVAL" | "EVALSHA" | "EVALSHA_RO" | "EVAL_RO" | "FCALL" | "FCALL_RO")
}

/// Hash of an element in Redis: FNV-1a over its bytes, mixed with its length.
///
/// An element with an id in it (a UUID, say) cannot be guessed, and its hash is the same in every process. Any other
/// element might be guessed: an address, a number. Its hash depends on a secret that only this process has, so that it
/// tells nothing to others; two ends that are captured by one process meet by it.
#[derive(Clone, Copy, Debug)]
pub struct ElementHash(u64);

impl Default for ElementHash {
    fn default() -> Self {
        ElementHash(0xcbf2_9ce4_8422_2325)
    }
}

impl ElementHash {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3));
    }

    /// The hash of a whole element with an id in it. The element has this length.
    pub fn of_length(self, len: u64) -> u64 {
        hash64(&[b"element", &len.to_le_bytes(), &self.0.to_le_bytes()])
    }

    /// The hash of a whole element that might be guessed.
    pub fn of_guessable(self, len: u64) -> u64 {
        static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        SECRET.hash_one((len, self.0))
    }
}

/// Consecutive messages at one place of a broker: a partition of a Kafka topic, a JetStream stream, or one message by
/// its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRange {
    /// Sent or received.
    pub transfer: Transfer,
    /// Hash of the broker's kind and the place.
    pub place: u64,
    /// First offset.
    pub first: u64,
    /// Last offset.
    pub last: u64,
}

/// Number of offsets that share a key.
const BLOCK: u64 = 64;
/// Most keys of a range: 4096 messages. Of a longer range, the first messages are found.
const MAX_KEYS: u64 = 64;

impl MessageRange {
    /// True if a message is in both ranges.
    pub fn overlaps(&self, other: &MessageRange) -> bool {
        self.place == other.place && self.first <= other.last && other.first <= self.last
    }

    /// Keys of the range's blocks of offsets.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let (first, last) = (self.first / BLOCK, self.last / BLOCK);
        (first..=last.min(first + MAX_KEYS - 1)).map(|block| {
            let value = hash64(&[b"message", &self.place.to_le_bytes(), &block.to_le_bytes()]);
            Key { kind: KeyKind::Message, value }
        })
    }
}

/// The messages that a span moved, as far as their places are certain. Empty if the request failed.
pub fn message_ranges(span: &Span) -> SmallVec<[MessageRange; 1]> {
    if matches!(span.status, Status::ClientError | Status::ServerError) {
        return SmallVec::new();
    }
    match &*span.protocol {
        "kafka" => kafka(span),
        "nats" => jetstream(span).into_iter().collect(),
        "amqp" => by_id(span).into_iter().collect(),
        "redis" => elements(span),
        _ => SmallVec::new(),
    }
}

/// True if the span is a client's request for messages. The client works on them after the span.
pub fn asks_for_messages(span: &Span) -> bool {
    span.tap == TapSide::ClientProcess
        && match &*span.protocol {
            "kafka" => span.operation == "Fetch",
            "redis" => takes_elements(&span.operation) || took_by_script(span),
            _ => false,
        }
}

/// True if a script that was called for no request has shown an element.
pub fn took_by_script(span: &Span) -> bool {
    is_script(&span.operation) && span.cause.is_none() && hashes(span, ELEMENTS_TAKEN).next().is_some()
}

/// True if the span is the delivery of messages to a subscriber.
pub fn is_delivery(span: &Span) -> bool {
    span.tap == TapSide::ServerProcess && span.kind == SpanKind::Consumer
}

/// True if the span brought its client messages to work on.
pub fn brings_work(span: &Span) -> bool {
    is_delivery(span)
        || asks_for_messages(span)
            && match &*span.protocol {
                "redis" => span.text(ELEMENTS_TAKEN).is_some(),
                _ => message_ranges(span).iter().any(|p| p.transfer == Transfer::Received),
            }
}

fn number(span: &Span, key: &str) -> Option<u64> {
    span.attrs.iter().find_map(|(k, v)| match v {
        Value::Int(n) if k == key => u64::try_from(*n).ok(),
        _ => None,
    })
}

fn kafka(span: &Span) -> SmallVec<[MessageRange; 1]> {
    let transfer = match &*span.operation {
        "Produce" => Transfer::Sent,
        "Fetch" => Transfer::Received,
        _ => return SmallVec::new(),
    };
    let range = |topic: &str, partition: &str, first: u64, last: u64| {
        let place = hash64(&[b"kafka", topic.as_bytes(), partition.as_bytes()]);
        MessageRange { transfer, place, first, last: last.max(first) }
    };
    if let Some(list) = span.text("wirespan.kafka.partitions") {
        // `topic/partition:first-last …`; the last is empty if it is not known.
        return list
            .split(' ')
            .filter_map(|one| {
                let (place, offsets) = one.rsplit_once(':')?;
                let (topic, partition) = place.rsplit_once('/')?;
                let (first, last) = offsets.split_once('-')?;
                let first = first.parse().ok()?;
                Some(range(topic, partition, first, last.parse().unwrap_or(first)))
            })
            .collect();
    }
    let one = || {
        let topic = span.text("messaging.destination.name").or_else(|| span.text("wirespan.kafka.topic_id"))?;
        let first = number(span, "kafka.offset")?;
        let last = number(span, "wirespan.kafka.last_offset").unwrap_or(first);
        Some(range(topic, span.text("messaging.destination.partition.id")?, first, last))
    };
    one().into_iter().collect()
}

fn transfer_of_operation(span: &Span) -> Option<Transfer> {
    match span.text("messaging.operation.type")? {
        "create" | "send" => Some(Transfer::Sent),
        "process" | "receive" => Some(Transfer::Received),
        _ => None,
    }
}

fn jetstream(span: &Span) -> Option<MessageRange> {
    let place = hash64(&[b"nats", span.text("wirespan.nats.stream")?.as_bytes()]);
    let sequence = number(span, "wirespan.nats.stream_sequence")?;
    Some(MessageRange { transfer: transfer_of_operation(span)?, place, first: sequence, last: sequence })
}

/// A message with an id from its sender.
fn by_id(span: &Span) -> Option<MessageRange> {
    let place = hash64(&[span.protocol.as_bytes(), b"id", span.text("messaging.message.id")?.as_bytes()]);
    Some(MessageRange { transfer: transfer_of_operation(span)?, place, first: 0, last: 0 })
}

/// The hashes that an attribute lists.
pub fn hashes<'a>(span: &'a Span, key: &str) -> impl Iterator<Item = u64> + 'a {
    span.text(key).unwrap_or_default().split(' ').filter_map(|h| u64::from_str_radix(h, 16).ok())
}

/// Elements of Redis, each known by its content; an entry of a stream also by its id, which the reply to `XADD` tells.
fn elements(span: &Span) -> SmallVec<[MessageRange; 1]> {
    let at = |transfer, hash: u64| MessageRange {
        transfer,
        place: hash64(&[b"redis", &hash.to_le_bytes()]),
        first: 0,
        last: 0,
    };
    let listed = |key, transfer| hashes(span, key).map(move |h| at(transfer, h));
    let put = [ENTRY_PUT, ELEMENTS_PUT].into_iter().flat_map(|key| listed(key, Transfer::Sent));
    put.chain(listed(ELEMENTS_TAKEN, Transfer::Received)).collect()
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
        let one = |operation, attrs: &[_]| message_ranges(&span(operation, attrs))[0];
        let sent = one("Produce", &at("orders", "0", 60, 70));
        let shared = |other: MessageRange| {
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
        let all = message_ranges(&span("Fetch", &[list]));
        assert_eq!(all.iter().map(|p| (p.first, p.last)).collect::<Vec<_>>(), [(5, 7), (9, 9)]);
        assert_ne!(all[0].place, all[1].place);
    }

    #[test]
    fn other_and_failed_requests_move_no_message() {
        assert!(message_ranges(&span("Metadata", &at("orders", "0", 1, 2))).is_empty());
        assert!(message_ranges(&span("Fetch", &at("orders", "0", 1, 2)[..2])).is_empty());
        let mut failed = span("Produce", &at("orders", "0", 1, 2));
        failed.status = Status::ServerError;
        assert!(message_ranges(&failed).is_empty());
        let huge = message_ranges(&span("Fetch", &at("orders", "0", 0, i64::MAX)))[0];
        assert_eq!(huge.keys().count() as u64, MAX_KEYS);
    }
}
