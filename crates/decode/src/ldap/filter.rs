//! Names and filters without their values.

use crate::ber::elements;
use crate::text::visible;

/// Longest masked text.
const MAX_TEXT: usize = 256;
/// How deep filters are read.
const MAX_DEPTH: u32 = 8;

/// An attribute description: letters, digits, hyphens, options behind semicolons, dots of an object identifier.
fn attribute(bytes: &[u8]) -> &str {
    let ok = |text: &&str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b';' | b'.'));
    visible(bytes, 64).filter(ok).unwrap_or("?")
}

/// A distinguished name with `?` for each value: `uid=?,ou=?,dc=?`. Other text becomes `?`.
pub(super) fn name(dn: &[u8], out: &mut String) {
    out.clear();
    let mut rest = dn;
    while !rest.is_empty() && out.len() < MAX_TEXT {
        let Some(equals) = memchr::memchr(b'=', rest) else {
            out.push('?');
            return;
        };
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(attribute(rest.get(..equals).unwrap_or_default().trim_ascii()));
        out.push_str("=?");
        rest = behind_value(rest.get(equals.saturating_add(1)..).unwrap_or_default());
    }
}

/// The text behind the separator that ends a value. Escapes and quotation marks hide separators.
fn behind_value(value: &[u8]) -> &[u8] {
    let (mut escaped, mut quoted) = (false, false);
    for (i, b) in value.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'+' | b';' if !quoted => return value.get(i.saturating_add(1)..).unwrap_or_default(),
            _ => {}
        }
    }
    &[]
}

/// A filter with `?` for each value: `(&(objectClass=?)(uid=?))`. A part that was cut off becomes `…`.
pub(super) fn filter(tag: u8, content: &[u8], depth: u32, out: &mut String) {
    if depth > MAX_DEPTH || out.len() > MAX_TEXT {
        out.push('…');
        return;
    }
    out.push('(');
    match tag {
        0xa0..=0xa2 => {
            out.push(match tag {
                0xa0 => '&',
                0xa1 => '|',
                _ => '!',
            });
            for (tag, content) in elements(content) {
                filter(tag, content, depth.saturating_add(1), out);
            }
        }
        0xa3 | 0xa4 | 0xa5 | 0xa6 | 0xa8 => {
            let name = elements(content).next().map_or("?", |(_, name)| attribute(name));
            out.push_str(name);
            out.push_str(match tag {
                0xa4 => "=*?*",
                0xa5 => ">=?",
                0xa6 => "<=?",
                0xa8 => "~=?",
                _ => "=?",
            });
        }
        0x87 => {
            out.push_str(attribute(content));
            out.push_str("=*");
        }
        0xa9 => {
            let name = elements(content).find(|(tag, _)| *tag == 0x82).map_or("?", |(_, name)| attribute(name));
            out.push_str(name);
            out.push_str(":=?");
        }
        _ => out.push('?'),
    }
    out.push(')');
}
