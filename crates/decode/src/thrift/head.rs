//! The head of a message: frame, encoding, type, name, sequence id.

use crate::carried::Context;
use crate::framing::Cursor;

pub(super) const CALL: u8 = 1;
pub(super) const EXCEPTION: u8 = 3;
pub(super) const ONE_WAY: u8 = 4;
/// Longest method name that is believed, bytes.
const MAX_NAME: u32 = 200;
/// Longest frame that is believed, bytes; Thrift's own limit is 16 MB unless configured.
const MAX_FRAME: u32 = 256 << 20;
/// Longest THeader that is believed, bytes.
const MAX_HEADER: usize = 8 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Strict,
    /// Binary as it was before it had a version.
    Old,
    Compact,
}

impl Encoding {
    pub(super) fn is_versioned(self) -> bool {
        self != Encoding::Old
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrap {
    None,
    Framed,
    Header,
}

#[derive(Clone, Debug)]
pub(super) struct Head<'a> {
    pub(super) wrap: Wrap,
    pub(super) encoding: Encoding,
    pub(super) kind: u8,
    pub(super) name: &'a str,
    pub(super) seq: u32,
    /// Length of the head, frame length and THeader included.
    pub(super) len: usize,
    /// Length of the frame behind its own four bytes.
    pub(super) frame: Option<u32>,
    pub(super) context: Context<'a>,
}

impl Head<'_> {
    /// Whether the asking end sent it.
    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind, CALL | ONE_WAY)
    }
}

/// `Err` if no message starts here, `Ok(None)` if that cannot be told yet.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Head<'_>>, ()> {
    let mut r = Cursor::new(bytes);
    match bytes.first() {
        None => Ok(None),
        Some(0x80 | 0x82) => message(bytes, Wrap::None, &mut r, None, Context::default()),
        // The high byte of a length.
        Some(0..=0x10) => {
            let Some(len) = r.u32() else { return Ok(None) };
            match r.rest() {
                [] => Ok(None),
                [0x80 | 0x82 | 0, ..] if (6..=MAX_FRAME).contains(&len) => {
                    let head = message(bytes, Wrap::Framed, &mut r, Some(len), Context::default())?;
                    Ok(fits(head)?)
                }
                [0x0f] => Ok(None),
                [0x0f, 0xff, ..] if (12..=MAX_FRAME).contains(&len) => fits(theader(bytes, r, len)?),
                _ => message(bytes, Wrap::None, &mut Cursor::new(bytes), None, Context::default()),
            }
        }
        Some(_) => Err(()),
    }
}

/// A head must lie in its frame.
fn fits(head: Option<Head<'_>>) -> Result<Option<Head<'_>>, ()> {
    match &head {
        Some(h) if h.frame.is_some_and(|f| u64::from(f).saturating_add(4) < crate::text::len64(h.len)) => Err(()),
        _ => Ok(head),
    }
}

fn theader<'a>(bytes: &'a [u8], mut r: Cursor<'a>, frame: u32) -> Result<Option<Head<'a>>, ()> {
    let mut fixed = || {
        r.take(4)?;
        let seq = r.u32()?;
        Some((seq, usize::from(r.u16()?).checked_mul(4)?))
    };
    let Some((seq, words)) = fixed() else { return Ok(None) };
    if words == 0 || words > MAX_HEADER {
        return Err(());
    }
    let Some(header) = r.take(words) else { return Ok(None) };
    let (protocol, context) = header_fields(header).ok_or(())?;
    let Some(first) = r.peek() else { return Ok(None) };
    if !matches!((protocol, first), (0, 0x80 | 0) | (2, 0x82)) {
        return Err(());
    }
    let head = message(bytes, Wrap::Header, &mut r, Some(frame), context)?;
    // THeader's own sequence id is the one that counts.
    Ok(head.map(|h| Head { seq, ..h }))
}

/// Protocol id and context of a THeader; transforms (compression) cannot be read.
fn header_fields(bytes: &[u8]) -> Option<(u64, Context<'_>)> {
    let mut r = Cursor::new(bytes);
    let protocol = r.varint()?;
    (r.varint()? == 0).then_some(())?;
    let mut context = Context::default();
    let text = |r: &mut Cursor<'_>| {
        let len = usize::try_from(r.varint()?).ok()?;
        let all = r.rest();
        r.take(len)?;
        Some((bytes.len().checked_sub(all.len())?, len))
    };
    // Info 1 and 2 are pairs of keys and values; padding is zeros.
    while let Some(1 | 2) = r.varint() {
        for _ in 0..r.varint()?.min(64) {
            let (key, n) = text(&mut r)?;
            let (value, m) = text(&mut r)?;
            let key = bytes.get(key..key.checked_add(n)?)?;
            context.field(key, bytes.get(value..value.checked_add(m)?)?);
        }
    }
    Some((protocol, context))
}

