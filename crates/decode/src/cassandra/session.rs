//! Messages of both sides → requests and answers.

use super::detect;
use super::envelope::{long_string, name, op, outcome, rows, segment, string, Envelope, HEADER, TRAILER};
use super::reason;
use crate::compression;
use crate::framing::exchange::{Frame, Measure, Session};
use crate::framing::Out;
use crate::mask::statements::key;
use crate::mask::{self, Described, Dialect, Masker, Rules, Statements};
use crate::text::{at_most, clean, len64};
use std::borrow::Cow;
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Bytes of a packed body that are read.
const MAX_BODY: usize = 4096;
/// Bytes of a segment's payload that are read.
const MAX_SEGMENT: usize = 8192;
/// Keys of statements whose id is not known yet: by stream.
const PROVISIONAL: u64 = 0x7072_6570_0000_0000;

/// State of one connection.
#[derive(Debug, Default)]
pub(super) struct CqlSession {
    masker: Masker,
    statements: Statements,
    keyspace: String,
    /// Messages travel in segments: of the client, of the server; unknown before the first bytes.
    segmented: [Option<bool>; 2],
    /// Bytes of a message that goes on in the next segments.
    carry: [u64; 2],
    /// Room for unpacked bytes.
    unpacked: Vec<u8>,
}

/// A message, and where it stands.
struct Told<'a> {
    offset: u64,
    /// Length of its shown part.
    head_len: u64,
    follows: Body,
    /// Its body, as far as it can be read.
    body: Option<&'a [u8]>,
}

/// Unpacks the body of a message of version 3 or 4. LZ4 has the length in four bytes in front, of which the first is 0;
/// with snappy a first byte of 0 would mean that there is nothing.
fn unpack<'a>(packed: &[u8], room: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    room.clear();
    match packed.split_first_chunk::<4>() {
        Some(([0, ..], block)) => compression::lz4(block, room, MAX_BODY),
        _ => compression::snappy(packed, room, MAX_BODY),
    }
    (!room.is_empty()).then_some(room.as_slice())
}

fn ix(side: Side) -> usize {
    usize::from(side == Side::Server)
}

impl CqlSession {
    pub(super) fn with(masker: Masker) -> Self {
        CqlSession { masker, ..CqlSession::default() }
    }

    fn is_segmented(&self, side: Side, bytes: &[u8]) -> bool {
        let known = self.segmented.get(ix(side)).copied().flatten();
        known.unwrap_or_else(|| Envelope::read(side, bytes).is_none() && segment(bytes).is_some())
    }

    fn set_segmented(&mut self, side: Side, now: bool) {
        if let Some(state) = self.segmented.get_mut(ix(side)) {
            *state = Some(now);
        }
    }

    /// The messages in a segment.
    fn unwrap_segment(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Some(segment) = segment(frame.bytes) else { return };
        let wire_len = frame.len.saturating_sub(len64(segment.header)).saturating_sub(TRAILER);
        let payload = frame.bytes.get(segment.header..).unwrap_or_default();
        let payload = payload.get(..at_most(wire_len, payload.len())).unwrap_or(payload);
        if segment.unpacked == 0 {
            return self.messages(frame, Some(len64(segment.header)), payload, wire_len, out);
        }
        let mut room = std::mem::take(&mut self.unpacked);
        room.clear();
        compression::lz4(payload, &mut room, MAX_SEGMENT);
        self.messages(frame, None, &room, u64::from(segment.unpacked), out);
        self.unpacked = room;
    }

