//! Record batches (magic 2) and message sets (magic 0 and 1), as far as they were captured.

use super::wire::{Reader, Stop};
use crate::carried::Context;
use crate::text::len64;
use smallvec::SmallVec;
use wirespan_model::broker::ElementHash;
use wirespan_model::Carried;

/// Offset, length, leader epoch and magic: where both formats agree.
const PREFIX: usize = 17;
/// Shortest batch of magic 2, behind its offset and length.
const BATCH: u64 = 49;
/// Records of a batch that are searched for a context.
const MAX_RECORDS: u32 = 16;
/// Batches of one partition that get a name.
const MAX_NAMED: usize = 256;
/// Headers of a record that are searched.
const MAX_HEADERS: i64 = 64;

/// The facts of the batches of one partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches<'a> {
    /// First offset.
    pub(super) first: Option<i64>,
    /// Last offset of the last whole batch.
    pub(super) last: Option<i64>,
    /// Records of the whole batches; `None` if one of them does not say (compressed message sets).
    pub(super) records: Option<u64>,
    /// Every batch was seen.
    pub(super) whole: bool,
    pub(super) codec: Option<&'static str>,
    pub(super) context: Option<Carried<'a>>,
    /// The batches in their order, if they shall be named.
    pub(super) named: Option<SmallVec<[Batch; 1]>>,
}

/// A batch of records, by its name: the broker keeps what the producer has summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) first: i64,
    pub(super) last: i64,
    /// It depends on a secret of this process, as the records might be guessed.
    pub(super) name: u64,
}

fn codec(attributes: i16) -> Option<&'static str> {
    match attributes & 7 {
        0 => None,
        1 => Some("gzip"),
        2 => Some("snappy"),
        3 => Some("lz4"),
        4 => Some("zstd"),
        _ => Some("_OTHER"),
    }
}

/// Walks batches of `len` bytes in all, as far as they were captured. `names`: the batches shall be named.
pub(super) fn walk(bytes: Reader<'_>, len: u64, names: bool) -> Result<Batches<'_>, Stop> {
    let mut found = Batches { records: Some(0), named: names.then(SmallVec::new), ..Batches::default() };
    let mut at = 0u64;
    let mut rest = bytes.encoded(false);
    // The rest is too short for a batch: an old broker cut the last one off.
    while len.saturating_sub(at) >= len64(PREFIX) {
        let mut r = rest;
        let (Ok(first), Ok(size)) = (r.i64(), r.i32()) else { return Ok(found) };
        let size = u64::try_from(size).map_err(|_| Stop::Bad)?;
        let end = at.saturating_add(12).saturating_add(size);
        if size < 5 {
            return Err(Stop::Bad);
        }
        if end > len {
            break;
        }
        r.i32()?;
        let (last, records) = match r.i8() {
            Ok(2) if size < BATCH => return Ok(found),
            Ok(2) => match batch(r, first, &mut found) {
                Ok(seen) => seen,
                Err(Stop::More) => return Ok(found),
                Err(Stop::Bad) => return Err(Stop::Bad),
            },
            Ok(0 | 1) => match r.i8() {
                Ok(attributes) => {
                    let packed = codec(i16::from(attributes));
                    found.codec = found.codec.or(packed);
                    (first, packed.is_none().then_some(1))
                }
                Err(_) => return Ok(found),
            },
            Ok(_) => return Err(Stop::Bad),
            Err(_) => return Ok(found),
        };
        found.first = found.first.or(Some(first));
        found.last = Some(last);
        found.records = found.records.zip(records).map(|(a, b): (u64, u64)| a.saturating_add(b));
        at = end;
        if rest.pass(size.saturating_add(12)).is_err() {
            // It ends where nothing was captured: whether it is the last, the lengths tell.
            found.whole = len.saturating_sub(at) < len64(PREFIX);
            return Ok(found);
        }
    }
    found.whole = true;
    Ok(found)
}

/// The rest of a batch's header, and the headers of its first records. Returns the last offset and the number of
/// records.
fn batch<'a>(mut r: Reader<'a>, first: i64, found: &mut Batches<'a>) -> Result<(i64, Option<u64>), Stop> {
    // The sum, and both times behind the attributes and the number of the last record.
    let sum = r.take(4)?;
    let attributes = r.i16()?;
    let last_delta = r.i32()?;
    let times = r.take(8 + 8)?;
    r.take(8 + 2 + 4)?;
    let count = u32::try_from(r.i32()?).map_err(|_| Stop::Bad)?;
    let last = first.saturating_add(i64::from(last_delta.max(0)));
    let packed = codec(attributes);
    found.codec = found.codec.or(packed);
    if attributes & 0x20 != 0 {
        // Markers of a transaction, no messages.
        return Ok((last, Some(0)));
    }
    if let Some(named) = found.named.as_mut().filter(|named| named.len() < MAX_NAMED) {
        let mut name = ElementHash::default();
        name.add(sum);
        name.add(times);
        named.push(Batch { first, last, name: name.of_guessable(u64::from(count)) });
    }
    if packed.is_none() {
        for _ in 0..count.min(MAX_RECORDS) {
            if found.context.is_some() {
                break;
            }
            match record(&mut r) {
                Ok(context) => found.context = context,
                Err(_) => break,
            }
        }
    }
    Ok((last, Some(u64::from(count))))
}

/// The headers of one record; keys and values are passed over.
fn record<'a>(r: &mut Reader<'a>) -> Result<Option<Carried<'a>>, Stop> {
    let len = usize::try_from(r.varint()?).map_err(|_| Stop::Bad)?;
    let whole = r.rest().get(..len);
    let mut inner = Reader::new(whole.unwrap_or(r.rest()), false);
    inner.i8()?;
    inner.varint()?;
    inner.varint()?;
    bytes(&mut inner)?;
    bytes(&mut inner)?;
    let count = inner.varint()?;
    let mut context = Context::default();
    for _ in 0..count.min(MAX_HEADERS) {
        let pair = bytes(&mut inner).and_then(|name| Ok((name, bytes(&mut inner)?)));
        match pair {
            Ok((name, value)) => context.field(name, value),
            Err(_) => break,
        }
    }
    let carried = Some(context.finish()).filter(|c| *c != Carried::default());
    if whole.is_some() {
        r.take(len)?;
    } else if carried.is_none() {
        return Err(Stop::More);
    }
    Ok(carried)
}

fn bytes<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Stop> {
    match r.varint()? {
        -1 => Ok(&[]),
        n => r.take(usize::try_from(n).map_err(|_| Stop::Bad)?),
    }
}
