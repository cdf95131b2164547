//! HPACK (RFC 7541) as an observer needs it: also where the beginning of the connection, or a part of it, was not seen.
//!
//! Why entries stay right without the earlier part of the connection:
//! - An index counts from the newest entry. So an entry whose insertion was seen is found, whatever entries are older.
//! - Eviction takes the oldest entry first, and no encoder refers to an evicted entry. So an entry that is kept too
//!   long is harmless; only one that is evicted too early would be wrong.
//! - The size of an entry with an unknown name is taken too small, so nothing is evicted early.
//! - An entry that is too large for the table empties it, and is not inserted. This shifts no later index.
//! - An index older than all entries whose insertion was seen yields [`Field::Unknown`].
//!
//! Credentials: the value of a field that is not in [`field`], and not named by the user, is not kept, only its length.

mod field;
mod huffman;
#[cfg(test)]
mod tests;

pub(crate) use field::{Field, CONTEXT, FIELDS};

use crate::mask::FieldNames;
use field::{fixed, fixed_name, STATIC_ENTRIES};
use std::collections::VecDeque;

/// Size of a dynamic table unless the ends change it.
const DEFAULT_SIZE: usize = 4096;
/// Most that is kept of a table, in HPACK's measure; older entries count as not seen.
const MAX_SIZE: usize = 64 * 1024;
/// What an entry costs beside its name and value (RFC 7541, 4.1).
const ENTRY_OVERHEAD: usize = 32;
/// Longest value that is kept.
const MAX_VALUE: usize = 4096;

/// How a header block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With its last field.
    Whole,
    /// In the middle of a field.
    Cut,
    /// It breaks the rules of HPACK.
    Bad,
}

/// The meaning of a field's name.
#[derive(Clone, Copy, Debug)]
struct Name {
    field: Field,
    /// Its place in the list of those that the user lets through.
    kept: Option<usize>,
    /// 0 if not known.
    len: usize,
}

impl Name {
    const UNKNOWN: Name = Name { field: Field::Unknown, kept: None, len: 0 };

    fn of(name: &[u8], field: Field, names: FieldNames<'_>) -> Name {
        let kept = if field.is_wanted() { None } else { names.iter().position(|(k, _)| k.as_bytes() == name) };
        Name { field, kept, len: name.len() }
    }

    fn fixed(index: usize, field: Field, names: FieldNames<'_>) -> Name {
        Name::of(fixed_name(index).as_bytes(), field, names)
    }

    /// Whether its value matters.
    fn is_wanted(self) -> bool {
        self.field.is_wanted() || self.kept.is_some()
    }
}

#[derive(Debug)]
struct Entry {
    name: Name,
    value: Box<[u8]>,
    size: usize,
}

/// The dynamic table of one direction.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// Newest first.
    entries: VecDeque<Entry>,
    size: usize,
    max: usize,
}

impl Default for Decoder {
    /// A table of which nothing is known, or that is empty: for an observer there is no difference.
    fn default() -> Self {
        Decoder { entries: VecDeque::new(), size: 0, max: MAX_SIZE }
    }
}

/// The fields of a header block that spans need. Reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Head {
    text: Vec<u8>,
    values: [Option<(usize, usize)>; FIELDS],
    /// Of fields that the user lets through.
    kept: Vec<(usize, (usize, usize))>,
    /// Fields of any name.
    pub(crate) fields: usize,
    /// Fields that are unknown.
    pub(crate) unknown: usize,
    /// Number of unknown fields before the first field that is known not to be a pseudo-header.
    pub(crate) unknown_early: usize,
    /// A pseudo-header came behind another field, or twice.
    pub(crate) disorder: bool,
    regular: bool,
}

impl Head {
    /// The value of a field, if the block has it.
    pub(crate) fn get(&self, field: Field) -> Option<&[u8]> {
        let (from, to) = (*self.values.get(field as usize)?)?;
        self.text.get(from..to)
    }

