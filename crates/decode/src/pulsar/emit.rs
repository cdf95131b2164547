//! Commands → messages with the attributes of the conventions for Pulsar.

use super::commands::{Names, Part, Sender, Start};
use super::errors;
use super::fields::{bytes, int, Fields, Value};
use super::metadata;
use super::session::{remember, Place, Session, MAX_TEXT};
use crate::framing::prefixed::Frame;
use crate::framing::Out;
use crate::text::{clean, len64};
use std::borrow::Cow;
use std::fmt::Write;
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Pairing id of a connect.
const CONNECT_ID: u64 = 1 << 62;
/// Pairing id of a ping.
const PING_ID: u64 = 1 << 62 | 1;
/// Set in the pairing ids of sends.
const SEND_ID: u64 = 1 << 63;
/// Request id of an error that answers a connect.
const NO_REQUEST: u64 = u64::MAX;
/// Type of a lookup's answer, which says in a field of its own that it failed.
const LOOKUP_RESPONSE: u64 = 24;
const PARTITIONED_METADATA_RESPONSE: u64 = 22;

/// Emits the message of a frame whose command is `base`; `behind` stands behind it.
pub(super) fn emit(session: &mut Session, frame: &Frame<'_>, start: &Start, base: &[u8], behind: &[u8], out: Out<'_>) {
    let inner = inner(base, start.kind);
    let command = start.command;
    let (kind, id) = part(command.part, frame.side, inner);
    let mut m = Message::new("pulsar", frame.side, kind, frame.offset);
    m.head_len = len64(frame.bytes.len());
    m.body = if frame.rest() > 0 { Body::Length(frame.rest()) } else { Body::None };
    m.id = id;
    if matches!(kind, Kind::Request | Kind::OneWay) {
        m.operation = command.name;
        m.attrs.push(("messaging.system.name", "pulsar".into()));
        m.attrs.push(("messaging.operation.name", command.name.into()));
        let kind = match start.kind {
            6 => Some("send"),
            9 => Some("receive"),
            10 => Some("settle"),
            _ => None,
        };
        if let Some(kind) = kind {
            m.attrs.push(("messaging.operation.type", kind.into()));
        }
    }
    learn(session, start.kind, inner);
    name(&mut m, session, command.names, inner);
    message_ids(&mut m, start.kind, inner);
    if matches!(start.kind, 6 | 9) {
        let found = metadata::read(behind);
        let count = int(inner, 3).filter(|_| start.kind == 6).or(found.messages).unwrap_or(1);
        m.attrs.push(("messaging.batch.message_count", i64::try_from(count).unwrap_or(i64::MAX).into()));
        if let Some(codec) = found.codec {
            m.attrs.push(("wirespan.pulsar.compression", codec.into()));
        }
        // A message that came was sent by someone else: a link, not the parent.
        if let (9, Some((trace, span))) = (start.kind, found.carried.trace_id.zip(found.carried.span_id)) {
            m.attrs.push(("wirespan.link.trace_id", AttrVal::Str(Cow::Owned(hex(&trace)))));
            m.attrs.push(("wirespan.link.span_id", AttrVal::Str(Cow::Owned(hex(&span)))));
        } else {
            m.carried = found.carried;
        }
    }
    if kind == Kind::Response {
        outcome(&mut m, start, inner);
    }
    out(Item::Message(&m));
    drop(m);
    forget(session, start.kind, inner);
}

/// The message of the command, as far as it was captured.
fn inner(base: &[u8], kind: u64) -> &[u8] {
    let mut at = base.get(2..).unwrap_or_default();
    let key = super::fields::varint(&mut at);
    let len = super::fields::varint(&mut at).and_then(|n| usize::try_from(n).ok());
    match (key, len) {
        (Some(key), Some(len)) if key >> 3 == kind => at.get(..len).unwrap_or(at),
        _ => &[],
    }
}

fn part(part: Part, side: Side, inner: &[u8]) -> (Kind, Option<u64>) {
    let request_id = |field: u32| int(inner, field).map(|id| id & !(SEND_ID | CONNECT_ID));
    let send_id = || {
        let (producer, sequence) = (int(inner, 1)?, int(inner, 2)?);
        Some(SEND_ID | (producer & 0x7fff) << 48 | sequence & 0xffff_ffff_ffff)
    };
    match part {
        Part::Asks(field) => (Kind::Request, request_id(field)),
        Part::Answers(field, _) if int(inner, field) == Some(NO_REQUEST) => (Kind::Response, Some(CONNECT_ID)),
        Part::Answers(field, _) => (Kind::Response, request_id(field)),
        Part::Connect => (Kind::Request, Some(CONNECT_ID)),
        Part::Connected => (Kind::Response, Some(CONNECT_ID)),
        Part::Ping => (Kind::Request, Some(PING_ID)),
        Part::Pong => (Kind::Response, Some(PING_ID)),
        Part::Send => (Kind::Request, send_id()),
        Part::Receipt | Part::SendError => (Kind::Response, send_id()),
        Part::Ack => match request_id(8) {
            Some(id) => (Kind::Request, Some(id)),
            None => (Kind::OneWay, None),
        },
        Part::Close if side == Side::Client => (Kind::Request, request_id(2)),
        Part::Close | Part::Tells => (Kind::OneWay, None),
    }
}

