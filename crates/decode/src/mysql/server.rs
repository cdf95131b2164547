//! Packets of the server → answers: which packet is the last of one follows from all before it.

use super::packet::{com, integer, Failure, Header, Okay, CURSOR_EXISTS, MORE_RESULTS, NO_BACKSLASH};
use super::session::{Answer, MySession, Phase, Unit};
use crate::framing::exchange::Frame;
use crate::framing::{Cursor, Out};
use crate::mask::Backslash;
use std::borrow::Cow;
use wirespan_model::message::AttrList;
use wirespan_model::{AttrVal, Body, Item, Kind, Late, Message, Outcome, Side};

impl MySession {
    pub(super) fn answers(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Some(header) = Header::read(frame.bytes) else { return };
        let packet = frame.bytes.get(4..).unwrap_or_default();
        let first = packet.first().copied().unwrap_or_default();
        let body = packet.get(1..).unwrap_or_default();
        match self.phase {
            Phase::Start if first == 0x0a && header.seq == 0 => return self.greets(frame),
            Phase::Start => self.phase = Phase::Commands,
            Phase::Auth if matches!(first, 0x01 | 0xfe) => return,
            _ => {}
        }
        if self.dumping && !matches!(first, 0xff | 0xfe) {
            return;
        }
        let waits = self.queue.front().map(|u| u.command);
        if waits == Some(com::CHANGE_USER) && matches!(first, 0x01 | 0xfe) {
            return;
        }
        let is_eof = first == 0xfe && header.len < 0xff_ffff;
        if waits.is_none() {
            if first == 0xff {
                return self.refuses(frame, &Failure::read(body, complete(frame)), out);
            }
            if is_eof && header.len == 5 {
                // The end of definitions whose count was known already.
                return;
            }
            self.queue.push_back(Unit::new(com::UNSEEN));
        }
        let failure = (first == 0xff).then(|| Failure::read(body, complete(frame)));
        if let Some(failure) = &failure {
            // MariaDB reports progress with this code; the answer is yet to come.
            if failure.code == 0xffff {
                return;
            }
            return self.fails(frame, failure, out);
        }
        match self.answer {
            Answer::Begin => self.begins(frame, header, packet, out),
            Answer::Definitions { left, rows } => self.defines(frame, header, packet, left, rows, out),
            Answer::Rows if is_eof => {
                let okay = if header.len == 5 { Okay::eof(body) } else { Okay::read(body) };
                self.result_over(frame, okay, out);
            }
            Answer::Rows => {
                if let Some(unit) = self.queue.front_mut() {
                    unit.rows = unit.rows.saturating_add(1);
                }
            }
        }
    }

    /// The first packet of an answer or of a further result of it.
    fn begins(&mut self, frame: &Frame<'_>, header: Header, packet: &[u8], out: Out<'_>) {
        let Some(unit) = self.queue.front_mut() else { return };
        let (command, first, body) =
            (unit.command, packet.first().copied().unwrap_or_default(), packet.get(1..).unwrap_or_default());
        match (command, first) {
            (com::STATISTICS, _) => self.single(frame, Okay::default(), out),
            (com::BINLOG_DUMP | com::BINLOG_DUMP_GTID, _) => {
                self.single(frame, Okay::default(), out);
                self.dumping = true;
            }
            (com::STMT_FETCH, _) if first != 0xfe => {
                self.open(frame, out);
                self.answer = Answer::Rows;
                self.result(1);
            }
            (com::FIELD_LIST, _) if first != 0xfe => {
                self.open(frame, out);
                self.answer = Answer::Rows;
            }
            (com::STMT_PREPARE, 0) => self.prepared(frame, body, out),
            (_, 0) => self.okay(frame, Okay::read(body), out),
            (_, 0xfe) => self.okay(frame, Okay::eof(body), out),
            // The client sends a file, then the answer goes on.
            (com::QUERY, 0xfb) => self.open(frame, out),
            _ => {
                let mut view = Cursor::new(packet);
                let Some(columns) = integer(&mut view).filter(|n| *n > 0 && header.len < 20) else {
                    // Not the beginning of anything known.
                    self.open(frame, out);
                    return;
                };
                // Both MySQL and MariaDB may leave the definitions out, and say so here.
                let known = view.u8() != Some(0);
                self.open(frame, out);
                self.result(0);
                self.answer = Answer::Definitions { left: if known { columns } else { 0 }, rows: true };
                if !known && self.deprecate_eof == Some(true) {
                    self.answer = Answer::Rows;
                }
            }
        }
    }