fn message<'a>(
    bytes: &'a [u8],
    wrap: Wrap,
    r: &mut Cursor<'a>,
    frame: Option<u32>,
    context: Context<'a>,
) -> Result<Option<Head<'a>>, ()> {
    let read = match r.peek() {
        Some(0x80) => strict(r),
        Some(0x82) => compact(r),
        Some(_) => old(r),
        None => Ok(None),
    }?;
    let Some((encoding, kind, name, seq)) = read else { return Ok(None) };
    let len = bytes.len().saturating_sub(r.rest().len());
    Ok(Some(Head { wrap, encoding, kind, name, seq, len, frame, context }))
}

type Fields<'a> = Result<Option<(Encoding, u8, &'a str, u32)>, ()>;

fn strict<'a>(r: &mut Cursor<'a>) -> Fields<'a> {
    let version = r.rest();
    if version.iter().zip([0x80, 0x01, 0x00]).any(|(b, v)| *b != v)
        || version.get(3).is_some_and(|k| !(1..=4).contains(k))
    {
        return Err(());
    }
    let Some((version, len)) = r.u32().zip(r.u32()) else { return Ok(None) };
    let Some(name) = name(r, len)? else { return Ok(None) };
    let [.., kind] = version.to_be_bytes();
    Ok(r.u32().map(|seq| (Encoding::Strict, kind, name, seq)))
}

fn old<'a>(r: &mut Cursor<'a>) -> Fields<'a> {
    let Some(len) = r.u32() else { return Ok(None) };
    let Some(name) = name(r, len)? else { return Ok(None) };
    let Some(kind) = r.u8() else { return Ok(None) };
    if !(1..=4).contains(&kind) {
        return Err(());
    }
    Ok(r.u32().map(|seq| (Encoding::Old, kind, name, seq)))
}

fn compact<'a>(r: &mut Cursor<'a>) -> Fields<'a> {
    r.take(1);
    let Some(kind) = r.u8() else { return Ok(None) };
    if kind & 0x1f != 1 || !(1..=4).contains(&(kind >> 5)) {
        return Err(());
    }
    let Some((seq, len)) = varint32(r)?.zip(varint32(r)?) else { return Ok(None) };
    let Some(name) = name(r, len)? else { return Ok(None) };
    Ok(Some((Encoding::Compact, kind >> 5, name, seq)))
}

fn varint32(r: &mut Cursor<'_>) -> Result<Option<u32>, ()> {
    let long = r.rest().len() >= 5;
    match r.varint() {
        Some(n) => u32::try_from(n).map(Some).map_err(|_| ()),
        None if long => Err(()),
        None => Ok(None),
    }
}

fn name<'a>(r: &mut Cursor<'a>, len: u32) -> Result<Option<&'a str>, ()> {
    let fits = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.' | b'-' | b'/');
    let len = usize::try_from(len).ok().filter(|_| (1..=MAX_NAME).contains(&len)).ok_or(())?;
    let seen = r.rest().get(..len).unwrap_or(r.rest());
    if !seen.iter().all(fits) || seen.first().is_some_and(u8::is_ascii_digit) {
        return Err(());
    }
    Ok(r.take(len).and_then(|b| std::str::from_utf8(b).ok()))
}
