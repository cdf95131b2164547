//! Frames → messages.

use super::command::{self, begun, command, greeting, head, socket_type, Begun, Head};
use crate::framing::frames::{Frame, Frames, Measure, Reader};
use crate::framing::Out;
use crate::text::{clean, decimal, hide_values, len64, visible};
use std::borrow::Cow;
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Message, Outcome, Side};

/// Bytes of a command that are looked at.
const WANT: u64 = 512;
/// Bytes of a message that are compared with subscriptions.
const PEEK: u64 = 128;
/// Subscriptions remembered per side.
const MAX_SUBSCRIPTIONS: usize = 64;

/// Parser of one connection.
pub(super) type ZmtpParser = Frames<Session>;

/// One end.
#[derive(Debug, Default)]
struct End {
    greeted: bool,
    /// In version 2 the first frame is the identity of the end.
    identity_next: bool,
    socket_type: &'static str,
    /// Prefixes of the messages that it wants.
    subscriptions: Vec<Box<[u8]>>,
    /// A message of which frames are to come: its frames and bytes so far.
    message: Option<(i64, u64)>,
    /// HELLO or INITIATE waits for its answer.
    asked: bool,
}

#[derive(Debug, Default)]
pub(super) struct Session {
    client: End,
    server: End,
    /// Everything behind the handshake is a command of the mechanism.
    encrypted: bool,
}

impl Reader for Session {
    const BAD: &'static str = "zmtp_bad_frame";
    const GAP: &'static str = "zmtp_gap";

    fn measure(&mut self, side: Side, bytes: &[u8], lost: bool) -> Measure {
        if !self.end(side).greeted {
            return match begun(bytes) {
                Begun::Is(len) if lost || bytes.len() < len || greeting(bytes).is_some() => {
                    Measure::Frame { len: len64(len), want: len64(len) }
                }
                Begun::Perhaps => Measure::More,
                _ => Measure::Bad,
            };
        }
        let head = match head(bytes) {
            Ok(head) => head,
            Err(true) => return Measure::More,
            Err(false) => return Measure::Bad,
        };
        if lost && !chain(bytes) {
            return Measure::Bad;
        }
        let subscribed = !self.end(side.peer()).subscriptions.is_empty() && self.end(side).message.is_none();
        let older = matches!(self.end(side).socket_type, "SUB" | "XSUB");
        let peek = match head {
            Head { command: true, .. } => WANT,
            _ if subscribed || older => PEEK,
            _ => 0,
        };
        Measure::Frame { len: head.total(), want: len64(head.len).saturating_add(peek) }
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        if !self.end(frame.side).greeted {
            return self.greeting(frame, out);
        }
        let Ok(head) = head(frame.bytes) else { return };
        let body = frame.bytes.get(head.len..).unwrap_or_default();
        let body = usize::try_from(head.body).ok().and_then(|n| body.get(..n)).unwrap_or(body);
        if head.command {
            self.command(frame, head, body, out);
        } else {
            self.message(frame, head, body, out);
        }
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) {
        let end = self.end_mut(side);
        (end.message, end.asked) = (None, false);
        self.end_mut(side.peer()).asked = false;
    }
}

/// Whether bytes are whole frames, one behind the other, or begin so and end in a long one.
fn chain(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let Ok(head) = head(rest) else { return false };
        if !head.command && head.len == 9 && head.body < 256 {
            return false;
        }
        match usize::try_from(head.total()).ok().and_then(|n| rest.get(n..)) {
            Some(behind) => rest = behind,
            None => return head.len == 9,
        }
    }
    true
}

