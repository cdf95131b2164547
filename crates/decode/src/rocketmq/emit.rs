//! Headers → messages with the attributes of the conventions for RocketMQ.

use super::codes;
use super::head::{Head, Lengths, BEFORE};
use super::messages::{self, properties};
use crate::carried::Context;
use crate::framing::prefixed::Frame;
use crate::framing::Out;
use crate::text::{clean, len64};
use std::borrow::Cow;
use std::fmt::Write;
use wirespan_model::{AttrVal, Body, Carried, Item, Kind, Message, Outcome};

/// Longest name that is kept, bytes.
const MAX_TEXT: usize = 255;

/// The kept properties of a message; all others are passed over.
#[derive(Debug, Default)]
struct Properties<'a> {
    id: Option<&'a [u8]>,
    tag: Option<&'a [u8]>,
    carried: Carried<'a>,
}

fn read(text: &[u8]) -> Properties<'_> {
    let (mut found, mut context) = (Properties::default(), Context::default());
    for (name, value) in properties(text) {
        match name {
            b"UNIQ_KEY" => found.id = Some(value),
            b"TAGS" => found.tag = Some(value),
            _ => context.field(name, value),
        }
    }
    found.carried = context.finish();
    found
}

/// Emits the message of a frame.
pub(super) fn emit(frame: &Frame<'_>, lengths: &Lengths, head: &Head<'_>, out: Out<'_>) {
    let kind = match head.flag & 3 {
        0 => Kind::Request,
        2 => Kind::OneWay,
        _ => Kind::Response,
    };
    let mut message = Message::new("rocketmq", frame.side, kind, frame.offset);
    message.head_len = len64(frame.bytes.len());
    message.body = if frame.rest() > 0 { Body::Length(frame.rest()) } else { Body::None };
    message.id = Some(u64::from(u32::from_ne_bytes(head.opaque.to_ne_bytes())));
    let body = frame.bytes.get(BEFORE.saturating_add(lengths.head)..).unwrap_or_default();
    let body_len = frame.len.saturating_sub(len64(BEFORE.saturating_add(lengths.head)));
    if kind == Kind::Response {
        response(message, head, body, body_len, out);
    } else {
        request(message, head, out);
    }
}

fn push<'a>(message: &mut Message<'a>, key: &'static str, value: AttrVal<'a>) {
    message.attrs.push((key, value));
}

fn request<'a>(mut m: Message<'a>, head: &'a Head<'_>, out: Out<'_>) {
    let (message, fields) = (&mut m, &head.fields);
    message.operation = codes::request(head.code).unwrap_or("_OTHER");
    push(message, "messaging.system.name", "rocketmq".into());
    push(message, "messaging.operation.name", message.operation.into());
    if let Some(kind) = codes::operation_type(head.code) {
        push(message, "messaging.operation.type", kind.into());
    }
    if message.operation == "_OTHER" {
        push(message, "wirespan.rocketmq.code", i64::from(head.code).into());
    }
    if let Some(topic) = &fields.topic {
        message.target = clean(topic, MAX_TEXT);
        push(message, "messaging.destination.name", AttrVal::Str(clean(topic, MAX_TEXT)));
    }
    if let Some(group) = &fields.consumer_group {
        push(message, "messaging.consumer.group.name", AttrVal::Str(clean(group, MAX_TEXT)));
        if message.target.is_empty() {
            message.target = clean(group, MAX_TEXT);
        }
    }
    if let Some(group) = &fields.producer_group {
        push(message, "wirespan.rocketmq.producer_group", AttrVal::Str(clean(group, MAX_TEXT)));
    }
    // A negative queue is any.
    if let Some(queue) = fields.queue.filter(|q| *q >= 0) {
        push(message, "messaging.destination.partition.id", AttrVal::Str(Cow::Owned(queue.to_string())));
    }
    if let Some(offset) = fields.queue_offset {
        push(message, "wirespan.rocketmq.pull_offset", offset.into());
    }
    if let Some(offset) = fields.commit_offset {
        push(message, "wirespan.rocketmq.committed_offset", offset.into());
    }
    if let Some(ms) = fields.suspend_ms {
        push(message, "wirespan.rocketmq.max_wait_ms", ms.into());
    }
    let mut id = fields.message_id.as_deref();
    if let Some(text) = &fields.properties {
        let found = read(text);
        id = found.id.or(id);
        if let Some(tag) = found.tag {
            push(message, "rocketmq.message.tag", AttrVal::Str(clean(tag, MAX_TEXT)));
        }
        message.carried = found.carried;
    }
    if let Some(id) = id {
        push(message, "messaging.message.id", AttrVal::Str(clean(id, MAX_TEXT)));
    }
    out(Item::Message(&m));
}

fn response<'a>(mut m: Message<'a>, head: &'a Head<'_>, body: &'a [u8], body_len: u64, out: Out<'_>) {
    let (message, fields) = (&mut m, &head.fields);
    message.status_code = Some(head.code);
    message.outcome = codes::outcome(head.code);
    if head.code != 0 {
        let name = codes::response(head.code);
        push(message, "wirespan.messaging.status_code", i64::from(head.code).into());
        if message.outcome == Outcome::Ok {
            push(message, "wirespan.rocketmq.signal", name.into());
        } else {
            message.error = Cow::Borrowed(name);
            push(message, "error.type", name.into());
        }
    }
    if let Some(queue) = fields.queue.filter(|q| *q >= 0) {
        push(message, "messaging.destination.partition.id", AttrVal::Str(Cow::Owned(queue.to_string())));
    }
    if let Some(offset) = fields.queue_offset {
        push(message, "wirespan.rocketmq.queue_offset", offset.into());
    }
    if let Some(id) = &fields.message_id {
        push(message, "wirespan.rocketmq.offset_message_id", AttrVal::Str(clean(id, MAX_TEXT)));
    }
    if fields.messages {
        let found = messages::walk(body, body_len);
        if let Some(first) = found.first {
            brought(message, first);
        }
        if let Some(count) = found.count {
            push(message, "messaging.batch.message_count", count.into());
        }
        if let Some(last) = found.last_offset {
            push(message, "wirespan.rocketmq.last_queue_offset", last.into());
        }
    }
    out(Item::Message(&m));
}

/// The first message that a pull brought.
fn brought<'a>(message: &mut Message<'a>, first: messages::Stored<'a>) {
    push(message, "messaging.destination.partition.id", AttrVal::Str(Cow::Owned(first.queue.to_string())));
    push(message, "wirespan.rocketmq.queue_offset", first.queue_offset.into());
    let Some(names) = first.names else { return };
    let found = read(names.properties);
    push(message, "messaging.destination.name", AttrVal::Str(clean(names.topic, MAX_TEXT)));
    if let Some(id) = found.id {
        push(message, "messaging.message.id", AttrVal::Str(clean(id, MAX_TEXT)));
    }
    if let Some((trace, span)) = found.carried.trace_id.zip(found.carried.span_id) {
        push(message, "wirespan.link.trace_id", AttrVal::Str(Cow::Owned(hex(&trace))));
        push(message, "wirespan.link.span_id", AttrVal::Str(Cow::Owned(hex(&span))));
    }
    message.carried = found.carried;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(32), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}
