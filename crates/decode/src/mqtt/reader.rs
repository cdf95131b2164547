//! The state of one MQTT connection, and packets → messages.

use super::codes;
use super::packet::kind;
use super::packet::{connect_start, header, measure, properties, Header, Properties};
use crate::framing::frames::{Frame, Frames, Measure, Reader};
use crate::framing::{Cursor, Out};
use crate::text::{clean, len64, visible};
use std::borrow::Cow;
use std::collections::HashMap;
use wirespan_model::{Body, Item, Kind, Message, Outcome, Side};

/// Topic aliases remembered per side.
const MAX_ALIASES: usize = 64;
/// Longest topic that is kept, bytes.
const MAX_TOPIC: usize = 512;
/// Pairing ids of exchanges without a packet id.
const ID_CONNECT: u64 = 1 << 32;
const ID_PING: u64 = 1 << 33;
/// Set in the ids of PUBREL and PUBCOMP, whose packet id is that of their PUBLISH.
const ID_RELEASE: u64 = 1 << 16;

/// Parser of one connection.
pub(super) type MqttParser = Frames<Session>;

/// What both ends have agreed on.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// 3, 4 (which is 3.1.1) or 5.
    version: Option<u8>,
    aliases: [HashMap<u16, Box<str>>; 2],
}

impl Reader for Session {
    const BAD: &'static str = "mqtt_bad_packet";
    const GAP: &'static str = "mqtt_gap";

    fn measure(&mut self, side: Side, bytes: &[u8], lost: bool) -> Measure {
        measure(side, bytes, lost)
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let Ok(head) = header(frame.bytes) else { return };
        let mut at = Cursor::new(frame.bytes);
        at.take(head.len);
        // Fields of this packet only, not of those behind it.
        let body = at.rest();
        let body = usize::try_from(head.remaining).ok().and_then(|n| body.get(..n)).unwrap_or(body);
        let mut m = Message::new("mqtt", frame.side, Kind::OneWay, frame.offset);
        m.attrs.push(("messaging.system.name", "mqtt".into()));
        m.operation = operation(head.kind);
        let mut props = Properties::default();
        let context;
        let read = match head.kind {
            kind::PUBLISH => {
                let read = self.publish(head, body, &mut props, &mut m);
                context = props.context;
                m.carried = context.finish();
                read
            }
            kind::SUBSCRIBE | kind::UNSUBSCRIBE => self.subscribe(head, body, &mut m),
            kind::CONNECT => self.connect(body, &mut m),
            _ => self.other(head, body, &mut m),
        };
        // The unread part of the head counts as body: it is too long or was not captured.
        m.head_len = len64(head.len.saturating_add(read)).min(frame.len);
        let left = frame.len.saturating_sub(m.head_len);
        m.body = if left == 0 { Body::None } else { Body::Length(left) };
        out(Item::Message(&m));
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) {
        self.aliases_of(side).clear();
    }
}

impl Session {
    fn aliases_of(&mut self, side: Side) -> &mut HashMap<u16, Box<str>> {
        let [client, server] = &mut self.aliases;
        if side == Side::Client {
            client
        } else {
            server
        }
    }

