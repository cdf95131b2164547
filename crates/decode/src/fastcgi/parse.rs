//! The state machine of one FastCGI connection.

use super::emit::{self, Place};
use super::reason;
use super::record::{begins, Record, BEGIN, END, HEADER, PARAMS, STDERR, STDIN, STDOUT};
use super::request::{header_end, Request};
use crate::framing::Out;
use crate::text::{at_most, len64};
use crate::Parser;
use wirespan_model::{Chunk, Item, Late, Side};

/// Bytes of parameters, or of a CGI header, that are kept of a request.
pub const MAX_KEPT: usize = 8 * 1024;
/// Requests under way that are remembered.
pub const MAX_REQUESTS: usize = 64;
/// Bytes that BEGIN_REQUEST and END_REQUEST hold.
const FIXED: usize = 8;

/// Parser of one connection.
#[derive(Debug, Default)]
pub struct FastCgiParser {
    client: End,
    server: End,
    requests: Vec<Request>,
}

#[derive(Debug, Default)]
struct End {
    /// Offset of the first byte that was not taken.
    offset: u64,
    /// Where the last emitted message of this end begins: those emitted later must not begin before it.
    emitted: u64,
    state: State,
    /// The beginning of a record header, or of the bytes in its place.
    buf: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In search of a record; `fresh` if the next byte is the first of a call.
    Lost { fresh: bool },
    /// At a record.
    Header,
    /// In the content of a record that began at `start`.
    Content { record: Record, left: u64, start: u64 },
}

impl Default for State {
    fn default() -> Self {
        State::Lost { fresh: true }
    }
}

impl Parser for FastCgiParser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let side = chunk.side;
        let mut rest = chunk.bytes;
        while !rest.is_empty() {
            let taken = self.step(side, rest, out).max(1);
            rest = rest.get(taken..).unwrap_or_default();
        }
        if chunk.missing > 0 {
            self.gap(side, chunk.missing, out);
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        while let Some(mut request) = self.requests.pop() {
            request.cut = true;
            if !request.asked {
                self.ask(&mut request, out);
            } else if request.output.is_some() && !request.answered {
                self.answer(&mut request, out);
            }
        }
        for end in [&mut self.client, &mut self.server] {
            end.buf = Vec::new();
        }
    }

    fn buffered(&self) -> usize {
        let kept = self.requests.iter().fold(0usize, |sum, r| sum.saturating_add(r.kept.len()));
        kept.saturating_add(self.client.buf.len()).saturating_add(self.server.buf.len())
    }
}

impl FastCgiParser {
    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn find(&mut self, id: u16) -> Option<usize> {
        self.requests.iter().position(|r| r.id == id)
    }

    fn step(&mut self, side: Side, bytes: &[u8], out: Out<'_>) -> usize {
        match self.end(side).state {
            State::Content { record, left, start } => {
                let taken = at_most(left, bytes.len());
                let content = at_most(left.saturating_sub(u64::from(record.padding)), taken);
                self.content(side, record, start, bytes.get(..content).unwrap_or_default(), out);
                let end = self.end(side);
                end.offset = end.offset.saturating_add(len64(taken));
                self.passed(side, record, start, left.saturating_sub(len64(taken)), out);
                taken
            }
            State::Header => self.header(side, bytes, out),
            State::Lost { fresh } => self.seek(side, bytes, fresh),
        }
    }

    /// Gathers a header, and begins its record.
    fn header(&mut self, side: Side, bytes: &[u8], out: Out<'_>) -> usize {
        let end = self.end(side);
        let taken = HEADER.saturating_sub(end.buf.len()).min(bytes.len());
        end.buf.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        end.offset = end.offset.saturating_add(len64(taken));
        if end.buf.len() < HEADER {
            return taken;
        }
        let record = Record::read(side, &end.buf);
        end.buf.clear();
        let start = end.offset.saturating_sub(len64(HEADER));
        match record {
            Some(record) => {
                let left = u64::from(record.len).saturating_add(u64::from(record.padding));
                self.passed(side, record, start, left, out);
            }
            None => {
                out(Item::Malformed { side, reason: reason::BAD_RECORD });
                self.end(side).state = State::Lost { fresh: false };
            }
        }
        taken
    }

