//! Lines → messages.

use super::jetstream;
use super::line::{headers, is_inbox, json_text, json_value, line, Headers, Line, Verb};
use super::session::Session;
use crate::framing::frames::{Frame, Frames, Measure, Reader};
use crate::framing::Out;
use crate::text::{at_most, clean, len64, visible};
use std::borrow::Cow;
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Longest subject that is kept, bytes.
const MAX_SUBJECT: usize = 256;

/// Parser of one connection.
pub(super) type NatsParser = Frames<Lines>;

#[derive(Debug, Default)]
pub(super) struct Lines {
    session: Session,
    over: bool,
}

impl Lines {
    /// The client begins TLS where CONNECT would stand: a handshake record.
    fn is_tls(&self, side: Side, bytes: &[u8]) -> bool {
        side == Side::Client && self.session.tls && !self.session.connected && bytes.first() == Some(&0x16)
    }
}

impl Reader for Lines {
    const BAD: &'static str = "nats_bad_line";
    const GAP: &'static str = "nats_gap";

    fn measure(&mut self, side: Side, bytes: &[u8], lost: bool) -> Measure {
        if self.is_tls(side, bytes) {
            return Measure::Frame { len: 1, want: 1 };
        }
        let line = match line(bytes) {
            Ok(line) if line.verb.allowed(side) => line,
            Err(true) => return Measure::More,
            _ => return Measure::Bad,
        };
        let len = line.message_len();
        if lost && line.total.is_some() {
            // A payload may hold a line like this. A real one ends where its length says, if that byte was captured.
            let end = bytes.get(at_most(len, usize::MAX).saturating_sub(2)..).unwrap_or_default();
            if !b"\r\n".starts_with(end.get(..2).unwrap_or(end)) {
                return Measure::Bad;
            }
        }
        Measure::Frame { len, want: line.want() }
    }

    fn frame(&mut self, frame: Frame<'_>, out: Out<'_>) {
        if self.is_tls(frame.side, frame.bytes) {
            self.over = true;
            out(Item::Upgrade("tls"));
            return;
        }
        let Ok(line) = line(frame.bytes) else { return };
        let behind = frame.bytes.get(line.len..).unwrap_or_default();
        let head_end = at_most(len64(line.len).saturating_add(line.headers), frame.bytes.len());
        let block = frame.bytes.get(line.len..head_end).unwrap_or_default();
        // Of the payload, as much as it has itself.
        let payload = behind.get(block.len()..).unwrap_or_default();
        let size = line.total.unwrap_or_default().saturating_sub(line.headers);
        let payload = payload.get(..at_most(size, payload.len())).unwrap_or_default();
        let mut m = Message::new("nats", frame.side, Kind::OneWay, frame.offset);
        m.operation = line.verb.name();
        m.head_len = len64(head_end).min(frame.len);
        let left = frame.len.saturating_sub(m.head_len);
        m.body = if left == 0 { Body::None } else { Body::Length(left) };
        m.attrs.push(("messaging.system.name", "nats".into()));
        self.read(&line, headers(block), payload, &mut m);
        if let Some(name) = operation_name(&line, payload) {
            m.attrs.push(("messaging.operation.name", name.into()));
        }
        if m.kind == Kind::Response {
            // An answer comes to an inbox, and is delivered; its span is that of the message which was sent.
            let of_the_request = ["messaging.operation.", "messaging.destination.", "messaging.message.body."];
            m.attrs.retain(|(key, _)| !of_the_request.iter().any(|begin| key.starts_with(begin)));
        }
        out(Item::Message(&m));
    }

