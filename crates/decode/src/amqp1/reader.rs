//! Performatives → messages.

use super::frame::{self, condition, head, performative, sections, Head};
use super::session::{delivery_id, Session};
use super::values::Value;
use crate::framing::frames::{Frame, Frames, Measure, Reader};
use crate::framing::Out;
use crate::text::{clean, len64, visible};
use std::borrow::Cow;
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Most bytes of a frame that are looked at.
const WANT: u64 = 4096;
/// Longest name that is kept, bytes.
const MAX_NAME: usize = 256;
/// Kinds of pairing ids; the rest is a channel or the number of a link.
const ID_OPEN: u64 = 1 << 56;
const ID_BEGIN: u64 = 2 << 56;
const ID_ATTACH: u64 = 3 << 56;
const ID_DETACH: u64 = 4 << 56;
const ID_END: u64 = 5 << 56;
const ID_CLOSE: u64 = 6 << 56;
const ID_SASL: u64 = 7 << 56;

/// Parser of one connection.
pub(super) type Amqp1Parser = Frames<State>;

#[derive(Debug, Default)]
pub(super) struct State {
    session: Session,
    /// Sides that are in the middle of a delivery of several frames: its channel and handle.
    partial: [Option<(u16, u64)>; 2],
    /// The end that began to close.
    closing: Option<Side>,
    /// Channels that each end began to end.
    ending: Vec<(Side, u16)>,
}

impl Reader for State {
    const BAD: &'static str = "amqp1_bad_frame";
    const GAP: &'static str = "amqp1_gap";

    fn measure(&mut self, _side: Side, bytes: &[u8], lost: bool) -> Measure {
        if bytes.starts_with(b"AMQP".get(..bytes.len().min(4)).unwrap_or_default()) {
            return if bytes.len() < 8 { Measure::More } else { Measure::Frame { len: 8, want: 8 } };
        }
        let head = match head(bytes) {
            Ok(head) => head,
            Err(true) => return Measure::More,
            Err(false) => return Measure::Bad,
        };
        let enough = bytes.len() >= head.body.saturating_add(12) || len64(bytes.len()) >= head.size;
        let empty = head.size == len64(head.body);
        if enough && !empty && performative(head, bytes).is_none() {
            return Measure::Bad;
        }
        if lost && (empty || !enough) && head.size != 8 {
            return Measure::Bad;
        }
        Measure::Frame { len: head.size, want: head.size.min(WANT) }
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let Ok(head) = head(frame.bytes) else { return };
        let Some((code, list, payload)) = performative(head, frame.bytes) else { return };
        let mut m = Message::new("amqp", frame.side, Kind::OneWay, frame.offset);
        m.head_len = len64(frame.bytes.len()).min(frame.len);
        m.attrs.push(("messaging.system.name", "amqp".into()));
        m.attrs.push(("wirespan.amqp.channel", i64::from(head.channel).into()));
        match code {
            frame::TRANSFER => {
                m.head_len = m.head_len.saturating_sub(len64(payload.len()));
                if !self.transfer(head, list, payload, &mut m) {
                    return;
                }
            }
            frame::DISPOSITION => return self.disposition(head, list, m, out),
            frame::FLOW => return,
            0x40.. => sasl(code, list, &mut m),
            _ => self.ends(code, head, list, &mut m),
        }
        let left = frame.len.saturating_sub(m.head_len);
        m.body = if left == 0 { Body::None } else { Body::Length(left) };
        out(Item::Message(&m));
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) {
        self.session.lost(side);
        let [client, server] = &mut self.partial;
        *(if side == Side::Client { client } else { server }) = None;
    }
}

fn sasl(code: u64, list: Value<'_>, m: &mut Message<'_>) {
    let mut fields = list.members();
    match code {
        frame::SASL_MECHANISMS => m.operation = "sasl.mechanisms",
        frame::SASL_INIT => {
            (m.operation, m.kind, m.id) = ("sasl.init", Kind::Request, Some(ID_SASL));
            if let Some(name) = fields.next().and_then(Value::text).and_then(|n| visible(n, 32)) {
                m.attrs.push(("wirespan.amqp.sasl_mechanism", AttrVal::Str(Cow::Owned(name.to_owned()))));
            }
        }
        frame::SASL_OUTCOME => {
            (m.operation, m.kind, m.id) = ("sasl.outcome", Kind::Response, Some(ID_SASL));
            let code = fields.next().and_then(Value::number);
            m.status_code = code.and_then(|c| i32::try_from(c).ok());
            (m.outcome, m.error) = match code {
                Some(0) => (Outcome::Ok, Cow::Borrowed("")),
                Some(1) => (Outcome::ClientError, Cow::Borrowed("authentication failed")),
                Some(_) => (Outcome::ServerError, Cow::Borrowed("system error")),
                None => (Outcome::Unset, Cow::Borrowed("")),
            };
        }
        0x42 => m.operation = "sasl.challenge",
        _ => m.operation = "sasl.response",
    }
}

