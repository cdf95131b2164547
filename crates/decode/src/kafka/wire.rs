//! Kafka's primitive types, in the old encoding and in the compact one of flexible versions (KIP-482).

use crate::framing::prefixed::Hole;
use crate::text::{at_most, len64};

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes end here.
    More,
    /// Not Kafka.
    Bad,
}

/// Most elements of an array that is believed.
const MAX_ELEMENTS: u32 = 10_000_000;
/// Most tagged fields of one structure that are believed.
const MAX_TAGS: u32 = 64;

/// Reads one field after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    /// Up to the next hole.
    bytes: &'a [u8],
    /// The captured bytes behind `bytes`, and their place in all captured bytes.
    behind: (&'a [u8], usize),
    holes: &'a [Hole],
    /// Strings and arrays are compact, structures end with tagged fields.
    flexible: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], flexible: bool) -> Self {
        Reader { bytes, behind: (&[], 0), holes: &[], flexible }
    }

    /// Reads bytes of which some between them were not captured.
    pub(super) fn with_holes(bytes: &'a [u8], holes: &'a [Hole]) -> Self {
        let mut r = Reader { bytes: &[], behind: (bytes, 0), holes, flexible: false };
        r.next_piece();
        r
    }

    /// The same bytes, in the other encoding.
    pub(super) fn encoded(self, flexible: bool) -> Self {
        Reader { flexible, ..self }
    }

    /// Goes on with the captured bytes up to the next hole.
    fn next_piece(&mut self) {
        let (rest, at) = self.behind;
        let end = self.holes.first().map_or(rest.len(), |(place, _)| place.saturating_sub(at)).min(rest.len());
        let (bytes, rest) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        (self.bytes, self.behind) = (bytes, (rest, at.saturating_add(end)));
    }

    /// Skips bytes, captured or not.
    pub(super) fn pass(&mut self, mut n: u64) -> Result<(), Stop> {
        loop {
            let here = len64(self.bytes.len());
            if n <= here {
                return self.take(at_most(n, self.bytes.len())).map(drop);
            }
            n = n.saturating_sub(here);
            let gap = match self.holes.split_first() {
                Some(((_, gap), rest)) if *gap <= n => {
                    self.holes = rest;
                    *gap
                }
                // It ends where nothing was captured.
                _ => {
                    *self = Reader::new(&[], self.flexible);
                    return Err(Stop::More);
                }
            };
            n = n.saturating_sub(gap);
            self.next_piece();
        }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], Stop> {
        let (head, tail) = self.bytes.split_at_checked(n).ok_or(Stop::More)?;
        self.bytes = tail;
        Ok(head)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or(Stop::More)?;
        self.bytes = tail;
        Ok(*head)
    }

    pub(super) fn i8(&mut self) -> Result<i8, Stop> {
        self.chunk().map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, Stop> {
        self.chunk().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Stop> {
        self.chunk().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Stop> {
        self.chunk().map(i64::from_be_bytes)
    }

    pub(super) fn uuid(&mut self) -> Result<[u8; 16], Stop> {
        self.chunk()
    }

    pub(super) fn uvarint(&mut self) -> Result<u32, Stop> {
        self.varlong_raw(5).and_then(|n| u32::try_from(n).map_err(|_| Stop::Bad))
    }

    /// A zigzag number of a record.
    pub(super) fn varint(&mut self) -> Result<i64, Stop> {
        let n = self.varlong_raw(10)?;
        let half = i64::try_from(n >> 1).map_err(|_| Stop::Bad)?;
        Ok(if n & 1 == 1 { !half } else { half })
    }

    fn varlong_raw(&mut self, max: usize) -> Result<u64, Stop> {
        let mut n = 0u64;
        for (i, b) in self.bytes.iter().take(max).enumerate() {
            let shift = u32::try_from(i).unwrap_or(0).saturating_mul(7);
            n |= u64::from(b & 0x7f).checked_shl(shift).ok_or(Stop::Bad)?;
            if b & 0x80 == 0 {
                self.bytes = self.bytes.get(i.saturating_add(1)..).unwrap_or_default();
                return Ok(n);
            }
        }
        Err(if self.bytes.len() < max { Stop::More } else { Stop::Bad })
    }

    /// A length that may be null.
    fn count(&mut self, wide: bool) -> Result<Option<u32>, Stop> {
        if self.flexible {
            return Ok(self.uvarint()?.checked_sub(1));
        }
        let n = if wide { self.i32()? } else { i32::from(self.i16()?) };
        match n {
            -1 => Ok(None),
            n => u32::try_from(n).map(Some).map_err(|_| Stop::Bad),
        }
    }

    /// A string; `None` is null.
    pub(super) fn nullable(&mut self) -> Result<Option<&'a [u8]>, Stop> {
        match self.count(false)? {
            None => Ok(None),
            Some(n) if n <= 32_767 => self.take(usize::try_from(n).map_err(|_| Stop::Bad)?).map(Some),
            Some(_) => Err(Stop::Bad),
        }
    }

    /// A string that may not be null.
    pub(super) fn string(&mut self) -> Result<&'a [u8], Stop> {
        self.nullable()?.ok_or(Stop::Bad)
    }

    /// Elements of an array; `None` is null.
    pub(super) fn array(&mut self) -> Result<Option<u32>, Stop> {
        self.count(true)?.map_or(Ok(None), |n| if n <= MAX_ELEMENTS { Ok(Some(n)) } else { Err(Stop::Bad) })
    }

    /// Elements of an array, none if it is null.
    pub(super) fn elements(&mut self) -> Result<u32, Stop> {
        Ok(self.array()?.unwrap_or(0))
    }

    /// Length of bytes (records); `None` is null.
    pub(super) fn bytes_len(&mut self) -> Result<Option<u32>, Stop> {
        self.count(true)
    }

    /// Skips an array of fixed-size elements.
    pub(super) fn skip_fixed(&mut self, size: usize) -> Result<(), Stop> {
        let n = usize::try_from(self.elements()?).map_err(|_| Stop::Bad)?;
        self.take(n.saturating_mul(size)).map(drop)
    }

    /// Skips the tagged fields at the end of a structure, if the version has them.
    pub(super) fn tags(&mut self) -> Result<(), Stop> {
        if !self.flexible {
            return Ok(());
        }
        let n = self.uvarint()?;
        if n > MAX_TAGS {
            return Err(Stop::Bad);
        }
        for _ in 0..n {
            self.uvarint()?;
            let size = self.uvarint()?;
            self.take(usize::try_from(size).map_err(|_| Stop::Bad)?)?;
        }
        Ok(())
    }
}
