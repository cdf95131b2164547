//! The start of a connection: greeting, login, and what both sides are capable of. Credentials are stepped over.

use super::packet::{com, integer, Header};
use super::session::{MySession, Phase, Unit};
use crate::framing::exchange::Frame;
use crate::framing::{Cursor, Out};
use crate::mask::Described;
use crate::text::clean;
use wirespan_model::{Item, Kind, Message};

/// Capabilities.
const CONNECT_WITH_DB: u64 = 0x8;
const COMPRESS: u64 = 0x20;
const PROTOCOL_41: u64 = 0x200;
const SSL: u64 = 0x800;
const SECURE_CONNECTION: u64 = 0x8000;
const AUTH_LENENC: u64 = 0x20_0000;
const DEPRECATE_EOF: u64 = 0x100_0000;
const ZSTD: u64 = 0x400_0000;
const QUERY_ATTRIBUTES: u64 = 0x800_0000;

/// Longest name of a database that is kept, bytes.
pub(super) const MAX_NAME: usize = 64;

/// Character sets whose second bytes may look like ASCII: Big5, Shift-JIS, GBK, cp932, GB18030.
pub(super) fn is_double_byte(charset: u16) -> bool {
    matches!(charset, 1 | 84 | 13 | 88 | 28 | 87 | 95 | 96 | 248..=250)
}

impl MySession {
    /// The server's first packet.
    pub(super) fn greets(&mut self, frame: &Frame<'_>) {
        let mut view = Cursor::new(frame.bytes.get(5..).unwrap_or_default());
        view.cstr();
        // Thread, salt, filler.
        view.take(13);
        let low = view.u16_le().unwrap_or_default();
        view.take(3);
        let high = view.u16_le().unwrap_or_default();
        self.server_caps = u64::from(high) << 16 | u64::from(low);
        self.phase = Phase::Greeted;
        self.compressed = Some(false);
    }

    /// The client's answer to the greeting.
    pub(super) fn logs_in(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        let header = Header::read(frame.bytes).map_or(0, |h| h.len);
        let mut view = Cursor::new(frame.bytes.get(4..).unwrap_or_default());
        let caps = u64::from(view.u32_le().unwrap_or_default());
        if caps & PROTOCOL_41 != 0 {
            view.take(4);
            let charset = view.u8().unwrap_or_default();
            view.take(23);
            self.double_byte = is_double_byte(u16::from(charset));
            if header == 32 && caps & SSL != 0 {
                let mut m = Message::new("mysql", frame.side, Kind::OneWay, frame.offset);
                m.head_len = frame.shown();
                Described::default().write(&mut m, "mysql", "SSL REQUEST", "");
                out(Item::Message(&m));
                self.over = true;
                return out(Item::Upgrade("tls"));
            }
            let both = caps & self.server_caps;
            self.deprecate_eof = Some(both & DEPRECATE_EOF != 0);
            self.attributes = Some(both & QUERY_ATTRIBUTES != 0);
            self.compressed = Some(both & (COMPRESS | ZSTD) != 0);
            view.cstr();
            let step = if caps & AUTH_LENENC != 0 {
                integer(&mut view)
            } else if caps & SECURE_CONNECTION != 0 {
                view.u8().map(u64::from)
            } else {
                view.cstr().map(|_| 0)
            };
            let step = step.and_then(|n| usize::try_from(n).ok());
            if caps & CONNECT_WITH_DB != 0 && step.and_then(|n| view.take(n)).is_some() {
                self.selecting.clear();
                self.selecting.push_str(&clean(view.cstr().unwrap_or_default(), MAX_NAME));
            }
        }
        self.phase = Phase::Auth;
        self.push(Unit::new(com::LOGIN), out);
        let mut m = Message::new("mysql", frame.side, Kind::Request, frame.offset);
        m.head_len = frame.shown();
        m.body = frame.body();
        Described::default().write(&mut m, "mysql", "LOGIN", &self.selecting);
        out(Item::Message(&m));
    }

    /// `COM_CHANGE_USER`: the database stands behind the credentials.
    pub(super) fn changes_user(&mut self, body: &[u8]) {
        let mut view = Cursor::new(body);
        view.cstr();
        let step = view.u8().map(usize::from);
        self.selecting.clear();
        if let Some(database) = step.and_then(|n| view.take(n)).and_then(|_| view.cstr()) {
            self.selecting.push_str(&clean(database, MAX_NAME));
        }
        self.statements.clear();
    }
}
