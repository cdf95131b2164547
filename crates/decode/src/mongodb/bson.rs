//! The top level of a BSON document (bsonspec.org, version 1.1), as far as it was captured.

/// A value, reduced to the parts that are ever needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Text without its NUL.
    Text(&'a [u8]),
    /// A document or an array, its length included; may be cut.
    Document(&'a [u8]),
    /// Any number or truth value.
    Number(f64),
    /// Skipped.
    Other,
}

/// The elements of a document until it ends, is cut, or makes no sense.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements<'a> {
    rest: &'a [u8],
}

/// Four bytes, little endian.
pub(super) fn int32(bytes: &[u8], at: usize) -> Option<i32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(i32::from_le_bytes(*bytes))
}

/// Length of the document at the start of `bytes`; none if no document can be so long.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let len = usize::try_from(int32(bytes, 0)?).ok()?;
    (5..=64 * 1024 * 1024).contains(&len).then_some(len)
}

/// The elements of the document at the start of `bytes`.
pub(super) fn elements(bytes: &[u8]) -> Elements<'_> {
    let end = length(bytes).unwrap_or(0);
    let document = bytes.get(..end).unwrap_or(bytes);
    Elements { rest: document.get(4..).unwrap_or_default() }
}

impl<'a> Elements<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    fn cstring(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(0, self.rest)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(text)
    }

    /// A length, and so many bytes and `extra` behind it.
    fn counted(&mut self, extra: usize) -> Option<&'a [u8]> {
        let len = usize::try_from(int32(self.take(4)?, 0)?).ok()?;
        self.take(len.checked_add(extra)?)
    }

    /// A document; of one that is cut, what there is.
    fn document(&mut self) -> Option<Value<'a>> {
        let len = length(self.rest)?.min(self.rest.len());
        self.take(len).map(Value::Document)
    }

    fn value(&mut self, kind: u8) -> Option<Value<'a>> {
        let number = |n: Option<f64>| n.map(Value::Number);
        match kind {
            0x01 => number(self.take(8)?.first_chunk().map(|b| f64::from_le_bytes(*b))),
            0x02 | 0x0d | 0x0e => {
                let text = self.counted(0)?;
                text.split_last().map(|(_, text)| if kind == 0x02 { Value::Text(text) } else { Value::Other })
            }
            0x03 | 0x04 => self.document(),
            0x05 => self.counted(1).map(|_| Value::Other),
            0x06 | 0x0a | 0x7f | 0xff => Some(Value::Other),
            0x07 => self.take(12).map(|_| Value::Other),
            0x08 => number(self.take(1)?.first().map(|b| f64::from(*b))),
            0x09 | 0x11 => self.take(8).map(|_| Value::Other),
            0x0b => self.cstring().and_then(|_| self.cstring()).map(|_| Value::Other),
            0x0c => self.counted(12).map(|_| Value::Other),
            0x0f => self.document().map(|_| Value::Other),
            0x10 => number(int32(self.take(4)?, 0).map(f64::from)),
            // Cursor ids and counts; what does not fit a double exactly is no status.
            0x12 => self.take(8).map(|b| {
                let n = b.first_chunk().map_or(0, |b| i64::from_le_bytes(*b));
                i32::try_from(n).map_or(Value::Other, |n| Value::Number(f64::from(n)))
            }),
            0x13 => self.take(16).map(|_| Value::Other),
            _ => None,
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (&'a [u8], Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let kind = *self.take(1)?.first()?;
        let read = if kind == 0 { None } else { self.cstring().and_then(|key| Some((key, self.value(kind)?))) };
        if read.is_none() {
            self.rest = &[];
        }
        read
    }
}

/// Whether the document at the start of `bytes` begins as documents of commands and replies do: a known type, a name.
pub(super) fn plausible(bytes: &[u8]) -> bool {
    if length(bytes) == Some(5) {
        return bytes.get(4) == Some(&0);
    }
    let Some([kind, name @ ..]) = bytes.get(4..) else { return false };
    let end = memchr::memchr(0, name.get(..64).unwrap_or(name));
    let name = end.and_then(|end| name.get(..end)).unwrap_or_default();
    let known = matches!(kind, 0x01..=0x13) && length(bytes).is_some();
    known && !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'$' | b'_' | b'.'))
}
