//! Recognises SMTP by a greeting and the client's hello, or from the middle by an envelope and its reply.
//!
//! Bias: against. 220 greets in FTP too, and words are words: both ends must have spoken as SMTP alone does, or the
//! greeting names SMTP and a command of it follows.

use super::parse::{verb, MAX_LINE};
use super::reply::reply;
use crate::{Detect, Probe};

/// The first line, or as much of a long one as is looked at.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    let line = match memchr::memchr(b'\n', bytes.get(..MAX_LINE).unwrap_or(bytes)) {
        Some(end) => bytes.get(..end)?.strip_suffix(b"\r")?,
        None => bytes.get(..MAX_LINE)?,
    };
    (!line.iter().any(|b| *b < b' ')).then_some(line)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// A hello with a name.
    Hello,
    /// A part of an envelope.
    Envelope,
    /// Another command.
    Command,
}

fn client(bytes: &[u8]) -> Option<Asks> {
    let (verb, rest) = verb(line(bytes)?)?;
    // An address has brackets; some clients leave them out.
    let path = |with: &str| {
        let (head, tail) = rest.split_at_checked(with.len())?;
        let tail = tail.trim_ascii_start();
        let address = tail.first() == Some(&b'<') || tail.contains(&b'@');
        (head.eq_ignore_ascii_case(with.as_bytes()) && address).then_some(Asks::Envelope)
    };
    match verb {
        "EHLO" | "HELO" | "LHLO" if !rest.is_empty() => Some(Asks::Hello),
        "MAIL" => path("FROM:"),
        "RCPT" => path("TO:"),
        _ => Some(Asks::Command),
    }
}

/// A greeting that names its protocol.
fn greets(bytes: &[u8]) -> bool {
    let Some(line) = line(bytes).filter(|l| l.starts_with(b"220")) else { return false };
    line.windows(4).any(|w| w.eq_ignore_ascii_case(b"SMTP") || w.eq_ignore_ascii_case(b"LMTP"))
}

/// Whether the bytes may become a command: letters so far.
fn begins(bytes: &[u8]) -> bool {
    bytes.len() < 8 && bytes.iter().all(u8::is_ascii_alphabetic)
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let yes = |first_is_client| probe.agrees(first_is_client);
    let code = |bytes: &[u8]| line(bytes).and_then(reply).map(|r| r.code);
    match (code(probe.first), client(probe.second)) {
        // The greeting; or the reply to an earlier command, and the next.
        (Some(220 | 250 | 554), Some(Asks::Hello | Asks::Envelope)) => return yes(false),
        (Some(221 | 354 | 450..=554), Some(Asks::Envelope)) => return yes(false),
        (Some(220), Some(Asks::Command)) if greets(probe.first) => return yes(false),
        (Some(220), None) if probe.second.is_empty() => return Detect::Maybe,
        // A command may be typed letter by letter.
        (Some(220), None) if greets(probe.first) && begins(probe.second) => return Detect::Maybe,
        _ => {}
    }
    match (client(probe.first), code(probe.second)) {
        (Some(Asks::Hello | Asks::Envelope), Some(250 | 451 | 452 | 501..=504 | 550..=555)) => yes(true),
        // A greeting that came after an impatient client.
        (Some(Asks::Hello), Some(220)) => yes(true),
        (Some(Asks::Command | Asks::Envelope), Some(220)) if greets(probe.second) => yes(true),
        (Some(Asks::Hello | Asks::Envelope), None) if probe.second.is_empty() => Detect::Maybe,
        _ => Detect::No,
    }
}
