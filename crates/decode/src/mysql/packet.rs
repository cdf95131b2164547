//! Packets: their header, their numbers, and the few bodies that are read.

use crate::framing::Cursor;
use crate::mask;
use crate::text::visible;
use std::borrow::Cow;
use wirespan_model::Outcome;

/// Bytes of a packet that may carry a statement that are read.
pub(super) const MAX_QUERY: usize = 4096;

/// Commands.
pub(super) mod com {
    pub(in super::super) const QUIT: u8 = 0x01;
    pub(in super::super) const INIT_DB: u8 = 0x02;
    pub(in super::super) const QUERY: u8 = 0x03;
    pub(in super::super) const FIELD_LIST: u8 = 0x04;
    pub(in super::super) const STATISTICS: u8 = 0x09;
    pub(in super::super) const CHANGE_USER: u8 = 0x11;
    pub(in super::super) const BINLOG_DUMP: u8 = 0x12;
    pub(in super::super) const STMT_PREPARE: u8 = 0x16;
    pub(in super::super) const STMT_EXECUTE: u8 = 0x17;
    pub(in super::super) const STMT_LONG_DATA: u8 = 0x18;
    pub(in super::super) const STMT_CLOSE: u8 = 0x19;
    pub(in super::super) const STMT_RESET: u8 = 0x1a;
    pub(in super::super) const STMT_FETCH: u8 = 0x1c;
    pub(in super::super) const BINLOG_DUMP_GTID: u8 = 0x1e;
    pub(in super::super) const RESET_CONNECTION: u8 = 0x1f;
    pub(in super::super) const BULK_EXECUTE: u8 = 0xfa;
    /// Not on the wire: the login.
    pub(in super::super) const LOGIN: u8 = 0xf0;
    /// Not on the wire: a command that was compressed.
    pub(in super::super) const COMPRESSED: u8 = 0xf1;
    /// Not on the wire: an answer whose command was not seen.
    pub(in super::super) const UNSEEN: u8 = 0xf2;
}

/// Name of a command, or nothing if there is none of this number.
pub(super) fn name(command: u8) -> &'static str {
    match command {
        com::QUIT => "QUIT",
        com::INIT_DB => "INIT DB",
        com::QUERY => "QUERY",
        com::FIELD_LIST => "FIELD LIST",
        0x05 => "CREATE DB",
        0x06 => "DROP DB",
        0x07 => "REFRESH",
        0x08 => "SHUTDOWN",
        com::STATISTICS => "STATISTICS",
        0x0a => "PROCESS INFO",
        0x0c => "PROCESS KILL",
        0x0d => "DEBUG",
        0x0e => "PING",
        com::CHANGE_USER => "CHANGE USER",
        com::BINLOG_DUMP => "BINLOG DUMP",
        0x13 => "TABLE DUMP",
        0x15 => "REGISTER REPLICA",
        com::STMT_PREPARE => "PREPARE",
        com::STMT_EXECUTE => "EXECUTE",
        com::STMT_LONG_DATA => "STMT SEND LONG DATA",
        com::STMT_CLOSE => "STMT CLOSE",
        com::STMT_RESET => "STMT RESET",
        0x1b => "SET OPTION",
        com::STMT_FETCH => "STMT FETCH",
        com::BINLOG_DUMP_GTID => "BINLOG DUMP GTID",
        com::RESET_CONNECTION => "RESET CONNECTION",
        com::BULK_EXECUTE => "BULK EXECUTE",
        com::LOGIN => "LOGIN",
        _ => "",
    }
}

/// Whether a command has no answer.
pub(super) fn is_one_way(command: u8) -> bool {
    matches!(command, com::QUIT | com::STMT_CLOSE | com::STMT_LONG_DATA)
}

/// Header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Length of the payload.
    pub(super) len: u32,
    /// Number within the command.
    pub(super) seq: u8,
}

impl Header {
    /// Reads the first four bytes.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let word = u32::from_le_bytes(*bytes.first_chunk::<4>()?);
        Some(Header { len: word & 0xff_ffff, seq: u8::try_from(word >> 24).unwrap_or_default() })
    }
}

/// Reads a length-encoded integer.
pub(super) fn integer(view: &mut Cursor<'_>) -> Option<u64> {
    match view.u8()? {
        0xfc => view.u16_le().map(u64::from),
        0xfd => view.array::<3>().map(|[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0]))),
        0xfe => view.u64_le(),
        0xfb | 0xff => None,
        small => Some(u64::from(small)),
    }
}

