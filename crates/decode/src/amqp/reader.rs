//! Frames → messages.

use super::begun::{begun, closed, Begun, MAX_NAME};
use super::content::{self, content};
use super::methods::{self, about, frame_head, known_method, method, Id, Part};
use super::session::{method_id, Session};
use crate::framing::frames::{Frame, Frames, Measure, Reader};
use crate::framing::{Cursor, Out};
use crate::text::{clean, len64, visible};
use std::borrow::Cow;
use wirespan_model::broker::AMQP_BODY;
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Most bytes of a frame that are looked at.
const WANT: u64 = 4096;
/// Largest frame that is believed.
const MAX_FRAME: u64 = 128 << 20;
/// Largest frame unless the ends agree on another (RabbitMQ's default).
const USUAL_FRAME: u32 = 128 * 1024;
/// Contents that may be begun per side at once, on channels.
const MAX_BEGUN: usize = 64;

/// Parser of one connection.
pub(super) type AmqpParser = Frames<Methods>;

#[derive(Debug, Default)]
pub(super) struct Methods {
    session: Session,
    begun: Vec<Begun>,
    /// Offset of the last message by side.
    last: [u64; 2],
    /// Offset behind the body of the last content by side, if its sender makes frames as long as they may be.
    bodies: [u64; 2],
}

impl Reader for Methods {
    const BAD: &'static str = "amqp_bad_frame";
    const GAP: &'static str = "amqp_gap";

    fn measure(&mut self, side: Side, bytes: &[u8], lost: bool) -> Measure {
        let magic = b"AMQP";
        if bytes.starts_with(magic.get(..bytes.len().min(4)).unwrap_or_default()) {
            return if bytes.len() < 8 { Measure::More } else { Measure::Frame { len: 8, want: 8 } };
        }
        let Some((kind, channel, size)) = frame_head(bytes) else {
            let begins = bytes.first().is_some_and(|b| matches!(b, 1..=3 | 8));
            return if begins { Measure::More } else { Measure::Bad };
        };
        let len = size.saturating_add(8);
        let whole = usize::try_from(len).ok().and_then(|n| bytes.get(..n));
        if size > MAX_FRAME || whole.is_some_and(|w| w.last() != Some(&0xce)) {
            return Measure::Bad;
        }
        let want = match kind {
            1 if size >= 4 => {
                if bytes.len() >= 11 && known_method(bytes, Some(side)).is_none() {
                    return Measure::Bad;
                }
                len
            }
            // A content header begins with the class, which is 60, and a weight of 0.
            2 if channel > 0 && size >= 14 => match bytes.get(7..11) {
                Some([0, 60, 0, 0]) | None => len,
                _ => return Measure::Bad,
            },
            3 if channel > 0 && !(lost && whole.is_none()) => match self.awaits_body(side, channel) {
                Some(_) => len,
                None => 7,
            },
            8 if size == 0 && channel == 0 => 8,
            _ => return Measure::Bad,
        };
        // Small frames are seen whole, so that their last byte is looked at.
        Measure::Frame { len, want: want.min(WANT) }
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let Some((kind, channel, size)) = frame_head(frame.bytes) else { return };
        if frame.bytes.starts_with(b"AMQP") {
            return;
        }
        let payload = frame.bytes.get(7..).unwrap_or_default();
        let payload = usize::try_from(size).ok().and_then(|n| payload.get(..n)).unwrap_or(payload);
        match kind {
            1 => {
                let Some(id) = known_method(frame.bytes, Some(frame.side)) else { return };
                let arguments = payload.get(4..).unwrap_or_default();
                self.flush(frame.side, Some(channel), out);
                self.method(frame, channel, id, arguments, out);
            }
            2 => self.header(frame, channel, payload, out),
            3 => {
                if let Some(at) = self.awaits_body(frame.side, channel) {
                    let begun = self.begun.remove(at);
                    self.content(&begun, &begun.header, payload, out);
                }
            }
            _ => {}
        }
    }

    fn known_until(&self, side: Side) -> u64 {
        let [client, server] = self.bodies;
        if side == Side::Client {
            client
        } else {
            server
        }
    }

    fn lost(&mut self, side: Side, out: Out<'_>) {
        self.flush(side, None, out);
        self.session.lost(side);
    }

