//! Start lines: request line and status line (RFC 9112, sections 3 and 4).

use crate::text::has_control;
use crate::url::without_user;

/// Longest method that is accepted, bytes.
pub const MAX_METHOD: usize = 32;

/// Longest version that is accepted, with the space behind it, bytes.
const MAX_VERSION: usize = 16;

/// Methods that are shown as they are; others become `_OTHER`. RFC 9110, RFC 5789, WebDAV (RFC 4918, 3253, 3648, 3744,
/// 5323, 5842), and `QUERY`.
pub const METHODS: &[&str] = &[
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "PATCH",
    "CONNECT",
    "TRACE",
    "QUERY",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
    "SEARCH",
    "MKACTIVITY",
    "CHECKOUT",
    "CHECKIN",
    "MERGE",
    "UNCHECKOUT",
    "UPDATE",
    "LABEL",
    "VERSION-CONTROL",
    "MKWORKSPACE",
    "BASELINE-CONTROL",
    "ORDERPATCH",
    "ACL",
    "BIND",
    "UNBIND",
    "REBIND",
    "MKCALENDAR",
    "LINK",
    "UNLINK",
    "PURGE",
];

/// Minor version of HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minor {
    /// HTTP/1.0.
    Zero,
    /// HTTP/1.1.
    One,
}

impl Minor {
    /// Value of `network.protocol.version`.
    pub fn as_str(self) -> &'static str {
        match self {
            Minor::Zero => "1.0",
            Minor::One => "1.1",
        }
    }
}

/// A request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// Method, as sent.
    pub method: &'a str,
    /// Request target, as sent.
    pub target: &'a [u8],
    /// Version; `None` if the line was cut before it.
    pub minor: Option<Minor>,
}

/// A status line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLine {
    /// Status, 100–999.
    pub status: u16,
    /// Version.
    pub minor: Minor,
}

/// The line without its `\r`.
pub(crate) fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// RFC 9110, 5.6.2.
fn is_tchar(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

fn method(token: &[u8]) -> Option<&str> {
    let ok = !token.is_empty() && token.len() <= MAX_METHOD && token.iter().all(|b| is_tchar(*b));
    ok.then(|| std::str::from_utf8(token).ok()).flatten()
}

fn target_ok(target: &[u8]) -> bool {
    // Spaces inside are tolerated, as servers do; control characters are not.
    !target.is_empty() && !has_control(target)
}

/// Reads a version that no standard has but programs send: another minor version (`HTTP/1.2`), or more numbers behind
/// it (`HTTP/1.0.8`). The first digit behind the point counts.
fn odd_version(text: &[u8]) -> Option<Minor> {
    let (first, more) = text.strip_prefix(b"HTTP/1.")?.split_first()?;
    let numbers = more.len() <= 6 && more.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    match first {
        b'0' if numbers => Some(Minor::Zero),
        b'1'..=b'9' if numbers => Some(Minor::One),
        _ => None,
    }
}

/// Reads a whole request line without its line end.
pub fn request_line(line: &[u8]) -> Option<RequestLine<'_>> {
    let line = trim_cr(line);
    let (rest, version) = line.split_at_checked(line.len().checked_sub(9)?)?;
    let (rest, minor) = match version {
        b" HTTP/1.1" => (rest, Minor::One),
        b" HTTP/1.0" => (rest, Minor::Zero),
        _ => {
            let (rest, version) = line.split_at_checked(memchr::memrchr(b' ', line)?)?;
            (rest, odd_version(version.get(1..)?)?)
        }
    };
    let (method_token, target) = split_space(rest)?;
    let method = method(method_token)?;
    target_ok(target).then_some(RequestLine { method, target, minor: Some(minor) })
}

/// Reads a request line whose end was not captured: a known method and the beginning of a target.
pub fn cut_request_line(line: &[u8]) -> Option<RequestLine<'_>> {
    let (token, target) = split_space(line)?;
    let method = method(token).filter(|m| METHODS.contains(m))?;
    let shaped = matches!(target.first(), Some(b'/' | b'*')) || target.starts_with(b"http") || method == "CONNECT";
    (shaped && target_ok(target)).then_some(RequestLine { method, target, minor: None })
}

/// Reads a status line, whole or cut behind the status.
pub fn status_line(line: &[u8]) -> Option<StatusLine> {
    let line = trim_cr(line);
    let (version, rest) = line.split_at_checked(9)?;
    let (rest, minor) = match version {
        b"HTTP/1.1 " => (rest, Minor::One),
        b"HTTP/1.0 " => (rest, Minor::Zero),
        _ => {
            let end = line.get(..MAX_VERSION).unwrap_or(line).iter().position(|b| *b == b' ')?;
            let (version, rest) = line.split_at_checked(end)?;
            (rest.get(1..)?, odd_version(version)?)
        }
    };
    let (digits, reason) = rest.split_at_checked(3)?;
    let status = crate::text::decimal(digits).and_then(|n| u16::try_from(n).ok()).filter(|n| *n >= 100)?;
    reason.first().is_none_or(|b| *b == b' ').then_some(StatusLine { status, minor })
}

/// Whether an incomplete line can still become a request line.
pub fn maybe_request_line(line: &[u8]) -> bool {
    match split_space(line) {
        Some((token, target)) => method(token).is_some() && !target.iter().any(|b| b.is_ascii_control() && *b != b'\r'),
        None => line.len() <= MAX_METHOD && line.iter().all(|b| is_tchar(*b)),
    }
}

/// Whether an incomplete line can still become a status line.
pub fn maybe_status_line(line: &[u8]) -> bool {
    const START: &[u8] = b"HTTP/1.";
    let n = line.len().min(START.len());
    let rest = line.get(n..).unwrap_or_default();
    let begins = line.get(..n) == START.get(..n) && line.len() <= MAX_VERSION.saturating_add(3);
    status_line(line).is_some() || begins && rest.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b' '))
}

fn split_space(line: &[u8]) -> Option<(&[u8], &[u8])> {
    // A method is short: no need to look further for its end.
    let window = line.get(..MAX_METHOD.saturating_add(1)).unwrap_or(line);
    let space = window.iter().position(|b| *b == b' ')?;
    let (token, rest) = line.split_at_checked(space)?;
    Some((token, rest.get(1..)?))
}

/// A request target taken apart (RFC 9112, 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target<'a> {
    /// Scheme of the absolute form.
    pub scheme: &'static str,
    /// `host[:port]` of the absolute and the authority form, without user info.
    pub authority: &'a [u8],
    /// Path with query and fragment, as sent; `*` of the asterisk form; empty for the authority form.
    pub path: &'a [u8],
}

/// Takes a request target apart.
pub fn target<'a>(method: &str, target: &'a [u8]) -> Target<'a> {
    if method == "CONNECT" {
        return Target { authority: without_user(target), ..Target::default() };
    }
    let (scheme, rest) = match (strip_scheme(target, b"http://"), strip_scheme(target, b"https://")) {
        (Some(rest), _) => ("http", rest),
        (_, Some(rest)) => ("https", rest),
        _ => return Target { path: target, ..Target::default() },
    };
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, b""));
    Target { scheme, authority: without_user(authority), path: if path.first() == Some(&b'/') { path } else { b"/" } }
}

fn strip_scheme<'a>(target: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = target.split_at_checked(scheme.len())?;
    head.eq_ignore_ascii_case(scheme).then_some(rest)
}
