//! Messages that a span sent to a broker or received from it, by their place there, so that both ends find each other.

use crate::attr::Value;
use crate::key::{hash64, Key, KeyKind};
use crate::span::{Span, SpanKind, Status, TapSide};
use smallvec::{smallvec, SmallVec};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

mod kafka;

pub use kafka::{
    kafka_batches, kafka_commits, kafka_produced, kafka_records, Records, CREATE, KAFKA_BATCHES, KAFKA_CREATED, PROCESS,
};

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

/// Attribute with the hash of a message of AMQP that has no id: an [`ElementHash`] of its body.
pub const AMQP_BODY: &str = "wirespan.amqp.body";

const MESSAGE_ID: &str = "messaging.message.id";
const CONVERSATION_ID: &str = "messaging.message.conversation_id";

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
        "kafka" => kafka::ranges(span),
        "nats" => jetstream(span).into_iter().collect(),
        "amqp" => by_name(span),
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

/// True if the span may be a client's request for messages, whatever its cause.
pub fn may_ask_for_messages(span: &Span) -> bool {
    asks_for_messages(span)
        || span.tap == TapSide::ClientProcess
            && is_script(&span.operation)
            && hashes(span, ELEMENTS_TAKEN).next().is_some()
}

/// True if a script that was called for no request has shown an element.
pub fn took_by_script(span: &Span) -> bool {
    is_script(&span.operation) && span.cause.is_none() && hashes(span, ELEMENTS_TAKEN).next().is_some()
}

/// True if the span is the delivery of messages to a subscriber.
pub fn is_delivery(span: &Span) -> bool {
    span.tap == TapSide::ServerProcess && span.kind == SpanKind::Consumer
}

/// Channel and tag of a message that was delivered and may be settled.
pub fn delivery_place(span: &Span) -> Option<(u64, u64)> {
    (is_delivery(span) && span.protocol == "amqp").then(|| place_of_tag(span)).flatten()
}

fn place_of_tag(span: &Span) -> Option<(u64, u64)> {
    number(span, "wirespan.amqp.channel").zip(number(span, "rabbitmq.message.delivery_tag"))
}

/// Messages on which a client says that its work is done, or has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Channel of the messages.
    pub channel: u64,
    tag: u64,
    /// All up to the tag; 0 stands for all.
    multiple: bool,
}

impl Settlement {
    /// Whether the message with this tag is among them.
    pub fn covers(&self, tag: u64) -> bool {
        self.tag == tag || self.multiple && (self.tag == 0 || tag <= self.tag)
    }
}

/// What a client's span settles, if anything.
pub fn settlement(span: &Span) -> Option<Settlement> {
    let settles = span.tap == TapSide::ClientProcess && span.text("messaging.operation.type") == Some("settle");
    let (channel, tag) = place_of_tag(span).filter(|_| settles && span.protocol == "amqp")?;
    let multiple = span.attrs.iter().any(|(key, value)| key == "wirespan.amqp.multiple" && *value == Value::Bool(true));
    Some(Settlement { channel, tag, multiple })
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

/// One message by the id from its sender; else by the id of its conversation and its destination, as Celery names its
/// jobs; else by its body, with and without the destination. A message that expires changes its destination.
fn by_name(span: &Span) -> SmallVec<[MessageRange; 1]> {
    let Some(transfer) = transfer_of_operation(span) else { return SmallVec::new() };
    let to = span.text("messaging.destination.name").unwrap_or_default().as_bytes();
    let at = |kind: &str, names: &[&[u8]]| {
        let mut all = vec![span.protocol.as_bytes(), kind.as_bytes()];
        all.extend(names);
        MessageRange { transfer, place: hash64(&all), first: 0, last: 0 }
    };
    let text = |key| span.text(key).map(str::as_bytes);
    match (text(MESSAGE_ID), text(CONVERSATION_ID), text(AMQP_BODY)) {
        (Some(id), _, _) => smallvec![at("id", &[id])],
        (None, Some(id), _) => smallvec![at("conversation", &[to, id])],
        (None, None, Some(body)) => smallvec![at("body to", &[to, body]), at("body", &[body])],
        (None, None, None) => SmallVec::new(),
    }
}

/// True if several messages may have the name by which [`message_ranges`] finds the messages of this span.
pub fn may_share_names(span: &Span) -> bool {
    match &*span.protocol {
        "redis" => true,
        "amqp" => span.text(MESSAGE_ID).is_none(),
        _ => false,
    }
}

/// The ids that name a message which was delivered to a subscriber.
pub fn delivered_ids(span: &Span) -> impl Iterator<Item = &str> {
    [MESSAGE_ID, CONVERSATION_ID].into_iter().filter_map(|key| span.text(key))
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
mod tests;
