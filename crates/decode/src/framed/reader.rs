//! Reads integers and strings from a slice; every step may find that the bytes have ended.

/// A place in a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// What was not read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    /// The next byte, which is not taken.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// A byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[b]| b)
    }

    /// Two bytes, big-endian.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// This many bytes, the length given as it stands on the wire.
    pub fn take32(&mut self, n: u32) -> Option<&'a [u8]> {
        self.take(usize::try_from(n).ok()?)
    }

    /// A variable-length integer of seven bits per byte, lowest first (protobuf, Thrift compact).
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0u32..70).step_by(7) {
            let byte = self.u8()?;
            // Bits beyond the 64th are dropped, as the writers of negative numbers expect.
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// The next field of a protobuf message.
    pub(crate) fn field(&mut self) -> Option<(u64, Field<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Field::Int(self.varint()?),
            1 => Field::Fixed(self.u64()?.swap_bytes()),
            2 => {
                let len = self.varint()?;
                Field::Bytes(self.take(usize::try_from(len).ok()?)?)
            }
            5 => Field::Fixed(u64::from(self.u32()?.swap_bytes())),
            _ => return None,
        };
        (key >> 3 != 0).then_some((key >> 3, value))
    }
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
