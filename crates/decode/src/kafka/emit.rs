//! Facts of a request or response → messages with the attributes of the conventions for Kafka.

use super::api;
use super::errors;
use super::facts::{Facts, Part, Topic};
use super::head::Head;
use super::topics;
use crate::framing::prefixed::Frame;
use crate::text::clean;
use std::borrow::Cow;
use std::fmt::Write;
use wirespan_model::broker::KAFKA_BATCHES;
use wirespan_model::{AttrVal, Body, Message, Outcome};

/// Longest text of a name that is kept, bytes.
const MAX_TEXT: usize = topics::MAX_NAME;
const OFFSET_COMMIT: i16 = 8;
const OFFSET_FETCH: i16 = 9;
const TXN_OFFSET_COMMIT: i16 = 28;
/// Partitions of a request that are remembered until its response.
const MAX_REMEMBERED: usize = 8;

/// The part of a request about one partition.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Hash of the topic.
    topic: u64,
    index: i32,
    /// How many records were sent, or the offset that was asked for.
    number: i64,
    /// Most bytes that were asked for.
    bytes: u32,
}

/// The facts of a produce or a fetch that its response does not repeat.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Remembered {
    parts: [Option<Asked>; MAX_REMEMBERED],
    /// Most bytes in all; 0: not known.
    max_bytes: u32,
    committed: bool,
}

impl Remembered {
    pub(super) fn of(key: i16, facts: &Facts<'_>) -> Self {
        let max_bytes = facts.max_bytes.unwrap_or(0);
        let mut all = Remembered { max_bytes, committed: facts.committed, ..Remembered::default() };
        for (slot, part) in all.parts.iter_mut().zip(facts.parts()) {
            let number = match key {
                api::PRODUCE => part.records.and_then(|n| i64::try_from(n).ok()),
                api::FETCH => part.offset,
                _ => None,
            };
            *slot =
                number.map(|number| Asked { topic: hash(part.topic), index: part.index, number, bytes: part.bytes });
        }
        all
    }

    /// The same, with the newly named partitions replaced.
    pub(super) fn with(mut self, named: Remembered) -> Self {
        (self.max_bytes, self.committed) = (named.max_bytes, named.committed);
        for one in named.parts.into_iter().flatten() {
            let same = |a: &Option<Asked>| a.is_some_and(|a| (a.topic, a.index) == (one.topic, one.index));
            let at = self.parts.iter().position(same).or_else(|| self.parts.iter().position(Option::is_none));
            if let Some(slot) = at.and_then(|at| self.parts.get_mut(at)) {
                *slot = Some(one);
            }
        }
        self
    }

    fn get(&self, part: &Part<'_>) -> Option<&Asked> {
        let topic = hash(part.topic);
        self.parts.iter().flatten().find(|a| (a.topic, a.index) == (topic, part.index))
    }

    /// First and last offset of a partition, as far as both messages tell.
    fn range(&self, key: i16, part: &Part<'_>, len: u64) -> (Option<i64>, Option<i64>) {
        let asked = self.get(part);
        match key {
            api::PRODUCE => {
                let last = part.offset.zip(asked).and_then(|(first, a)| first.checked_add(a.number.checked_sub(1)?));
                (part.offset, last)
            }
            api::FETCH => {
                // The first offset of records that were not seen is the one that was asked for.
                let first = part.offset.or(asked.map(|a| a.number).filter(|_| part.filled));
                (first, part.last.or_else(|| self.end(part, asked?, len).filter(|last| Some(*last) >= first)))
            }
            _ => (part.offset, None),
        }
    }

    /// The last of records that were not all seen: of fewer than were asked for, the last that there was.
    fn end(&self, part: &Part<'_>, asked: &Asked, len: u64) -> Option<i64> {
        let all = part.filled && part.bytes < asked.bytes && (self.max_bytes == 0 || len < u64::from(self.max_bytes));
        let behind = if self.committed { part.stable } else { part.high };
        behind.filter(|_| all)?.checked_sub(1)
    }
}

