//! Header fields (RFC 9112, section 5): only those that wirespan needs are looked at, all others are passed over.
//!
//! Looked at: `Content-Length`, `Transfer-Encoding`, `Content-Type`, `Expect`, `Upgrade`, `Host`, `User-Agent`, the
//! names by which Elasticsearch and OpenSearch present themselves, and the trace context of
//! [`carried`](crate::carried). Credentials and cookies are therefore never touched.

use crate::carried::Context;
use crate::text::decimal;
use memchr::memchr;

/// What `Content-Length` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// Nothing.
    #[default]
    Absent,
    /// So many bytes.
    Known(u64),
    /// No number, or two different ones.
    Bad,
}

/// What `Transfer-Encoding` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// Nothing, or `identity`.
    #[default]
    Absent,
    /// The last coding is `chunked`.
    Chunked,
    /// The last coding is another.
    Other,
}

/// Header fields that matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a> {
    /// `Content-Length`.
    pub length: Length,
    /// `Transfer-Encoding`.
    pub transfer: Transfer,
    /// `Expect: 100-continue`.
    pub expect: bool,
    /// `Host`.
    pub host: &'a [u8],
    /// `User-Agent`.
    pub agent: &'a [u8],
    /// `Upgrade`.
    pub upgrade: &'a [u8],
    /// `Content-Type`.
    pub content_type: &'a [u8],
    /// `X-Elastic-Product`.
    pub product: &'a [u8],
    /// `X-OpenSearch-Version`.
    pub search_version: &'a [u8],
    /// Trace context.
    pub context: Context<'a>,
}

impl<'a> Fields<'a> {
    /// Reads header lines up to the end of `block` or the empty line. A last line without its line end is left out: its
    /// value may be cut.
    pub fn read(block: &'a [u8]) -> Self {
        let mut fields = Fields::default();
        let mut rest = block;
        while let Some((line, next)) = logical_line(rest) {
            if line.is_empty() {
                break;
            }
            fields.line(line);
            rest = next;
        }
        fields
    }

    fn line(&mut self, line: &'a [u8]) {
        let Some((name, value)) = memchr(b':', line).and_then(|i| line.split_at_checked(i)) else { return };
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match name.len() {
            4 if is("host") => self.host = value,
            6 if is("expect") => self.expect = value.eq_ignore_ascii_case(b"100-continue"),
            7 if is("upgrade") => self.upgrade = value,
            10 if is("user-agent") => self.agent = value,
            12 if is("content-type") => self.content_type = value,
            14 if is("content-length") => self.length = self.length.and(value),
            17 if is("transfer-encoding") => self.transfer = last_coding(value),
            17 if is("x-elastic-product") => self.product = value,
            20 if is("x-opensearch-version") => self.search_version = value,
            2 | 3 | 10 | 11 | 12 | 16 => self.context.field(name, value),
            _ => {}
        }
    }
}

impl Length {
    /// Several fields, or a list in one, are fine as long as they agree (RFC 9110, 8.6).
    fn and(self, value: &[u8]) -> Length {
        value.split(|b| *b == b',').fold(self, |sum, part| match (sum, decimal(part.trim_ascii())) {
            (Length::Absent, Some(n)) => Length::Known(n),
            (Length::Known(a), Some(b)) if a == b => sum,
            _ => Length::Bad,
        })
    }
}

fn last_coding(value: &[u8]) -> Transfer {
    let last = value.rsplit(|b| *b == b',').next().unwrap_or_default().trim_ascii();
    if last.eq_ignore_ascii_case(b"chunked") {
        Transfer::Chunked
    } else if last.is_empty() || last.eq_ignore_ascii_case(b"identity") {
        Transfer::Absent
    } else {
        Transfer::Other
    }
}

/// The first field line with its obs-fold continuations (the fold stays inside; values are trimmed later), and the
/// rest. An empty line comes back empty. `None` if the line does not end in the block.
fn logical_line(block: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = memchr(b'\n', block)?;
    loop {
        let (line, rest) = block.split_at_checked(end)?;
        let next = rest.get(1..)?;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || !matches!(next.first(), Some(b' ' | b'\t')) {
            return Some((line, next));
        }
        end = end.checked_add(1)?.checked_add(memchr(b'\n', next)?)?;
    }
}

/// Length of the head (its empty line included), if it ends in `bytes`; the search for it begins at `from`, which lies
/// behind the start line.
pub fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    let tail = bytes.get(from..)?;
    memchr::memchr_iter(b'\n', tail).find_map(|i| {
        let behind = tail.get(i.checked_add(1)?..)?;
        let skip = match behind {
            [b'\n', ..] => 2,
            [b'\r', b'\n', ..] => 3,
            _ => return None,
        };
        from.checked_add(i)?.checked_add(skip)
    })
}
