//! As much JSON as a header needs: one object, and one object of strings in it.

use std::borrow::Cow;

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes end here.
    More,
    /// No JSON.
    Bad,
}

/// A value of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Int(i64),
    Text(Cow<'a, [u8]>),
    /// An object of values, still to be read.
    Object,
    Other,
}

/// Reads from left to right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Json<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Json<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Json { bytes, at: 0 }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Result<u8, Stop> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let blank = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')).count();
        self.at = self.at.saturating_add(blank);
        self.bytes.get(self.at).copied().ok_or(Stop::More)
    }

    fn expect(&mut self, wanted: u8) -> Result<(), Stop> {
        if self.peek()? != wanted {
            return Err(Stop::Bad);
        }
        self.at = self.at.saturating_add(1);
        Ok(())
    }

    pub(super) fn open(&mut self) -> Result<(), Stop> {
        self.expect(b'{')
    }

    /// The next key of an object, or its end. `first` is for the first one, which no comma stands before.
    pub(super) fn key(&mut self, first: bool) -> Result<Option<Cow<'a, [u8]>>, Stop> {
        match self.peek()? {
            b'}' => {
                self.at = self.at.saturating_add(1);
                return Ok(None);
            }
            b',' if !first => self.at = self.at.saturating_add(1),
            _ if !first => return Err(Stop::Bad),
            _ => {}
        }
        let key = self.text()?;
        self.expect(b':')?;
        Ok(Some(key))
    }

    /// A value; an object is only opened.
    pub(super) fn value(&mut self) -> Result<Value<'a>, Stop> {
        match self.peek()? {
            b'"' => self.text().map(Value::Text),
            b'{' => {
                self.at = self.at.saturating_add(1);
                Ok(Value::Object)
            }
            b'-' | b'0'..=b'9' => self.number(),
            b't' | b'f' | b'n' => {
                let len = self.run(|b| b.is_ascii_alphabetic())?;
                self.at = self.at.saturating_add(len);
                Ok(Value::Other)
            }
            _ => Err(Stop::Bad),
        }
    }

    /// Length of the run of bytes that `fits`, which has to end within the bytes.
    fn run(&self, fits: impl Fn(&u8) -> bool) -> Result<usize, Stop> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().take_while(|b| fits(b)).count();
        if len == rest.len() {
            Err(Stop::More)
        } else {
            Ok(len)
        }
    }

    fn number(&mut self) -> Result<Value<'a>, Stop> {
        let len = self.run(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E'))?;
        let end = self.at.saturating_add(len);
        let text = self.bytes.get(self.at..end).and_then(|t| std::str::from_utf8(t).ok()).ok_or(Stop::Bad)?;
        self.at = end;
        Ok(text.parse().map_or(Value::Other, Value::Int))
    }

    fn text(&mut self) -> Result<Cow<'a, [u8]>, Stop> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let n = memchr::memchr2(b'"', b'\\', rest).ok_or(Stop::More)?;
            self.at = self.at.saturating_add(n);
            if self.bytes.get(self.at) == Some(&b'"') {
                break;
            }
            escaped = true;
            self.at = self.at.saturating_add(2);
        }
        let raw = self.bytes.get(start..self.at).unwrap_or_default();
        self.at = self.at.saturating_add(1);
        Ok(if escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) })
    }
}

/// Undoes escapes; surrogates and nonsense become a question mark.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw.iter();
    while let Some(b) = rest.next() {
        if *b != b'\\' {
            text.push(*b);
            continue;
        }
        match rest.next() {
            Some(b'u') => {
                let hex = rest.as_slice().get(..4).and_then(|h| std::str::from_utf8(h).ok());
                let code = hex.and_then(|h| u32::from_str_radix(h, 16).ok());
                rest = rest.as_slice().get(4..).unwrap_or_default().iter();
                let c = code.and_then(char::from_u32).unwrap_or('?');
                text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Some(b'n') => text.push(b'\n'),
            Some(b't') => text.push(b'\t'),
            Some(b'r') => text.push(b'\r'),
            Some(b'b') => text.push(8),
            Some(b'f') => text.push(12),
            Some(other) => text.push(*other),
            None => {}
        }
    }
    text
}
