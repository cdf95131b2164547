//! Frames and performatives.

use super::values::{value, Value};
use crate::carried::Context;
use crate::framing::Cursor;

pub(super) const OPEN: u64 = 0x10;
pub(super) const BEGIN: u64 = 0x11;
pub(super) const ATTACH: u64 = 0x12;
pub(super) const FLOW: u64 = 0x13;
pub(super) const TRANSFER: u64 = 0x14;
pub(super) const DISPOSITION: u64 = 0x15;
pub(super) const DETACH: u64 = 0x16;
pub(super) const END: u64 = 0x17;
pub(super) const SASL_MECHANISMS: u64 = 0x40;
pub(super) const SASL_INIT: u64 = 0x41;
pub(super) const SASL_OUTCOME: u64 = 0x44;

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) size: u64,
    /// Offset of the body.
    pub(super) body: usize,
    pub(super) sasl: bool,
    pub(super) channel: u16,
}

/// Reads the fixed part; `Err(true)` asks for more bytes.
pub(super) fn head(bytes: &[u8]) -> Result<Head, bool> {
    let mut at = Cursor::new(bytes);
    let size = u64::from(at.u32().ok_or(true)?);
    let doff = at.u8().ok_or(true)?;
    let kind = at.u8().ok_or(true)?;
    let channel = at.u16().ok_or(true)?;
    let body = usize::from(doff).saturating_mul(4);
    // Extended headers and frames of this size are rare.
    let ok = (2..=16).contains(&doff) && kind <= 1 && size >= u64::from(doff).saturating_mul(4) && size < 1 << 27;
    if !ok || (kind == 1 && channel != 0) {
        return Err(false);
    }
    Ok(Head { size, body, sasl: kind == 1, channel })
}

/// The performative of a frame, and the bytes behind it. Its type fits the kind of frame, and it is a list.
pub(super) fn performative(head: Head, bytes: &[u8]) -> Option<(u64, Value<'_>, &[u8])> {
    let end = usize::try_from(head.size).ok().map_or(bytes.len(), |n| n.min(bytes.len()));
    let mut at = Cursor::new(bytes.get(head.body..end)?);
    if !matches!(at.rest(), [0, 0x53 | 0x80, ..]) {
        return None;
    }
    let list = value(&mut at, true)?;
    let code = list.descriptor?;
    let known = if head.sasl { (0x40..=0x44).contains(&code) } else { (0x10..=0x18).contains(&code) };
    (known && list.is_list()).then_some((code, list, at.rest()))
}

/// Condition of an error.
pub(super) fn condition(error: Value<'_>) -> Option<&[u8]> {
    (error.descriptor == Some(0x1d)).then(|| error.members().next()?.text()).flatten()
}

/// The kept facts of the sections before the body of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sections<'a> {
    pub(super) context: Context<'a>,
    pub(super) message_id: Option<&'a [u8]>,
    pub(super) correlation_id: Option<&'a [u8]>,
    pub(super) to: Option<&'a [u8]>,
}

/// Reads the sections of a message up to its body, as far as they are there.
pub(super) fn sections(payload: &[u8]) -> Sections<'_> {
    let mut found = Sections::default();
    let mut at = Cursor::new(payload);
    while matches!(at.rest(), [0, 0x53, 0x70..=0x74, ..]) {
        let Some(section) = value(&mut at, true) else { break };
        match section.descriptor {
            Some(0x72 | 0x74) => {
                let mut members = section.members();
                while let (Some(name), Some(value)) = (members.next(), members.next()) {
                    if let (Some(name), Some(value)) = (name.text(), value.text()) {
                        // Instrumentations put a prefix before the names of annotations.
                        found.context.field(name.strip_prefix(b"x-opt-").unwrap_or(name), value);
                    }
                }
            }
            Some(0x73) => {
                for (n, value) in section.members().enumerate() {
                    match n {
                        0 => found.message_id = value.text(),
                        2 => found.to = value.text(),
                        5 => found.correlation_id = value.text(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    found
}
