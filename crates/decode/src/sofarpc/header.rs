//! The fixed part of a Bolt frame, versions 1 and 2.

use crate::framing::Cursor;

/// Longest content that is believed, bytes.
const MAX_CONTENT: u32 = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Heartbeat,
    Request,
    Response,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) command: Command,
    pub(super) request: bool,
    pub(super) one_way: bool,
    pub(super) id: u32,
    pub(super) codec: u8,
    pub(super) status: u16,
    /// Lengths: the fixed part, class name, pairs, content, checksum.
    pub(super) fixed: usize,
    pub(super) class: u16,
    pub(super) pairs: u16,
    content: u32,
    checksum: u64,
}

impl Header {
    pub(super) fn frame_len(&self) -> u64 {
        let fixed = u64::try_from(self.fixed).unwrap_or(u64::MAX);
        [u64::from(self.class), u64::from(self.pairs), u64::from(self.content), self.checksum]
            .iter()
            .fold(fixed, |sum, n| sum.saturating_add(*n))
    }
}

pub(super) fn codec(id: u8) -> Option<&'static str> {
    Some(match id {
        1 => "hessian2",
        2 => "java",
        11 => "protobuf",
        12 => "json",
        _ => return None,
    })
}

/// `Err` if it is no header, `Ok(None)` if it is not complete.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Header>, ()> {
    let mut r = Cursor::new(bytes);
    let Some(version) = r.u8() else { return Ok(None) };
    match version {
        1 => {}
        // Version 2 has a version of its own, which is 1 or 2 (with a checksum switch).
        2 => match r.u8() {
            None => return Ok(None),
            Some(1 | 2) => {}
            Some(_) => return Err(()),
        },
        _ => return Err(()),
    }
    let Some(kind) = r.u8() else { return Ok(None) };
    let Some(code) = r.u16() else { return if kind <= 2 { Ok(None) } else { Err(()) } };
    let (command, request) = match (kind, code) {
        (0, 0) => (Command::Heartbeat, false),
        (1 | 2, 0) => (Command::Heartbeat, true),
        (1 | 2, 1) => (Command::Request, true),
        (0, 2) => (Command::Response, false),
        _ => return Err(()),
    };
    let mut rest = || {
        let version = r.u8()?;
        let id = r.u32()?;
        let codec = r.u8()?;
        let switch = if bytes.first() == Some(&2) { r.u8()? } else { 0 };
        let (timeout, status) = if request { (r.u32()?, 0) } else { (0, r.u16()?) };
        let (class, pairs, content) = (r.u16()?, r.u16()?, r.u32()?);
        let fixed = bytes.len().saturating_sub(r.rest().len());
        let checksum = if switch & 1 != 0 { 4 } else { 0 };
        let fits = version == 1
            && (self::codec(codec).is_some() || codec == 0)
            && switch <= 1
            && timeout <= i32::MAX.cast_unsigned()
            && content <= MAX_CONTENT
            && (status <= 18)
            && (command != Command::Request || class > 0);
        let one_way = kind == 2;
        Some((fits, Header { command, request, one_way, id, codec, status, fixed, class, pairs, content, checksum }))
    };
    match rest() {
        None => Ok(None),
        Some((true, header)) => Ok(Some(header)),
        Some((false, _)) => Err(()),
    }
}
