//! Reads the fields that a definition names.

use super::definition::{Endian, Form, Source};
use super::MAX_TEXT;
use crate::text::visible;
use std::borrow::Cow;

/// A number of 1 to 8 bytes.
pub(super) fn number(bytes: &[u8], offset: u32, size: u8, endian: Endian) -> Option<u64> {
    let at = usize::try_from(offset).ok()?;
    let field = bytes.get(at..at.checked_add(usize::from(size))?)?;
    let add = |n: u64, b: &u8| n << 8 | u64::from(*b);
    Some(match endian {
        Endian::Big => field.iter().fold(0, add),
        Endian::Little => field.iter().rev().fold(0, add),
    })
}

impl Source {
    fn number(&self, frame: &[u8]) -> Option<u64> {
        let n = number(frame, self.offset, self.size, self.endian)?;
        Some(if self.mask == 0 { n } else { n & self.mask })
    }

    fn text<'a>(&self, frame: &'a [u8]) -> Option<&'a str> {
        let at = usize::try_from(self.offset).ok()?;
        let bytes = match self.form {
            Form::Number => return None,
            Form::Word => {
                let words = frame.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
                words.take(256).nth(usize::from(self.word))?
            }
            Form::Text => frame.get(at..at.checked_add(usize::from(self.size))?)?,
            Form::Prefixed => {
                let len = usize::try_from(number(frame, self.offset, self.size, self.endian)?).ok()?;
                let from = at.checked_add(usize::from(self.size))?;
                frame.get(from..from.checked_add(len)?)?
            }
        };
        let end = bytes.iter().position(|b| matches!(b, 0 | b' ')).unwrap_or(bytes.len());
        visible(bytes.get(..end)?, MAX_TEXT)
    }

    /// The value as it stands in the frame.
    pub(super) fn value<'a>(&self, frame: &'a [u8]) -> Option<Cow<'a, str>> {
        match self.form {
            Form::Number => self.number(frame).map(|n| Cow::Owned(n.to_string())),
            _ => self.text(frame).map(Cow::Borrowed),
        }
    }

    /// The value's name, if it has one.
    pub(super) fn named<'a>(&'a self, frame: &'a [u8]) -> Option<Cow<'a, str>> {
        let value = self.value(frame)?;
        match self.names.get(value.as_ref()) {
            Some(name) => Some(Cow::Borrowed(name)),
            None => Some(value),
        }
    }

    /// A number for pairing: of a text, its hash.
    pub(super) fn id(&self, frame: &[u8]) -> Option<u64> {
        match self.form {
            Form::Number => self.number(frame),
            // FNV-1a: ids of one connection are few.
            _ => self.text(frame).map(|t| {
                t.bytes()
                    .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
            }),
        }
    }
}
