//! Turns of the conversation → requests and answers.

use super::detect;
use super::packet::{client, exception, hello, number, query, server, server_hello, Query, Stop};
use super::reason;
use crate::framing::{Cursor, Out};
use crate::mask::{self, Described, Dialect, Masker, Rules};
use crate::text::{clean, len64};
use crate::Parser;
use std::borrow::Cow;
use wirespan_model::{AttrVal, Body, Carried, Chunk, Item, Kind, Late, Message, Outcome, Side};

/// Revision that is assumed when the hello was not seen (ClickHouse 23.3 to 24.3 share what matters here).
const ASSUMED: u64 = 54_460;
/// Most bytes of a packet that are kept while it is incomplete.
const MAX_HEAD: usize = 8192;

/// One direction.
#[derive(Debug, Default)]
struct Stream {
    offset: u64,
    buf: Vec<u8>,
    /// Bytes of this side are skipped until the other side has sent some.
    blind: bool,
}

impl Stream {
    fn pass(&mut self, n: u64) {
        self.offset = self.offset.saturating_add(n);
    }
}

/// Parser of one connection.
#[derive(Debug, Default)]
pub(super) struct ClickHouseParser {
    client: Stream,
    server: Stream,
    masker: Masker,
    database: String,
    revision: Option<u64>,
    /// A request waits for (the rest of) its answer; true if that has begun.
    waiting: Option<bool>,
    last: Option<Side>,
}

impl Parser for ClickHouseParser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let side = chunk.side;
        if (!chunk.bytes.is_empty() || chunk.missing > 0) && self.last != Some(side) {
            // A turn begins. The rest of the other end's head will not come.
            if let Some(other) = self.last {
                self.drop_buffer(other);
            }
            self.last = Some(side);
            self.stream(side).blind = false;
        }
        let mut rest = chunk.bytes;
        while !rest.is_empty() {
            if self.stream(side).blind {
                self.stream(side).pass(len64(rest.len()));
                break;
            }
            let taken = self.head(side, rest, chunk.missing > 0, out);
            rest = rest.get(taken.max(1)..).unwrap_or_default();
        }
        if chunk.missing > 0 {
            let started = !self.stream(side).blind;
            self.drop_buffer(side);
            let stream = self.stream(side);
            stream.pass(chunk.missing);
            stream.blind = true;
            if started && self.waiting.is_none() {
                out(Item::Malformed { side, reason: reason::GAP });
            }
        }
    }

    fn finish(&mut self, _out: &mut dyn FnMut(Item<'_, '_>)) {
        self.client.buf = Vec::new();
        self.server.buf = Vec::new();
    }

    fn buffered(&self) -> usize {
        self.client.buf.len().saturating_add(self.server.buf.len())
    }
}

impl ClickHouseParser {
    pub(super) fn with(masker: Masker) -> Self {
        ClickHouseParser { masker, ..ClickHouseParser::default() }
    }

