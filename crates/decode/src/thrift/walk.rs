//! Walks over the fields of a message, in any pieces, to find its end. Keeps the number of the first field, and of an
//! exception its type and the beginning of its text.

use super::emit::Told;
use super::head::{CALL, EXCEPTION, ONE_WAY};
use crate::framing::calls::Walked;
use crate::framing::Cursor;
use crate::text::{at_most, len64};

/// Deepest nesting that is followed.
const MAX_DEPTH: usize = 64;
/// Longest header of a field or container: type, number, and two lengths.
const MAX_ITEM: usize = 24;
/// Bytes of an exception's text that are kept.
const MAX_TEXT: usize = 256;

/// Types of values, common to both encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    /// A value without bytes: a compact boolean field.
    Nothing,
    Fixed(u8),
    Varint,
    Text,
    Struct,
    List,
    Map,
}

#[derive(Clone, Copy, Debug)]
enum Level {
    Struct { last: i16 },
    List { of: Type, left: u32 },
    Map { key: Type, value: Type, left: u32, at_key: bool },
}

/// The kept part of the value that is being skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Keep {
    #[default]
    No,
    Text,
    Code,
}

#[derive(Debug, Default)]
pub(super) struct Walker {
    compact: bool,
    exception: bool,
    stack: Vec<Level>,
    /// Bytes of values still to pass.
    skip: u64,
    keep: Keep,
    /// Beginning of an item that was cut.
    carry: Vec<u8>,
    first: Option<i16>,
    any: bool,
    text: Vec<u8>,
    code: Option<i32>,
}

impl Walker {
    /// At the start of a message's structure.
    pub(super) fn begin(&mut self, compact: bool, exception: bool) {
        self.stack.clear();
        self.stack.push(Level::Struct { last: 0 });
        (self.compact, self.exception) = (compact, exception);
        (self.skip, self.keep, self.first, self.code, self.any) = (0, Keep::No, None, None, false);
        self.carry.clear();
        self.text.clear();
    }

    pub(super) fn depth(&self) -> usize {
        self.stack.len()
    }