/// FNV-1a: a few topics of one request have to differ, no more.
fn hash(topic: Topic<'_>) -> u64 {
    let bytes = match &topic {
        Topic::None => &[],
        Topic::Name(name) => *name,
        Topic::Id(id) => id.as_slice(),
    };
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// Writes the place and the pairing id of a message.
pub(super) fn place(message: &mut Message<'_>, frame: &Frame<'_>, correlation: i32) {
    message.head_len = frame.head_len();
    message.body = if frame.rest() > 0 { Body::Length(frame.rest()) } else { Body::None };
    message.id = Some(u64::from(u32::from_ne_bytes(correlation.to_ne_bytes())));
}

fn topic_name(topic: Topic<'_>) -> Option<Cow<'_, str>> {
    match topic {
        Topic::None => None,
        Topic::Name(name) => Some(clean(name, MAX_TEXT)).filter(|n| !n.is_empty()),
        Topic::Id(id) => topics::name(&id).map(|name| Cow::Owned(name.as_ref().to_owned())),
    }
}

fn operation_type(key: i16) -> Option<&'static str> {
    match key {
        api::PRODUCE => Some("send"),
        api::FETCH => Some("receive"),
        OFFSET_COMMIT | TXN_OFFSET_COMMIT => Some("settle"),
        _ => None,
    }
}

/// Writes a request.
pub(super) fn request<'a>(message: &mut Message<'a>, head: &Head<'a>, facts: Facts<'a>) {
    message.operation = head.api.map_or("_OTHER", |api| api.name);
    let mut set = |key: &'static str, value: AttrVal<'a>| message.attrs.push((key, value));
    set("messaging.system.name", "kafka".into());
    set("messaging.operation.name", message.operation.into());
    if let Some(kind) = operation_type(head.key) {
        set("messaging.operation.type", kind.into());
    }
    if let Some(id) = head.client_id.filter(|id| !id.is_empty()) {
        set("messaging.client.id", AttrVal::Str(clean(id, MAX_TEXT)));
    }
    set("wirespan.kafka.api_version", i64::from(head.version).into());
    if head.api.is_none() {
        set("wirespan.kafka.api_key", i64::from(head.key).into());
    }
    let group = facts.group.filter(|g| !g.is_empty()).map(|g| clean(g, MAX_TEXT));
    if let Some(group) = group.clone() {
        set("messaging.consumer.group.name", AttrVal::Str(group));
    }
    if let Some(acks) = facts.acks {
        set("wirespan.kafka.acks", i64::from(acks).into());
    }
    if let Some(ms) = facts.max_wait_ms {
        set("wirespan.kafka.max_wait_ms", i64::from(ms).into());
    }
    if facts.replica {
        set("wirespan.kafka.replica", true.into());
    }
    if let Some((name, version)) = facts.software {
        set("wirespan.kafka.client_software", AttrVal::Str(clean(name, MAX_TEXT)));
        set("wirespan.kafka.client_version", AttrVal::Str(clean(version, MAX_TEXT)));
    }
    let target = destination(message, &facts);
    let mut set = |key: &'static str, value: AttrVal<'a>| message.attrs.push((key, value));
    if let Some(offset) = facts.parts().first().and_then(|p| p.offset) {
        let key =
            if head.key == api::FETCH { "wirespan.kafka.fetch_offset" } else { "wirespan.kafka.committed_offset" };
        set(key, offset.into());
    }
    if head.key == OFFSET_COMMIT && facts.parts().len() > 1 {
        let all = list(head.key, &facts, &Remembered::default());
        set("wirespan.kafka.partitions", AttrVal::Str(Cow::Owned(all)));
    }
    if head.key == api::PRODUCE {
        if let Some(n) = facts.count() {
            set("messaging.batch.message_count", n.into());
        }
    }
    if head.key == api::PRODUCE && facts.acks == Some(0) {
        named(message, &facts);
    }
    batch(message, &facts);
    if let Some(context) = facts.context {
        message.carried = context;
    }
    message.target = target.or(group).unwrap_or_default();
}

