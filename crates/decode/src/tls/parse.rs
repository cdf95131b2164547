//! Records → one request and one response.

use super::certificate::{self, Certificate};
use super::{ciphers, hello, reason};
use crate::framing::units::{Reader, Step, Unit};
use crate::framing::{Out, PerSide};
use crate::text::len64;
use crate::MAX_BUFFERED;
use std::borrow::Cow;
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Message, Outcome, Side};

/// Types of records.
pub(super) const CHANGE_CIPHER: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const DATA: u8 = 23;
/// Longest record: 2^14 bytes of text, 2048 of what encryption adds (RFC 5246, section 6.2.3).
const MAX_RECORD: u16 = 16_384 + 2048;
/// Length of the head of a record.
pub(super) const HEAD: usize = 5;
/// Bytes of a hello in the form of SSL 2.0 that tell its length.
const OLD_HEAD: usize = 11;
/// Length of an encrypted alert in 1.3: level, description, inner type, authentication tag of 16 bytes.
const ENCRYPTED_ALERT: usize = 19;

/// Reads the head of a record: type, length of its body.
pub(super) fn record(bytes: &[u8]) -> Option<(u8, usize)> {
    let [kind, 3, minor, a, b, ..] = *bytes else { return None };
    let len = u16::from_be_bytes([a, b]);
    let sane = (CHANGE_CIPHER..=24).contains(&kind) && minor <= 4 && len <= MAX_RECORD && len > 0;
    sane.then_some((kind, usize::from(len)))
}

/// The known part of the server's answer.
#[derive(Debug, Default)]
struct Answer {
    version: u16,
    resumed: bool,
    certificate: Option<Certificate>,
    /// Offset behind the last record.
    end: u64,
}

/// The beginning of a hello, and where its first record lies.
#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    offset: u64,
    /// Bytes of its records so far.
    len: u64,
}

/// Longest hello that is put together, bytes. Those with keys that withstand quantum computers have about 2 KiB.
const MAX_HELLO: usize = 8 * 1024;

/// Reads records until the handshake is done.
#[derive(Debug, Default)]
pub struct Records {
    asked: bool,
    session: Vec<u8>,
    answer: Option<Answer>,
    retried: bool,
    /// Whether the later records of a side are encrypted.
    secret: PerSide<bool>,
    /// Bytes of a handshake message that goes on in the next record, by side.
    rest: PerSide<usize>,
    /// The beginning of a hello that goes on in the next record, by side.
    part: PerSide<Option<Part>>,
    over: bool,
}

impl Reader for Records {
    const MAX_HEAD: usize = MAX_BUFFERED;
    const GAP: &'static str = reason::GAP;
    const BAD: &'static str = reason::BAD_RECORD;

    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        if unit.bytes.len() < HEAD {
            return Step::More;
        }
        if unit.side == Side::Client && !self.asked && unit.bytes.first().is_some_and(|b| *b >= 0x80) {
            return self.old_hello(&unit, out);
        }
        let Some((kind, len)) = record(unit.bytes) else { return Step::Bad };
        let total = len.saturating_add(HEAD);
        let clear = kind != DATA && !*self.secret.of(unit.side);
        // Of the client's data the length is enough; of the server's the end tells when the handshake was over.
        let whole = kind != DATA || unit.side == Side::Server && self.asked;
        let want = if whole { total.min(MAX_BUFFERED) } else { HEAD };
        if unit.bytes.len() < want && !unit.cut {
            return Step::More;
        }
        let seen = unit.bytes.get(..want).unwrap_or(unit.bytes);
        let body = seen.get(HEAD..).unwrap_or_default();
        let place = Place { side: unit.side, offset: unit.offset, len: len64(seen.len()), total: len64(total) };
        match kind {
            HANDSHAKE if clear => self.handshake(body, place, out),
            HANDSHAKE => self.finished(place, out),
            CHANGE_CIPHER => self.change(unit.side),
            ALERT => self.alert(body, clear && len == 2, place, out),
            DATA => self.data(len, place, out),
            _ => {}
        }
        if let (Side::Server, Some(answer)) = (unit.side, &mut self.answer) {
            answer.end = place.offset.saturating_add(place.len);
        }
        Step::Took { head: seen.len(), skip: place.total.saturating_sub(place.len) }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) {
        *self.rest.of(side) = 0;
        *self.part.of(side) = None;
    }

    fn finish(&mut self, out: Out<'_>) {
        let Some(part) = self.part.client.take() else { return };
        let place = Place { side: Side::Client, offset: part.offset, len: part.len, total: part.len };
        if let [1, _, _, _, body @ ..] = part.bytes.as_slice() {
            self.client_hello(body, place, out);
        }
    }

    fn buffered(&self) -> usize {
        let len = |part: &Option<Part>| part.as_ref().map_or(0, |p| p.bytes.len());
        len(&self.part.client).saturating_add(len(&self.part.server))
    }
}

