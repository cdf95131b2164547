//! Units → messages: lines with their values, and binary messages.

use super::binary::{self, HEADER};
use super::reason;
use super::text::{self, Class, Command, Line};
use crate::framing::units::{Reader, Step, Unit};
use crate::framing::{Out, PerSide};
use crate::text::{clean, hide_values, len64};
use std::borrow::Cow;
use std::collections::VecDeque;
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Message, Outcome, Side};

/// Bytes of a line that are looked at.
pub const MAX_HEAD: usize = 2048;
/// Unanswered text commands that are remembered.
pub const MAX_OUTSTANDING: usize = 4096;

/// The facts about a text command that tell which answer is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    quiet: bool,
    noop: bool,
    opaque: Option<u64>,
}

/// Reads either protocol.
#[derive(Debug, Default)]
pub struct Memcache {
    asked: VecDeque<Asked>,
    /// Values of the response that is under way.
    open: Option<i64>,
    /// Opaque value of the statistics that are under way (binary).
    stats: Option<u32>,
    /// In the rest of a line longer than [`MAX_HEAD`], by side.
    in_line: PerSide<bool>,
    /// The user lets keys through.
    keys: bool,
}

impl Memcache {
    /// Shows the first key of each command, if `keys` says so.
    pub(super) fn showing(keys: bool) -> Self {
        Memcache { keys, ..Memcache::default() }
    }
}

impl Reader for Memcache {
    const MAX_HEAD: usize = MAX_HEAD;
    const GAP: &'static str = reason::GAP;
    const BAD: &'static str = reason::BAD_MESSAGE;

    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        if std::mem::take(self.in_line.of(unit.side)) {
            let end = memchr::memchr(b'\n', unit.bytes);
            *self.in_line.of(unit.side) = end.is_none();
            return Step::Took { head: end.map_or(unit.bytes.len(), |n| n.saturating_add(1)), skip: 0 };
        }
        if matches!(unit.bytes.first(), Some(&(binary::REQUEST | binary::RESPONSE))) {
            return self.binary(unit, out);
        }
        let (line, head) = match memchr::memchr(b'\n', unit.bytes) {
            Some(n) => (unit.bytes.get(..n).unwrap_or_default(), n.saturating_add(1)),
            None if unit.bytes.len() >= MAX_HEAD || unit.cut => (unit.bytes, unit.bytes.len()),
            None => return Step::More,
        };
        let whole = head > line.len();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let step = match unit.side {
            Side::Client => self.command(unit, line, head, whole, out),
            Side::Server if whole => self.reply(unit, line, head, out),
            Side::Server => None,
        };
        match step {
            Some(skip) => {
                // Bytes behind a cut are counted as a gap.
                *self.in_line.of(unit.side) = !whole && !unit.cut;
                Step::Took { head, skip }
            }
            None if unit.cut && !whole => Step::More,
            None => Step::Bad,
        }
    }

    fn lost(&mut self, side: Side, _out: Out<'_>) {
        self.in_line = PerSide::default();
        if side == Side::Server {
            (self.open, self.stats) = (None, None);
            self.asked.clear();
        }
    }
}

impl Memcache {
    fn command(&mut self, unit: Unit<'_>, line: &[u8], head: usize, whole: bool, out: Out<'_>) -> Option<u64> {
        let command = match text::command(line, !whole) {
            Some(command) => command,
            // Any other line is answered too, by an error.
            None if whole && !unit.lost => text::unknown(line)?,
            None => return None,
        };
        if unit.lost && !whole {
            return None;
        }
        let meta = matches!(command.class, Class::Meta | Class::MetaSet);
        if !command.quiet || meta {
            if self.asked.len() >= MAX_OUTSTANDING {
                self.asked.clear();
            }
            let noop = command.class == Class::MetaNoop;
            self.asked.push_back(Asked { quiet: command.quiet, noop, opaque: command.opaque });
        }
        let mut message = request(&command, unit.offset, head, whole);
        if self.keys && whole && command.name != "_OTHER" {
            message.attrs.push(("db.query.text", AttrVal::Str(Cow::Owned(text::shown(line, &command)))));
        }
        out(Item::Message(&message));
        Some(command.value)
    }

    fn reply(&mut self, unit: Unit<'_>, line: &[u8], head: usize, out: Out<'_>) -> Option<u64> {
        let said = text::line(line)?;
        let end = unit.offset.saturating_add(len64(head));
        if let Some(hits) = self.open {
            match said {
                Line::Value(len) => {
                    self.open = Some(hits.saturating_add(1));
                    return Some(len);
                }
                Line::Listed => return Some(0),
                Line::End => {
                    self.open = None;
                    let mut late = Late::default();
                    if hits > 0 {
                        late.attrs.push(("wirespan.memcached.hits", AttrVal::Int(hits)));
                    }
                    out(Item::End { side: Side::Server, id: None, offset: end, late: &late });
                    return Some(0);
                }
                // An error in the middle of a list ends it; anything else begins another answer.
                Line::Error { .. } | Line::Word { .. } => {
                    self.open = None;
                    out(Item::End { side: Side::Server, id: None, offset: unit.offset, late: &Late::default() });
                }
            }
        }
        let kind = self.answer(&said);
        let mut m = Message::new("memcached", Side::Server, kind, unit.offset);
        m.head_len = len64(head);
        if kind == Kind::OneWay {
            m.attrs.push(("db.system.name", AttrVal::from("memcached")));
        }
        m.outcome = Outcome::Ok;
        let mut skip = 0;
        match said {
            Line::Value(len) => {
                (m.body, skip) = (Body::Open, len);
                self.open = Some(1);
            }
            Line::Listed => {
                m.body = Body::Open;
                self.open = Some(0);
            }
            Line::End => m.attrs.push(("wirespan.memcached.hits", AttrVal::Int(0))),
            Line::Word { word, value, .. } => {
                if value > 0 {
                    (m.body, skip) = (Body::Length(value), value);
                }
                if !word.is_empty() {
                    m.attrs.push(("db.response.status_code", AttrVal::from(word)));
                }
            }
            Line::Error { word, text } => {
                m.outcome = if word == "SERVER_ERROR" { Outcome::ServerError } else { Outcome::ClientError };
                m.attrs.push(("db.response.status_code", AttrVal::from(word)));
                m.attrs.push(("error.type", AttrVal::from(word)));
                m.error = if text.is_empty() { Cow::Borrowed(word) } else { hide_values(clean(text, 160)) };
            }
        }
        out(Item::Message(&m));
        Some(skip)
    }

