//! Frames → messages.

use super::{names, reason};
use crate::framing::units::{Reader, Step, Unit};
use crate::framing::Out;
use crate::text::len64;
use std::borrow::Cow;
use std::collections::VecDeque;
use wirespan_model::{AttrVal, Body, Item, Kind, Message, Outcome, Side};

/// Bytes of a frame that are looked at: its head and its path.
pub const MAX_HEAD: usize = 512;
/// Largest frame; the server's own limit (`jute.maxbuffer`) is 1 MiB and is seldom raised.
const MAX_FRAME: i32 = 64 * 1024 * 1024;
/// Longest path that is kept, bytes.
const MAX_PATH: usize = 200;
/// `exists` that wait for their answers and are remembered.
const MAX_EXISTS: usize = 64;
/// Pairing id of the session's own request, larger than any `xid`.
const SESSION: u64 = 1 << 32;
/// `xid` of events.
const EVENT: i32 = -1;

/// Four bytes, big endian.
pub(super) fn int32(bytes: &[u8], at: usize) -> Option<i32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(i32::from_be_bytes(*bytes))
}

/// Length of the frame at the start of `bytes`, its own four bytes included.
pub(super) fn frame(bytes: &[u8]) -> Option<usize> {
    let len = int32(bytes, 0).filter(|len| (8..=MAX_FRAME).contains(len))?;
    usize::try_from(len).ok()?.checked_add(4)
}

/// Whether the frame asks for a session: version 0 and a password of 16 bytes (or none) behind fixed fields. Small
/// numbers would fit, too, as other protocols begin: the timeout, in ms, is one that a person writes.
pub(super) fn is_connect(bytes: &[u8], len: usize) -> bool {
    matches!(len.checked_sub(4), Some(44 | 45 | 28 | 29))
        && int32(bytes, 4) == Some(0)
        && int32(bytes, 16).is_some_and(|timeout| (100..=100_000_000).contains(&timeout) && timeout % 50 == 0)
        && int32(bytes, 28).is_some_and(|password| [16, 0, -1].contains(&password))
}

/// Whether the frame grants (or refuses) a session.
pub(super) fn is_connected(bytes: &[u8], len: usize) -> bool {
    matches!(len.checked_sub(4), Some(36 | 37))
        && int32(bytes, 4) == Some(0)
        && int32(bytes, 8).is_some_and(|timeout| (0..=100_000_000).contains(&timeout))
        && int32(bytes, 20) == Some(16)
}

/// The path at `at`, if one is there.
pub(super) fn path(bytes: &[u8], at: usize) -> Option<&str> {
    let len = usize::try_from(int32(bytes, at)?).ok()?;
    let rest = bytes.get(at.checked_add(4)?..)?;
    let text = rest.get(..len.min(MAX_PATH)).unwrap_or(rest);
    let text = std::str::from_utf8(text).ok().filter(|t| !t.chars().any(char::is_control))?;
    (text.starts_with('/') || len == 0).then_some(text)
}

/// Reads frames.
#[derive(Debug, Default)]
pub struct Frames {
    exists: VecDeque<i32>,
}

impl Reader for Frames {
    const MAX_HEAD: usize = MAX_HEAD;
    const GAP: &'static str = reason::GAP;
    const BAD: &'static str = reason::BAD_FRAME;

    fn read(&mut self, unit: Unit<'_>, out: Out<'_>) -> Step {
        if unit.bytes.len() < 4 {
            return Step::More;
        }
        let Some(len) = frame(unit.bytes) else { return Step::Bad };
        let want = len.min(MAX_HEAD);
        if unit.bytes.len() < want && !unit.cut {
            return Step::More;
        }
        let seen = unit.bytes.get(..want).unwrap_or(unit.bytes);
        if seen.len() < 12 {
            return Step::More;
        }
        let message = match unit.side {
            Side::Client => self.request(seen, len, unit.offset),
            Side::Server => self.reply(seen, len, unit.offset),
        };
        let Some(mut m) = message else { return Step::Bad };
        let skip = len64(len).saturating_sub(len64(seen.len()));
        m.head_len = len64(seen.len());
        m.body = if skip > 0 { Body::Length(skip) } else { Body::None };
        out(Item::Message(&m));
        Step::Took { head: seen.len(), skip }
    }