    fn stream(&mut self, side: Side) -> &mut Stream {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn drop_buffer(&mut self, side: Side) {
        let stream = self.stream(side);
        let n = len64(stream.buf.len());
        stream.buf.clear();
        stream.pass(n);
    }

    /// Reads one packet, or keeps its beginning; returns how many bytes were taken.
    fn head(&mut self, side: Side, rest: &[u8], missing: bool, out: Out<'_>) -> usize {
        let mut buf = std::mem::take(&mut self.stream(side).buf);
        let before = buf.len();
        let window = rest.get(..MAX_HEAD.saturating_sub(before)).unwrap_or(rest);
        if before > 0 {
            buf.extend_from_slice(window);
        }
        let view = if before > 0 { buf.as_slice() } else { window };
        let cut = (missing && window.len() == rest.len()) || view.len() >= MAX_HEAD;
        let read = match side {
            Side::Client => self.asks(view, cut, out),
            Side::Server => self.answers(view, cut, out),
        };
        let taken = match read {
            Ok(len) => {
                self.stream(side).pass(len64(len.max(before)));
                len.saturating_sub(before)
            }
            Err(Stop::More) if !cut => {
                if before == 0 {
                    buf.extend_from_slice(window);
                }
                self.stream(side).buf = buf;
                return window.len();
            }
            Err(stop) => {
                let stream = self.stream(side);
                stream.pass(len64(before));
                stream.blind = true;
                if stop == Stop::Bad && self.waiting.is_none() {
                    out(Item::Malformed { side, reason: reason::BAD_PACKET });
                }
                buf.clear();
                let stream = self.stream(side);
                stream.buf = buf;
                stream.pass(len64(rest.len()));
                return rest.len();
            }
        };
        buf.clear();
        self.stream(side).buf = buf;
        taken
    }

    /// A packet of the client; returns its length as far as it was read.
    fn asks(&mut self, bytes: &[u8], cut: bool, out: Out<'_>) -> Result<usize, Stop> {
        let mut view = Cursor::new(bytes);
        let packet = number(&mut view)?;
        let len = |view: &Cursor<'_>| bytes.len().saturating_sub(view.rest().len());
        let mut carried = Carried::default();
        self.masker.clear();
        let (name, kind) = match packet {
            client::HELLO => {
                let hello = hello(&mut view)?;
                self.revision = Some(hello.revision);
                self.database.clear();
                self.database.push_str(&clean(hello.database, 64));
                ("HELLO", Kind::Request)
            }
            client::QUERY => {
                // Both hellos were not seen: what fits is taken.
                if self.revision.is_none() {
                    self.revision = detect::revision(&view, cut).ok();
                }
                let Query { trace, text } = query(&mut view, self.revision.unwrap_or(ASSUMED), cut)?;
                self.masker.read(text, Rules::of(Dialect::ClickHouse));
                if let Some((trace, span, flags)) = trace {
                    carried.trace_id = Some(trace);
                    carried.span_id = Some(span);
                    carried.sampled = Some(flags & 1 != 0);
                }
                ("QUERY", Kind::Request)
            }
            client::PING => ("PING", Kind::Request),
            client::CANCEL => ("CANCEL", Kind::OneWay),
            // Data of a query, in a turn of their own.
            2 if self.waiting.is_some() => {
                self.client.blind = true;
                return Ok(bytes.len());
            }
            _ => return Err(Stop::Bad),
        };
        let mut m = Message::new("clickhouse", Side::Client, kind, self.client.offset);
        let n = len(&view);
        m.head_len = len64(n);
        m.carried = carried;
        // Blocks follow a query; how long they are they do not say.
        m.body = if packet == client::QUERY { Body::Open } else { Body::None };
        let described = Described::from(&self.masker);
        let runs = packet == client::QUERY && !described.operation.is_empty();
        described.write(&mut m, "clickhouse", if runs { "" } else { name }, &self.database);
        out(Item::Message(&m));
        if kind == Kind::Request {
            self.waiting = Some(false);
        }
        self.client.blind = packet == client::QUERY || packet == client::HELLO;
        Ok(n)
    }

    /// A packet of the server; returns its length as far as it was read.
    fn answers(&mut self, bytes: &[u8], cut: bool, out: Out<'_>) -> Result<usize, Stop> {
        let mut view = Cursor::new(bytes);
        let packet = number(&mut view)?;
        if packet > server::LAST {
            return Err(Stop::Bad);
        }
        let Some(begun) = self.waiting else {
            // Joined in the middle of an answer: where its packets begin is not known.
            self.server.blind = true;
            return Ok(bytes.len());
        };
        let failure = match packet {
            server::EXCEPTION => Some(exception(&mut view, cut)?),
            server::HELLO => {
                let theirs = server_hello(&mut view)?;
                self.revision = Some(self.revision.map_or(theirs, |ours| ours.min(theirs)));
                None
            }
            _ => None,
        };
        let n = bytes.len().saturating_sub(view.rest().len());
        let over = matches!(packet, server::EXCEPTION | server::HELLO | server::PONG | server::END);
        let code: Cow<'static, str> = failure.map_or(Cow::Borrowed(""), |f| Cow::Owned(f.code.to_string()));
        if begun {
            if over {
                let mut late = Late::default();
                if let Some(f) = failure {
                    late.status_code = Some(f.code);
                    late.outcome = outcome(f.code);
                    late.error = mask::text(f.text, true);
                    late.attrs.push(("db.response.status_code", AttrVal::Str(code.clone())));
                    late.attrs.push(("error.type", AttrVal::Str(code)));
                }
                let offset = self.server.offset.saturating_add(len64(n));
                out(Item::End { side: Side::Server, id: None, offset, late: &late });
            }
        } else {
            let mut m = Message::new("clickhouse", Side::Server, Kind::Response, self.server.offset);
            m.head_len = len64(n);
            m.body = if over { Body::None } else { Body::Open };
            m.outcome = Outcome::Ok;
            if let Some(f) = failure {
                m.status_code = Some(f.code);
                m.outcome = outcome(f.code);
                m.error = mask::text(f.text, true);
                m.attrs.push(("db.response.status_code", AttrVal::Str(code.clone())));
                m.attrs.push(("error.type", AttrVal::Str(code)));
            }
            out(Item::Message(&m));
        }
        self.waiting = if over { None } else { Some(true) };
        // Behind an end nothing comes; behind anything else blocks and counters do.
        self.server.blind = true;
        Ok(n)
    }
}

/// Whose fault an error is (ClickHouse, `src/Common/ErrorCodes.cpp`).
fn outcome(code: i32) -> Outcome {
    match code {
        // Timeouts, memory, disks, networks, replicas, too many queries, logic.
        49
        | 159
        | 160
        | 164
        | 202
        | 203
        | 209
        | 210
        | 225
        | 236
        | 241..=243
        | 252
        | 279
        | 285
        | 286
        | 319
        | 999
        | 1000..=1002 => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}