    /// The messages in a payload, of which the beginning is shown. It stands `at` in the segment, or was packed.
    fn messages(&mut self, frame: &Frame<'_>, place: Option<u64>, payload: &[u8], payload_len: u64, out: Out<'_>) {
        let carried = self.carry.get(ix(frame.side)).copied().unwrap_or(0).min(payload_len);
        self.set_carry(frame.side, |n| n.saturating_sub(carried));
        let mut at = carried;
        while at < payload_len {
            let rest = payload.get(at_most(at, payload.len())..).unwrap_or_default();
            let Some(envelope) = Envelope::read(frame.side, rest) else { return };
            let whole = u64::from(envelope.len).saturating_add(len64(HEADER));
            let shown = rest.get(..at_most(whole, envelope.keep())).unwrap_or(rest);
            let told = match place {
                Some(header) => Told {
                    offset: frame.offset.saturating_add(header).saturating_add(at),
                    head_len: len64(shown.len()),
                    follows: match whole.saturating_sub(len64(shown.len())) {
                        0 => Body::None,
                        n => Body::Length(n),
                    },
                    body: shown.get(HEADER..),
                },
                // All messages of a packed segment stand in the same place.
                None => Told {
                    offset: frame.offset,
                    head_len: frame.shown(),
                    follows: frame.body(),
                    body: shown.get(HEADER..),
                },
            };
            self.message(frame.side, &told, &envelope, out);
            at = at.saturating_add(whole);
        }
        let beyond = at.saturating_sub(payload_len);
        if beyond > 0 && carried < payload_len {
            self.set_carry(frame.side, |_| beyond);
        }
    }

    fn set_carry(&mut self, side: Side, change: impl Fn(u64) -> u64) {
        if let Some(carry) = self.carry.get_mut(ix(side)) {
            *carry = change(*carry);
        }
    }

    fn message(&mut self, side: Side, told: &Told<'_>, envelope: &Envelope, out: Out<'_>) {
        match side {
            Side::Client => self.asks(told, envelope, out),
            Side::Server => self.answers(told, envelope, out),
        }
    }

