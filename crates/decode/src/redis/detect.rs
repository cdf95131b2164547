//! Recognises Redis by a command as clients write it: an array of strings that begins with a command's name.
//!
//! Bias: against. `*<n>\r\n$<len>\r\n<NAME>\r\n` is written by no other protocol; a name of the core is enough, another
//! name (a module's) needs a reply in RESP or a capture source that knows the client. Replies alone never decide: `+OK`
//! and `-ERR` are POP3 and NATS too. A command typed as a line needs a known name *and* a reply in RESP that POP3 and
//! NATS do not give.

use super::commands::{Name, MAX_NAME};
use super::head::{Cursor, Stop, Text};
use super::reply::{reply, Shape};
use crate::{Detect, Probe};

/// What one end's bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    Silent,
    /// A command of the core.
    Command,
    /// An array that begins with something like a name.
    Shaped,
    /// The beginning of an array of strings.
    Start,
    /// A line that begins with a command of the core.
    Inline,
    /// A reply in RESP, whole or its first line.
    Reply,
    /// A reply that POP3 or NATS could give as well.
    WeakReply,
    Other,
}

fn looks(bytes: &[u8]) -> Looks {
    match bytes.first() {
        None => Looks::Silent,
        Some(b'*') => array(bytes),
        Some(b'+' | b'-' | b':' | b'$' | b'%' | b'~' | b'_' | b'#' | b',' | b'(' | b'>' | b'=' | b'!' | b'|') => {
            as_reply(bytes)
        }
        Some(b) if b.is_ascii_alphabetic() => as_line(bytes),
        _ => Looks::Other,
    }
}

fn array(bytes: &[u8]) -> Looks {
    let mut at = Cursor::new(bytes);
    let name = match at.count() {
        Ok((_, Some(n))) if (1..=1024 * 1024).contains(&n) => at.text(MAX_NAME),
        Ok((_, None | Some(0))) => return Looks::Reply,
        Ok(_) | Err(Stop::Bad) => return Looks::Other,
        Err(Stop::More) => return Looks::Start,
    };
    match name {
        Ok(Text::Short(name)) => match Name::new(name) {
            Some(name) if name.is_known() => Looks::Command,
            Some(_) => Looks::Shaped,
            None => Looks::Reply,
        },
        Err(Stop::More) => Looks::Start,
        // An array of anything else, or of long strings, is a reply.
        Ok(Text::Long(_)) | Err(Stop::Bad) => match at.peek() {
            Ok(b'$' | b'*' | b':' | b'+' | b'-' | b'_' | b'%' | b'~' | b'#' | b',') => Looks::Reply,
            _ => Looks::Other,
        },
    }
}

fn as_reply(bytes: &[u8]) -> Looks {
    match reply(bytes, false, false) {
        Ok((head, _)) => match head.shape {
            Shape::Simple(b"PONG" | b"QUEUED") => Looks::Reply,
            Shape::Simple(_) | Shape::Error(_) => Looks::WeakReply,
            _ => Looks::Reply,
        },
        Err(_) => Looks::Other,
    }
}

fn as_line(bytes: &[u8]) -> Looks {
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    if line.len() == bytes.len() || line.len() > 512 {
        return Looks::Other;
    }
    let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    // POP3 has these too.
    if word.eq_ignore_ascii_case(b"quit") || word.eq_ignore_ascii_case(b"auth") {
        return Looks::Other;
    }
    match Name::new(word) {
        Some(name) if name.is_known() => Looks::Inline,
        _ => Looks::Other,
    }
}

/// Whether Redis answers this line so. NATS has these words too, and other answers to them.
fn fits(line: &[u8], reply: &[u8]) -> bool {
    match line.get(..4).unwrap_or_default().to_ascii_lowercase().as_slice() {
        b"ping" => reply.starts_with(b"+PONG"),
        b"info" => matches!(reply.first(), Some(b'$' | b'=')),
        _ => true,
    }
}

/// Whether a reply to one line or to several says nothing but OK. POP3 and NATS say more, or less.
fn are_okays(reply: &[u8]) -> bool {
    let mut lines = reply.split_inclusive(|b| *b == b'\n');
    lines.clone().count() > 0 && lines.all(|line| line == b"+OK\r\n")
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let client = |first_is_client| Detect::Yes { first_is_client };
    let (first, second) = (looks(probe.first), looks(probe.second));
    match (first, second) {
        // Arrays of strings at both ends: the capture source decides which end asks; else the end whose bytes begin
        // with a command asks.
        (Looks::Command, Looks::Command | Looks::Shaped) => match probe.first_is_client {
            Some(known) => client(known),
            None if second == Looks::Shaped => client(true),
            None => Detect::Maybe,
        },
        (Looks::Shaped, Looks::Shaped) => probe.first_is_client.map_or(Detect::Maybe, client),
        (Looks::Command, Looks::Silent) if probe.first_is_client == Some(false) => Detect::Maybe,
        (Looks::Command, _) => client(true),
        (_, Looks::Command) => client(false),
        (Looks::Shaped, Looks::Reply | Looks::WeakReply) => client(true),
        (Looks::Reply | Looks::WeakReply, Looks::Shaped) => client(false),
        (Looks::Shaped, Looks::Silent) if probe.first_is_client == Some(true) => client(true),
        (Looks::Inline, Looks::Reply | Looks::WeakReply) if !fits(probe.first, probe.second) => Detect::No,
        (Looks::Inline, Looks::Reply) => client(true),
        (Looks::Inline, Looks::WeakReply) if are_okays(probe.second) => client(true),
        (
            Looks::Shaped | Looks::Start | Looks::Inline | Looks::Reply | Looks::WeakReply,
            Looks::Silent | Looks::Start,
        )
        | (Looks::Start, _) => Detect::Maybe,
        _ => Detect::No,
    }
}