impl State {
    /// What opens and closes connections, sessions and links.
    fn ends<'a>(&mut self, code: u64, head: Head, list: Value<'a>, m: &mut Message<'a>) {
        let channel = head.channel;
        let field = |n| list.members().nth(n);
        let client = m.side == Side::Client;
        let mut pair = |m: &mut Message<'a>, id: u64, answers: bool| {
            m.id = Some(id);
            m.kind = if answers { Kind::Response } else { Kind::Request };
            if answers {
                m.outcome = Outcome::Ok;
            }
        };
        let mut error = None;
        match code {
            frame::OPEN => {
                m.operation = "open";
                pair(m, ID_OPEN, !client);
                if let Some(host) = field(1).and_then(Value::text) {
                    m.target = clean(host, MAX_NAME);
                }
                if let Some(id) = field(0).and_then(Value::text).filter(|_| client) {
                    m.attrs.push(("messaging.client.id", AttrVal::Str(clean(id, 128))));
                }
            }
            frame::BEGIN => {
                m.operation = "begin";
                let remote = field(0).and_then(Value::number).and_then(|n| u16::try_from(n).ok());
                pair(m, ID_BEGIN | u64::from(remote.unwrap_or(channel)), remote.is_some());
                if let Some(remote) = remote {
                    let (client, server) = if client { (channel, remote) } else { (remote, channel) };
                    self.session.begun(client, server);
                }
            }
            frame::ATTACH => {
                m.operation = "attach";
                self.attach(channel, list, m, &mut pair);
            }
            frame::DETACH => {
                m.operation = "detach";
                let handle = field(0).and_then(Value::number);
                if let Some((id, address, answers)) = handle.and_then(|h| self.session.detach(m.side, channel, h)) {
                    pair(m, ID_DETACH | id, answers);
                    m.target = Cow::Owned(address.unwrap_or_default().into());
                }
                error = field(2).and_then(condition);
            }
            frame::END => {
                m.operation = "end";
                // Both ends call the session by channels of their own.
                let own = if client { Some(channel) } else { self.session.other_channel(Side::Server, channel) };
                if let Some(own) = own {
                    let begun = self.ending.iter().position(|e| *e == (m.side.peer(), own));
                    pair(m, ID_END | u64::from(own), begun.is_some());
                    match begun {
                        Some(at) => {
                            self.ending.remove(at);
                            self.session.ended(own);
                        }
                        None if self.ending.len() < 64 => self.ending.push((m.side, own)),
                        None => {}
                    }
                }
                error = field(0).and_then(condition);
            }
            _ => {
                m.operation = "close";
                pair(m, ID_CLOSE, self.closing == Some(m.side.peer()));
                self.closing.get_or_insert(m.side);
                error = field(0).and_then(condition);
            }
        }
        m.attrs.push(("messaging.operation.name", m.operation.into()));
        if !m.target.is_empty() && matches!(code, frame::ATTACH | frame::DETACH) {
            m.attrs.push(("messaging.destination.name", AttrVal::Str(m.target.clone())));
        }
        if let Some(condition) = error {
            m.error = clean(condition, MAX_NAME);
            m.outcome = outcome(condition);
            m.attrs.push(("wirespan.amqp.condition", AttrVal::Str(m.error.clone())));
        }
    }

    fn attach<'a>(
        &mut self,
        channel: u16,
        list: Value<'a>,
        m: &mut Message<'a>,
        pair: &mut dyn FnMut(&mut Message<'a>, u64, bool),
    ) {
        let mut fields = list.members();
        let (name, handle, receiver) = (fields.next(), fields.next(), fields.next());
        let Some(name) = name.and_then(Value::text) else { return };
        let Some(handle) = handle.and_then(Value::number) else { return };
        let receives = receiver.and_then(Value::bool).unwrap_or(false);
        m.attrs.push(("wirespan.amqp.link", AttrVal::Str(clean(name, 128))));
        let (source, target) = (fields.nth(2), fields.next());
        let address = |terminus: Option<Value<'a>>| terminus?.members().next()?.text();
        // The broker's end of the link has the name.
        let from_broker = receives == (m.side == Side::Client);
        let address = if from_broker { address(source) } else { address(target) };
        if let Some(address) = address {
            m.target = clean(address, MAX_NAME);
        }
        let Some((link, answers)) = self.session.attach(m.side, channel, handle, &clean(name, MAX_NAME)) else {
            return;
        };
        if address.is_some() {
            link.address = Some(m.target.as_ref().into());
        }
        let id = link.id;
        pair(m, ID_ATTACH | id, answers);
    }

    /// Returns whether a message begins here.
    fn transfer<'a>(&mut self, head: Head, list: Value<'a>, payload: &'a [u8], m: &mut Message<'a>) -> bool {
        let mut fields = list.members();
        let (handle, id) = (fields.next().and_then(Value::number), fields.next().and_then(Value::number));
        let (settled, more) = (fields.nth(2).and_then(Value::bool), fields.next().and_then(Value::bool));
        let place = (head.channel, handle.unwrap_or(u64::MAX));
        let [client, server] = &mut self.partial;
        let partial = if m.side == Side::Client { client } else { server };
        let continues = *partial == Some(place);
        *partial = (more == Some(true)).then_some(place);
        if continues {
            return false;
        }
        m.operation = "transfer";
        let (operation, name) = if m.side == Side::Client { ("send", "send") } else { ("process", "deliver") };
        m.attrs.push(("messaging.operation.type", operation.into()));
        m.attrs.push(("messaging.operation.name", name.into()));
        let found = sections(payload);
        let link = handle.and_then(|h| self.session.link(m.side, head.channel, h));
        let address = link.and_then(|l| l.address.as_deref());
        if let Some(address) = address {
            m.target = Cow::Owned(address.to_owned());
        } else if let Some(to) = found.to {
            m.target = clean(to, MAX_NAME);
        }
        if !m.target.is_empty() {
            m.attrs.push(("messaging.destination.name", AttrVal::Str(m.target.clone())));
        }
        m.carried = found.context.finish();
        for (key, id) in
            [("messaging.message.id", found.message_id), ("messaging.message.conversation_id", found.correlation_id)]
        {
            if let Some(id) = id.and_then(|id| visible(id, 128)) {
                m.attrs.push((key, id.into()));
            }
        }
        if let Some(id) = id {
            m.attrs.push(("wirespan.amqp.delivery_id", i64::try_from(id).unwrap_or(i64::MAX).into()));
            if settled != Some(true) {
                self.session.sent(m.side, head.channel, id);
                (m.kind, m.id) = (Kind::Request, Some(delivery_id(head.channel, id)));
            }
        }
        true
    }

    fn disposition<'a>(&mut self, head: Head, list: Value<'a>, mut m: Message<'a>, out: Out<'_>) {
        let mut fields = list.members();
        let receives = fields.next().and_then(Value::bool).unwrap_or(false);
        let first = fields.next().and_then(Value::number);
        let last = fields.next().and_then(Value::number).or(first);
        let state = fields.nth(1);
        m.operation = "disposition";
        m.attrs.push(("messaging.operation.type", "settle".into()));
        let (name, outcome, error) = match state.and_then(|s| s.descriptor) {
            Some(0x23) => ("received", Outcome::Unset, Cow::Borrowed("")),
            Some(0x25) => {
                let why = state.and_then(|s| s.members().next()).and_then(condition);
                ("rejected", Outcome::ClientError, why.map_or(Cow::Borrowed("rejected"), |c| clean(c, MAX_NAME)))
            }
            Some(0x26) => ("released", Outcome::ClientError, Cow::Borrowed("released")),
            Some(0x27) => ("modified", Outcome::ClientError, Cow::Borrowed("modified")),
            _ => ("accepted", Outcome::Ok, Cow::Borrowed("")),
        };
        // How far a delivery came is not its end, nor is what its sender says.
        let mut answered = Vec::new();
        if let (true, true, Some((first, last))) = (receives, name != "received", first.zip(last)) {
            if let Some(channel) = self.session.other_channel(m.side, head.channel) {
                answered = self.session.settled(m.side.peer(), channel, first, last);
            }
        }
        m.attrs.push(("wirespan.amqp.delivery_state", name.into()));
        if answered.is_empty() {
            return out(Item::Message(&m));
        }
        (m.kind, m.outcome, m.error) = (Kind::Response, outcome, error);
        m.attrs.retain(|(key, _)| !key.starts_with("messaging.operation"));
        for id in answered {
            let mut answer = m.clone();
            answer.id = Some(id);
            out(Item::Message(&answer));
        }
    }
}

/// Whose fault an error condition is.
fn outcome(condition: &[u8]) -> Outcome {
    match condition {
        b"amqp:internal-error"
        | b"amqp:resource-limit-exceeded"
        | b"amqp:not-implemented"
        | b"amqp:connection:forced" => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}