    fn broken(&mut self, frame: Frame<'_>, out: Out<'_>) {
        // INFO is longer than the copied part of most calls.
        if frame.side == Side::Server && frame.bytes.starts_with(b"INFO {") {
            let mut m = Message::new("nats", frame.side, Kind::OneWay, frame.offset);
            m.operation = Verb::Info.name();
            m.head_len = len64(frame.bytes.len());
            m.attrs.push(("messaging.system.name", "nats".into()));
            out(Item::Message(&m));
        }
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) {
        self.session.lost(side);
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl Lines {
    fn read<'a>(&mut self, line: &Line<'a>, headers: Headers<'a>, payload: &'a [u8], m: &mut Message<'a>) {
        match line.verb {
            Verb::Info => {
                self.session.tls = json_value(line.text, "tls_required").is_some_and(|v| v.starts_with(b"true"))
                    || json_value(line.text, "tls_available").is_some_and(|v| v.starts_with(b"true"));
                if let Some(version) = json_text(line.text, "version").and_then(|v| visible(v, 32)) {
                    m.attrs.push(("wirespan.nats.server.version", version.into()));
                }
            }
            Verb::Connect => {
                self.session.connected = true;
                // Servers confirm commands unless they are told not to.
                let verbose = json_value(line.text, "verbose").is_none_or(|v| !v.starts_with(b"false"));
                self.session.verbose = Some(verbose);
                if let Some(name) = json_text(line.text, "name").filter(|n| !n.is_empty()) {
                    m.attrs.push(("messaging.client.id", AttrVal::Str(clean(name, 128))));
                }
                self.command(m);
            }
            Verb::Sub => {
                subject(line.subject, m);
                if let Some(group) = visible(line.group, 128) {
                    m.attrs.push(("messaging.consumer.group.name", group.into()));
                }
                self.command(m);
            }
            Verb::Unsub => self.command(m),
            Verb::Ping => {
                m.kind = Kind::Request;
                m.id = Some(self.session.ping(m.side));
            }
            Verb::Pong => {
                if let Some(id) = self.session.pong(m.side) {
                    (m.kind, m.id, m.outcome) = (Kind::Response, Some(id), Outcome::Ok);
                }
            }
            Verb::Ok => {
                if let Some(id) = self.session.confirmed() {
                    (m.kind, m.id, m.outcome) = (Kind::Response, Some(id), Outcome::Ok);
                }
            }
            Verb::Err => self.failed(line.text, m),
            Verb::Pub | Verb::Hpub | Verb::Msg | Verb::Hmsg => self.message(line, headers, payload, m),
        }
    }

    /// A command that the server confirms in verbose mode.
    fn command(&mut self, m: &mut Message<'_>) {
        if let Some(id) = self.session.command(false) {
            (m.kind, m.id) = (Kind::Request, Some(id));
        }
    }

    fn failed<'a>(&mut self, text: &'a [u8], m: &mut Message<'a>) {
        let text = text.strip_prefix(b"'").unwrap_or(text);
        let text = text.strip_suffix(b"'").unwrap_or(text);
        let is = |begin: &str| text.get(..begin.len()).is_some_and(|t| t.eq_ignore_ascii_case(begin.as_bytes()));
        m.outcome = Outcome::ClientError;
        // An error that the server sends on its own answers no command.
        let alone = ["stale connection", "slow consumer", "server shutdown", "permissions violation", "maximum"];
        let refused = ["authorization", "authentication", "user authentication", "account authentication"];
        if ["server shutdown", "slow consumer", "internal"].iter().any(|b| is(b)) {
            m.outcome = Outcome::ServerError;
        }
        let answers = if alone.iter().any(|b| is(b)) {
            None
        } else if let Some(id) = self.session.confirmed() {
            Some(id)
        } else if refused.iter().any(|b| is(b)) {
            // The PING behind CONNECT asks whether it was accepted.
            self.session.pong(Side::Server)
        } else {
            None
        };
        if let Some(id) = answers {
            (m.kind, m.id) = (Kind::Response, Some(id));
        }
        // Permissions are told with subject and queue in quotation marks: names. The rest are fixed texts.
        m.error = clean(text, 256);
    }

