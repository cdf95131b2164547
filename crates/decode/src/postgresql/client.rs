//! Messages of the client → requests.

use super::message::{is_version, CANCEL, GSS, SSL};
use super::session::{encryption, Group, PgSession, Unit, What};
use crate::framing::exchange::Frame;
use crate::framing::{Cursor, Out};
use crate::mask::statements::key;
use crate::mask::Described;
use crate::text::clean;
use wirespan_model::{Body, Item, Kind, Message, Side};

/// Longest name of a database that is kept, bytes.
const MAX_NAME: usize = 63;

impl PgSession {
    pub(super) fn asks(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        self.client_seen = true;
        let mut body = Cursor::new(frame.bytes.get(5..).unwrap_or_default());
        match frame.bytes.first() {
            Some(0) => self.starts(frame, out),
            Some(b'Q') => {
                self.tell_group(None, out);
                let text = body.cstr().unwrap_or(body.rest());
                self.masker.read(text, self.rules());
                self.push(Unit::new(What::Query), out);
                let mut m = message(frame, Kind::Request);
                Described::from(&self.masker).write(&mut m, "postgresql", "", &self.database);
                if m.operation.is_empty() {
                    m.operation = "QUERY";
                }
                out(Item::Message(&m));
            }
            Some(b'P') => {
                let name = body.cstr().map(key);
                let text = body.cstr().unwrap_or(body.rest());
                if let Some(name) = name {
                    self.masker.read(text, self.rules());
                    self.statements.put(name, &self.masker);
                }
                self.note(frame, "PREPARE", name);
            }
            Some(b'B') => {
                let (portal, statement) = (body.cstr().map(key), body.cstr().map(key));
                if let (Some(portal), Some(statement)) = (portal, statement) {
                    self.bind(portal, statement);
                }
                self.note(frame, "BIND", statement);
            }
            Some(b'D') => {
                let what = body.u8();
                let name = body.cstr().map(key);
                let statement = if what == Some(b'S') { name } else { name.and_then(|portal| self.bound(portal)) };
                self.note(frame, "DESCRIBE", statement);
            }
            Some(b'C') => {
                let what = body.u8();
                if let (Some(b'S'), Some(name)) = (what, body.cstr().map(key)) {
                    self.statements.remove(name);
                }
                self.note(frame, "CLOSE", None);
            }
            Some(b'E') => {
                let statement = body.cstr().map(key).and_then(|portal| self.bound(portal));
                self.note(frame, "EXECUTE", statement);
                self.unsynced = true;
                self.tell_group(Some(false), out);
            }
            Some(b'S') => self.syncs(frame, out),
            Some(b'H') => {
                if self.group.is_some() {
                    self.note(frame, "", None);
                }
                self.tell_group(Some(false), out);
            }
            Some(b'F') => {
                self.tell_group(None, out);
                self.push(Unit::new(What::Query), out);
                let mut m = message(frame, Kind::Request);
                Described::default().write(&mut m, "postgresql", "FUNCTION CALL", &self.database);
                out(Item::Message(&m));
            }
            Some(b'X') => {
                self.tell_group(None, out);
                let mut m = message(frame, Kind::OneWay);
                Described::default().write(&mut m, "postgresql", "TERMINATE", &self.database);
                out(Item::Message(&m));
            }
            // COPY data and credentials.
            Some(b'c' | b'f') => self.copying = false,
            _ => {}
        }
    }

    /// The first message, which has no type.
    fn starts(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        self.tell_group(None, out);
        let mut view = Cursor::new(frame.bytes.get(4..).unwrap_or_default());
        let code = view.u32().unwrap_or_default();
        let (kind, operation) = match code {
            SSL => (Kind::Request, "SSL REQUEST"),
            GSS => (Kind::Request, "GSS REQUEST"),
            CANCEL => (Kind::OneWay, "CANCEL"),
            _ => (Kind::Request, "STARTUP"),
        };
        if is_version(code) {
            while let (Some(name), Some(value)) = (view.cstr().filter(|n| !n.is_empty()), view.cstr()) {
                if name == b"database" {
                    self.database.clear();
                    self.database.push_str(&clean(value, MAX_NAME));
                }
            }
            self.push(Unit::new(What::Startup), out);
        } else if kind == Kind::Request {
            self.push(Unit::new(encryption(code)), out);
        }
        let mut m = message(frame, kind);
        Described::default().write(&mut m, "postgresql", operation, &self.database);
        out(Item::Message(&m));
    }

    /// Adds a message to the group that the next `Execute`, `Flush` or `Sync` ends.
    fn note(&mut self, frame: &Frame<'_>, operation: &'static str, statement: Option<u64>) {
        let group = self.group.get_or_insert(Group { offset: frame.offset, end: 0, operation, statement });
        group.end = frame.offset.saturating_add(frame.shown());
        group.statement = statement.or(group.statement);
        // A bound statement will be executed; a statement that is only described was prepared.
        match operation {
            "EXECUTE" => group.operation = operation,
            "BIND" if group.operation != "PREPARE" => group.operation = operation,
            _ => {}
        }
    }

    /// Tells the group as one request. `sync`: whether a `Sync` ends it; `None` if it was cut off by something else.
    pub(super) fn tell_group(&mut self, sync: Option<bool>, out: Out<'_>) {
        let Some(group) = self.group.take() else { return };
        let executes = group.operation == "EXECUTE";
        let mut unit = Unit::new(if executes { What::Execute } else { What::Prepare });
        unit.sync = sync == Some(true);
        self.push(unit, out);
        let mut m = Message::new("postgresql", Side::Client, Kind::Request, group.offset);
        m.head_len = group.end.saturating_sub(group.offset).max(1);
        let statement = group.statement.and_then(|key| self.statements.get(key)).map(Described::from);
        let operation = match statement {
            // If a group was cut off, its statement is known but not its operation.
            Some(s) if (executes || sync.is_none()) && !s.operation.is_empty() => "",
            _ => group.operation,
        };
        statement.unwrap_or_default().write(&mut m, "postgresql", operation, &self.database);
        out(Item::Message(&m));
    }

    fn syncs(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        if let Some(group) = &mut self.group {
            group.end = frame.offset.saturating_add(frame.shown());
            self.tell_group(Some(true), out);
        } else if let Some(last) = self.queue.back_mut().filter(|u| !u.sync) {
            last.sync = true;
        } else {
            let silent = self.unsynced;
            self.push(Unit::new(What::Sync { silent }), out);
            if !silent {
                let mut m = message(frame, Kind::Request);
                Described::default().write(&mut m, "postgresql", "SYNC", &self.database);
                out(Item::Message(&m));
            }
        }
        self.unsynced = false;
    }
}

/// A message at the place of a frame.
pub(super) fn message<'a>(frame: &Frame<'_>, kind: Kind) -> Message<'a> {
    let mut m = Message::new("postgresql", frame.side, kind, frame.offset);
    m.head_len = frame.shown();
    m.body = if kind == Kind::Response { Body::Open } else { frame.body() };
    m
}