/// Writes a response.
pub(super) fn response<'a>(message: &mut Message<'a>, key: i16, facts: Facts<'a>, asked: &Remembered, cut: bool) {
    if let Some(code) = facts.error {
        message.status_code = Some(i32::from(code));
        message.outcome = errors::outcome(code);
        if code != 0 {
            message.attrs.push(("wirespan.messaging.status_code", AttrVal::Int(i64::from(code))));
        }
        if !matches!(message.outcome, Outcome::Ok | Outcome::Unset) {
            message.error = Cow::Borrowed(errors::name(code));
            message.attrs.push(("error.type", errors::name(code).into()));
        } else if code != 0 {
            message.attrs.push(("wirespan.kafka.signal", errors::name(code).into()));
        }
    } else if !cut {
        // Nothing in it can fail, or nothing was asked for.
        message.outcome = Outcome::Ok;
    }
    let records = matches!(key, api::PRODUCE | api::FETCH);
    if !records && key != OFFSET_FETCH {
        return;
    }
    destination(message, &facts);
    if let Some(part) = facts.parts().first() {
        let (first, last) = asked.range(key, part, facts.len);
        let name = if records { "kafka.offset" } else { "wirespan.kafka.committed_offset" };
        message.attrs.extend(first.map(|n| (name, n.into())));
        message.attrs.extend(last.map(|n| ("wirespan.kafka.last_offset", n.into())));
        message.attrs.extend(part.high.map(|n| ("wirespan.kafka.high_watermark", n.into())));
    }
    if key == api::FETCH {
        if let Some(n) = facts.count() {
            message.attrs.push(("messaging.batch.message_count", n.into()));
        }
    }
    if facts.parts().len() > 1 && records {
        message.attrs.push(("wirespan.kafka.partitions", AttrVal::Str(Cow::Owned(list(key, &facts, asked)))));
    }
    if key == api::FETCH {
        named(message, &facts);
    }
    batch(message, &facts);
    if let Some(context) = facts.context {
        // The context of the record's producer: a link, not the parent of the fetch.
        if let Some((trace, span)) = context.trace_id.zip(context.span_id) {
            message.attrs.push(("wirespan.link.trace_id", AttrVal::Str(Cow::Owned(hex(&trace)))));
            message.attrs.push(("wirespan.link.span_id", AttrVal::Str(Cow::Owned(hex(&span)))));
        }
        message.carried = context;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(32), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

fn batch<'a>(message: &mut Message<'a>, facts: &Facts<'a>) {
    if let Some(codec) = facts.codec {
        message.attrs.push(("wirespan.kafka.compression", codec.into()));
    }
}

/// Room for the names of a few batches.
const NAMED_BYTES: usize = 96;

/// The names of the batches: of a producer that gets no answer, offsets tell nothing.
fn named(message: &mut Message<'_>, facts: &Facts<'_>) {
    if facts.batches.is_empty() {
        return;
    }
    let mut text = String::with_capacity(NAMED_BYTES);
    let mut last = None;
    for (at, batch) in &facts.batches {
        let Some(part) = facts.parts().get(*at) else { continue };
        if last.replace(*at) == Some(*at) {
            text.push(',');
        } else {
            if !text.is_empty() {
                text.push(' ');
            }
            place_of(part, &mut text);
            text.push(':');
        }
        let _ = write!(text, "{}-{}={:x}", batch.first, batch.last, batch.name);
    }
    if !text.is_empty() {
        message.attrs.push((KAFKA_BATCHES, AttrVal::Str(Cow::Owned(text))));
    }
}

/// `topic/partition`.
fn place_of(part: &Part<'_>, text: &mut String) {
    match (topic_name(part.topic), part.topic) {
        (Some(name), _) => text.push_str(&name),
        (None, Topic::Id(id)) => text.push_str(&topics::id_text(&id)),
        (None, _) => text.push('?'),
    }
    let _ = write!(text, "/{}", part.index);
}

/// Topic and partition of the first partition; returns the name.
fn destination<'a>(message: &mut Message<'a>, facts: &Facts<'a>) -> Option<Cow<'a, str>> {
    let first = facts.parts().first();
    let topic = first.map_or(facts.topic, |p| p.topic);
    let name = topic_name(topic);
    if let Some(name) = name.clone() {
        message.attrs.push(("messaging.destination.name", AttrVal::Str(name)));
    } else if let Topic::Id(id) = topic {
        message.attrs.push(("wirespan.kafka.topic_id", AttrVal::Str(Cow::Owned(topics::id_text(&id)))));
    }
    if let Some(part) = first {
        message.attrs.push(("messaging.destination.partition.id", AttrVal::Str(number(part.index))));
    }
    name
}

/// A partition's number as text, as the convention asks.
fn number(n: i32) -> Cow<'static, str> {
    const SMALL: [&str; 16] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];
    match usize::try_from(n).ok().and_then(|n| SMALL.get(n)) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(n.to_string()),
    }
}

/// The partitions with records or offsets: `topic/partition:first-last`, as far as known.
fn list(key: i16, facts: &Facts<'_>, asked: &Remembered) -> String {
    let mut text = String::new();
    for part in facts.parts() {
        let (Some(first), last) = asked.range(key, part, facts.len) else { continue };
        if !text.is_empty() {
            text.push(' ');
        }
        place_of(part, &mut text);
        let _ = write!(text, ":{first}-");
        if let Some(last) = last {
            let _ = write!(text, "{last}");
        }
    }
    text
}