    /// Looks for a record. Offsets count the searched bytes; the buffer holds the possible beginning of a record.
    fn seek(&mut self, side: Side, bytes: &[u8], fresh: bool) -> usize {
        let end = self.end(side);
        let wanted = if side == Side::Client { HEADER.saturating_add(FIXED) } else { HEADER };
        let taken = wanted.saturating_sub(end.buf.len()).min(bytes.len());
        end.buf.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        let mut buf = std::mem::take(&mut end.buf);
        let mut fresh = fresh;
        loop {
            let found = match side {
                Side::Client => begins(&buf),
                Side::Server if buf.len() < HEADER => {
                    if buf.first().is_none_or(|b| *b == 1) {
                        None
                    } else {
                        Some(false)
                    }
                }
                Side::Server => {
                    let record = Record::read(side, &buf);
                    // Elsewhere than at the start of a call only a request that waits makes a record credible.
                    let waits = |r: Record| self.requests.iter().any(|q| q.id == r.id && q.asked);
                    Some(record.is_some_and(|r| fresh || (waits(r) && matches!(r.kind, END | STDOUT))))
                }
            };
            let end = self.end(side);
            match found {
                Some(true) => {
                    end.state = State::Header;
                    // The buffered bytes are read again; they are not counted yet. A header alone emits nothing.
                    let mut rest = buf.as_slice();
                    while !rest.is_empty() {
                        let n = self.step(side, rest, &mut |_| {}).max(1);
                        rest = rest.get(n..).unwrap_or_default();
                    }
                    return taken;
                }
                None if !buf.is_empty() => {
                    end.buf = buf;
                    end.state = State::Lost { fresh };
                    return taken;
                }
                _ => {
                    if buf.is_empty() {
                        end.state = State::Lost { fresh: false };
                        return taken;
                    }
                    buf.remove(0);
                    end.offset = end.offset.saturating_add(1);
                    fresh = false;
                }
            }
        }
    }

    /// A record (or the rest of one) has `left` bytes to go.
    fn passed(&mut self, side: Side, record: Record, start: u64, left: u64, out: Out<'_>) {
        if left > 0 {
            self.end(side).state = State::Content { record, left, start };
            return;
        }
        self.end(side).state = State::Header;
        let Some(at) = self.find(record.id) else { return };
        let mut request = self.requests.swap_remove(at);
        let mut over = false;
        match record.kind {
            PARAMS if record.len == 0 && !request.asked => self.ask(&mut request, out),
            STDIN if record.len == 0 && request.asked => {
                let offset = self.client.offset;
                out(Item::End { side, id: Some(u64::from(record.id)), offset, late: &Late::default() });
            }
            END => {
                self.close(&mut request, start, out);
                over = true;
            }
            _ => {}
        }
        if !over {
            self.requests.push(request);
        }
    }

    /// Bytes of the content of a record.
    fn content(&mut self, side: Side, record: Record, start: u64, bytes: &[u8], out: Out<'_>) {
        if record.kind == BEGIN && self.find(record.id).is_none() {
            if self.requests.len() >= MAX_REQUESTS {
                out(Item::Malformed { side, reason: reason::TOO_MANY });
                self.requests.remove(0);
            }
            self.requests.push(Request { id: record.id, start, ..Request::default() });
            return;
        }
        let Some(at) = self.find(record.id) else { return };
        let mut request = self.requests.swap_remove(at);
        let all = self.buffered();
        let room = MAX_KEPT.saturating_sub(request.kept.len()).min(MAX_KEPT.saturating_mul(2).saturating_sub(all));
        let fits = bytes.get(..room).unwrap_or(bytes);
        match record.kind {
            // The id is used again, and the end of its last request was not seen.
            BEGIN if start > request.start => {
                self.forgotten(&mut request, out);
                request = Request { id: record.id, start, ..Request::default() };
            }
            PARAMS if !request.asked => {
                request.kept.extend_from_slice(fits);
                request.cut |= fits.len() < bytes.len();
            }
            STDOUT if !request.answered => {
                request.output.get_or_insert(start);
                let before = request.kept.len();
                request.kept.extend_from_slice(fits);
                let header = header_end(&request.kept);
                request.cut = header.is_none();
                if header.is_some() || fits.len() < bytes.len() {
                    // The head ends there, however many bytes came with it.
                    let used = header.unwrap_or(request.kept.len()).saturating_sub(before);
                    let end = self.server.offset;
                    self.server.offset = end.saturating_add(len64(used));
                    self.answer(&mut request, out);
                    self.server.offset = end;
                }
            }
            STDERR => request.stderr |= !bytes.is_empty(),
            END => request.kept.extend_from_slice(fits),
            _ => {}
        }
        self.requests.push(request);
    }