    /// The value of a field that the user lets through, by its place in the list.
    pub(crate) fn kept(&self, place: usize) -> Option<&[u8]> {
        let (_, (from, to)) = *self.kept.iter().find(|(i, _)| *i == place)?;
        self.text.get(from..to)
    }

    fn clear(&mut self) {
        self.text.clear();
        self.kept.clear();
        let (text, kept) = (std::mem::take(&mut self.text), std::mem::take(&mut self.kept));
        *self = Head { text, kept, ..Head::default() };
    }

    /// Counts a field whose value, if it matters, stands in `text` from `from` on.
    fn take(&mut self, name: Name, from: usize) {
        let field = name.field;
        self.fields = self.fields.saturating_add(1);
        if field == Field::Unknown {
            self.unknown = self.unknown.saturating_add(1);
            self.unknown_early = self.unknown_early.saturating_add(usize::from(!self.regular));
            return;
        }
        self.regular |= !field.is_pseudo();
        self.disorder |= self.regular && field.is_pseudo();
        let to = self.text.len();
        if let Some(place) = name.kept {
            self.kept.push((place, (from, to)));
        }
        if let Some(place) = self.values.get_mut(field as usize) {
            self.disorder |= place.is_some() && field.is_pseudo();
            if place.is_none() {
                *place = Some((from, to));
            }
        }
    }
}

/// A literal string of a block.
#[derive(Clone, Copy)]
struct Text<'a> {
    huffman: bool,
    bytes: &'a [u8],
}

impl Text<'_> {
    fn append(self, out: &mut Vec<u8>) -> Result<(), Ended> {
        if !self.huffman {
            out.extend_from_slice(self.bytes);
            return Ok(());
        }
        huffman::decode(self.bytes, out).then_some(()).ok_or(Ended::Bad)
    }
}

/// Reads the octets of a block.
struct Octets<'a>(&'a [u8]);

impl<'a> Octets<'a> {
    fn octet(&mut self) -> Result<u8, Ended> {
        let (first, rest) = self.0.split_first().ok_or(Ended::Cut)?;
        self.0 = rest;
        Ok(*first)
    }

    /// The rest of an integer whose first octet has `prefix` bits of it (RFC 7541, 5.1).
    fn integer(&mut self, first: u8, prefix: u32) -> Result<usize, Ended> {
        let mask = u8::MAX.checked_shr(8u32.saturating_sub(prefix)).unwrap_or(0);
        let mut value = u64::from(first & mask);
        if first & mask < mask {
            return usize::try_from(value).map_err(|_| Ended::Bad);
        }
        for shift in [0u32, 7, 14, 21, 28] {
            let octet = self.octet()?;
            value = value.saturating_add(u64::from(octet & 0x7f) << shift);
            if octet & 0x80 == 0 {
                // Nothing in a header block is that large.
                return u32::try_from(value).map(|n| n as usize).map_err(|_| Ended::Bad);
            }
        }
        Err(Ended::Bad)
    }

    fn text(&mut self) -> Result<Text<'a>, Ended> {
        let first = self.octet()?;
        let len = self.integer(first, 7)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Ended::Cut)?;
        self.0 = rest;
        Ok(Text { huffman: first & 0x80 != 0, bytes })
    }
}

impl Decoder {
    /// The table of a connection seen from its start.
    pub(crate) fn from_start() -> Self {
        Decoder { max: DEFAULT_SIZE, ..Decoder::default() }
    }

    /// Header blocks were not seen: nothing of the table is known any more.
    pub(crate) fn lose(&mut self) {
        // The table may have grown meanwhile.
        *self = Decoder::default();
    }

