//! Tars coding: fields of a tag and a type. Only the fields that the caller asks for are decoded.

use crate::framing::Cursor;

/// Deepest nesting that is followed.
const MAX_DEPTH: u8 = 16;

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Int(i64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// A map of this many pairs; they come next.
    Map(u32),
    /// Anything else, stepped over.
    Other,
}

/// Tag and type of the field that comes next.
fn head(r: &mut Cursor<'_>) -> Option<(u8, u8)> {
    let b = r.u8()?;
    match b >> 4 {
        15 => Some((r.u8()?, b & 0x0f)),
        tag => Some((tag, b & 0x0f)),
    }
}

/// The next field, with its tag. Maps are left to the caller.
pub(super) fn field<'a>(r: &mut Cursor<'a>) -> Option<(u8, Value<'a>)> {
    let (tag, kind) = head(r)?;
    Some((tag, value(r, kind, 0)?))
}

fn value<'a>(r: &mut Cursor<'a>, kind: u8, depth: u8) -> Option<Value<'a>> {
    let deeper = depth.checked_add(1).filter(|d| *d <= MAX_DEPTH)?;
    Some(match kind {
        0 => Value::Int(i64::from(i8::from_be_bytes([r.u8()?]))),
        1 => Value::Int(i64::from(i16::from_be_bytes(r.u16()?.to_be_bytes()))),
        2 => Value::Int(i64::from(i32::from_be_bytes(r.u32()?.to_be_bytes()))),
        3 => Value::Int(i64::from_be_bytes(r.u64()?.to_be_bytes())),
        4 => r.take(4).map(|_| Value::Other)?,
        5 => r.take(8).map(|_| Value::Other)?,
        6 => {
            let len = usize::from(r.u8()?);
            Value::Text(r.take(len)?)
        }
        7 => {
            let len = r.u32()?;
            Value::Text(r.take32(len)?)
        }
        8 => Value::Map(count(r)?),
        9 => {
            for _ in 0..count(r)? {
                skip(r, deeper)?;
            }
            Value::Other
        }
        10 => {
            loop {
                let (_, kind) = head(r)?;
                if kind == 11 {
                    break;
                }
                skip_value(r, kind, deeper)?;
            }
            Value::Other
        }
        12 => Value::Int(0),
        13 => {
            // A list of bytes: their type, their number, they.
            (head(r)? == (0, 0)).then_some(())?;
            let len = count(r)?;
            Value::Bytes(r.take32(len)?)
        }
        _ => return None,
    })
}

fn skip(r: &mut Cursor<'_>, depth: u8) -> Option<()> {
    let (_, kind) = head(r)?;
    skip_value(r, kind, depth)
}

fn skip_value(r: &mut Cursor<'_>, kind: u8, depth: u8) -> Option<()> {
    if let Value::Map(pairs) = value(r, kind, depth)? {
        let deeper = depth.checked_add(1).filter(|d| *d <= MAX_DEPTH)?;
        for _ in 0..pairs {
            skip(r, deeper)?;
            skip(r, deeper)?;
        }
    }
    Some(())
}

/// The number of elements: an integer field of tag 0.
fn count(r: &mut Cursor<'_>) -> Option<u32> {
    let (tag, kind) = head(r)?;
    match value(r, kind, MAX_DEPTH.saturating_sub(1)).filter(|_| tag == 0 && matches!(kind, 0..=3 | 12))? {
        Value::Int(n) => u32::try_from(n).ok(),
        _ => None,
    }
}

/// Reads the pairs of a map of texts.
pub(super) fn pairs<'a>(r: &mut Cursor<'a>, n: u32, mut each: impl FnMut(&'a [u8], &'a [u8])) -> Option<()> {
    for _ in 0..n {
        match (field(r)?, field(r)?) {
            ((0, Value::Text(key)), (1, Value::Text(value))) => each(key, value),
            _ => return None,
        }
    }
    Some(())
}