    fn asks(&mut self, told: &Told<'_>, envelope: &Envelope, out: Out<'_>) {
        let mut m = Message::new("cassandra", Side::Client, Kind::Request, told.offset);
        m.head_len = told.head_len;
        m.body = told.follows;
        m.id = Some(u64::from(envelope.stream));
        let body = told.body.and_then(|body| envelope.body(Side::Client, body));
        let mut statement = None;
        let mut masked = false;
        let mut consistency = None;
        let mut batch = None;
        if let Some(mut view) = body {
            match envelope.op {
                // Version 5 frames everything behind `STARTUP` and its answer.
                op::STARTUP => self.set_segmented(Side::Client, envelope.version >= 5),
                op::QUERY | op::PREPARE => {
                    if let Some((text, whole)) = long_string(&mut view) {
                        self.masker.read(text, Rules::of(Dialect::Cql));
                        masked = true;
                        if envelope.op == op::PREPARE {
                            self.statements.put(PROVISIONAL | u64::from(envelope.stream), &self.masker);
                        } else if whole {
                            consistency = view.u16();
                        }
                    }
                }
                op::EXECUTE => {
                    statement = string(&mut view).map(key);
                    let id = if envelope.version >= 5 { string(&mut view) } else { Some(&[][..]) };
                    consistency = id.and_then(|_| view.u16());
                }
                op::BATCH => {
                    view.u8();
                    batch = view.u16();
                    match view.u8() {
                        Some(0) => {
                            if let Some((text, _)) = long_string(&mut view) {
                                self.masker.read(text, Rules::of(Dialect::Cql));
                                masked = true;
                            }
                        }
                        Some(1) => statement = string(&mut view).map(key),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        let described = match statement.and_then(|key| self.statements.get(key)) {
            Some(statement) => Described::from(statement),
            None if masked => Described::from(&self.masker),
            None => Described::default(),
        };
        let runs = matches!(envelope.op, op::QUERY | op::EXECUTE) && !described.operation.is_empty();
        described.write(&mut m, "cassandra", if runs { "" } else { name(envelope.op) }, &self.keyspace);
        if let Some(level) = consistency.and_then(level) {
            m.attrs.push(("cassandra.consistency.level", AttrVal::from(level)));
        }
        if let Some(n) = batch.filter(|n| *n > 1) {
            m.attrs.push(("db.operation.batch.size", AttrVal::Int(i64::from(n))));
        }
        if envelope.compressed() {
            m.attrs.push(("wirespan.cassandra.compressed", AttrVal::from(true)));
        }
        out(Item::Message(&m));
    }

    fn answers(&mut self, told: &Told<'_>, envelope: &Envelope, out: Out<'_>) {
        let event = envelope.op == op::EVENT;
        let kind = if event { Kind::OneWay } else { Kind::Response };
        let mut m = Message::new("cassandra", Side::Server, kind, told.offset);
        m.head_len = told.head_len;
        m.body = told.follows;
        if event {
            m.operation = "EVENT";
            m.attrs.push(("db.system.name", AttrVal::from("cassandra")));
            return out(Item::Message(&m));
        }
        m.id = Some(u64::from(envelope.stream));
        m.outcome = Outcome::Ok;
        if envelope.compressed() {
            m.attrs.push(("wirespan.cassandra.compressed", AttrVal::from(true)));
        }
        let body = told.body.and_then(|body| envelope.body(Side::Server, body));
        match (envelope.op, body) {
            (op::ERROR, Some(mut view)) => {
                let code = view.u32().unwrap_or_default();
                let len = usize::from(view.u16().unwrap_or_default());
                let whole = view.rest().len() >= len;
                let text = view.rest().get(..len).unwrap_or(view.rest());
                m.outcome = outcome(code);
                m.status_code = i32::try_from(code).ok();
                m.error = mask::text(text, whole);
                let code: Cow<'_, str> = Cow::Owned(code.to_string());
                m.attrs.push(("db.response.status_code", AttrVal::Str(code.clone())));
                m.attrs.push(("error.type", AttrVal::Str(code)));
                // Without an answer to its start the client goes on as before.
                if self.segmented == [Some(true), None] {
                    self.set_segmented(Side::Client, false);
                }
            }
            (op::ERROR, None) => m.outcome = Outcome::ServerError,
            (op::RESULT, Some(mut view)) => match view.u32() {
                Some(2) => {
                    if let Some(n) = rows(&mut view, envelope.version) {
                        m.attrs.push(("db.response.returned_rows", AttrVal::Int(i64::from(n))));
                    }
                }
                Some(3) => {
                    self.keyspace.clear();
                    self.keyspace.push_str(&clean(string(&mut view).unwrap_or_default(), 64));
                }
                Some(4) => {
                    if let Some(id) = string(&mut view) {
                        self.statements.rename(PROVISIONAL | u64::from(envelope.stream), key(id));
                    }
                }
                _ => {}
            },
            _ => {}
        }
        out(Item::Message(&m));
        if matches!(envelope.op, op::READY | op::AUTHENTICATE)
            && envelope.version >= 5
            && self.segmented.last() != Some(&Some(true))
        {
            self.set_segmented(Side::Server, true);
        }
    }
}

/// Name of a consistency level.
fn level(code: u16) -> Option<&'static str> {
    const NAMES: [&str; 11] = [
        "any",
        "one",
        "two",
        "three",
        "quorum",
        "all",
        "local_quorum",
        "each_quorum",
        "serial",
        "local_serial",
        "local_one",
    ];
    NAMES.get(usize::from(code)).copied()
}

impl Session for CqlSession {
    const BAD: &'static str = reason::BAD_FRAME;
    const GAP: &'static str = reason::GAP;

    fn measure(&self, side: Side, bytes: &[u8]) -> Measure {
        if bytes.len() < HEADER {
            return Measure::More(HEADER);
        }
        if self.is_segmented(side, bytes) {
            return match segment(bytes) {
                Some(segment) => {
                    Measure::Frame { len: segment.whole(), keep: segment.header.saturating_add(MAX_SEGMENT) }
                }
                None => Measure::Bad,
            };
        }
        match Envelope::read(side, bytes) {
            Some(envelope) => {
                Measure::Frame { len: u64::from(envelope.len).saturating_add(len64(HEADER)), keep: envelope.keep() }
            }
            None => Measure::Bad,
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        if self.is_segmented(frame.side, frame.bytes) {
            self.set_segmented(frame.side, true);
            self.unwrap_segment(frame, out);
        } else if let Some(envelope) = Envelope::read(frame.side, frame.bytes) {
            let mut room = std::mem::take(&mut self.unpacked);
            let body = frame.bytes.get(HEADER..).unwrap_or_default();
            let body = if envelope.compressed() { unpack(body, &mut room) } else { Some(body) };
            let told = Told { offset: frame.offset, head_len: frame.shown(), follows: frame.body(), body };
            self.message(frame.side, &told, &envelope, out);
            self.unpacked = room;
        }
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        match self.segmented.get(ix(side)).copied().flatten() {
            Some(true) => segment(bytes).is_some(),
            _ => detect::chain(side, bytes) || segment(bytes).is_some(),
        }
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) -> bool {
        self.set_carry(side, |_| 0);
        true
    }
}
