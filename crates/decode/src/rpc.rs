//! Attributes, names, and error texts without secrets, for the messages of all RPC protocols.

use crate::mask;
use std::borrow::Cow;
use wirespan_model::{AttrVal, Kind, Message, Outcome, Side};

/// Longest name of a service or method that is kept, bytes.
pub(crate) const MAX_NAME: usize = 256;

/// A message with the attributes of a call; empty names are unknown and left out.
pub(crate) fn call<'a>(
    protocol: &'static str,
    system: &'static str,
    side: Side,
    kind: Kind,
    service: &'a str,
    method: &'a str,
) -> Message<'a> {
    let mut m = Message::new(protocol, side, kind, 0);
    m.operation = method;
    m.target = Cow::Borrowed(service);
    m.attrs.push(("rpc.system.name", AttrVal::from(system)));
    if !method.is_empty() {
        // The conventions want its full name.
        let full = if service.is_empty() { Cow::Borrowed(method) } else { Cow::Owned([service, "/", method].concat()) };
        m.attrs.push(("rpc.method", AttrVal::Str(full)));
    }
    m
}

/// Writes a failure into a response.
pub(crate) fn fail<'a>(m: &mut Message<'a>, outcome: Outcome, kind: Cow<'a, str>, text: Cow<'a, str>) {
    m.outcome = outcome;
    m.error = if text.is_empty() { kind.clone() } else { text };
    m.attrs.push(("error.type", AttrVal::Str(kind)));
}

/// The name of a service, class or method: visible ASCII or letters, without quotes or spaces.
pub(crate) fn name(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '$' | ':' | '/' | '@' | '#' | '~');
    (!text.is_empty() && text.len() <= MAX_NAME && text.chars().all(fits)).then_some(text)
}

/// The first line of an error text, masked by [`mask::text`]. Values behind `=` and words that look like an address are
/// masked, too.
pub(crate) fn error_text(bytes: &[u8]) -> Cow<'static, str> {
    // Stack traces begin on the second line.
    let line = bytes.split(|b| matches!(b, b'\n' | b'\r')).find(|l| !l.is_empty()).unwrap_or_default();
    let text = mask::text(line, true);
    let mut masked = String::with_capacity(text.len());
    for (i, word) in text.split(' ').enumerate() {
        if i > 0 {
            masked.push(' ');
        }
        match word.split_once('=') {
            Some((key, value)) if !value.is_empty() => {
                masked.push_str(key);
                masked.push_str("=?");
            }
            _ if word.contains('@') => masked.push('?'),
            _ => masked.push_str(word),
        }
    }
    Cow::Owned(masked)
}

#[cfg(test)]
mod tests {
    use super::error_text;

    #[test]
    fn error_texts_keep_words_and_no_values() {
        for (text, kept) in [
            ("Fail to find method=Nope on service=example.Echo", "Fail to find method=? on service=?"),
            ("user canary@example.org not found", "user ? not found"),
            ("no such key 'canary one two' here", "no such key '?' here"),
            (
                "\njava.lang.IllegalStateException: card 4111111111111111\n\tat x.y",
                "java.lang.IllegalStateException: card ?",
            ),
        ] {
            assert_eq!(error_text(text.as_bytes()), kept, "{text}");
        }
    }
}