impl Session {
    fn end(&self, side: Side) -> &End {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn greeting(&mut self, frame: Frame<'_>, out: Out<'_>) {
        let mut m = start(frame, "GREETING");
        let end = self.end_mut(frame.side);
        end.greeted = true;
        if let Some(g) = greeting(frame.bytes) {
            (end.socket_type, end.identity_next) = (g.socket_type, g.major < 3);
            m.attrs.push(("network.protocol.version", AttrVal::Str(Cow::Owned(format!("{}.{}", g.major, g.minor)))));
            if !g.mechanism.is_empty() {
                m.attrs.push(("wirespan.zmtp.mechanism", g.mechanism.into()));
                self.encrypted |= matches!(g.mechanism, "CURVE" | "GSSAPI");
            }
        } else if frame.bytes.len() < command::GREETING_2 {
            // Cut off: whether an identity follows is not known, and it would be taken for a message.
            end.identity_next = false;
        }
        out(Item::Message(&m));
    }

    fn command(&mut self, frame: Frame<'_>, head: Head, body: &[u8], out: Out<'_>) {
        let mut m = start(frame, "COMMAND");
        let Some((name, arguments)) = command(body) else { return out(Item::Message(&m)) };
        let known =
            ["HELLO", "WELCOME", "INITIATE", "READY", "ERROR", "SUBSCRIBE", "CANCEL", "PING", "PONG", "MESSAGE"];
        m.operation = known.into_iter().find(|k| k.as_bytes() == name).unwrap_or("COMMAND");
        let encrypted = self.encrypted;
        let answers = std::mem::take(&mut self.end_mut(frame.side.peer()).asked);
        match m.operation {
            "HELLO" | "INITIATE" => {
                m.kind = Kind::Request;
                self.end_mut(frame.side).asked = true;
                self.named(frame.side, arguments, &mut m);
            }
            "WELCOME" | "READY" | "ERROR" => {
                if answers {
                    (m.kind, m.outcome) = (Kind::Response, Outcome::Ok);
                }
                if m.operation == "ERROR" {
                    let reason = arguments.split_first().map_or(&[][..], |(_, reason)| reason);
                    m.outcome = Outcome::ClientError;
                    // ZAP's codes.
                    let code = Some(reason).filter(|r| r.len() == 3).and_then(decimal);
                    let reason = clean(reason, 128);
                    m.error = if code.is_some() { reason } else { hide_values(reason) };
                    m.status_code = code.and_then(|c| i32::try_from(c).ok());
                    if code.is_some_and(|c| c >= 500 || c == 300) {
                        m.outcome = Outcome::ServerError;
                    }
                } else {
                    self.named(frame.side, arguments, &mut m);
                }
            }
            _ => self.end_mut(frame.side.peer()).asked = answers,
        }
        match m.operation {
            "SUBSCRIBE" | "CANCEL" if !encrypted => {
                let subscribe = m.operation == "SUBSCRIBE";
                self.subscription(frame.side, arguments, subscribe, &mut m);
            }
            "MESSAGE" => m.attrs.push(("messaging.message.body.size", number(head.body))),
            _ => {}
        }
        out(Item::Message(&m));
    }

    /// The socket type of an end, if this metadata tells.
    fn named(&mut self, side: Side, metadata: &[u8], m: &mut Message<'_>) {
        if self.encrypted {
            return;
        }
        if let Some(socket_type) = socket_type(metadata) {
            self.end_mut(side).socket_type = socket_type;
            m.attrs.push(("wirespan.zmtp.socket_type", socket_type.into()));
        }
    }

    fn subscription<'a>(&mut self, side: Side, prefix: &'a [u8], subscribe: bool, m: &mut Message<'a>) {
        let name = if subscribe { "subscribe" } else { "unsubscribe" };
        m.attrs.push(("messaging.operation.name", name.into()));
        if let Some(text) = std::str::from_utf8(prefix).ok().filter(|t| !t.is_empty() && t.len() <= 128) {
            m.target = clean(text.as_bytes(), 128);
            m.attrs.push(("messaging.destination.name", AttrVal::Str(m.target.clone())));
        }
        let kept = &mut self.end_mut(side).subscriptions;
        if subscribe {
            let new = !prefix.is_empty() && prefix.len() <= 128 && !kept.iter().any(|k| **k == *prefix);
            if new && kept.len() < MAX_SUBSCRIPTIONS {
                kept.push(prefix.into());
            }
        } else {
            kept.retain(|k| **k != *prefix);
        }
    }

