//! The state machine of one Redis connection: finds heads and hands them on.

use super::elements::{self, Elements, Which};
use super::emit;
use super::head::{command, Stop, MAX_HEAD};
use super::reason;
use super::reply::{reply, Shape};
use super::session::{Asked, Session};
use super::stream::{State, Stream};
use crate::framing::Out;
use crate::text::len64;
use crate::Parser;
use wirespan_model::{Chunk, Item, Side};

pub use super::session::MAX_OUTSTANDING;

/// Parser of one connection.
#[derive(Debug, Default)]
pub struct RedisParser {
    client: Stream,
    server: Stream,
    session: Session,
    /// Operation and masked arguments of the last command; kept for its memory only.
    text: String,
    /// The first key of a command may be shown.
    keys: bool,
    /// The connection moves elements, which have to be seen whole.
    moves: bool,
}

/// Where the bytes of a step lie.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// They start a chunk.
    first: bool,
    /// Bytes are missing behind them.
    cut: bool,
}

/// Whether nothing of the reply may be kept but its code.
fn is_secret(asked: Option<Asked>) -> bool {
    matches!(asked, None | Some(Asked::Secret | Asked::Script))
}

impl Parser for RedisParser {
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_, '_>)) {
        let side = chunk.side;
        let mut rest = chunk.bytes;
        let mut place = Place { first: true, cut: chunk.missing > 0 };
        while !rest.is_empty() && !self.session.upgraded {
            let stream = self.stream(side);
            let taken = match stream.state {
                State::Start { lost } => self.start(side, rest, lost, place, out),
                _ => stream.inside(side, rest, out),
            };
            rest = rest.get(taken.max(1)..).unwrap_or_default();
            place.first = false;
        }
        if self.session.upgraded {
            self.stream(side).pass(len64(rest.len()).saturating_add(chunk.missing));
        } else if chunk.missing > 0 {
            self.gap(side, chunk.missing, out);
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(Item<'_, '_>)) {
        for side in [Side::Client, Side::Server] {
            self.broken_off(side, out);
            self.stream(side).buf = Vec::new();
        }
    }

    fn needs_whole(&self) -> bool {
        self.moves
    }

    fn buffered(&self) -> usize {
        self.client.buf.len().saturating_add(self.server.buf.len())
    }
}

impl RedisParser {
    /// A parser that shows first keys, if that is wanted.
    pub(super) fn showing(keys: bool) -> Self {
        RedisParser { keys, ..RedisParser::default() }
    }