    /// Definitions, their end, and the packet that stands in the place of their end.
    fn defines(&mut self, frame: &Frame<'_>, header: Header, packet: &[u8], left: u64, rows: bool, out: Out<'_>) {
        let first = packet.first().copied().unwrap_or_default();
        let is_eof = first == 0xfe && header.len == 5;
        if left > 0 {
            // Definitions of parameters and those of columns each have an end.
            let left = if is_eof { left } else { left.saturating_sub(1) };
            self.answer = Answer::Definitions { left, rows };
            if left == 0 && !rows && self.deprecate_eof != Some(false) {
                self.over(frame.end(), out);
            } else if left == 0 && rows && self.deprecate_eof == Some(true) {
                self.answer = Answer::Rows;
            }
            return;
        }
        if !rows {
            return self.over(frame.end(), out);
        }
        self.answer = Answer::Rows;
        if !is_eof {
            // No end of definitions here: the session does without.
            self.deprecate_eof = Some(true);
            return self.answers(frame, out);
        }
        self.deprecate_eof = Some(false);
        let okay = Okay::eof(packet.get(1..).unwrap_or_default());
        if okay.status.is_some_and(|s| s & CURSOR_EXISTS != 0) && self.is_execute() {
            self.result_over(frame, okay, out);
        }
    }

    fn is_execute(&self) -> bool {
        self.queue.front().is_some_and(|u| u.command == com::STMT_EXECUTE)
    }

    fn result(&mut self, rows: u64) {
        if let Some(unit) = self.queue.front_mut() {
            unit.result = true;
            unit.rows = unit.rows.saturating_add(rows);
        }
    }

    /// The answer to `PREPARE`: number, columns, parameters.
    fn prepared(&mut self, frame: &Frame<'_>, body: &[u8], out: Out<'_>) {
        let mut view = Cursor::new(body);
        let (number, columns, params) = (view.u32_le(), view.u16_le().unwrap_or(0), view.u16_le().unwrap_or(0));
        let prepares = self.queue.front().and_then(|u| u.prepares);
        if let (Some(key), Some(number)) = (prepares, number) {
            self.statements.rename(key, u64::from(number));
            self.last_statement = Some(number);
        }
        let left = u64::from(columns).saturating_add(u64::from(params));
        if left == 0 {
            return self.single(frame, Okay::default(), out);
        }
        self.open(frame, out);
        self.answer = Answer::Definitions { left, rows: false };
    }

    /// An OK packet: the answer, or one of several results.
    fn okay(&mut self, frame: &Frame<'_>, okay: Okay, out: Out<'_>) {
        let status = okay.status.unwrap_or(0);
        if let Some(unit) = self.queue.front_mut() {
            if !unit.begun && status & MORE_RESULTS == 0 {
                return self.single(frame, okay, out);
            }
        }
        self.open(frame, out);
        self.result_over(frame, okay, out);
    }

    /// The end of one result.
    fn result_over(&mut self, frame: &Frame<'_>, okay: Okay, out: Out<'_>) {
        self.learn(okay);
        self.answer = Answer::Begin;
        if let (Some(unit), Some(n)) = (self.queue.front_mut(), okay.affected) {
            if !unit.result || n > 0 {
                unit.affected = Some(unit.affected.unwrap_or(0).saturating_add(n));
            }
        }
        if okay.status.unwrap_or(0) & MORE_RESULTS == 0 {
            self.over(frame.end(), out);
        }
    }

    /// The facts about the session from the server's status.
    fn learn(&mut self, okay: Okay) {
        if let Some(status) = okay.status {
            self.backslash = if status & NO_BACKSLASH == 0 { Backslash::Escapes } else { Backslash::Plain };
        }
    }