    /// Returns how many bytes belong to the head.
    fn publish<'a>(
        &'a mut self,
        head: Header,
        body: &'a [u8],
        props: &mut Properties<'a>,
        m: &mut Message<'a>,
    ) -> usize {
        let mut at = Cursor::new(body);
        let (operation, name) = if m.side == Side::Client { ("send", "publish") } else { ("process", "deliver") };
        m.attrs.push(("messaging.operation.type", operation.into()));
        m.attrs.push(("messaging.operation.name", name.into()));
        m.attrs.push(("wirespan.mqtt.qos", i64::from(head.qos()).into()));
        if head.flags & 1 != 0 {
            m.attrs.push(("wirespan.mqtt.retain", true.into()));
        }
        if head.flags & 8 != 0 {
            m.attrs.push(("wirespan.mqtt.duplicate", true.into()));
        }
        let Some(topic) = at.bytes16() else { return body.len() };
        if head.qos() > 0 {
            // Its answer could not be found without the id.
            let Some(id) = at.u16() else { return body.len() };
            m.kind = Kind::Request;
            m.id = Some(u64::from(id));
            m.attrs.push(("wirespan.mqtt.packet_id", i64::from(id).into()));
        }
        let side = m.side;
        let version = self.version;
        if version == Some(5) && properties(&mut at, props).is_none() {
            // Cut off, or nonsense: earlier fields stay.
            at = Cursor::new(body);
            at.take(body.len());
        }
        let read = body.len().saturating_sub(at.rest().len());
        let mut topic = clean(topic, MAX_TOPIC);
        if let Some(alias) = props.alias {
            let aliases = self.aliases_of(side);
            if topic.is_empty() {
                topic = aliases.get(&alias).map_or(Cow::Borrowed(""), |t| Cow::Borrowed(t));
            } else if aliases.len() < MAX_ALIASES || aliases.contains_key(&alias) {
                aliases.insert(alias, topic.as_ref().into());
            }
        }
        if !topic.is_empty() {
            m.attrs.push(("messaging.destination.name", wirespan_model::AttrVal::Str(topic.clone())));
        }
        m.target = topic;
        if let Some(id) = props.correlation.and_then(|c| visible(c, 128)) {
            m.attrs.push(("messaging.message.conversation_id", id.into()));
        }
        if let Some(topic) = props.response_topic {
            m.attrs.push(("wirespan.mqtt.response_topic", wirespan_model::AttrVal::Str(clean(topic, MAX_TOPIC))));
        }
        if version.is_some() {
            let payload = head.remaining.saturating_sub(len64(read));
            m.attrs.push(("messaging.message.body.size", i64::try_from(payload).unwrap_or(i64::MAX).into()));
        }
        read
    }

    fn subscribe<'a>(&self, head: Header, body: &'a [u8], m: &mut Message<'a>) -> usize {
        let mut at = Cursor::new(body);
        m.kind = Kind::Request;
        m.attrs.push(("messaging.operation.name", name(head.kind).into()));
        let Some(id) = at.u16() else { return body.len() };
        m.id = Some(u64::from(id));
        m.attrs.push(("wirespan.mqtt.packet_id", i64::from(id).into()));
        match self.version {
            Some(5) => drop(properties(&mut at, &mut Properties::default())),
            // No filter is empty: two zeros are empty properties and the first byte of a length.
            None if at.rest().starts_with(&[0, 0]) => drop(at.u8()),
            _ => {}
        }
        let mut filters = 0i64;
        while let Some(filter) = at.bytes16() {
            if filters == 0 {
                m.target = clean(filter, MAX_TOPIC);
                m.attrs.push(("messaging.destination.name", wirespan_model::AttrVal::Str(m.target.clone())));
            }
            filters = filters.saturating_add(1);
            if head.kind == kind::SUBSCRIBE && at.u8().is_none() {
                break;
            }
        }
        if len64(body.len()) >= head.remaining {
            m.attrs.push(("wirespan.mqtt.filters", filters.into()));
        }
        body.len()
    }

    fn connect<'a>(&mut self, body: &'a [u8], m: &mut Message<'a>) -> usize {
        let mut at = Cursor::new(body);
        m.kind = Kind::Request;
        m.id = Some(ID_CONNECT);
        m.attrs.push(("messaging.operation.name", "connect".into()));
        self.aliases.iter_mut().for_each(HashMap::clear);
        self.version = connect_start(body);
        let start = (|| {
            at.bytes16()?;
            // Level, flags, keep alive.
            at.take(4)?;
            if self.version == Some(5) {
                properties(&mut at, &mut Properties::default())?;
            }
            at.bytes16()
        })();
        m.attrs.push(("network.protocol.version", version(self.version.unwrap_or_default()).into()));
        if let Some(client) = start.filter(|c| !c.is_empty()) {
            m.attrs.push(("messaging.client.id", wirespan_model::AttrVal::Str(clean(client, 128))));
        }
        body.len()
    }

    /// Reads packets that are no requests: answers, and others.
    fn other(&mut self, head: Header, body: &[u8], m: &mut Message<'_>) -> usize {
        let mut at = Cursor::new(body);
        match head.kind {
            kind::CONNACK => {
                m.kind = Kind::Response;
                m.id = Some(ID_CONNECT);
                // Version 5 has at least the length of its properties behind the code.
                self.version.get_or_insert(if head.remaining == 2 { 4 } else { 5 });
                if let Some(code) = at.take(2).and_then(|b| b.get(1)).copied() {
                    if self.version == Some(5) {
                        fail(m, code);
                    } else {
                        m.status_code = Some(i32::from(code));
                        m.outcome = codes::connect_outcome(code);
                        m.error = Cow::Borrowed(codes::connect_name(code));
                    }
                }
            }
            kind::PUBACK | kind::PUBREC | kind::PUBCOMP => {
                m.kind = Kind::Response;
                let release = if head.kind == kind::PUBCOMP { ID_RELEASE } else { 0 };
                m.id = at.u16().map(|id| u64::from(id) | release);
                fail(m, at.u8().unwrap_or_default());
            }
            kind::PUBREL => {
                m.kind = Kind::Request;
                m.id = at.u16().map(|id| u64::from(id) | ID_RELEASE);
                m.attrs.push(("messaging.operation.type", "settle".into()));
                m.attrs.push(("messaging.operation.name", name(head.kind).into()));
            }
            kind::SUBACK | kind::UNSUBACK => {
                m.kind = Kind::Response;
                m.id = at.u16().map(u64::from);
                let codes = if head.kind == kind::UNSUBACK && self.version != Some(5) {
                    &[][..]
                } else if self.version == Some(5) {
                    // Properties are skipped; if they were cut off, so were the codes.
                    properties(&mut at, &mut Properties::default()).map_or(&[][..], |()| at.rest())
                } else {
                    at.rest()
                };
                let failed = codes.iter().copied().find(|c| *c >= 0x80);
                fail(m, failed.unwrap_or_default());
                let failures = codes.iter().filter(|c| **c >= 0x80).count();
                if failures > 0 {
                    let failures = i64::try_from(failures).unwrap_or(i64::MAX);
                    m.attrs.push(("wirespan.mqtt.failed_filters", failures.into()));
                }
            }
            kind::PINGREQ => {
                m.kind = Kind::Request;
                m.id = Some(ID_PING);
                m.attrs.push(("messaging.operation.name", name(head.kind).into()));
            }
            kind::PINGRESP => {
                m.kind = Kind::Response;
                m.id = Some(ID_PING);
                m.outcome = Outcome::Ok;
            }
            _ => {
                m.attrs.push(("messaging.operation.name", name(head.kind).into()));
                fail(m, at.u8().unwrap_or_default());
            }
        }
        if m.kind != Kind::OneWay && m.id.is_none() {
            // Cut off before its id: it belongs to nothing that can be told.
            m.kind = Kind::OneWay;
        }
        body.len()
    }
}