    fn stream(&mut self, side: Side) -> &mut Stream {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Looks for the head of a message; takes at least one byte.
    fn start(&mut self, side: Side, bytes: &[u8], lost: bool, place: Place, out: Out<'_>) -> usize {
        let stream = self.stream(side);
        let before = stream.buf.len();
        if before == 0 {
            if lost && !place.first {
                stream.pass(len64(bytes.len()));
                return bytes.len();
            }
            // Redis skips empty lines before a command, and sends them to keep a waiting replica alive.
            let empty = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
            if empty > 0 && !lost {
                stream.pass(len64(empty));
                return empty;
            }
        }
        let window = bytes.get(..MAX_HEAD.saturating_sub(before)).unwrap_or(bytes);
        let cut = place.cut && window.len() == bytes.len();
        let mut buf = std::mem::take(&mut stream.buf);
        if before > 0 {
            buf.extend_from_slice(window);
        }
        let view = if before > 0 { buf.as_slice() } else { window };
        let taken = match self.head(side, view, lost, cut, out) {
            Ok(len) => len.saturating_sub(before),
            Err(Stop::More) if !cut && view.len() < MAX_HEAD => {
                if before == 0 {
                    buf.extend_from_slice(window);
                }
                self.stream(side).buf = buf;
                return window.len();
            }
            Err(stop) => {
                let stream = self.stream(side);
                stream.pass(len64(before.saturating_add(bytes.len())));
                // If the captured bytes end in a head, the missing ones will be counted as a gap.
                let broken_off = cut && stop == Stop::More;
                if !lost && !broken_off {
                    let bad = if side == Side::Client { reason::BAD_COMMAND } else { reason::BAD_REPLY };
                    stream.bad(side, bad, out);
                }
                bytes.len()
            }
        };
        buf.clear();
        self.stream(side).buf = buf;
        taken
    }

    /// Reads one head from the stream's offset on, emits its message, and moves behind it. Returns the length of the
    /// head.
    fn head(&mut self, side: Side, view: &[u8], lost: bool, cut: bool, out: Out<'_>) -> Result<usize, Stop> {
        match side {
            Side::Client => self.command(view, lost, cut, out),
            Side::Server => self.reply(view, cut, out),
        }
    }

    fn command(&mut self, view: &[u8], lost: bool, cut: bool, out: Out<'_>) -> Result<usize, Stop> {
        if lost && view.first() != Some(&b'*') {
            return Err(Stop::Bad);
        }
        let (head, len) = command(view, cut, self.keys)?;
        if lost && head.name.is_none() {
            return Err(Stop::Bad);
        }
        let Self { client, session, text, moves, .. } = self;
        if head.name.is_none() && head.tail == 0 && head.left == 0 {
            // An empty array asks nothing.
            client.begin_silent(len, 0);
            client.enter(Side::Client, 0, false, out);
            return Ok(len);
        }
        let operation = emit::query_text(&head, text);
        let kind = session.ask(&head, text.get(..operation).unwrap_or_default(), out);
        let mut message = emit::command(&head, client.offset, kind, text, operation, session.db());
        let name = head.name.unwrap_or_default();
        let puts = elements::puts(name.as_str());
        *moves |= puts.is_some() || session.takes();
        let which = puts.or_else(|| elements::strikes(name.as_str()));
        let elements = which.map(|which| Elements::new(which, head.arguments));
        client.begin(&mut message, len, head.left, elements);
        out(Item::Message(&message));
        drop(message);
        if head.db.is_some() {
            session.select(head.db);
        }
        client.enter(Side::Client, head.tail, false, out);
        Ok(len)
    }

    fn reply(&mut self, view: &[u8], cut: bool, out: Out<'_>) -> Result<usize, Stop> {
        let Self { server, session, .. } = self;
        let (head, len) = reply(view, session.wants_first(), cut)?;
        if head.shape == Shape::Attribute {
            server.begin_silent(len, head.left);
            server.enter(Side::Server, 0, false, out);
            return Ok(len);
        }
        let (kind, asked) = session.answer(&head);
        let mut message = emit::reply(&head, server.offset, kind, is_secret(asked));
        let elements = match asked {
            Some(Asked::Elements) => Some(Elements::new(Which::Reply, 0)),
            Some(Asked::Script) => Some(Elements::new(Which::ScriptReply, 0)),
            Some(Asked::Entry) => Some(Elements::new(Which::Entry, 0)),
            _ => None,
        };
        server.begin(&mut message, len, head.left, elements);
        out(Item::Message(&message));
        if asked == Some(Asked::Replicate) && !matches!(head.shape, Shape::Error(_)) {
            session.upgraded = true;
            out(Item::Upgrade("redis-replication"));
        } else {
            server.enter(Side::Server, head.tail, head.open_line, out);
        }
        Ok(len)
    }

    /// The rest of a buffered head will not come. Reads the part that is there.
    fn broken_off(&mut self, side: Side, out: Out<'_>) {
        let stream = self.stream(side);
        let State::Start { lost } = stream.state else { return };
        let buf = std::mem::take(&mut stream.buf);
        if !buf.is_empty() {
            let read = self.head(side, &buf, lost, true, out).unwrap_or(0);
            self.stream(side).pass(len64(buf.len().saturating_sub(read)));
        }
    }

    /// `missing` bytes of a side were not captured.
    fn gap(&mut self, side: Side, missing: u64, out: Out<'_>) {
        let stream = self.stream(side);
        match stream.state {
            State::Skip { left } if missing < left => {
                stream.state = State::Skip { left: left.saturating_sub(missing) };
                return stream.miss(missing);
            }
            State::Skip { left } if missing == left => {
                stream.miss(missing);
                stream.end_string();
                return stream.next(side, out);
            }
            State::Start { .. } if !stream.buf.is_empty() => {
                self.broken_off(side, out);
                self.stream(side).bad(side, reason::GAP, out);
            }
            State::Start { lost: true } => {}
            _ => {
                stream.pass(len64(stream.buf.len()));
                stream.bad(side, reason::GAP, out);
            }
        }
        self.session.server_lost |= side == Side::Server;
        self.stream(side).pass(missing);
    }
}
