//! Basic Encoding Rules (ITU-T X.690), as much as LDAP messages and X.509 certificates need: tags of one byte, lengths
//! that are stated.

/// Head of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) tag: u8,
    /// Bytes of tag and length.
    pub(crate) head: usize,
    /// Bytes of the content.
    pub(crate) len: usize,
}

impl Head {
    /// Bytes of the whole element.
    pub(crate) fn total(self) -> usize {
        self.head.saturating_add(self.len)
    }
}

/// Why there is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It goes on behind the bytes.
    More,
    /// No stated length, or one of more than four bytes.
    Bad,
}

/// Reads the head of the element at the start of `bytes`.
pub(crate) fn head(bytes: &[u8]) -> Result<Head, Stop> {
    let [tag, rest @ ..] = bytes else { return Err(Stop::More) };
    let [first, rest @ ..] = rest else { return Err(Stop::More) };
    match first {
        0..=0x7f => Ok(Head { tag: *tag, head: 2, len: usize::from(*first) }),
        0x81..=0x84 => {
            let n = usize::from(first & 0x0f);
            let digits = rest.get(..n).ok_or(Stop::More)?;
            let len = digits.iter().try_fold(0usize, |len, b| len.checked_mul(256)?.checked_add(usize::from(*b)));
            Ok(Head { tag: *tag, head: n.saturating_add(2), len: len.ok_or(Stop::Bad)? })
        }
        _ => Err(Stop::Bad),
    }
}

/// The elements of a content, one after the other; the last may be cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements<'a> {
    rest: &'a [u8],
}

/// The elements of `content`.
pub(crate) fn elements(content: &[u8]) -> Elements<'_> {
    Elements { rest: content }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = head(self.rest).ok()?;
        let total = head.total().min(self.rest.len());
        let (element, rest) = self.rest.split_at_checked(total)?;
        self.rest = rest;
        Some((head.tag, element.get(head.head..)?))
    }
}

/// A non-negative integer of at most eight bytes.
pub(crate) fn unsigned(content: &[u8]) -> Option<u64> {
    let small = !content.is_empty() && content.len() <= 8 && content.first().is_some_and(|b| *b < 0x80);
    small.then(|| content.iter().fold(0u64, |n, b| n << 8 | u64::from(*b)))
}
