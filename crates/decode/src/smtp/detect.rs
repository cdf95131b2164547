//! Recognises SMTP by a greeting and the client's hello, or from the middle by an envelope and its reply.
//!
//! Bias: against. 220 greets in FTP too, and words are words: both ends must have spoken as SMTP alone does.

use super::parse::verb;
use super::reply::reply;
use crate::{Detect, Probe};

fn line(bytes: &[u8]) -> Option<&[u8]> {
    let window = bytes.get(..1024).unwrap_or(bytes);
    let end = memchr::memchr(b'\n', window)?;
    window.get(..end)?.strip_suffix(b"\r").filter(|l| !l.iter().any(|b| *b < b' '))
}

/// A hello with a name, or a part of an envelope.
fn client(bytes: &[u8]) -> Option<bool> {
    let (verb, rest) = verb(line(bytes)?)?;
    let path = |with: &str| {
        let (head, tail) = rest.split_at_checked(with.len())?;
        (head.eq_ignore_ascii_case(with.as_bytes()) && tail.trim_ascii_start().first() == Some(&b'<')).then_some(())
    };
    match verb {
        "EHLO" | "HELO" | "LHLO" if !rest.is_empty() => Some(true),
        "MAIL" => path("FROM:").map(|()| false),
        "RCPT" => path("TO:").map(|()| false),
        _ => None,
    }
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let yes = |first_is_client| probe.agrees(first_is_client);
    let code = |bytes: &[u8]| line(bytes).and_then(reply).map(|r| r.code);
    match (code(probe.first), client(probe.second)) {
        // The greeting; or the reply to an earlier command, and the next.
        (Some(220 | 250 | 554), Some(_)) | (Some(221 | 354 | 450..=554), Some(false)) => return yes(false),
        (Some(220), None) if probe.second.is_empty() => return Detect::Maybe,
        _ => {}
    }
    match (client(probe.first), code(probe.second)) {
        (Some(_), Some(250 | 451 | 452 | 501..=504 | 550..=555)) => yes(true),
        // A greeting that came after an impatient client.
        (Some(true), Some(220)) => yes(true),
        (Some(_), None) if probe.second.is_empty() => Detect::Maybe,
        _ => Detect::No,
    }
}
