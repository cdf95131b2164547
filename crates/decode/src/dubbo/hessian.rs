//! Steps over Hessian 2.0 values. Nothing is decoded but strings that are asked for.
//!
//! Lengths of strings count UTF-16 units, each written in one to three bytes.

use crate::framing::Cursor;

/// Deepest nesting that is followed.
const MAX_DEPTH: u8 = 24;
/// Class definitions that are remembered.
const MAX_CLASSES: usize = 64;
/// Values that are stepped over per message.
const MAX_VALUES: u32 = 4096;

/// A place in a body, with the classes defined so far.
#[derive(Clone, Debug)]
pub(super) struct Hessian<'a> {
    pub(super) at: Cursor<'a>,
    classes: [u16; MAX_CLASSES],
    defined: usize,
    budget: u32,
}

/// An object whose class was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object<'a> {
    pub(super) class: &'a [u8],
    /// Place of the field asked for, if the class has it.
    pub(super) field: Option<u16>,
}

impl<'a> Hessian<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Hessian { at: Cursor::new(bytes), classes: [0; MAX_CLASSES], defined: 0, budget: MAX_VALUES }
    }

    /// A string in one piece, borrowed: the common case. Chunked strings and everything else give `None`.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let units = match self.at.u8()? {
            short @ 0x00..=0x1f => u16::from(short),
            high @ 0x30..=0x33 => u16::from_be_bytes([high & 3, self.at.u8()?]),
            b'S' => self.at.u16()?,
            _ => return None,
        };
        self.units(units)
    }

    /// A string or null; null is empty.
    pub(super) fn text_or_null(&mut self) -> Option<&'a [u8]> {
        if self.at.peek()? == b'N' {
            return self.at.take(1).map(|_| &[][..]);
        }
        self.text()
    }

    /// This many UTF-16 units.
    fn units(&mut self, units: u16) -> Option<&'a [u8]> {
        let bytes = self.at.rest();
        let mut len = 0usize;
        for _ in 0..units {
            len = len.checked_add(match bytes.get(len)? {
                0x00..=0x7f => 1,
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                // Some writers send supplementary characters as they are: four bytes, counted as two units. Those texts
                // cannot be stepped over with certainty.
                _ => return None,
            })?;
        }
        self.at.take(len)
    }

    fn int(&mut self) -> Option<i64> {
        Some(match self.at.u8()? {
            b @ 0x80..=0xbf => i64::from(b).saturating_sub(0x90),
            b @ 0xc0..=0xcf => {
                i64::from(b).saturating_sub(0xc8).saturating_mul(256).saturating_add(i64::from(self.at.u8()?))
            }
            b @ 0xd0..=0xd7 => {
                i64::from(b).saturating_sub(0xd4).saturating_mul(65536).saturating_add(i64::from(self.at.u16()?))
            }
            b'I' => i64::from(i32::from_be_bytes(self.at.u32()?.to_be_bytes())),
            _ => return None,
        })
    }

    fn count(&mut self) -> Option<u32> {
        u32::try_from(self.int()?).ok()
    }

    /// Steps over one value.
    pub(super) fn skip(&mut self) -> Option<()> {
        self.value(0)
    }

    fn values(&mut self, n: u32, depth: u8) -> Option<()> {
        for _ in 0..n {
            self.value(depth)?;
        }
        Some(())
    }

    fn until_end(&mut self, depth: u8) -> Option<()> {
        while self.at.peek()? != b'Z' {
            self.value(depth)?;
        }
        self.at.take(1).map(|_| ())
    }

    fn value(&mut self, depth: u8) -> Option<()> {
        self.budget = self.budget.checked_sub(1)?;
        if depth >= MAX_DEPTH {
            return None;
        }
        let deeper = depth.saturating_add(1);
        let tag = self.at.peek()?;
        match tag {
            0x00..=0x1f | 0x30..=0x33 | b'S' => {
                self.text()?;
            }
            0x80..=0xd7 | b'I' => {
                self.int()?;
            }
            _ => {
                self.at.take(1)?;
                self.tagged(tag, deeper)?;
            }
        }
        Some(())
    }

    /// A value whose tag was taken.
    fn tagged(&mut self, tag: u8, deeper: u8) -> Option<()> {
        let fixed = match tag {
            b'N' | b'T' | b'F' | 0x5b | 0x5c | 0xd8..=0xef => 0,
            0x5d | 0xf0..=0xff => 1,
            0x38..=0x3f | 0x5e => 2,
            b'K' | b'Y' | 0x5f => 4,
            b'D' | b'J' | b'L' => 8,
            0x20..=0x2f => usize::from(tag & 0x0f),
            0x34..=0x37 => usize::from(u16::from_be_bytes([tag & 3, self.at.u8()?])),
            b'B' => usize::from(self.at.u16()?),
            b'A' => {
                let n = usize::from(self.at.u16()?);
                self.at.take(n)?;
                return self.value(deeper);
            }
            b'R' => {
                let n = self.at.u16()?;
                self.units(n)?;
                return self.value(deeper);
            }
            b'C' => {
                self.define(None)?;
                return self.value(deeper);
            }
            b'O' => {
                let class = self.count()?;
                return self.object(class, deeper);
            }
            0x60..=0x6f => return self.object(u32::from(tag & 0x0f), deeper),
            b'H' => return self.until_end(deeper),
            b'M' | b'U' => {
                self.type_name()?;
                return self.until_end(deeper);
            }
            b'W' => return self.until_end(deeper),
            b'V' => {
                self.type_name()?;
                let n = self.count()?;
                return self.values(n, deeper);
            }
            b'X' => {
                let n = self.count()?;
                return self.values(n, deeper);
            }
            0x70..=0x77 => {
                self.type_name()?;
                return self.values(u32::from(tag & 7), deeper);
            }
            0x78..=0x7f => return self.values(u32::from(tag & 7), deeper),
            b'Q' => return self.count().map(|_| ()),
            _ => return None,
        };
        self.at.take(fixed).map(|_| ())
    }

    /// The name of a type, or the number of one named before.
    fn type_name(&mut self) -> Option<()> {
        match self.at.peek()? {
            0x00..=0x1f | 0x30..=0x33 | b'S' => self.text().map(|_| ()),
            _ => self.int().map(|_| ()),
        }
    }

    /// The definition of a class behind its tag; looks for a field of this name.
    fn define(&mut self, field: Option<&[u8]>) -> Option<Object<'a>> {
        let class = self.text()?;
        let fields = u16::try_from(self.count()?).ok()?;
        let mut found = None;
        for i in 0..fields {
            let name = self.text()?;
            if field == Some(name) {
                found = Some(i);
            }
        }
        *self.classes.get_mut(self.defined)? = fields;
        self.defined = self.defined.saturating_add(1);
        Some(Object { class, field: found })
    }

    fn object(&mut self, class: u32, deeper: u8) -> Option<()> {
        let defined = self.classes.get(..self.defined)?;
        let fields = *defined.get(usize::try_from(class).ok()?)?;
        self.values(u32::from(fields), deeper)
    }

    /// The class of the exception that comes next, and its `detailMessage` if it can be reached.
    pub(super) fn exception(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        if self.at.u8()? != b'C' {
            return None;
        }
        let object = self.define(Some(b"detailMessage"))?;
        Some((object.class, self.message(&object)))
    }

    fn message(&mut self, object: &Object<'a>) -> Option<&'a [u8]> {
        match self.at.u8()? {
            0x60..=0x6f => {}
            b'O' => {
                self.count()?;
            }
            _ => return None,
        }
        self.values(u32::from(object.field?), 1)?;
        self.text()
    }
}
