//! Fields of protobuf messages.

use super::Cursor;

/// Reads the next field: its number and its value.
pub(crate) fn field<'a>(at: &mut Cursor<'a>) -> Option<(u64, Field<'a>)> {
    let key = at.varint()?;
    let value = match key & 7 {
        0 => Field::Int(at.varint()?),
        1 => Field::Fixed(at.u64_le()?),
        2 => {
            let len = at.varint()?;
            Field::Bytes(at.take(usize::try_from(len).ok()?)?)
        }
        5 => Field::Fixed(u64::from(at.u32_le()?)),
        _ => return None,
    };
    (key >> 3 != 0).then_some((key >> 3, value))
}

/// Value of a protobuf field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Int(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    pub(crate) fn int(self) -> u64 {
        match self {
            Field::Int(n) | Field::Fixed(n) => n,
            Field::Bytes(_) => 0,
        }
    }

    /// A 32-bit signed number: protobuf writes negative ones with 64 bits.
    pub(crate) fn int32(self) -> i32 {
        let [a, b, c, d, ..] = self.int().to_le_bytes();
        i32::from_le_bytes([a, b, c, d])
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Field::Bytes(b) => b,
            _ => &[],
        }
    }
}
