//! Names and dates of an X.509 certificate (RFC 5280), without its keys and extensions.

use crate::ber::{elements, head};
use crate::text::clean;

/// Longest name that is kept, bytes.
const MAX_NAME: usize = 240;

/// The names and dates of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) subject: String,
    pub(super) issuer: String,
    /// ISO 8601.
    pub(super) not_before: String,
    pub(super) not_after: String,
}

/// The first certificate of the body of a Certificate message (up to TLS 1.2); it may be cut.
pub(super) fn first(body: &[u8]) -> Option<Certificate> {
    // Length of the list, length of the first.
    read(body.get(6..)?)
}

fn read(der: &[u8]) -> Option<Certificate> {
    let outer = head(der).ok()?;
    let to_be_signed = der.get(outer.head..)?;
    let inner = head(to_be_signed).ok()?;
    if (outer.tag, inner.tag) != (0x30, 0x30) {
        return None;
    }
    let mut fields = elements(to_be_signed.get(inner.head..)?).skip_while(|(tag, _)| *tag == 0xa0);
    fields.next()?;
    fields.next()?;
    let (_, issuer) = fields.next()?;
    let (_, dates) = fields.next()?;
    let (_, subject) = fields.next()?;
    let mut dates = elements(dates).map(|(tag, text)| date(tag, text));
    Some(Certificate {
        subject: name(subject),
        issuer: name(issuer),
        not_before: dates.next().unwrap_or_default(),
        not_after: dates.next().unwrap_or_default(),
    })
}

/// A name as text, the most specific part first (RFC 4514).
fn name(content: &[u8]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (_, set) in elements(content).take(16) {
        for (_, pair) in elements(set).take(4) {
            let mut pair = elements(pair);
            let (Some((6, oid)), Some((_, value))) = (pair.next(), pair.next()) else { continue };
            let label = match oid {
                [0x55, 4, 3] => "CN",
                [0x55, 4, 6] => "C",
                [0x55, 4, 7] => "L",
                [0x55, 4, 8] => "ST",
                [0x55, 4, 10] => "O",
                [0x55, 4, 11] => "OU",
                [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 0x19] => "DC",
                // Mail addresses, serial numbers and what else there is of persons.
                _ => continue,
            };
            parts.push(format!("{label}={}", clean(value, 64)));
        }
    }
    parts.reverse();
    let mut text = parts.join(", ");
    if text.len() > MAX_NAME {
        let cut = text.char_indices().map(|(i, _)| i).take_while(|i| *i <= MAX_NAME).last().unwrap_or(0);
        text.truncate(cut);
    }
    text
}

/// A date as ISO 8601; nothing if it is not in the form that certificates use.
fn date(tag: u8, text: &[u8]) -> String {
    let Some(digits) = text.strip_suffix(b"Z").filter(|d| d.iter().all(u8::is_ascii_digit)) else {
        return String::new();
    };
    let Ok(digits) = std::str::from_utf8(digits) else { return String::new() };
    let (century, rest) = match (tag, digits.len()) {
        // Two digits of a year: below 50 is this century.
        (0x17, 12) => (if digits < "50" { "20" } else { "19" }, digits),
        (0x18, 14) => digits.split_at(2),
        _ => return String::new(),
    };
    let mut at = 0usize;
    let mut two = || {
        let part = rest.get(at..at.saturating_add(2)).unwrap_or_default();
        at = at.saturating_add(2);
        part
    };
    format!("{century}{}-{}-{}T{}:{}:{}Z", two(), two(), two(), two(), two(), two())
}