    fn lost(&mut self, _side: Side, _out: Out<'_>) {
        self.exists.clear();
    }
}

fn id(xid: i32) -> Option<u64> {
    Some(u64::from(xid.cast_unsigned()))
}

impl Frames {
    fn request<'a>(&mut self, bytes: &'a [u8], len: usize, offset: u64) -> Option<Message<'a>> {
        let mut m = Message::new("zookeeper", Side::Client, Kind::Request, offset);
        m.attrs.push(("db.system.name", AttrVal::from("zookeeper")));
        if is_connect(bytes, len) {
            m.id = Some(SESSION);
            m.operation = "connect";
        } else {
            let xid = int32(bytes, 4)?;
            let (name, has_path) = names::operation(int32(bytes, 8)?)?;
            m.id = id(xid);
            m.operation = name;
            if name == "exists" {
                if self.exists.len() >= MAX_EXISTS {
                    self.exists.pop_front();
                }
                self.exists.push_back(xid);
            }
            if let Some(path) = path(bytes, 12).filter(|_| has_path) {
                m.target = Cow::Borrowed(path);
            }
        }
        m.attrs.push(("db.operation.name", AttrVal::from(m.operation)));
        keep_path(&mut m);
        Some(m)
    }

    fn reply<'a>(&mut self, bytes: &'a [u8], len: usize, offset: u64) -> Option<Message<'a>> {
        let mut m = Message::new("zookeeper", Side::Server, Kind::Response, offset);
        if is_connected(bytes, len) {
            m.id = Some(SESSION);
            let refused = int32(bytes, 8) == Some(0);
            m.outcome = Outcome::Ok;
            if refused {
                fail(&mut m, -112, "SessionExpired", false);
            }
            return Some(m);
        }
        let xid = int32(bytes, 4)?;
        if xid == EVENT {
            m.kind = Kind::OneWay;
            m.operation = names::event(int32(bytes, 20)?)?;
            m.target = Cow::Borrowed(path(bytes, 28).unwrap_or_default());
            m.attrs.push(("db.system.name", AttrVal::from("zookeeper")));
            m.attrs.push(("db.operation.name", AttrVal::from(m.operation)));
            keep_path(&mut m);
            return Some(m);
        }
        m.id = id(xid);
        let place = self.exists.iter().position(|x| *x == xid);
        let exists = place.and_then(|at| self.exists.remove(at)).is_some();
        match int32(bytes, 16) {
            // Cut before the error.
            None => {}
            Some(0) => m.outcome = Outcome::Ok,
            Some(-101) if exists => {
                (m.outcome, m.status_code) = (Outcome::Ok, Some(-101));
                m.attrs.push(("db.response.status_code", AttrVal::from("NoNode")));
            }
            Some(code) => {
                let (name, server) = names::error(code)?;
                fail(&mut m, code, name, server);
            }
        }
        Some(m)
    }
}

fn keep_path(m: &mut Message<'_>) {
    if !m.target.is_empty() {
        m.attrs.push(("wirespan.zookeeper.path", AttrVal::Str(m.target.clone())));
    }
}

fn fail(m: &mut Message<'_>, code: i32, name: &'static str, server: bool) {
    m.outcome = if server { Outcome::ServerError } else { Outcome::ClientError };
    m.status_code = Some(code);
    m.error = Cow::Borrowed(name);
    m.attrs.push(("db.response.status_code", AttrVal::from(name)));
    m.attrs.push(("error.type", AttrVal::from(name)));
}
