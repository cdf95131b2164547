//! Reads the members of a JSON object, of which perhaps only the beginning was captured. It does not validate: bytes
//! that are no JSON yield nothing of use.

/// A value of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A string with its escapes; `whole` if its closing quote was seen.
    Text { raw: &'a [u8], whole: bool },
    /// A number, `true`, `false` or `null`.
    Word(&'a [u8]),
    /// An object with its braces, as far as it is there.
    Object(&'a [u8]),
    /// An array with its brackets, as far as it is there.
    Array(&'a [u8]),
}

/// Calls `each` with the members of the object that `bytes` begin with, in order.
pub(super) fn members<'a>(bytes: &'a [u8], mut each: impl FnMut(&'a [u8], Value<'a>)) {
    let Some(mut rest) = bytes.trim_ascii_start().strip_prefix(b"{") else { return };
    loop {
        rest = rest.trim_ascii_start();
        rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
        let Some((Value::Text { raw: key, whole: true }, behind)) = value(rest) else { return };
        let Some(behind) = behind.trim_ascii_start().strip_prefix(b":") else { return };
        let Some((value, behind)) = value(behind.trim_ascii_start()) else { return };
        each(key, value);
        rest = behind;
    }
}

/// The first element of an array, or the object itself.
pub(super) fn first_object(bytes: &[u8]) -> (&[u8], bool) {
    let bytes = bytes.trim_ascii_start();
    match bytes.strip_prefix(b"[") {
        Some(inside) => (inside.trim_ascii_start(), true),
        None => (bytes, false),
    }
}

/// The value at the start of `bytes`, and the bytes behind it.
fn value(bytes: &[u8]) -> Option<(Value<'_>, &[u8])> {
    match bytes.first()? {
        b'"' => {
            let inside = bytes.get(1..)?;
            let (len, whole) = match string_end(inside) {
                Some(len) => (len, true),
                None => (inside.len(), false),
            };
            let behind = inside.get(len.saturating_add(1)..).unwrap_or_default();
            Some((Value::Text { raw: inside.get(..len)?, whole }, behind))
        }
        b'{' => nested(bytes).map(|(all, behind)| (Value::Object(all), behind)),
        b'[' => nested(bytes).map(|(all, behind)| (Value::Array(all), behind)),
        _ => {
            let len = bytes.iter().position(|b| matches!(b, b',' | b'}' | b']') || b.is_ascii_whitespace());
            let (word, behind) = bytes.split_at_checked(len.unwrap_or(bytes.len()))?;
            (!word.is_empty()).then_some((Value::Word(word), behind))
        }
    }
}

/// Length of a string up to its closing quote.
fn string_end(inside: &[u8]) -> Option<usize> {
    let mut escaped = false;
    inside.iter().position(|b| {
        let ends = *b == b'"' && !escaped;
        escaped = *b == b'\\' && !escaped;
        ends
    })
}

/// An object or an array to its end, or to the end of the bytes.
fn nested(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    let end = bytes.iter().position(|b| {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth = depth.saturating_add(1),
            b'}' | b']' if !quoted => {
                depth = depth.saturating_sub(1);
                return depth == 0;
            }
            _ => {}
        }
        false
    });
    bytes.split_at_checked(end.map_or(bytes.len(), |end| end.saturating_add(1)))
}

/// A string without its escapes; `\u` becomes `?`, which no name has.
pub(super) fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(b) = bytes.next() {
        if *b != b'\\' {
            out.push(*b);
            continue;
        }
        match bytes.next() {
            // A line end ends a comment of GraphQL.
            Some(b'n' | b'r') => out.push(b'\n'),
            Some(b't' | b'f' | b'b') => out.push(b' '),
            Some(b'u') => {
                bytes.by_ref().take(4).for_each(drop);
                out.push(b'?');
            }
            Some(other) => out.push(*other),
            None => {}
        }
    }
    out
}
