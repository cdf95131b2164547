//! Error texts: servers repeat the client's values in them.

use std::borrow::Cow;

/// Longest error text that is kept, bytes.
pub const MAX_TEXT: usize = 200;

/// An error text without values: the text from the first quote to the last of its line, text in parentheses, and
/// numbers become `?`.
///
/// From first to last, since values have quotes in them and servers do not escape them there: `near 'x = 'secret'' at`.
/// A text that is not whole (its end was not captured) is masked from its first quote on: say so with `whole`.
pub fn text(raw: &[u8], whole: bool) -> Cow<'_, str> {
    let cut = raw.get(..MAX_TEXT);
    let shown = cut.unwrap_or(raw);
    let clean = |b: &u8| (b.is_ascii_graphic() || *b == b' ') && !b.is_ascii_digit() && !opens(*b);
    if shown.iter().all(clean) {
        if let Ok(text) = std::str::from_utf8(shown) {
            return Cow::Borrowed(text);
        }
    }
    // The last quote counts even if it lies behind the shown text.
    let first = raw.iter().position(|b| is_quote(*b));
    let last = if whole { raw.iter().rposition(|b| is_quote(*b)) } else { None }.unwrap_or(raw.len());
    let mut out = String::with_capacity(shown.len());
    match first {
        None => plain(shown, &mut out),
        Some(first) => {
            plain(shown.get(..first).unwrap_or(shown), &mut out);
            if first < shown.len() {
                let quote = char::from(raw.get(first).copied().unwrap_or(b'\''));
                out.extend([quote, '?']);
                if whole {
                    out.push(quote);
                }
                plain(shown.get(last.saturating_add(1)..).unwrap_or_default(), &mut out);
            }
        }
    }
    Cow::Owned(out)
}

fn is_quote(b: u8) -> bool {
    matches!(b, b'\'' | b'"' | b'`')
}

fn opens(b: u8) -> bool {
    is_quote(b) || matches!(b, b'(' | b'[' | b'{')
}

/// Text outside of quotes.
fn plain(bytes: &[u8], out: &mut String) {
    let text = String::from_utf8_lossy(bytes);
    let mut depth = 0u32;
    let mut number = false;
    let mut word = false;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => {
                if depth == 0 {
                    out.extend([c, '?']);
                }
                depth = depth.saturating_add(1);
                (number, word) = (false, false);
            }
            ')' | ']' | '}' if depth > 0 => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    out.push(c);
                }
            }
            _ if depth > 0 => {}
            '0'..='9' if !word => {
                if !number {
                    out.push('?');
                }
                number = true;
            }
            // What touches a number goes with it.
            c if number && (c.is_alphanumeric() || matches!(c, '.' | ':' | '-' | '_')) => {}
            c => {
                number = false;
                word = c.is_alphanumeric() || c == '_';
                out.push(if c.is_control() { ' ' } else { c });
            }
        }
    }
}