    /// The result of a call; `sure` says that no byte of the response was misread.
    pub(super) fn told(&self, kind: u8, sure: bool) -> Told<'_> {
        match kind {
            EXCEPTION => Told::Exception { code: self.code, text: &self.text },
            // The first field of a call is an argument.
            CALL | ONE_WAY => Told::Nothing,
            _ if !sure || !self.any => Told::Nothing,
            _ => Told::Result(self.first),
        }
    }

    /// Bytes were not captured: fine inside a value whose length is known.
    pub(super) fn gap(&mut self, missing: u64) -> bool {
        let inside = missing <= self.skip && self.carry.is_empty();
        self.skip = self.skip.saturating_sub(missing);
        inside
    }

    pub(super) fn walk(&mut self, bytes: &[u8]) -> Walked {
        let mut rest = bytes;
        while !self.stack.is_empty() {
            if self.skip > 0 {
                let n = at_most(self.skip, rest.len());
                self.kept(rest.get(..n).unwrap_or_default());
                rest = rest.get(n..).unwrap_or_default();
                self.skip = self.skip.saturating_sub(len64(n));
                if self.skip > 0 {
                    return Walked::On;
                }
            }
            if self.carry.is_empty() {
                let mut r = Cursor::new(rest);
                match self.item(&mut r) {
                    Ok(Some(())) => rest = r.rest(),
                    Ok(None) if rest.len() < MAX_ITEM => {
                        self.carry.extend_from_slice(rest);
                        return Walked::On;
                    }
                    _ => return Walked::Bad,
                }
            } else {
                let Some((next, more)) = rest.split_first() else { return Walked::On };
                rest = more;
                let mut carry = std::mem::take(&mut self.carry);
                carry.push(*next);
                let item = self.item(&mut Cursor::new(&carry));
                match item {
                    Ok(Some(())) => carry.clear(),
                    Ok(None) if carry.len() < MAX_ITEM => {}
                    _ => return Walked::Bad,
                }
                self.carry = carry;
            }
        }
        Walked::End(bytes.len().saturating_sub(rest.len()))
    }

    fn kept(&mut self, bytes: &[u8]) {
        if self.keep != Keep::No {
            let room = MAX_TEXT.saturating_sub(self.text.len());
            self.text.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
    }

    /// One item at the top of the stack: a field header, an element, or the end of a container. `Ok(None)` changes
    /// nothing.
    fn item(&mut self, r: &mut Cursor<'_>) -> Result<Option<()>, ()> {
        let Some(top) = self.stack.last().copied() else { return Err(()) };
        let (kind, next) = match top {
            Level::Struct { last } => {
                let Some((kind, number)) = self.field(r, last)? else { return Ok(None) };
                let top = self.stack.len() == 1;
                let Some(kind) = kind else {
                    self.any |= top;
                    self.stack.pop();
                    self.keep = Keep::No;
                    return Ok(Some(()));
                };
                if top && !self.any {
                    (self.first, self.any) = (Some(number), true);
                }
                let keep = match (number, kind) {
                    (1, Type::Text) if top && self.exception => Keep::Text,
                    (2, Type::Fixed(4) | Type::Varint) if top && self.exception => Keep::Code,
                    _ => Keep::No,
                };
                return self.enter(r, kind, Level::Struct { last: number }, keep);
            }
            Level::List { left: 0, .. } | Level::Map { left: 0, .. } => {
                self.stack.pop();
                return Ok(Some(()));
            }
            // Many elements of a fixed length are one.
            Level::List { of: Type::Fixed(n), left } => {
                self.stack.pop();
                self.keep = Keep::No;
                self.skip = u64::from(n).saturating_mul(u64::from(left));
                return Ok(Some(()));
            }
            Level::List { of, left } => (of, Level::List { of, left: left.saturating_sub(1) }),
            Level::Map { key, value, left, at_key: true } => (key, Level::Map { key, value, left, at_key: false }),
            Level::Map { key, value, left, at_key: false } => {
                (value, Level::Map { key, value, left: left.saturating_sub(1), at_key: true })
            }
        };
        self.enter(r, kind, next, Keep::No)
    }

    /// Type and number of a field; type `None` ends the structure.
    fn field(&self, r: &mut Cursor<'_>, last: i16) -> Result<Option<(Option<Type>, i16)>, ()> {
        let Some(b) = r.u8() else { return Ok(None) };
        if b == 0 {
            return Ok(Some((None, 0)));
        }
        if !self.compact {
            let kind = binary(b).ok_or(())?;
            return Ok(r.u16().map(|n| (Some(kind), n.cast_signed())));
        }
        let kind = match b & 0x0f {
            1 | 2 => Type::Nothing,
            n => compact(n).ok_or(())?,
        };
        match b >> 4 {
            0 => Ok(r.varint().map(|n| (Some(kind), zigzag(n)))),
            delta => Ok(Some((Some(kind), last.wrapping_add(i16::from(delta))))),
        }
    }

    /// Takes the start of a value; changes the walker only if it is there whole.
    fn enter(&mut self, r: &mut Cursor<'_>, kind: Type, next: Level, keep: Keep) -> Result<Option<()>, ()> {
        let mut below = None;
        let mut skip = 0u64;
        match kind {
            Type::Nothing => {}
            Type::Fixed(4) if keep == Keep::Code => {
                let Some(code) = r.u32() else { return Ok(None) };
                self.code = Some(code.cast_signed());
            }
            Type::Fixed(n) => skip = u64::from(n),
            Type::Varint => {
                let Some(n) = r.varint() else { return Ok(None) };
                if keep == Keep::Code {
                    self.code = Some(i32::from(zigzag(n)));
                }
            }
            Type::Text => {
                let Some(len) = self.length(r)? else { return Ok(None) };
                skip = u64::from(len);
            }
            Type::Struct => below = Some(Level::Struct { last: 0 }),
            Type::List => {
                let Some(list) = self.list(r)? else { return Ok(None) };
                below = Some(list);
            }
            Type::Map => {
                let Some(map) = self.map(r)? else { return Ok(None) };
                below = Some(map);
            }
        }
        if let Some(top) = self.stack.last_mut() {
            *top = next;
        }
        self.skip = skip;
        self.keep = if keep == Keep::Text { keep } else { Keep::No };
        if let Some(below) = below {
            if self.stack.len() >= MAX_DEPTH {
                return Err(());
            }
            self.stack.push(below);
        }
        Ok(Some(()))
    }

    /// A length or count: never negative.
    fn length(&self, r: &mut Cursor<'_>) -> Result<Option<u32>, ()> {
        let n = if self.compact { r.varint() } else { r.u32().map(u64::from) };
        n.map(|n| i32::try_from(n).map(i32::cast_unsigned).map_err(|_| ())).transpose()
    }

    fn element(&self, code: u8) -> Result<Type, ()> {
        match (self.compact, code) {
            // A boolean in a container has a byte.
            (true, 1 | 2) => Ok(Type::Fixed(1)),
            (true, n) => compact(n).ok_or(()),
            (false, n) => binary(n).ok_or(()),
        }
    }

    fn list(&self, r: &mut Cursor<'_>) -> Result<Option<Level>, ()> {
        let Some(b) = r.u8() else { return Ok(None) };
        if self.compact && b >> 4 != 15 {
            return Ok(Some(Level::List { of: self.element(b & 0x0f)?, left: u32::from(b >> 4) }));
        }
        let of = self.element(if self.compact { b & 0x0f } else { b });
        let Some(left) = self.length(r)? else { return Ok(None) };
        // An empty list may have any type.
        let of = if left == 0 { of.unwrap_or(Type::Nothing) } else { of? };
        Ok(Some(Level::List { of, left }))
    }

    fn map(&self, r: &mut Cursor<'_>) -> Result<Option<Level>, ()> {
        let types = |k, v| Ok::<_, ()>((self.element(k)?, self.element(v)?));
        let empty = Level::Map { key: Type::Nothing, value: Type::Nothing, left: 0, at_key: true };
        let (codes, left) = if self.compact {
            match self.length(r)? {
                None => return Ok(None),
                Some(0) => return Ok(Some(empty)),
                Some(left) => {
                    let Some(b) = r.u8() else { return Ok(None) };
                    ((b >> 4, b & 0x0f), left)
                }
            }
        } else {
            let Some(codes) = r.u8().zip(r.u8()) else { return Ok(None) };
            match self.length(r)? {
                None => return Ok(None),
                Some(0) => return Ok(Some(empty)),
                Some(left) => (codes, left),
            }
        };
        let (key, value) = types(codes.0, codes.1)?;
        Ok(Some(Level::Map { key, value, left, at_key: true }))
    }
}

fn binary(code: u8) -> Option<Type> {
    Some(match code {
        2 | 3 => Type::Fixed(1),
        4 | 10 => Type::Fixed(8),
        6 => Type::Fixed(2),
        8 => Type::Fixed(4),
        11 => Type::Text,
        12 => Type::Struct,
        13 => Type::Map,
        14 | 15 => Type::List,
        16 => Type::Fixed(16),
        _ => return None,
    })
}

fn compact(code: u8) -> Option<Type> {
    Some(match code {
        3 => Type::Fixed(1),
        4..=6 => Type::Varint,
        7 => Type::Fixed(8),
        8 => Type::Text,
        9 | 10 => Type::List,
        11 => Type::Map,
        12 => Type::Struct,
        13 => Type::Fixed(16),
        _ => return None,
    })
}

/// Numbers of fields and types of exceptions are small; larger ones are cut.
fn zigzag(n: u64) -> i16 {
    let half = i16::try_from(n >> 1 & 0x7fff).unwrap_or(0);
    if n & 1 == 1 {
        !half
    } else {
        half
    }
}
