//! Content headers: the size of the body, and the properties that are kept. A message without an id is known by its
//! body: a hash is kept ([`ElementHash`] says what it may reveal).

use crate::carried::Context;
use crate::framing::Cursor;
use crate::ids::ids;
use wirespan_model::broker::ElementHash;

/// Deepest table in a table that is read.
const MAX_FIELDS: usize = 128;

/// Shortest body that is known again, bytes.
const MIN_LEN: u64 = 8;
/// Bytes of a body that are hashed, with its length. They are in its first frame.
const MAX_HASHED: usize = 2048;

/// The name of a message with this body, of which the first bytes are at hand; `None` if too few are.
pub(super) fn name(size: u64, begin: &[u8]) -> Option<u64> {
    let hashed = begin.get(..crate::text::at_most(size, MAX_HASHED)).filter(|_| size >= MIN_LEN)?;
    let mut hash = ElementHash::default();
    hash.add(hashed);
    Some(if ids(hashed).is_empty() { hash.of_guessable(size) } else { hash.of_length(size) })
}

/// The fields of a content header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Content<'a> {
    pub(super) body_size: u64,
    pub(super) context: Context<'a>,
    pub(super) correlation_id: Option<&'a [u8]>,
    pub(super) message_id: Option<&'a [u8]>,
}

impl Content<'_> {
    /// Whether nothing but the body names the message.
    pub(super) fn is_known_by_body(&self) -> bool {
        self.body_size >= MIN_LEN && self.message_id.is_none() && self.correlation_id.is_none()
    }
}

/// Reads a content header as far as it is there; `None` if not even the size is.
pub(super) fn content(payload: &[u8]) -> Option<Content<'_>> {
    let mut at = Cursor::new(payload);
    at.take(4)?;
    let mut found = Content { body_size: at.u64()?, ..Content::default() };
    // A cut ends the reading; earlier fields stay.
    let _ = properties(&mut at, &mut found);
    Some(found)
}

fn properties<'a>(at: &mut Cursor<'a>, found: &mut Content<'a>) -> Option<()> {
    let flags = at.u16()?;
    // More flag words would belong to properties that no version has.
    if flags & 1 != 0 {
        return None;
    }
    for bit in (2..16).rev() {
        if flags >> bit & 1 == 0 {
            continue;
        }
        match bit {
            13 => table(at, &mut found.context)?,
            12 | 11 => drop(at.u8()?),
            10 => found.correlation_id = Some(at.bytes8()?),
            7 => found.message_id = Some(at.bytes8()?),
            6 => drop(at.u64()?),
            _ => drop(at.bytes8()?),
        }
    }
    Some(())
}

/// Reads the texts of a table.
fn table<'a>(at: &mut Cursor<'a>, context: &mut Context<'a>) -> Option<()> {
    let len = usize::try_from(at.u32()?).ok()?;
    let whole = at.rest().get(..len);
    let mut fields = Cursor::new(whole.unwrap_or(at.rest()));
    for _ in 0..MAX_FIELDS {
        if fields.is_empty() {
            break;
        }
        let name = fields.bytes8()?;
        match fields.u8()? {
            b'S' => context.field(name, fields.bytes32()?),
            b't' | b'b' | b'B' => drop(fields.u8()?),
            b's' | b'u' | b'U' => drop(fields.u16()?),
            b'I' | b'i' | b'f' => drop(fields.u32()?),
            b'l' | b'L' | b'd' | b'T' => drop(fields.u64()?),
            b'D' => drop(fields.take(5)?),
            b'A' | b'F' | b'x' => drop(fields.bytes32()?),
            b'V' => {}
            _ => return None,
        }
    }
    at.take(whole?.len()).map(drop)
}
