//! Protocol Buffers, as far as Pulsar uses them: numbers, bytes and messages, one field after the other.

/// Value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Int(u64),
    Bytes(&'a [u8]),
    /// 4 or 8 bytes.
    Fixed,
}

/// The fields of a message; ends at its end, or with `None` in the middle of a field that is cut or no field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// Everything was read.
    whole: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Fields { rest: bytes, whole: true }
    }

    /// Whether the message is one, to its last byte.
    pub(super) fn is_message(bytes: &[u8]) -> bool {
        let mut fields = Fields::new(bytes);
        while fields.next().is_some() {}
        fields.whole && fields.rest.is_empty()
    }

    fn read(&mut self) -> Option<(u32, Value<'a>)> {
        let key = varint(&mut self.rest)?;
        let number = u32::try_from(key >> 3).ok().filter(|n| *n > 0 && *n < 1 << 20)?;
        let mut take = |n: usize| {
            let (head, tail) = self.rest.split_at_checked(n)?;
            self.rest = tail;
            Some(head)
        };
        let value = match key & 7 {
            0 => Value::Int(varint(&mut self.rest)?),
            1 => take(8).map(|_| Value::Fixed)?,
            2 => {
                let n = varint(&mut self.rest)?;
                let (head, tail) = self.rest.split_at_checked(usize::try_from(n).ok()?)?;
                self.rest = tail;
                Value::Bytes(head)
            }
            5 => take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        Some((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_none() {
            (self.rest, self.whole) = (&[], false);
        }
        read
    }
}

/// A varint at the start of `bytes`, which is moved behind it.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for (i, b) in bytes.iter().take(10).enumerate() {
        let shift = u32::try_from(i).ok()?.checked_mul(7)?;
        n |= u64::from(b & 0x7f).checked_shl(shift)?;
        if b & 0x80 == 0 {
            *bytes = bytes.get(i.checked_add(1)?..)?;
            return Some(n);
        }
    }
    None
}

/// The first number of a field.
pub(super) fn int(message: &[u8], number: u32) -> Option<u64> {
    Fields::new(message).find_map(|(n, v)| match v {
        Value::Int(v) if n == number => Some(v),
        _ => None,
    })
}

/// The first bytes of a field.
pub(super) fn bytes(message: &[u8], number: u32) -> Option<&[u8]> {
    Fields::new(message).find_map(|(n, v)| match v {
        Value::Bytes(v) if n == number => Some(v),
        _ => None,
    })
}
