//! The bytes behind the command of a message: `MessageMetadata`, and the first message of a batch.

use super::fields::{bytes, int, Fields, Value};
use crate::carried::Context;
use wirespan_model::Carried;

/// Before the metadata that a broker adds.
const BROKER_ENTRY: u16 = 0x0e02;
/// Before a checksum.
const CHECKSUM: u16 = 0x0e01;

/// The kept facts of the metadata.
#[derive(Debug, Default)]
pub(super) struct Metadata<'a> {
    pub(super) messages: Option<u64>,
    pub(super) codec: Option<&'static str>,
    pub(super) carried: Carried<'a>,
}

/// Reads the metadata behind a command.
pub(super) fn read(behind: &[u8]) -> Metadata<'_> {
    let mut found = Metadata::default();
    let mut at = behind;
    if peek(at) == Some(BROKER_ENTRY) {
        at = at.get(2..).unwrap_or_default();
        if sized(&mut at).is_none() {
            return found;
        }
    }
    if peek(at) == Some(CHECKSUM) {
        at = at.get(6..).unwrap_or_default();
    }
    // Cut metadata is read as far as it goes.
    let Some((whole, text)) = sized_or_cut(&mut at) else { return found };
    found.messages = int(text, 11);
    let codec = int(text, 8).unwrap_or(0);
    found.codec = match codec {
        0 => None,
        1 => Some("lz4"),
        2 => Some("zlib"),
        3 => Some("zstd"),
        4 => Some("snappy"),
        _ => Some("_OTHER"),
    };
    let encrypted = Fields::new(text).any(|(n, _)| n == 13);
    let mut context = Context::default();
    properties(text, 4, &mut context);
    if whole && found.messages.is_some() && codec == 0 && !encrypted {
        if let Some((_, single)) = sized_or_cut(&mut at) {
            properties(single, 1, &mut context);
        }
    }
    found.carried = context.finish();
    found
}

fn properties<'a>(message: &'a [u8], field: u32, context: &mut Context<'a>) {
    for (number, value) in Fields::new(message) {
        if let (true, Value::Bytes(pair)) = (number == field, value) {
            if let (Some(name), Some(value)) = (bytes(pair, 1), bytes(pair, 2)) {
                context.field(name, value);
            }
        }
    }
}

fn peek(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk::<2>().map(|b| u16::from_be_bytes(*b))
}

/// A length and so many bytes.
fn sized<'a>(at: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = at.split_first_chunk::<4>()?;
    let (head, tail) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    *at = tail;
    Some(head)
}

/// The same; if the bytes are cut, their beginning.
fn sized_or_cut<'a>(at: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
    if let Some(whole) = sized(at) {
        return Some((true, whole));
    }
    at.get(4..).filter(|rest| !rest.is_empty()).map(|rest| (false, rest))
}