/// Where a record lies, and how much of it was seen.
#[derive(Clone, Copy, Debug)]
struct Place {
    side: Side,
    offset: u64,
    len: u64,
    total: u64,
}

impl Records {
    /// A hello in the form of SSL 2.0: it names no server and has no extensions.
    fn old_hello(&mut self, unit: &Unit<'_>, out: Out<'_>) -> Step {
        if unit.bytes.len() < OLD_HEAD && !unit.cut {
            return Step::More;
        }
        let Some(total) = hello::old_form(unit.bytes) else { return Step::Bad };
        let want = total.min(MAX_BUFFERED);
        if unit.bytes.len() < want && !unit.cut {
            return Step::More;
        }
        let seen = unit.bytes.len().min(want);
        let place = Place { side: unit.side, offset: unit.offset, len: len64(seen), total: len64(total) };
        self.asked = true;
        let mut m = Message::new("tls", Side::Client, Kind::Request, place.offset);
        m.head_len = place.len;
        m.body = length(place);
        m.operation = "handshake";
        out(Item::Message(&m));
        Step::Took { head: seen, skip: place.total.saturating_sub(place.len) }
    }

    /// The messages of a record in clear, behind the beginning of a hello if one waits.
    fn handshake(&mut self, body: &[u8], place: Place, out: Out<'_>) {
        let Some(part) = self.part.of(place.side).take() else { return self.messages(body, place, out) };
        let mut bytes = part.bytes;
        bytes.extend_from_slice(body);
        let before = place.offset.saturating_sub(part.offset);
        let (len, total) = (place.len.saturating_add(before), place.total.saturating_add(before));
        self.messages(&bytes, Place { offset: part.offset, len, total, ..place }, out);
    }

    fn messages(&mut self, body: &[u8], place: Place, out: Out<'_>) {
        let rest = self.rest.of(place.side);
        let known = (*rest).min(body.len());
        *rest = rest.saturating_sub(known);
        let mut at = body.get(known..).unwrap_or_default();
        while let [kind, a, b, c, message @ ..] = at {
            let len = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap_or(usize::MAX);
            if matches!(kind, 1 | 2) && message.len() < len && self.keep(at, place) {
                return;
            }
            let seen = message.get(..len).unwrap_or(message);
            match (kind, place.side) {
                (1, Side::Client) => self.client_hello(seen, place, out),
                (2, Side::Server) => self.server_hello(seen, place, out),
                (11, Side::Server) => {
                    if let Some(answer) = &mut self.answer {
                        answer.certificate = certificate::first(seen);
                    }
                }
                _ => {}
            }
            *self.rest.of(place.side) = len.saturating_sub(message.len());
            at = message.get(len..).unwrap_or_default();
        }
        if !at.is_empty() {
            self.keep(at, place);
        }
    }

    /// Keeps the beginning of a message for the next record. False if it is known to be no hello that can be put
    /// together: too long, or the end of the record was not seen.
    fn keep(&mut self, beginning: &[u8], place: Place) -> bool {
        let hello = !self.asked || place.side == Side::Server && self.answer.is_none();
        let keeps = hello && place.len == place.total && beginning.len() < MAX_HELLO;
        if keeps {
            *self.part.of(place.side) = Some(Part { bytes: beginning.to_vec(), offset: place.offset, len: place.len });
        }
        keeps
    }

    fn client_hello(&mut self, body: &[u8], place: Place, out: Out<'_>) {
        // The second hello of a handshake was asked for by the server.
        let Some(hello) = hello::client(body).filter(|_| !self.asked) else { return };
        self.asked = true;
        self.session = hello.session.to_vec();
        let mut m = Message::new("tls", Side::Client, Kind::Request, place.offset);
        m.head_len = place.len;
        m.body = length(place);
        m.operation = "handshake";
        hello.tell(&mut m);
        out(Item::Message(&m));
    }

    fn server_hello(&mut self, body: &[u8], place: Place, out: Out<'_>) {
        let Some(hello) = hello::server(body).filter(|_| self.answer.is_none()) else { return };
        if hello.retry {
            self.retried = true;
            return;
        }
        let mut m = Message::new("tls", Side::Server, Kind::Response, place.offset);
        m.head_len = place.len;
        m.body = Body::Open;
        if let Some((name, version)) = ciphers::version(hello.version) {
            m.attrs.push(("tls.protocol.name", AttrVal::from(name)));
            m.attrs.push(("tls.protocol.version", AttrVal::from(version)));
        }
        match ciphers::suite(hello.cipher) {
            Some(name) => m.attrs.push(("tls.cipher", AttrVal::from(name))),
            None => m.attrs.push(("tls.cipher", AttrVal::Str(Cow::Owned(format!("0x{:04X}", hello.cipher))))),
        }
        if let Some(name) = hello.alpn {
            m.attrs.push(("tls.next_protocol", AttrVal::from(name)));
        }
        if let Some(name) = hello.group.and_then(ciphers::group) {
            m.attrs.push(("tls.curve", AttrVal::from(name)));
        }
        if self.retried {
            m.attrs.push(("wirespan.tls.hello_retry", AttrVal::Bool(true)));
        }
        out(Item::Message(&m));
        let resumed = match hello.version {
            0x0304 => hello.psk,
            _ => !hello.session.is_empty() && hello.session == self.session,
        };
        self.answer = Some(Answer { version: hello.version, resumed, ..Answer::default() });
    }

