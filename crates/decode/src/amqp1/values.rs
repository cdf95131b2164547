//! The part of the type system (part 1) that a walk over values needs.

use crate::framing::Cursor;

/// Deepest descriptor of a descriptor that is read.
const MAX_DEPTH: u8 = 4;

/// A value: its constructor and its bytes, and its descriptor if it has one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Value<'a> {
    pub(super) descriptor: Option<u64>,
    code: u8,
    bytes: &'a [u8],
}

impl<'a> Value<'a> {
    /// An unsigned number, of any width.
    pub(super) fn number(self) -> Option<u64> {
        match self.code {
            0x43 | 0x44 => Some(0),
            0x50 | 0x52 | 0x53 | 0x60 | 0x70 | 0x80 => Some(self.bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))),
            _ => None,
        }
    }

    pub(super) fn bool(self) -> Option<bool> {
        match self.code {
            0x41 => Some(true),
            0x42 => Some(false),
            0x56 => Some(self.bytes == [1]),
            _ => None,
        }
    }

    /// A string or a symbol.
    pub(super) fn text(self) -> Option<&'a [u8]> {
        matches!(self.code, 0xa1 | 0xa3 | 0xb1 | 0xb3).then_some(self.bytes)
    }

    /// The members of a list or a map, as far as they are there.
    pub(super) fn members(self) -> Members<'a> {
        let mut at = Cursor::new(self.bytes);
        let count = match self.code {
            0xc0 | 0xc1 => at.u8().map(u32::from),
            0xd0 | 0xd1 => at.u32(),
            _ => None,
        };
        Members { at, left: count.unwrap_or(0) }
    }

    /// Whether it is a list.
    pub(super) fn is_list(self) -> bool {
        matches!(self.code, 0x45 | 0xc0 | 0xd0)
    }
}

/// Members of a list or a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members<'a> {
    at: Cursor<'a>,
    left: u32,
}

impl<'a> Iterator for Members<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        value(&mut self.at, true)
    }
}

/// Reads a value. With `cut`, a value whose end was not captured is read as far as it is there.
pub(super) fn value<'a>(at: &mut Cursor<'a>, cut: bool) -> Option<Value<'a>> {
    nested(at, cut, 0)
}

fn nested<'a>(at: &mut Cursor<'a>, cut: bool, depth: u8) -> Option<Value<'a>> {
    let code = at.u8()?;
    if code == 0 {
        if depth >= MAX_DEPTH {
            return None;
        }
        let descriptor = nested(at, false, depth.saturating_add(1))?;
        let inner = nested(at, cut, depth.saturating_add(1))?;
        // Symbolic descriptors are not used by the standard's own types on the wire.
        return Some(Value { descriptor: Some(descriptor.number().unwrap_or(u64::MAX)), ..inner });
    }
    let len = match code >> 4 {
        4 => 0,
        5 => 1,
        6 => 2,
        7 => 4,
        8 => 8,
        9 => 16,
        0xa | 0xc | 0xe => usize::from(at.u8()?),
        0xb | 0xd | 0xf => usize::try_from(at.u32()?).ok()?,
        _ => return None,
    };
    let compound = code >= 0xc0;
    let rest = at.rest();
    let bytes = match at.take(len) {
        Some(bytes) => bytes,
        None if cut && compound => {
            at.take(rest.len());
            rest
        }
        None => return None,
    };
    Some(Value { descriptor: None, code, bytes })
}