/// Server status: more results follow.
pub(super) const MORE_RESULTS: u16 = 0x0008;
/// Server status: a cursor was opened; rows come only when they are fetched.
pub(super) const CURSOR_EXISTS: u16 = 0x0040;
/// Server status: a backslash does not escape.
pub(super) const NO_BACKSLASH: u16 = 0x0200;

/// What an OK packet says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Okay {
    pub(super) affected: Option<u64>,
    pub(super) status: Option<u16>,
}

impl Okay {
    /// Reads an OK packet behind its first byte.
    pub(super) fn read(body: &[u8]) -> Okay {
        let mut view = Cursor::new(body);
        let affected = integer(&mut view);
        let status = integer(&mut view).and_then(|_| view.u16_le());
        Okay { affected, status }
    }

    /// Reads an EOF packet behind its first byte.
    pub(super) fn eof(body: &[u8]) -> Okay {
        let mut view = Cursor::new(body);
        view.u16_le();
        Okay { affected: None, status: view.u16_le() }
    }
}

/// What an ERR packet says.
#[derive(Debug, Default)]
pub(super) struct Failure<'a> {
    pub(super) code: u16,
    pub(super) state: &'a str,
    pub(super) text: Cow<'a, str>,
}

impl<'a> Failure<'a> {
    /// Reads an ERR packet behind its first byte. `whole`: its end was seen.
    pub(super) fn read(body: &'a [u8], whole: bool) -> Self {
        let mut view = Cursor::new(body);
        let code = view.u16_le().unwrap_or_default();
        let mut state = "";
        if view.rest().first() == Some(&b'#') {
            view.u8();
            state = view
                .take(5)
                .filter(|s| s.iter().all(u8::is_ascii_alphanumeric))
                .and_then(|s| visible(s, 5))
                .unwrap_or_default();
        }
        Failure { code, state, text: mask::text(view.rest(), whole) }
    }

    /// Whose fault it is.
    pub(super) fn outcome(&self) -> Outcome {
        match (self.code, self.state.get(..2)) {
            // Full disks and memory, too many connections, shutdown, lock waits, read-only servers, storage engines.
            (
                1021
                | 1037..=1042
                | 1053
                | 1077..=1080
                | 1105
                | 1114
                | 1129
                | 1181
                | 1205
                | 1206
                | 1213
                | 1290
                | 1297
                | 1792
                | 1836,
                _,
            ) => Outcome::ServerError,
            (_, Some("08" | "40" | "53" | "57" | "58" | "XA")) => Outcome::ServerError,
            _ => Outcome::ClientError,
        }
    }
}

/// Skips the attributes that MySQL 8 puts before a statement; `None` if their values cannot be skipped.
pub(super) fn behind_attributes(body: &[u8]) -> Option<&[u8]> {
    let mut view = Cursor::new(body);
    let count = usize::try_from(integer(&mut view)?).ok().filter(|n| *n <= 64)?;
    integer(&mut view)?;
    if count == 0 {
        return Some(view.rest());
    }
    let nulls = view.take(count.div_ceil(8))?;
    if view.u8()? != 1 {
        return None;
    }
    let mut types = [0u8; 64];
    for kind in types.iter_mut().take(count) {
        *kind = view.u8()?;
        view.u8()?;
        let name = integer(&mut view)?;
        view.take(usize::try_from(name).ok()?)?;
    }
    for (i, kind) in types.iter().take(count).enumerate() {
        let null = nulls.get(i / 8).is_some_and(|b| b >> (i % 8) & 1 == 1);
        if !null {
            value(&mut view, *kind)?;
        }
    }
    Some(view.rest())
}

/// Skips one value in binary form.
fn value(view: &mut Cursor<'_>, kind: u8) -> Option<()> {
    let len = match kind {
        0x06 => 0,
        0x01 => 1,
        0x02 | 0x0d => 2,
        0x03 | 0x04 | 0x09 => 4,
        0x05 | 0x08 => 8,
        0x07 | 0x0a | 0x0b | 0x0c => usize::from(view.u8()?),
        _ => usize::try_from(integer(view)?).ok()?,
    };
    view.take(len).map(|_| ())
}