    /// Number of entries that can be resolved.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.entries.len()
    }

    /// Reads a block into `head`. What came before a cut or an error stands in it.
    /// Of other fields than those in [`field`], the values of `names` are kept.
    pub(crate) fn decode(&mut self, block: &[u8], head: &mut Head, names: FieldNames<'_>) -> Ended {
        head.clear();
        let mut octets = Octets(block);
        while !octets.0.is_empty() {
            if let Err(ended) = self.field(&mut octets, head, names) {
                return ended;
            }
        }
        Ended::Whole
    }

    fn field(&mut self, octets: &mut Octets<'_>, head: &mut Head, names: FieldNames<'_>) -> Result<(), Ended> {
        let first = octets.octet()?;
        let from = head.text.len();
        match first {
            0x80.. => {
                let index = octets.integer(first, 7)?;
                let name = match fixed(index) {
                    Some((field, value)) => {
                        head.text.extend_from_slice(value.as_bytes());
                        Name::fixed(index, field, names)
                    }
                    None if index == 0 => return Err(Ended::Bad),
                    None => match self.entry(index) {
                        Some(entry) => {
                            head.text.extend_from_slice(&entry.value);
                            entry.name
                        }
                        None => Name::UNKNOWN,
                    },
                };
                head.take(name, from);
            }
            0x40..=0x7f => {
                let name = self.name(octets, first, 6, head, names)?;
                let text = octets.text()?;
                text.append(&mut head.text)?;
                let value_len = head.text.len().saturating_sub(from);
                let short = value_len <= MAX_VALUE;
                let value = head.text.get(from..).filter(|_| name.is_wanted() && short).unwrap_or_default().into();
                let field = if name.field.is_wanted() && !short { Field::Unknown } else { name.field };
                let later = Name { field, kept: name.kept.filter(|_| short), ..name };
                let size = name.len.saturating_add(value_len).saturating_add(ENTRY_OVERHEAD);
                self.insert(Entry { name: later, value, size });
                if !name.is_wanted() {
                    head.text.truncate(from);
                }
                head.take(name, from);
            }
            0x20..=0x3f => {
                // Only at the beginning of a block (RFC 7541, 4.2).
                if head.fields > 0 {
                    return Err(Ended::Bad);
                }
                self.resize(octets.integer(first, 5)?);
            }
            _ => {
                let name = self.name(octets, first, 4, head, names)?;
                let text = octets.text()?;
                if name.is_wanted() {
                    text.append(&mut head.text)?;
                }
                head.take(name, from);
            }
        }
        Ok(())
    }

    /// The name of a literal field.
    fn name(
        &self,
        octets: &mut Octets<'_>,
        first: u8,
        prefix: u32,
        head: &mut Head,
        names: FieldNames<'_>,
    ) -> Result<Name, Ended> {
        match octets.integer(first, prefix)? {
            0 => {
                let text = octets.text()?;
                let from = head.text.len();
                text.append(&mut head.text)?;
                let name = head.text.get(from..).unwrap_or_default();
                // Upper case is malformed, and so is an empty name (RFC 9113, 8.2).
                let valid = !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && !b.is_ascii_uppercase());
                let found = Name::of(name, Field::of(name), names);
                head.text.truncate(from);
                valid.then_some(found).ok_or(Ended::Bad)
            }
            index => Ok(match fixed(index) {
                Some((field, _)) => Name::fixed(index, field, names),
                None => self.entry(index).map_or(Name::UNKNOWN, |e| e.name),
            }),
        }
    }

    fn entry(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index.checked_sub(STATIC_ENTRIES)?.checked_sub(1)?)
    }

    fn insert(&mut self, entry: Entry) {
        self.size = self.size.saturating_add(entry.size);
        self.entries.push_front(entry);
        self.evict();
    }

    fn resize(&mut self, max: usize) {
        self.max = max.min(MAX_SIZE);
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.max {
            let Some(oldest) = self.entries.pop_back() else {
                self.size = 0;
                break;
            };
            self.size = self.size.saturating_sub(oldest.size);
        }
    }
}