/// Reason code of an answer.
fn fail(m: &mut Message<'_>, code: u8) {
    m.status_code = Some(i32::from(code));
    m.outcome = codes::reason_outcome(code);
    m.error = Cow::Borrowed(codes::reason_name(code));
}

fn version(level: u8) -> &'static str {
    match level {
        3 => "3.1",
        4 => "3.1.1",
        _ => "5",
    }
}

fn operation(kind: u8) -> &'static str {
    match kind {
        kind::CONNECT => "CONNECT",
        kind::CONNACK => "CONNACK",
        kind::PUBLISH => "PUBLISH",
        kind::PUBACK => "PUBACK",
        kind::PUBREC => "PUBREC",
        kind::PUBREL => "PUBREL",
        kind::PUBCOMP => "PUBCOMP",
        kind::SUBSCRIBE => "SUBSCRIBE",
        kind::SUBACK => "SUBACK",
        kind::UNSUBSCRIBE => "UNSUBSCRIBE",
        kind::UNSUBACK => "UNSUBACK",
        kind::PINGREQ => "PINGREQ",
        kind::PINGRESP => "PINGRESP",
        kind::DISCONNECT => "DISCONNECT",
        _ => "AUTH",
    }
}

/// Name of an operation as OpenTelemetry writes names.
fn name(kind: u8) -> &'static str {
    match kind {
        kind::SUBSCRIBE => "subscribe",
        kind::UNSUBSCRIBE => "unsubscribe",
        kind::PUBREL => "release",
        kind::PINGREQ => "ping",
        kind::DISCONNECT => "disconnect",
        _ => "auth",
    }
}
