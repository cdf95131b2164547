//! Messages as brokers store them and pulls bring them (`MessageDecoder` of Apache RocketMQ).

/// First word of a stored message; the second form has two bytes for the length of a topic.
const MAGIC: [u32; 2] = [0xdaa3_20a7, 0xdaa3_20ab];

/// One stored message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub(super) queue: i32,
    pub(super) queue_offset: i64,
    /// The properties stand behind the body; the captured bytes may end before them.
    pub(super) names: Option<Names<'a>>,
}

/// Topic and properties of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    pub(super) topic: &'a [u8],
    pub(super) properties: &'a [u8],
}

/// The facts of a body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bodies<'a> {
    pub(super) first: Option<Stored<'a>>,
    /// Messages, if all were there.
    pub(super) count: Option<i64>,
    /// Offset of the last one, if all were there.
    pub(super) last_offset: Option<i64>,
}

/// Walks the messages of a body of `len` bytes, of which `bytes` are there.
pub(super) fn walk(bytes: &[u8], len: u64) -> Bodies<'_> {
    let mut found = Bodies::default();
    let (mut count, mut at, mut last) = (0i64, bytes, None);
    while !at.is_empty() {
        let mut inner = at;
        let Some(size) = u32_at(&mut inner).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 4) else {
            return found;
        };
        let Some((whole, behind)) = at.split_at_checked(size) else {
            // Its rest was not captured.
            if found.first.is_none() {
                found.first = stored(inner);
            }
            return found;
        };
        let message = stored(whole.get(4..).unwrap_or_default()).filter(|m| m.names.is_some());
        let Some(message) = message else { return found };
        last = Some(message.queue_offset);
        found.first = found.first.or(Some(message));
        count = count.saturating_add(1);
        at = behind;
    }
    if crate::text::len64(bytes.len()) == len {
        (found.count, found.last_offset) = (Some(count), last);
    }
    found
}

/// A message behind its size.
fn stored(bytes: &[u8]) -> Option<Stored<'_>> {
    let mut at = bytes;
    let magic = u32_at(&mut at)?;
    let wide = MAGIC.iter().position(|m| *m == magic)?;
    u32_at(&mut at)?;
    let queue = i32::from_ne_bytes(u32_at(&mut at)?.to_ne_bytes());
    u32_at(&mut at)?;
    let queue_offset = i64::from_be_bytes(chunk(&mut at)?);
    let _physical: [u8; 8] = chunk(&mut at)?;
    Some(Stored { queue, queue_offset, names: names(wide == 1, at) })
}

/// Topic and properties, behind the rest of the fixed part and the body.
fn names(wide: bool, mut at: &[u8]) -> Option<Names<'_>> {
    let flags = u32_at(&mut at)?;
    let host = |flag: u32| if flags & flag != 0 { 20 } else { 8 };
    skip(&mut at, 8)?;
    skip(&mut at, host(0x10))?;
    skip(&mut at, 8)?;
    skip(&mut at, host(0x20))?;
    skip(&mut at, 4 + 8)?;
    let body = u32_at(&mut at)?;
    skip(&mut at, usize::try_from(body).ok()?)?;
    let topic = if wide {
        let n = u16::from_be_bytes(chunk(&mut at)?);
        skip(&mut at, usize::from(n))?
    } else {
        let [n] = chunk(&mut at)?;
        skip(&mut at, usize::from(n))?
    };
    let n = u16::from_be_bytes(chunk(&mut at)?);
    let properties = skip(&mut at, usize::from(n))?;
    Some(Names { topic, properties })
}

/// Name and value of each property.
pub(super) fn properties(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|b| *b == 2).filter_map(|pair| {
        let at = memchr::memchr(1, pair)?;
        Some((pair.get(..at)?, pair.get(at.saturating_add(1)..)?))
    })
}

fn chunk<const N: usize>(at: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = at.split_first_chunk::<N>()?;
    *at = tail;
    Some(*head)
}

fn u32_at(at: &mut &[u8]) -> Option<u32> {
    chunk(at).map(u32::from_be_bytes)
}

fn skip<'a>(at: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, tail) = at.split_at_checked(n)?;
    *at = tail;
    Some(head)
}