    fn finish(&mut self, out: Out<'_>) {
        for side in [Side::Client, Side::Server] {
            self.flush(side, None, out);
        }
    }

    fn buffered(&self) -> usize {
        let begun = self
            .begun
            .iter()
            .map(|b| b.exchange.len().saturating_add(b.routing_key.len()).saturating_add(b.header.len()));
        begun.fold(0, usize::saturating_add)
    }
}

impl Methods {
    fn emit(&mut self, m: Message<'_>, out: Out<'_>) {
        let [client, server] = &mut self.last;
        *(if m.side == Side::Client { client } else { server }) = m.offset;
        out(Item::Message(&m));
    }

    fn last_of(&self, side: Side) -> u64 {
        let [client, server] = self.last;
        if side == Side::Client {
            client
        } else {
            server
        }
    }

    /// Contents whose header will not come: those of a channel, or all.
    fn flush(&mut self, side: Side, channel: Option<u16>, out: Out<'_>) {
        while let Some(at) = self.begun.iter().position(|b| b.side == side && channel.is_none_or(|c| c == b.channel)) {
            let mut begun = self.begun.remove(at);
            // Offsets never go back: behind messages of other channels it stands where the last of them does.
            begun.offset = begun.offset.max(self.last_of(side));
            self.content(&begun, &begun.header, b"", out);
        }
    }

    fn method(&mut self, frame: Frame<'_>, channel: u16, id: Id, arguments: &[u8], out: Out<'_>) {
        let Some((name, _, part)) = method(id) else { return };
        let mut m = Message::new("amqp", frame.side, Kind::OneWay, frame.offset);
        m.operation = name;
        m.head_len = len64(frame.bytes.len());
        let left = frame.len.saturating_sub(m.head_len);
        m.body = if left == 0 { Body::None } else { Body::Length(left) };
        m.attrs.push(("messaging.system.name", "rabbitmq".into()));
        m.attrs.push(("wirespan.amqp.channel", i64::from(channel).into()));
        match part {
            Part::Content | Part::ContentOf(_) => {
                if self.begun.len() < MAX_BEGUN {
                    self.begun.extend(begun(frame, channel, id, arguments));
                }
                return;
            }
            Part::Asks => return self.asks(m, channel, id, arguments, out),
            Part::Answers(asked) => {
                m.kind = Kind::Response;
                m.id = Some(method_id(channel, asked));
                m.outcome = Outcome::Ok;
                let failed = self.session.answer(frame.side.peer(), channel, asked);
                match id {
                    (10, 11) => {
                        // Behind the client's table stands the mechanism; the response behind it is secret.
                        let mut at = Cursor::new(arguments);
                        let mechanism = at.bytes32().and_then(|_| at.bytes8()).and_then(|m| visible(m, 32));
                        if let Some(mechanism) = mechanism {
                            m.attrs.push(("wirespan.amqp.sasl_mechanism", mechanism.into()));
                        }
                    }
                    (10, 31) => {
                        let size = arguments.get(2..6).and_then(|b| Cursor::new(b).u32());
                        self.session.frame_max = size.filter(|n| *n >= 4096);
                    }
                    (20, 11 | 41) => self.session.forget_channel(channel),
                    _ => {}
                }
                if let Some((code, text)) = failed {
                    m.status_code = Some(i32::from(code));
                    m.outcome = methods::outcome(code);
                    m.error = Cow::Owned(text.into());
                }
            }
            Part::Alone => match id {
                methods::ACK | methods::NACK | methods::REJECT => return self.settled(m, channel, id, arguments, out),
                _ => m.attrs.push(("messaging.operation.name", short_name(name).into())),
            },
        }
        self.emit(m, out);
    }