/// Producers and consumers are made with a topic.
fn learn(session: &mut Session, kind: u64, inner: &[u8]) {
    let text = |field: u32| bytes(inner, field).map(|t| clean(t, MAX_TEXT).into_owned());
    match kind {
        4 => {
            if let (Some(topic), Some(id)) = (text(1), int(inner, 4)) {
                remember(&mut session.consumers, id, Place { topic, subscription: text(2) });
            }
        }
        5 => {
            if let (Some(topic), Some(id)) = (text(1), int(inner, 2)) {
                remember(&mut session.producers, id, Place { topic, subscription: None });
            }
        }
        _ => {}
    }
}

fn forget(session: &mut Session, kind: u64, inner: &[u8]) {
    let id = int(inner, 1);
    match (kind, id) {
        (15, Some(id)) => drop(session.producers.remove(&id)),
        (16 | 12, Some(id)) => drop(session.consumers.remove(&id)),
        _ => {}
    }
}

fn name<'a>(m: &mut Message<'a>, session: &'a Session, names: Names, inner: &'a [u8]) {
    let place = match names {
        Names::Nothing => return,
        Names::Topic(field) => {
            let topic = bytes(inner, field).map(|t| clean(t, MAX_TEXT)).unwrap_or_default();
            let subscription = bytes(inner, 2).filter(|_| m.operation == "SUBSCRIBE").map(|t| clean(t, MAX_TEXT));
            return at(m, topic, subscription);
        }
        Names::Namespace(field) => {
            m.target = bytes(inner, field).map(|t| clean(t, MAX_TEXT)).unwrap_or_default();
            return;
        }
        Names::Producer => int(inner, 1).and_then(|id| session.producers.get(&id)),
        Names::Consumer(field) => int(inner, field).and_then(|id| session.consumers.get(&id)),
    };
    if let Some(place) = place {
        at(m, Cow::Borrowed(&place.topic), place.subscription.as_deref().map(Cow::Borrowed));
    }
}

fn at<'a>(m: &mut Message<'a>, topic: Cow<'a, str>, subscription: Option<Cow<'a, str>>) {
    if topic.is_empty() {
        return;
    }
    // The partitions of a topic are topics of their own.
    let partition = topic.rsplit_once("-partition-").map(|(_, n)| n.to_owned());
    if let Some(n) = partition.filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
        m.attrs.push(("messaging.destination.partition.id", AttrVal::Str(Cow::Owned(n))));
    }
    m.attrs.push(("messaging.destination.name", AttrVal::Str(topic.clone())));
    m.target = topic;
    if let Some(subscription) = subscription {
        m.attrs.push(("messaging.destination.subscription.name", AttrVal::Str(subscription)));
    }
}

/// Message ids of receipts, messages and acknowledgements.
fn message_ids(m: &mut Message<'_>, kind: u64, inner: &[u8]) {
    let field = match kind {
        7 | 10 => 3,
        9 => 2,
        30 => 1,
        _ => return,
    };
    let mut ids = Fields::new(inner).filter_map(|(n, v)| match v {
        Value::Bytes(id) if n == field => Some(id),
        _ => None,
    });
    let Some(first) = ids.next() else { return };
    if let Some(text) = message_id(first) {
        m.attrs.push(("messaging.message.id", AttrVal::Str(Cow::Owned(text))));
    }
    let more = ids.count();
    if more > 0 {
        let all = i64::try_from(more).unwrap_or(i64::MAX).saturating_add(1);
        m.attrs.push(("messaging.batch.message_count", all.into()));
    }
    if kind == 10 && int(inner, 2) == Some(1) {
        m.attrs.push(("wirespan.pulsar.cumulative", true.into()));
    }
}

/// `ledger:entry`, and what else an id has; absent numbers are -1 or not sent.
fn message_id(id: &[u8]) -> Option<String> {
    let (ledger, entry) = (int(id, 1)?, int(id, 2)?);
    let mut text = format!("{ledger}:{entry}");
    let known = |field: u32| int(id, field).and_then(|n| u32::try_from(n).ok()).filter(|n| *n != u32::MAX);
    let (partition, batch) = (known(3), known(4));
    if partition.is_some() || batch.is_some() {
        let _ = match partition {
            Some(n) => write!(text, ":{n}"),
            None => write!(text, ":-1"),
        };
    }
    if let Some(n) = batch {
        let _ = write!(text, ":{n}");
    }
    Some(text)
}

fn outcome(m: &mut Message<'_>, start: &Start, inner: &[u8]) {
    let code = match start.command.part {
        Part::SendError => int(inner, 3).or(Some(0)),
        Part::Answers(_, 0) => None,
        // An error has a code, though it may be the default one that is not sent.
        Part::Answers(_, field) if start.kind == 14 => int(inner, field).or(Some(0)),
        Part::Answers(_, field) => {
            let failed = match start.kind {
                LOOKUP_RESPONSE => int(inner, 3) == Some(2),
                PARTITIONED_METADATA_RESPONSE => int(inner, 3) == Some(1),
                _ => false,
            };
            int(inner, field).or(failed.then_some(0))
        }
        _ => None,
    };
    let Some(code) = code else {
        m.outcome = Outcome::Ok;
        return;
    };
    m.outcome = errors::outcome(code);
    m.status_code = i32::try_from(code).ok();
    m.error = Cow::Borrowed(errors::name(code));
    m.attrs.push(("error.type", errors::name(code).into()));
    m.attrs.push(("wirespan.messaging.status_code", i64::try_from(code).unwrap_or(i64::MAX).into()));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(32), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// Whether a command that only one end sends came from the client.
pub(super) fn from_client(start: &Start) -> Option<bool> {
    match start.command.from {
        Sender::Client => Some(true),
        Sender::Broker => Some(false),
        Sender::Both => None,
    }
}