    /// An answer of one packet.
    fn single(&mut self, frame: &Frame<'_>, okay: Okay, out: Out<'_>) {
        self.learn(okay);
        let Some(unit) = self.queue.pop_front() else { return };
        self.answer = Answer::Begin;
        match unit.command {
            com::LOGIN | com::CHANGE_USER | com::INIT_DB | com::QUERY if !self.selecting.is_empty() => {
                std::mem::swap(&mut self.database, &mut self.selecting);
                self.selecting.clear();
            }
            _ => {}
        }
        if self.phase != Phase::Commands {
            self.phase = Phase::Commands;
        }
        let mut m = Message::new("mysql", Side::Server, Kind::Response, frame.offset);
        m.head_len = frame.shown();
        m.body = frame.body();
        m.outcome = Outcome::Ok;
        if let Some(n) = okay.affected.filter(|n| *n > 0) {
            m.attrs.push(("wirespan.db.affected_rows", AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX))));
        }
        out(Item::Message(&m));
    }

    /// Begins an answer of many packets, if it has not begun.
    fn open(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Some(unit) = self.queue.front_mut().filter(|u| !u.begun) else { return };
        unit.begun = true;
        let mut m = Message::new("mysql", Side::Server, Kind::Response, frame.offset);
        m.head_len = frame.shown();
        m.body = Body::Open;
        m.outcome = Outcome::Ok;
        out(Item::Message(&m));
    }

    /// The answer to the oldest command is over.
    fn over(&mut self, offset: u64, out: Out<'_>) {
        self.answer = Answer::Begin;
        let Some(unit) = self.queue.pop_front() else { return };
        if unit.command == com::QUERY {
            self.selecting.clear();
        }
        let mut late = Late::default();
        if unit.result {
            late.attrs.push(("db.response.returned_rows", AttrVal::Int(i64::try_from(unit.rows).unwrap_or(i64::MAX))));
        }
        if let Some(n) = unit.affected.filter(|n| *n > 0) {
            late.attrs.push(("wirespan.db.affected_rows", AttrVal::Int(i64::try_from(n).unwrap_or(i64::MAX))));
        }
        out(Item::End { side: Side::Server, id: None, offset, late: &late });
    }

    /// An error answers, at once or behind rows.
    fn fails(&mut self, frame: &Frame<'_>, failure: &Failure<'_>, out: Out<'_>) {
        self.answer = Answer::Begin;
        self.selecting.clear();
        self.dumping = false;
        let Some(unit) = self.queue.pop_front() else { return };
        if let Some(key) = unit.prepares {
            self.statements.remove(key);
        }
        if unit.begun {
            let mut late =
                Late { status_code: Some(i32::from(failure.code)), outcome: failure.outcome(), ..Late::default() };
            late.error = Cow::Borrowed(&*failure.text);
            tell(failure, &mut late.attrs);
            return out(Item::End { side: Side::Server, id: None, offset: frame.end(), late: &late });
        }
        let mut m = Message::new("mysql", Side::Server, Kind::Response, frame.offset);
        m.head_len = frame.shown();
        m.body = frame.body();
        m.status_code = Some(i32::from(failure.code));
        m.outcome = failure.outcome();
        m.error = Cow::Borrowed(&*failure.text);
        tell(failure, &mut m.attrs);
        out(Item::Message(&m));
    }

    /// An error without a request: too many connections, a shutdown, a blocked host.
    fn refuses(&mut self, frame: &Frame<'_>, failure: &Failure<'_>, out: Out<'_>) {
        let mut m = Message::new("mysql", Side::Server, Kind::OneWay, frame.offset);
        m.head_len = frame.shown();
        m.body = frame.body();
        m.operation = "ERROR";
        m.status_code = Some(i32::from(failure.code));
        m.outcome = failure.outcome();
        m.error = Cow::Borrowed(&*failure.text);
        m.attrs.push(("db.system.name", AttrVal::from("mysql")));
        tell(failure, &mut m.attrs);
        out(Item::Message(&m));
    }

    /// A packet with the header of compression. It is read if its content is not compressed.
    pub(super) fn unwraps(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let plain = frame.bytes.get(4..7) == Some(&[0, 0, 0]);
        let inner = if plain { frame.bytes.get(7..).unwrap_or_default() } else { &[] };
        let sequence = frame.bytes.get(3).copied().unwrap_or_default();
        if frame.side == Side::Client {
            if plain && Header::read(inner).is_some_and(|h| h.seq == 0) {
                return self.command(frame, inner.get(4..).unwrap_or_default(), true, out);
            }
            if !plain && sequence == 0 {
                self.push(Unit::new(com::COMPRESSED), out);
                let mut m = Message::new("mysql", frame.side, Kind::Request, frame.offset);
                m.head_len = frame.shown();
                m.body = frame.body();
                m.attrs.push(("db.system.name", AttrVal::from("mysql")));
                m.attrs.push(("wirespan.mysql.compressed", AttrVal::from(true)));
                out(Item::Message(&m));
            }
            return;
        }
        // Where an answer ends stands inside; the next one begins with the next command.
        let packet = inner.get(4..).unwrap_or_default();
        match self.queue.front().map(|u| u.command) {
            None => {}
            Some(_) if packet.first() == Some(&0xff) => {
                let failure = Failure::read(packet.get(1..).unwrap_or_default(), complete(frame));
                self.fails(frame, &failure, out);
            }
            Some(com::STMT_PREPARE) if packet.first() == Some(&0) => {
                self.prepared(frame, packet.get(1..).unwrap_or_default(), out);
                self.queue.clear();
                self.answer = Answer::Begin;
            }
            Some(_) if packet.first() == Some(&0) => {
                self.single(frame, Okay::read(packet.get(1..).unwrap_or_default()), out)
            }
            Some(_) => {
                self.open(frame, out);
                self.queue.pop_front();
            }
        }
    }
}

/// Whether the end of a packet is shown.
fn complete(frame: &Frame<'_>) -> bool {
    frame.shown() == frame.len
}

fn tell<'a>(failure: &Failure<'a>, attrs: &mut AttrList<'a>) {
    let code: Cow<'a, str> = Cow::Owned(failure.code.to_string());
    attrs.push(("db.response.status_code", AttrVal::Str(code.clone())));
    attrs.push(("error.type", AttrVal::Str(code)));
    if !failure.state.is_empty() {
        attrs.push(("wirespan.db.sqlstate", AttrVal::from(failure.state)));
    }
}