    /// The END_REQUEST of a request was not captured: its id is used again.
    fn forgotten(&mut self, request: &mut Request, out: Out<'_>) {
        if !request.asked {
            return;
        }
        if !request.answered && request.output.is_some() {
            request.cut = true;
            self.answer(request, out);
        }
        let offset = self.server.offset;
        if request.answered {
            out(Item::End { side: Side::Server, id: Some(u64::from(request.id)), offset, late: &Late::default() });
        } else if offset > self.server.emitted {
            let place = self.place(Side::Server, request.id, offset, true);
            emit::silent(Late::default(), place, out);
        }
    }

    fn place(&mut self, side: Side, id: u16, start: u64, cut: bool) -> Place {
        let end = self.end(side);
        let offset = start.max(end.emitted).min(end.offset.saturating_sub(1));
        end.emitted = offset;
        Place { id, offset, len: end.offset.saturating_sub(offset).max(1), cut }
    }

    /// Emits the request.
    fn ask(&mut self, request: &mut Request, out: Out<'_>) {
        let place = self.place(Side::Client, request.id, request.start, request.cut);
        emit::request(&request.kept, place, out);
        (request.kept, request.asked, request.cut) = (Vec::new(), true, false);
    }

    /// Emits the response.
    fn answer(&mut self, request: &mut Request, out: Out<'_>) {
        let start = request.output.unwrap_or(self.server.offset);
        let place = self.place(Side::Server, request.id, start, request.cut);
        emit::response(&request.kept, place, out);
        (request.kept, request.answered, request.cut) = (Vec::new(), true, false);
    }

    /// END_REQUEST: the bytes kept last are its content.
    fn close(&mut self, request: &mut Request, start: u64, out: Out<'_>) {
        let at = request.kept.len().saturating_sub(FIXED);
        let body = request.kept.split_off(at);
        let late = emit::ending(&body, request.stderr);
        if !request.asked {
            // Refused before its parameters were sent.
            request.cut = true;
            self.ask(request, out);
        }
        if !request.answered && request.output.is_some() {
            self.answer(request, out);
        }
        if request.answered {
            let offset = self.server.offset;
            out(Item::End { side: Side::Server, id: Some(u64::from(request.id)), offset, late: &late });
        } else {
            let place = self.place(Side::Server, request.id, start, false);
            emit::silent(late, place, out);
        }
    }

    /// `missing` bytes were not captured.
    fn gap(&mut self, side: Side, missing: u64, out: Out<'_>) {
        let end = self.end(side);
        if matches!(end.state, State::Lost { .. }) {
            // Bytes that are searched are not counted yet.
            end.offset = end.offset.saturating_add(len64(end.buf.len()));
        }
        let from = end.offset;
        match end.state {
            State::Content { record, left, start } => {
                let passed = missing.min(left);
                end.offset = from.saturating_add(passed);
                self.hole(record, out);
                self.passed(side, record, start, left.saturating_sub(passed), out);
                if missing > passed {
                    self.lose(side, out);
                }
            }
            State::Header => self.lose(side, out),
            State::Lost { .. } => {
                end.buf.clear();
                end.state = State::Lost { fresh: true };
            }
        }
        let end = self.end(side);
        end.offset = end.offset.max(from.saturating_add(missing));
    }

    /// Bytes that would have been kept are missing: emits the request or response from the bytes that are there.
    fn hole(&mut self, record: Record, out: Out<'_>) {
        let Some(at) = self.find(record.id) else { return };
        let mut request = self.requests.swap_remove(at);
        match record.kind {
            PARAMS if !request.asked => {
                request.cut = true;
                self.ask(&mut request, out);
            }
            STDOUT if !request.answered && request.output.is_some() => {
                request.cut = true;
                self.answer(&mut request, out);
            }
            _ => {}
        }
        self.requests.push(request);
    }

    fn lose(&mut self, side: Side, out: Out<'_>) {
        out(Item::Malformed { side, reason: reason::GAP });
        let end = self.end(side);
        end.buf.clear();
        end.state = State::Lost { fresh: true };
    }
}
