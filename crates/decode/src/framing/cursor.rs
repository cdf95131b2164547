//! Reads the fields of a message one after the other.

/// A place in bytes that may be cut. Every method returns `None` where the bytes end. Stop reading then: the method may
/// have taken a length or a part of a number.
///
/// Numbers are big-endian (network order) unless the method's name ends in `_le`.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    /// The bytes that were not taken.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all bytes were taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte, which is not taken.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next `n` bytes, the number given as it stands on the wire.
    pub fn take32(&mut self, n: u32) -> Option<&'a [u8]> {
        self.take(usize::try_from(n).ok()?)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[b]| b)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Two bytes, little-endian.
    pub fn u16_le(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    pub fn u32_le(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    pub fn u64_le(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes behind a length of one byte.
    pub fn bytes8(&mut self) -> Option<&'a [u8]> {
        let n = self.u8()?;
        self.take(usize::from(n))
    }

    /// Bytes behind a length of two bytes.
    pub fn bytes16(&mut self) -> Option<&'a [u8]> {
        let n = self.u16()?;
        self.take(usize::from(n))
    }

    /// Bytes behind a length of four bytes.
    pub fn bytes32(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()?;
        self.take32(n)
    }

    /// Bytes up to a NUL, which is taken too.
    pub fn cstr(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.rest)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(text)
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
}
