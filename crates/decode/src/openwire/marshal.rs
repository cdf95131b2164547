//! Values in either encoding. The tight one keeps truth values in a stream of bits before the other values.

use crate::framing::Cursor;

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) tight: bool,
    /// Whether some values are written once and then named by a number; `None`: not known.
    pub(super) cache: Option<bool>,
}

/// Reads the values of one command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    format: Format,
    bits: &'a [u8],
    bit: usize,
    data: Cursor<'a>,
}

/// A value that may be named by a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cached<T> {
    Null,
    /// The value, and the number that it has from now on.
    New(Option<u16>, T),
    Known(u16),
}

impl<'a> Values<'a> {
    /// `bytes` begin behind the type of the command.
    pub(super) fn new(bytes: &'a [u8], format: Format) -> Option<Self> {
        let mut data = Cursor::new(bytes);
        let mut bits = &[][..];
        if format.tight {
            let size = match data.u8()? {
                0xc0 => usize::from(data.u8()?),
                0x80 => usize::from(data.u16()?),
                n => usize::from(n),
            };
            bits = data.take(size)?;
        }
        Some(Values { format, bits, bit: 0, data })
    }

    pub(super) fn is_tight(&self) -> bool {
        self.format.tight
    }

    pub(super) fn bool(&mut self) -> Option<bool> {
        if !self.format.tight {
            return self.data.u8().map(|b| b != 0);
        }
        let byte = self.bits.get(self.bit >> 3)?;
        let value = byte >> (self.bit & 7) & 1 == 1;
        self.bit = self.bit.saturating_add(1);
        Some(value)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.data.u8()
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.data.u32()
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        if !self.format.tight {
            return self.data.u64();
        }
        match (self.bool()?, self.bool()?) {
            (false, false) => Some(0),
            (false, true) => self.data.u16().map(u64::from),
            (true, false) => self.data.u32().map(u64::from),
            (true, true) => self.data.u64(),
        }
    }

    /// A text; empty if it is null.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        if !self.bool()? {
            return Some(b"");
        }
        if self.format.tight {
            // Whether it is ASCII.
            self.bool()?;
        }
        self.data.bytes16()
    }

    /// Bytes with a length; empty if they are null.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        if self.bool()? {
            self.data.bytes32()
        } else {
            Some(b"")
        }
    }

    /// The length of bytes, which are not taken, and whether all of them are there.
    pub(super) fn skip(&mut self) -> Option<(u64, bool)> {
        if !self.bool()? {
            return Some((0, true));
        }
        let len = self.data.u32()?;
        let there = usize::try_from(len).ok().and_then(|n| self.data.take(n)).is_some();
        Some((u64::from(len), there))
    }

    /// A value of its own: its type, or nothing.
    pub(super) fn nested(&mut self) -> Option<Option<u8>> {
        if !self.bool()? {
            return Some(None);
        }
        self.data.u8().map(Some)
    }

    /// A value that may be known by a number; `read` is given its type.
    pub(super) fn cached<T>(&mut self, read: impl FnOnce(&mut Self, u8) -> Option<T>) -> Option<Cached<T>> {
        let mut index = None;
        if self.format.cache? {
            let new = self.bool()?;
            if !new {
                return self.data.u16().map(Cached::Known);
            }
            if !self.format.tight {
                index = Some(self.data.u16()?);
                return self.value(index, read);
            }
            // The bit that says whether it is null stands before the number.
            let there = self.bool()?;
            index = Some(self.data.u16()?);
            if !there {
                return Some(Cached::Null);
            }
            let kind = self.data.u8()?;
            return read(self, kind).map(|v| Cached::New(index, v));
        }
        self.value(index, read)
    }

    fn value<T>(&mut self, index: Option<u16>, read: impl FnOnce(&mut Self, u8) -> Option<T>) -> Option<Cached<T>> {
        match self.nested()? {
            None => Some(Cached::Null),
            Some(kind) => read(self, kind).map(|v| Cached::New(index, v)),
        }
    }
}

/// Texts of a map of primitives: properties of a message, or the wire format. `each` is given name, type and value.
pub(super) fn map<'a>(bytes: &'a [u8], mut each: impl FnMut(&'a [u8], u8, &'a [u8])) -> Option<()> {
    let mut at = Cursor::new(bytes);
    let count = at.u32()?;
    for _ in 0..count.min(256) {
        let name = at.bytes16()?;
        let kind = at.u8()?;
        let value = match kind {
            0 => at.take(0)?,
            1 | 2 => at.take(1)?,
            3 | 4 => at.take(2)?,
            5 | 8 => at.take(4)?,
            6 | 7 => at.take(8)?,
            9 => at.bytes16()?,
            10 | 13 => at.bytes32()?,
            // Maps and lists in maps are not needed.
            _ => return None,
        };
        each(name, kind, value);
    }
    Some(())
}