    fn message(&mut self, frame: Frame<'_>, head: Head, body: &[u8], out: Out<'_>) {
        let end = self.end_mut(frame.side);
        let end_offset = frame.offset.saturating_add(head.total());
        if let Some((parts, bytes)) = end.message {
            let (parts, bytes) = (parts.saturating_add(1), bytes.saturating_add(head.body));
            end.message = head.more.then_some((parts, bytes));
            if !head.more {
                let mut late = Late::default();
                late.attrs.push(("messaging.message.body.size", number(bytes)));
                late.attrs.push(("wirespan.zmtp.frames", parts.into()));
                // The missing part of the last frame is skipped by its length.
                let offset = frame.offset.saturating_add(len64(frame.bytes.len())).min(end_offset);
                out(Item::End { side: frame.side, id: None, offset, late: &late });
            }
            return;
        }
        if std::mem::take(&mut end.identity_next) {
            return;
        }
        let socket_type = end.socket_type;
        let peer_type = self.end(frame.side.peer()).socket_type;
        let mut m = start(frame, "MESSAGE");
        m.head_len = len64(head.len);
        // Subscriptions of versions before 3.1.
        if let (Some((flag @ (0 | 1), prefix)), "SUB" | "XSUB", false) = (body.split_first(), socket_type, head.more) {
            m.operation = if *flag == 1 { "SUBSCRIBE" } else { "CANCEL" };
            m.body = length(head.body);
            // Longer ones are not kept; otherwise a part would be taken for the whole.
            let whole = len64(body.len()) == head.body;
            if whole {
                self.subscription(frame.side, prefix, *flag == 1, &mut m);
            }
            return out(Item::Message(&m));
        }
        m.kind = match (socket_type, peer_type) {
            ("REQ", _) | ("DEALER", "REP") => Kind::Request,
            ("REP", _) | ("ROUTER", "REQ") => Kind::Response,
            _ => Kind::OneWay,
        };
        if m.kind == Kind::Response {
            m.outcome = Outcome::Ok;
        }
        if m.kind == Kind::OneWay {
            m.attrs.push(("messaging.operation.type", "send".into()));
        }
        if !socket_type.is_empty() {
            m.attrs.push(("wirespan.zmtp.socket_type", socket_type.into()));
        }
        let wanted = &self.end(frame.side.peer()).subscriptions;
        let prefix = wanted.iter().filter(|p| body.starts_with(p)).max_by_key(|p| p.len());
        if let Some(name) = prefix.and_then(|p| visible(p, 128)) {
            m.target = Cow::Owned(name.to_owned());
            m.attrs.push(("messaging.destination.name", AttrVal::Str(m.target.clone())));
        }
        if head.more {
            m.body = Body::Open;
            self.end_mut(frame.side).message = Some((1, head.body));
        } else {
            m.body = length(head.body);
            m.attrs.push(("messaging.message.body.size", number(head.body)));
        }
        out(Item::Message(&m));
    }
}

fn start<'a>(frame: Frame<'a>, operation: &'static str) -> Message<'a> {
    let mut m = Message::new("zmtp", frame.side, Kind::OneWay, frame.offset);
    m.operation = operation;
    m.head_len = len64(frame.bytes.len()).min(frame.len);
    m.body = length(frame.len.saturating_sub(m.head_len));
    m.attrs.push(("messaging.system.name", "zeromq".into()));
    m
}

fn length(n: u64) -> Body {
    if n == 0 {
        Body::None
    } else {
        Body::Length(n)
    }
}

fn number(n: u64) -> AttrVal<'static> {
    AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX))
}