    fn asks<'a>(&mut self, mut m: Message<'a>, channel: u16, id: Id, arguments: &'a [u8], out: Out<'_>) {
        let about = about(id, arguments).unwrap_or_default();
        m.target = clean(about.target, MAX_NAME);
        m.attrs.push(("messaging.operation.name", short_name(m.operation).into()));
        if !m.target.is_empty() {
            let key = match id {
                (10, _) => "wirespan.amqp.vhost",
                (60, 30) => "messaging.destination.subscription.name",
                _ => "messaging.destination.name",
            };
            m.attrs.push((key, AttrVal::Str(m.target.clone())));
        }
        if matches!(id, (60, 70)) {
            m.attrs.push(("messaging.operation.type", "receive".into()));
        }
        let failed =
            if matches!(id, methods::CONNECTION_CLOSE | methods::CHANNEL_CLOSE) { closed(arguments) } else { None };
        if matches!(id, methods::CONNECTION_CLOSE | methods::CHANNEL_CLOSE) {
            if let Some((code, text, cause)) = &failed {
                m.attrs.push(("wirespan.amqp.reply_code", i64::from(*code).into()));
                if let Some(on) = self.session.refused(m.side.peer(), channel, *cause) {
                    // The same frame is the answer to the method that it names.
                    let mut answer = Message::new("amqp", m.side, Kind::Response, m.offset);
                    (answer.id, answer.operation) = (Some(method_id(on, *cause)), m.operation);
                    (answer.head_len, answer.body) = (m.head_len, m.body);
                    answer.attrs.push(("messaging.system.name", "rabbitmq".into()));
                    answer.status_code = Some(i32::from(*code));
                    answer.outcome = methods::outcome(*code);
                    answer.error = Cow::Borrowed(text);
                    self.emit(answer, out);
                }
            }
        }
        if id == methods::CONFIRM_SELECT {
            self.session.confirm(channel);
        }
        if !about.no_wait {
            m.kind = Kind::Request;
            m.id = Some(method_id(channel, id));
            self.session.ask(m.side, channel, id, failed.as_ref().map(|(code, text, _)| (*code, text.clone())));
        }
        self.emit(m, out);
    }

    fn settled(&mut self, mut m: Message<'_>, channel: u16, id: Id, arguments: &[u8], out: Out<'_>) {
        m.attrs.push(("messaging.operation.name", short_name(m.operation).into()));
        m.attrs.push(("messaging.operation.type", "settle".into()));
        let mut at = Cursor::new(arguments);
        let Some((tag, bits)) = at.u64().zip(at.u8()) else { return self.emit(m, out) };
        // Bit 0 is `requeue` of a reject.
        let multiple = id != methods::REJECT && bits & 1 == 1;
        let number = i64::try_from(tag).unwrap_or(i64::MAX);
        m.attrs.push(("rabbitmq.message.delivery_tag", number.into()));
        if multiple {
            m.attrs.push(("wirespan.amqp.multiple", true.into()));
        }
        let answered = match m.side {
            Side::Server => self.session.confirmed(channel, tag, multiple),
            Side::Client => Vec::new(),
        };
        if answered.is_empty() {
            return self.emit(m, out);
        }
        m.attrs.truncate(2);
        for id_of in answered {
            let mut answer = m.clone();
            (answer.kind, answer.id) = (Kind::Response, Some(id_of));
            if id == methods::NACK {
                answer.outcome = Outcome::ServerError;
                answer.error = Cow::Borrowed("not confirmed");
            } else {
                answer.outcome = Outcome::Ok;
            }
            self.emit(answer, out);
        }
    }

    fn header(&mut self, frame: Frame<'_>, channel: u16, payload: &[u8], out: Out<'_>) {
        let end = frame.offset.saturating_add(frame.len.min(len64(frame.bytes.len())));
        let behind = frame.offset.saturating_add(frame.len);
        let until = behind.saturating_add(content(payload).map_or(0, |c| self.on_the_wire(c.body_size)));
        let [client, server] = &mut self.bodies;
        *(if frame.side == Side::Client { client } else { server }) = until;
        let at = self.begun.iter().position(|b| b.side == frame.side && b.channel == channel);
        // Without its method (joined in between) a content says nothing.
        let Some(at) = at else { return };
        let mut begun = self.begun.remove(at);
        if self.last_of(frame.side) > begun.offset {
            // Frames of other channels came between: the message begins again here.
            begun.offset = frame.offset;
        }
        begun.end = end;
        if content(payload).is_some_and(|c| c.is_known_by_body()) && self.begun.len() < MAX_BEGUN {
            begun.header = payload.to_vec();
            return self.begun.push(begun);
        }
        self.content(&begun, payload, b"", out);
    }

    /// The content on this channel that is known by its body, if one has begun.
    fn awaits_body(&self, side: Side, channel: u16) -> Option<usize> {
        self.begun.iter().position(|b| b.side == side && b.channel == channel && !b.header.is_empty())
    }

    /// Length of a body: as many frames as are needed, with 8 bytes around each.
    fn on_the_wire(&self, body_size: u64) -> u64 {
        let per_frame = u64::from(self.session.frame_max.unwrap_or(USUAL_FRAME)).saturating_sub(8).max(1);
        body_size.saturating_add(body_size.div_ceil(per_frame).saturating_mul(8))
    }

    /// A method with the payload of its content header, and with the beginning of its body if that names it.
    fn content(&mut self, begun: &Begun, payload: &[u8], body: &[u8], out: Out<'_>) {
        let header = content(payload);
        let mut m = Message::new("amqp", begun.side, Kind::OneWay, begun.offset);
        let Some((name, _, part)) = method(begun.method) else { return };
        m.operation = name;
        m.head_len = begun.end.saturating_sub(begun.offset).max(1);
        m.target = match (&*begun.exchange, &*begun.routing_key) {
            ("", key) => Cow::Borrowed(key),
            (exchange, "") => Cow::Borrowed(exchange),
            (exchange, key) => Cow::Owned(format!("{exchange}:{key}")),
        };
        m.attrs.push(("messaging.system.name", "rabbitmq".into()));
        m.attrs.push(("wirespan.amqp.channel", i64::from(begun.channel).into()));
        let (operation, short) = match begun.method {
            methods::PUBLISH => ("send", "publish"),
            methods::GET_OK => ("receive", "get"),
            methods::RETURN => ("process", "return"),
            _ => ("process", "deliver"),
        };
        m.attrs.push(("messaging.operation.type", operation.into()));
        m.attrs.push(("messaging.operation.name", short.into()));
        m.attrs.push(("messaging.destination.name", AttrVal::Str(m.target.clone())));
        if !begun.routing_key.is_empty() {
            let key = Cow::Borrowed(&*begun.routing_key);
            m.attrs.push(("rabbitmq.destination.routing_key", AttrVal::Str(key)));
        }
        if let Part::ContentOf(asked) = part {
            (m.kind, m.id) = (Kind::Response, Some(method_id(begun.channel, asked)));
            m.outcome = Outcome::Ok;
            self.session.answer(begun.side.peer(), begun.channel, asked);
        }
        let mut tag = begun.delivery_tag;
        if begun.method == methods::PUBLISH {
            if let Some((confirmed, id)) = self.session.published(begun.channel) {
                (m.kind, m.id) = (Kind::Request, Some(id));
                tag = Some(confirmed);
            }
        }
        if let Some(tag) = tag {
            let number = i64::try_from(tag).unwrap_or(i64::MAX);
            m.attrs.push(("rabbitmq.message.delivery_tag", number.into()));
        }
        if begun.redelivered {
            m.attrs.push(("wirespan.amqp.redelivered", true.into()));
        }
        if let Some((code, text)) = &begun.returned {
            m.status_code = Some(i32::from(*code));
            m.outcome = methods::outcome(*code);
            m.error = Cow::Borrowed(text);
        }
        if let Some(header) = header {
            m.carried = header.context.finish();
            let size = i64::try_from(header.body_size).unwrap_or(i64::MAX);
            m.attrs.push(("messaging.message.body.size", size.into()));
            for (key, id) in [
                ("messaging.message.conversation_id", header.correlation_id),
                ("messaging.message.id", header.message_id),
            ] {
                if let Some(id) = id.and_then(|id| visible(id, 128)) {
                    m.attrs.push((key, id.into()));
                }
            }
            if let Some(name) = content::name(header.body_size, body) {
                m.attrs.push((AMQP_BODY, AttrVal::Str(Cow::Owned(format!("{name:016x}")))));
            }
            let len = self.on_the_wire(header.body_size);
            m.body = if len == 0 { Body::None } else { Body::Length(len) };
        }
        self.emit(m, out);
    }
}

/// `publish` of `basic.publish`.
fn short_name(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, short)| short)
}