    /// Says whether a reply answers a command that asked for it.
    fn answer(&mut self, said: &Line<'_>) -> Kind {
        if self.asked.front().is_some_and(|a| !a.quiet) {
            self.asked.pop_front();
            return Kind::Response;
        }
        let Some(loud) = self.asked.iter().position(|a| !a.quiet) else {
            return match self.asked.pop_front() {
                Some(_) => Kind::OneWay,
                None => Kind::Response,
            };
        };
        let fits = match (self.asked.get(loud), said) {
            (Some(Asked { noop: true, .. }), said) => matches!(said, Line::Word { word: "MN", .. }),
            (Some(Asked { opaque: Some(asked), .. }), Line::Word { opaque, .. }) => *opaque == Some(*asked),
            _ => true,
        };
        if fits {
            self.asked.drain(..=loud);
            return Kind::Response;
        }
        self.asked.pop_front();
        Kind::OneWay
    }

    fn binary(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        if unit.bytes.len() < HEADER {
            return Step::More;
        }
        let Some(header) = binary::header(unit.bytes) else { return Step::Bad };
        let asks = header.magic == binary::REQUEST;
        if asks != (unit.side == Side::Client) || unit.lost && !binary::is_exact(&header) {
            return Step::Bad;
        }
        let Some((name, quiet)) = binary::operation(header.opcode) else { return Step::Bad };
        let keys = self.keys && asks && binary::has_key(&header);
        let behind = HEADER.saturating_add(usize::from(header.extras)).saturating_add(usize::from(header.key));
        if keys && unit.bytes.len() < behind && !unit.cut {
            return Step::More;
        }
        let end = unit.offset.saturating_add(len64(HEADER));
        let skip = u64::from(header.body);
        // Each line of statistics is a message of its own, and an empty one ends them.
        let listed = header.opcode == 0x10 && !asks && header.key > 0;
        if !asks && header.opcode == 0x10 && self.stats == Some(header.opaque) {
            if !listed {
                self.stats = None;
                let id = Some(u64::from(header.opaque));
                out(Item::End { side: Side::Server, id, offset: end, late: &Late::default() });
            }
            return Step::Took { head: HEADER, skip };
        }
        // Quiet commands are answered by exception.
        let kind = match (quiet, asks) {
            (true, _) => Kind::OneWay,
            (false, true) => Kind::Request,
            (false, false) => Kind::Response,
        };
        let mut m = Message::new("memcached", unit.side, kind, unit.offset);
        m.head_len = len64(HEADER);
        if listed {
            (m.body, self.stats) = (Body::Open, Some(header.opaque));
        } else if skip > 0 {
            m.body = Body::Length(skip);
        }
        m.id = (kind != Kind::OneWay).then_some(u64::from(header.opaque));
        if asks || kind == Kind::OneWay {
            m.operation = name;
            m.attrs.push(("db.system.name", AttrVal::from("memcached")));
            m.attrs.push(("db.operation.name", AttrVal::from(name)));
        }
        if keys {
            let key = unit.bytes.get(behind.saturating_sub(usize::from(header.key))..behind);
            let shown = [name, key.and_then(text::key).unwrap_or("?")].join(" ");
            m.attrs.push(("db.query.text", AttrVal::Str(Cow::Owned(shown))));
        }
        if !asks {
            m.status_code = Some(i32::from(header.status));
            let (word, fault) = binary::status(header.status).unwrap_or(("_OTHER", 1));
            m.outcome = match fault {
                0 => Outcome::Ok,
                1 => Outcome::ClientError,
                _ => Outcome::ServerError,
            };
            m.attrs.push(("db.response.status_code", AttrVal::from(word)));
            if fault > 0 {
                m.attrs.push(("error.type", AttrVal::from(word)));
                m.error = Cow::Borrowed(word);
            }
        }
        out(Item::Message(&m));
        let head = if keys { behind.min(unit.bytes.len()) } else { HEADER };
        let passed = len64(head.saturating_sub(HEADER));
        Step::Took { head, skip: skip.saturating_sub(passed) }
    }
}

fn request(command: &Command, offset: u64, head: usize, whole: bool) -> Message<'static> {
    let kind = if command.quiet { Kind::OneWay } else { Kind::Request };
    let mut m = Message::new("memcached", Side::Client, kind, offset);
    m.head_len = len64(head);
    if command.value > 0 {
        m.body = Body::Length(command.value);
    }
    m.operation = command.name;
    m.attrs.push(("db.system.name", AttrVal::from("memcached")));
    m.attrs.push(("db.operation.name", AttrVal::from(command.name)));
    if command.keys > 0 && whole {
        m.attrs.push(("wirespan.memcached.keys", AttrVal::Int(command.keys)));
    }
    m
}