    fn message<'a>(&mut self, line: &Line<'a>, headers: Headers<'a>, payload: &'a [u8], m: &mut Message<'a>) {
        let client = m.side == Side::Client;
        let settles = client && line.subject.starts_with(b"$JS.ACK.");
        let pulls = client && line.subject.starts_with(b"$JS.API.CONSUMER.MSG.NEXT.");
        let operation = match (client, settles, pulls) {
            (_, true, _) => "settle",
            (_, _, true) => "receive",
            (true, _, _) => "send",
            (false, _, _) => "process",
        };
        m.attrs.push(("messaging.operation.type", operation.into()));
        subject(line.subject, m);
        if is_inbox(line.subject) {
            m.attrs.push(("messaging.destination.temporary", true.into()));
        }
        let size = line.total.unwrap_or_default().saturating_sub(line.headers);
        m.attrs.push(("messaging.message.body.size", i64::try_from(size).unwrap_or(i64::MAX).into()));
        if let Some(id) = headers.message_id.and_then(|id| visible(id, 128)) {
            m.attrs.push(("messaging.message.id", id.into()));
        }
        m.carried = headers.context.finish();
        if let Some(d) = jetstream::delivery(if settles { line.subject } else { line.reply }) {
            m.attrs.push(("wirespan.nats.stream", d.stream.into()));
            m.attrs.push(("messaging.consumer.group.name", d.consumer.into()));
            let number = |n| AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX));
            m.attrs.push(("wirespan.nats.stream_sequence", number(d.stream_sequence)));
            m.attrs.push(("wirespan.nats.consumer_sequence", number(d.consumer_sequence)));
            m.attrs.push(("wirespan.nats.delivery_count", number(d.delivered)));
        }
        let answered = self.session.answer(m.side, line.subject);
        let asked = if answered.is_none() { self.session.ask(m.side, line.subject, line.reply) } else { None };
        if client {
            // If the command has its own answer, the server's confirmation is not the answer.
            let confirmed = self.session.command(answered.is_some() || asked.is_some());
            if let Some(id) = confirmed {
                (m.kind, m.id) = (Kind::Request, Some(id));
            }
        }
        if let Some((id, api)) = answered {
            (m.kind, m.id, m.outcome) = (Kind::Response, Some(id), Outcome::Ok);
            if api && !client {
                answer(payload, m);
            }
        } else if let Some(id) = asked {
            (m.kind, m.id) = (Kind::Request, Some(id));
        }
        if let Some(code) = headers.status {
            status(code, m);
        }
    }
}

/// What JetStream says in an answer.
fn answer<'a>(payload: &'a [u8], m: &mut Message<'a>) {
    if let Some((stream, sequence)) = jetstream::published(payload) {
        m.attrs.push(("wirespan.nats.stream", stream.into()));
        m.attrs.push(("wirespan.nats.stream_sequence", i64::try_from(sequence).unwrap_or(i64::MAX).into()));
    } else if let Some((code, own)) = jetstream::error(payload) {
        m.status_code = Some(i32::from(code));
        m.outcome = if code >= 500 { Outcome::ServerError } else { Outcome::ClientError };
        m.error = own.map_or(Cow::Borrowed("JetStream error"), |n| Cow::Owned(format!("JetStream error {n}")));
    }
}

/// Status line of headers (ADR-4, ADR-13).
fn status(code: u16, m: &mut Message<'_>) {
    m.status_code = Some(i32::from(code));
    (m.outcome, m.error) = match code {
        100 | 200 => (m.outcome, Cow::Borrowed("")),
        // The end of a pull, no failure.
        404 => (Outcome::Ok, Cow::Borrowed("no messages")),
        408 => (Outcome::Ok, Cow::Borrowed("request timeout")),
        503 => (Outcome::ServerError, Cow::Borrowed("no responders")),
        500.. => (Outcome::ServerError, Cow::Borrowed("")),
        _ => (Outcome::ClientError, Cow::Borrowed("")),
    };
}

fn subject<'a>(bytes: &'a [u8], m: &mut Message<'a>) {
    m.target = clean(bytes, MAX_SUBJECT);
    m.attrs.push(("messaging.destination.name", AttrVal::Str(m.target.clone())));
}

/// Name of the sender's operation.
fn operation_name(line: &Line<'_>, payload: &[u8]) -> Option<&'static str> {
    Some(match line.verb {
        Verb::Pub | Verb::Hpub if line.subject.starts_with(b"$JS.ACK.") => jetstream::acknowledgement(payload),
        Verb::Pub | Verb::Hpub if line.subject.starts_with(b"$JS.API.CONSUMER.MSG.NEXT.") => "pull",
        Verb::Pub | Verb::Hpub => "publish",
        Verb::Msg | Verb::Hmsg => "deliver",
        Verb::Sub => "subscribe",
        Verb::Unsub => "unsubscribe",
        Verb::Connect => "connect",
        Verb::Ping => "ping",
        _ => return None,
    })
}
