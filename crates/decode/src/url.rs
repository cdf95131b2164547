//! URLs → what may be shown of them: no query, no fragment, no user info, no session id, no path segment that looks
//! like a credential.

use crate::text::clean;
use std::borrow::Cow;

/// Longest path that is kept, bytes.
pub(crate) const MAX_PATH: usize = 2048;
/// Replaces a secret segment.
const MASK: &str = "*";
/// Shortest segment that is looked at: shorter ones are words and numbers.
const SHORTEST_SECRET: usize = 16;
/// Hexadecimal of this length is a digest or a key (a UUID with its dashes, or an object id of 24 digits, is an
/// identifier).
const HEX_SECRET: usize = 32;
/// Letters and digits without order, of this length.
const MIXED_SECRET: usize = 24;

/// Path of a request target, safe to show. Borrowed unless a segment had to be masked.
pub(crate) fn shown(target: &[u8]) -> Cow<'_, str> {
    let path = public_path(target);
    if path.len() < SHORTEST_SECRET || !path.split(|b| *b == b'/').any(looks_secret) {
        return clean(path, MAX_PATH);
    }
    let mut masked = String::with_capacity(path.len().min(MAX_PATH));
    for (n, segment) in path.split(|b| *b == b'/').enumerate() {
        if n > 0 {
            masked.push('/');
        }
        if masked.len() >= MAX_PATH {
            break;
        }
        if looks_secret(segment) {
            masked.push_str(MASK);
        } else {
            masked.push_str(&clean(segment, MAX_PATH.saturating_sub(masked.len())));
        }
    }
    Cow::Owned(masked)
}

/// The path without query, fragment, and a session id as Java servers append it.
fn public_path(path: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'?', b'#', path).unwrap_or(path.len());
    let path = path.get(..end).unwrap_or(path);
    let session = memchr::memchr_iter(b';', path).find(|i| {
        let name = path.get(*i..).and_then(|p| p.get(..12));
        name.is_some_and(|n| n.eq_ignore_ascii_case(b";jsessionid="))
    });
    session.and_then(|i| path.get(..i)).unwrap_or(path)
}

/// An authority without its user info.
pub(crate) fn without_user(authority: &[u8]) -> &[u8] {
    let start = authority.iter().rposition(|b| *b == b'@').map_or(0, |i| i.saturating_add(1));
    authority.get(start..).unwrap_or(authority)
}

/// `host[:port]` → host (brackets of IPv6 taken off) and port. Nothing if it is neither a name nor an address.
pub(crate) fn host_port(authority: &[u8]) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix(b"[") {
        Some(v6) => {
            let (host, rest) = v6.split_at_checked(memchr::memchr(b']', v6)?)?;
            (host, rest.strip_prefix(b"]:"))
        }
        None => match memchr::memchr(b':', authority) {
            Some(i) => (authority.get(..i)?, authority.get(i.checked_add(1)?..)),
            None => (authority, None),
        },
    };
    let named = |b: &u8| b.is_ascii_alphanumeric() || b"-._:%".contains(b);
    if host.is_empty() || host.len() > 255 || !host.iter().all(named) {
        return None;
    }
    let port = port.and_then(crate::text::decimal).and_then(|n| u16::try_from(n).ok());
    Some((std::str::from_utf8(host).ok()?, port))
}

/// Beginnings that vendors give their tokens.
const PREFIXES: [&str; 12] =
    ["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "sk_live_", "sk_test_", "AKIA", "AIza", "npm_"];

/// Whether a word looks like a credential: a JSON web token, a vendor's token, long hexadecimal, or letters of both
/// cases and digits in no order. Errs on the side of hiding.
pub(crate) fn looks_secret(word: &[u8]) -> bool {
    if word.len() < SHORTEST_SECRET {
        return false;
    }
    if word.starts_with(b"eyJ") || PREFIXES.iter().any(|p| word.starts_with(p.as_bytes())) {
        return true;
    }
    // Names are made of short parts; a token is at least one long one.
    word.split(|b| matches!(b, b'-' | b'_' | b'.' | b':' | b'=')).any(is_random)
}

/// Whether a word without separators is random: see [`looks_secret`].
fn is_random(part: &[u8]) -> bool {
    if part.len() < SHORTEST_SECRET {
        return false;
    }
    let (mut upper, mut lower, mut digits, mut turns, mut last) = (0usize, 0usize, 0usize, 0usize, 0u8);
    for b in part {
        let class = match b {
            b'A'..=b'Z' => 1,
            b'a'..=b'z' => 2,
            b'0'..=b'9' => 3,
            // What base64 has beside them, and what escapes it.
            b'+' | b'%' | b'~' => 4,
            _ => return false,
        };
        match class {
            1 => upper = upper.saturating_add(1),
            2 => lower = lower.saturating_add(1),
            3 => digits = digits.saturating_add(1),
            _ => {}
        }
        turns = turns.saturating_add(usize::from(class != last && last != 0));
        last = class;
    }
    if part.iter().all(u8::is_ascii_hexdigit) {
        return part.len() >= HEX_SECRET && digits < part.len() && digits > 0;
    }
    let all_kinds = upper > 0 && lower > 0 && digits > 0;
    // Names in camel case turn every few letters, random ones at every second.
    let restless = turns.saturating_mul(10) >= part.len().saturating_mul(if all_kinds { 3 } else { 4 });
    let long = part.len() >= if all_kinds { MIXED_SECRET.saturating_sub(4) } else { MIXED_SECRET };
    long && digits >= 2 && restless && upper.saturating_add(lower) > 0
}

#[cfg(test)]
mod tests {
    use super::{looks_secret, shown};

    #[test]
    fn secrets_in_paths_are_hidden_and_names_are_not() {
        for secret in [
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r",
            "0af7651916cd43dd8448eb211c80319c",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
            "T1RLAbC9dEf8GhI7jKl6MnO5pQr4StU3",
        ] {
            assert!(looks_secret(secret.as_bytes()), "{secret}");
            assert_eq!(shown(format!("/reset/{secret}/x?{secret}").as_bytes()), "/reset/*/x");
        }
        for name in [
            "7b1f0c1e-1f0a-4a55-9a3c-0f7e2d1c4b5a",
            "507f1f77bcf86cd799439011",
            "com.example.shop.CheckoutServiceController",
            "getCustomerOrdersByStatusAndDate",
            "kubernetes-dashboard-metrics-scraper-7b59f7d4df-x2x7l",
            "12345678901234567890123456789012345",
            "2026-11-22T01:02:03.000Z",
            "MyLongServiceNameVersion2Controller",
        ] {
            assert!(!looks_secret(name.as_bytes()), "{name}");
        }
    }
}
