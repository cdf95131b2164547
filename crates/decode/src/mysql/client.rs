//! Packets of the client → requests.

use super::auth::MAX_NAME;
use super::packet::{behind_attributes, com, is_one_way, name, Header};
use super::session::{MySession, Phase, Unit};
use crate::framing::exchange::Frame;
use crate::framing::{Cursor, Out};
use crate::mask::Described;
use crate::text::clean;
use wirespan_model::{AttrVal, Item, Kind, Message};

/// Keys of statements whose number is not known yet lie above all numbers.
const PROVISIONAL: u64 = 1 << 32;

impl MySession {
    pub(super) fn asks(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let Some(header) = Header::read(frame.bytes) else { return };
        match self.phase {
            Phase::Greeted => return self.logs_in(frame, out),
            // Credentials.
            Phase::Auth => return,
            Phase::Start | Phase::Commands => {}
        }
        let continues = std::mem::replace(&mut self.continued, header.len == 0xff_ffff);
        // A new command has sequence number 0; files, credentials and continued packets do not.
        if header.seq != 0 || continues || header.len == 0 {
            return;
        }
        self.phase = Phase::Commands;
        self.command(frame, frame.bytes.get(4..).unwrap_or_default(), false, out);
    }

    /// A command; `packet` begins with its number.
    pub(super) fn command(&mut self, frame: &Frame<'_>, packet: &[u8], compressed: bool, out: Out<'_>) {
        let Some((&command, body)) = packet.split_first() else { return };
        let known = name(command);
        if known.is_empty() {
            return;
        }
        let mut unit = Unit::new(command);
        let mut statement = None;
        let mut masked = false;
        match command {
            com::QUERY | com::STMT_PREPARE => {
                // Before a statement their count stands, which is no character that one begins with, and a 1.
                let shaped = body.first().is_some_and(|n| *n < 32) && body.get(1) == Some(&1);
                let attributes = command == com::QUERY && self.attributes.unwrap_or(shaped);
                let text = if attributes { behind_attributes(body) } else { Some(body) };
                self.masker.read(text.unwrap_or_default(), self.rules());
                masked = true;
                if command == com::STMT_PREPARE {
                    self.provisional = self.provisional.wrapping_add(1);
                    let key = PROVISIONAL | u64::from(self.provisional);
                    self.statements.put(key, &self.masker);
                    unit.prepares = Some(key);
                } else if self.masker.operation() == "USE" {
                    self.select(text.unwrap_or_default());
                }
            }
            com::STMT_EXECUTE | com::STMT_FETCH | com::STMT_RESET | com::STMT_CLOSE | com::BULK_EXECUTE => {
                // MariaDB writes -1 for the statement that was prepared last.
                let number =
                    Cursor::new(body).u32_le().and_then(|n| if n == u32::MAX { self.last_statement } else { Some(n) });
                statement = number.map(u64::from);
            }
            com::INIT_DB => {
                self.selecting.clear();
                self.selecting.push_str(&clean(body, MAX_NAME));
            }
            com::CHANGE_USER => self.changes_user(body),
            com::RESET_CONNECTION => self.statements.clear(),
            _ => {}
        }
        let kind = if is_one_way(command) { Kind::OneWay } else { Kind::Request };
        if kind == Kind::Request {
            self.push(unit, out);
        }
        let mut m = Message::new("mysql", frame.side, kind, frame.offset);
        m.head_len = frame.shown();
        m.body = frame.body();
        let described = match statement.and_then(|key| self.statements.get(key)) {
            Some(statement) => Described::from(statement),
            None if masked => Described::from(&self.masker),
            None => Described::default(),
        };
        let runs = matches!(command, com::QUERY | com::STMT_EXECUTE | com::BULK_EXECUTE);
        let verb = if runs && !described.operation.is_empty() { "" } else { known };
        described.write(&mut m, "mysql", verb, &self.database);
        if compressed {
            m.attrs.push(("wirespan.mysql.compressed", AttrVal::from(true)));
        }
        out(Item::Message(&m));
        drop(m);
        if let (com::STMT_CLOSE, Some(key)) = (command, statement) {
            self.statements.remove(key);
        }
    }

    /// `USE name`: the name, without its quotes.
    fn select(&mut self, text: &[u8]) {
        let name = text.trim_ascii().get(4..).unwrap_or_default().trim_ascii();
        let name = name.strip_suffix(b";").unwrap_or(name).trim_ascii();
        let bare = name.strip_prefix(b"`").and_then(|n| n.strip_suffix(b"`")).unwrap_or(name);
        self.selecting.clear();
        if bare.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'-' | 0x80..)) {
            self.selecting.push_str(&clean(bare, MAX_NAME));
        }
    }
}
