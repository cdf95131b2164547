//! Recognises OpenWire by its WireFormatInfo, or from the middle by a response to a command of the other end.
//!
//! Bias: against. A length and a small number begin many protocols, so that joined in the middle both ends have to be
//! seen, every command has to be a known one of its end, and a response has to name the id of a command that asked for
//! one.

use super::commands::{command, RESPONSE};
use super::marshal::{Format, Values};
use super::reader::MAGIC;
use crate::framing::Cursor;
use crate::{Detect, Probe};
use wirespan_model::Side;

/// Most commands of an end that are looked at.
const LOOKED_AT: usize = 32;

/// Commands one behind the other: type and the bytes behind it; nothing if the bytes are anything else.
fn all(bytes: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut found = Vec::new();
    let mut at = Cursor::new(bytes);
    while !at.is_empty() && found.len() < LOOKED_AT {
        let Some(size) = at.u32() else { break };
        let Some(body) = at.take(usize::try_from(size).ok()?) else { break };
        let (kind, body) = body.split_first()?;
        command(*kind)?;
        found.push((*kind, body));
    }
    (!found.is_empty()).then_some(found)
}

/// Id and whether a response is asked for.
fn asks(body: &[u8], tight: bool) -> Option<u32> {
    let mut v = Values::new(body, Format { tight, cache: None })?;
    let id = v.u32()?;
    v.bool()?.then_some(id)
}

/// Whether a response of `b` answers a command of `a`.
fn answers(a: &[(u8, &[u8])], b: &[(u8, &[u8])]) -> bool {
    b.iter().filter(|(kind, _)| *kind == RESPONSE).any(|(_, body)| {
        let tight = match body.len() {
            9 => false,
            10 => true,
            _ => return false,
        };
        let Some(mut v) = Values::new(body, Format { tight, cache: None }) else { return false };
        let Some(to) = v.u32().and_then(|_| v.bool()).and_then(|_| v.u32()) else { return false };
        a.iter().any(|(kind, body)| *kind != RESPONSE && asks(body, tight) == Some(to))
    })
}

/// Whether the bytes begin with a WireFormatInfo.
fn wire_format(bytes: &[u8]) -> Detect {
    let start = [&[1][..], MAGIC].concat();
    let Some(found) = bytes.get(4..) else { return Detect::Maybe };
    match found.get(..start.len()) {
        Some(found) if found == start && bytes.starts_with(&[0, 0]) => Detect::Yes { first_is_client: true },
        None if start.starts_with(found) && bytes.starts_with(&[0, 0]) => Detect::Maybe,
        _ => Detect::No,
    }
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    match wire_format(probe.first) {
        // Either end may speak first; their next commands tell which end is the client.
        Detect::Yes { .. } => {
            let first_is_client = probe.first_is_client.or_else(|| whose(probe.first, probe.second));
            return first_is_client.map_or(Detect::Maybe, |first_is_client| Detect::Yes { first_is_client });
        }
        Detect::Maybe if !probe.first.is_empty() => return Detect::Maybe,
        _ => {}
    }
    let (Some(first), second) = (all(probe.first), all(probe.second)) else { return Detect::No };
    if probe.second.is_empty() {
        return Detect::Maybe;
    }
    let Some(second) = second else { return Detect::No };
    if !answers(&first, &second) && !answers(&second, &first) {
        return Detect::Maybe;
    }
    match probe.first_is_client.or_else(|| whose(probe.first, probe.second)) {
        Some(first_is_client) => Detect::Yes { first_is_client },
        None => Detect::Maybe,
    }
}

/// Whether the first end is the client, if its commands or those of the other tell.
fn whose(first: &[u8], second: &[u8]) -> Option<bool> {
    let side = |bytes| all(bytes)?.iter().find_map(|(kind, _)| command(*kind)?.1);
    match (side(first), side(second)) {
        (Some(a), Some(b)) if a == b => None,
        (Some(side), _) => Some(side == Side::Client),
        (None, Some(side)) => Some(side == Side::Server),
        (None, None) => None,
    }
}