    fn change(&mut self, side: Side) {
        // In 1.3 it says nothing (RFC 8446, appendix D.4); in a client's case that is known once the server has spoken.
        let modern = self.answer.as_ref().map_or(side == Side::Client, |a| a.version == 0x0304);
        if !modern {
            *self.secret.of(side) = true;
        }
    }

    /// An encrypted handshake message: the server's is its Finished.
    fn finished(&mut self, place: Place, out: Out<'_>) {
        if place.side == Side::Server {
            self.end(place.offset.saturating_add(place.len), "", Outcome::Ok, out);
        }
    }

    fn data(&mut self, len: usize, place: Place, out: Out<'_>) {
        let Some(answer) = &self.answer else {
            // Before the server has spoken a client may send early data. Without a hello the connection was joined
            // late; if the server's was not captured, there is nothing to wait for either.
            if !self.asked || place.side == Side::Server {
                self.over = true;
                out(Item::Upgrade("tls"));
            }
            return;
        };
        match place.side {
            Side::Client if answer.version == 0x0304 && len == ENCRYPTED_ALERT => {
                let end = answer.end;
                self.end(end, "encrypted_alert", Outcome::ServerError, out);
            }
            Side::Client => {
                let end = answer.end;
                self.end(end, "", Outcome::Ok, out);
            }
            // Up to 1.2 data means that the Finished went by unseen.
            Side::Server if answer.version < 0x0304 => self.end(place.offset, "", Outcome::Ok, out),
            Side::Server => {}
        }
    }

    fn alert(&mut self, body: &[u8], clear: bool, place: Place, out: Out<'_>) {
        let name = match body {
            [_, 0 | 90] if clear => return,
            // Warnings do not end a handshake.
            [1, 112 | 100] if clear => return,
            [_, code] if clear => ciphers::alert(*code),
            _ if clear => return,
            _ => "encrypted_alert",
        };
        // The end that sends an alert is not at fault, except for internal errors.
        let outcome = match (place.side, name) {
            (Side::Server, "internal_error") | (Side::Client, _) => Outcome::ServerError,
            _ => Outcome::ClientError,
        };
        if self.answer.is_some() {
            let end = match place.side {
                Side::Server => place.offset.saturating_add(place.len),
                Side::Client => self.answer.as_ref().map_or(0, |a| a.end),
            };
            self.end(end, name, outcome, out);
        } else if self.asked && place.side == Side::Server {
            let mut m = Message::new("tls", Side::Server, Kind::Response, place.offset);
            m.head_len = place.len;
            m.body = length(place);
            m.outcome = outcome;
            m.error = Cow::Borrowed(name);
            m.attrs.push(("tls.established", AttrVal::Bool(false)));
            m.attrs.push(("error.type", AttrVal::from(name)));
            out(Item::Message(&m));
            self.over = true;
            out(Item::Upgrade("tls"));
        }
    }

    /// The handshake is over at this offset of the server.
    fn end(&mut self, offset: u64, error: &'static str, outcome: Outcome, out: Out<'_>) {
        let Some(answer) = self.answer.take() else { return };
        let mut late = Late { outcome, error: Cow::Borrowed(error), ..Late::default() };
        late.attrs.push(("tls.established", AttrVal::Bool(error.is_empty())));
        late.attrs.push(("tls.resumed", AttrVal::Bool(answer.resumed && answer.certificate.is_none())));
        if !error.is_empty() {
            late.attrs.push(("error.type", AttrVal::from(error)));
        }
        if let Some(c) = &answer.certificate {
            let names = [
                ("tls.server.subject", &c.subject),
                ("tls.server.issuer", &c.issuer),
                ("tls.server.not_before", &c.not_before),
                ("tls.server.not_after", &c.not_after),
            ];
            for (key, text) in names.into_iter().filter(|(_, text)| !text.is_empty()) {
                late.attrs.push((key, AttrVal::from(text.as_str())));
            }
        }
        out(Item::End { side: Side::Server, id: None, offset, late: &late });
        self.over = true;
        out(Item::Upgrade("tls"));
    }
}

/// What of a record was not seen.
fn length(place: Place) -> Body {
    match place.total.saturating_sub(place.len) {
        0 => Body::None,
        n => Body::Length(n),
    }
}
