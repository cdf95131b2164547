//! Lines of the protocol: a verb and its arguments.

use crate::framing::frames::MAX_WANTED;
use crate::text::{decimal, len64};
use memchr::memchr;
use wirespan_model::Side;

/// Longest payload that a server can be configured to take, bytes.
const MAX_PAYLOAD: u64 = 64 << 20;
/// Bytes of a payload that JetStream may have written.
const PEEK: u64 = 256;

/// Verbs, both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Info,
    Connect,
    Pub,
    Hpub,
    Sub,
    Unsub,
    Msg,
    Hmsg,
    Ping,
    Pong,
    Ok,
    Err,
}

const VERBS: [(&[u8], Verb); 12] = [
    (b"INFO", Verb::Info),
    (b"CONNECT", Verb::Connect),
    (b"PUB", Verb::Pub),
    (b"HPUB", Verb::Hpub),
    (b"SUB", Verb::Sub),
    (b"UNSUB", Verb::Unsub),
    (b"MSG", Verb::Msg),
    (b"HMSG", Verb::Hmsg),
    (b"PING", Verb::Ping),
    (b"PONG", Verb::Pong),
    (b"+OK", Verb::Ok),
    (b"-ERR", Verb::Err),
];

impl Verb {
    pub(super) fn name(self) -> &'static str {
        let found = VERBS.iter().find(|(_, v)| *v == self);
        found.and_then(|(name, _)| std::str::from_utf8(name).ok()).unwrap_or("")
    }

    /// Whether this end may send it.
    pub(super) fn allowed(self, side: Side) -> bool {
        match self {
            Verb::Connect | Verb::Pub | Verb::Hpub | Verb::Sub | Verb::Unsub => side == Side::Client,
            Verb::Info | Verb::Msg | Verb::Hmsg | Verb::Ok | Verb::Err => side == Side::Server,
            Verb::Ping | Verb::Pong => true,
        }
    }
}

/// A line, and the lengths that it tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) verb: Verb,
    /// Length with its end.
    pub(super) len: usize,
    /// Subject of a message or subscription.
    pub(super) subject: &'a [u8],
    pub(super) reply: &'a [u8],
    /// Subscription id, as written.
    pub(super) sid: &'a [u8],
    /// Queue group of a subscription.
    pub(super) group: &'a [u8],
    /// Bytes of headers.
    pub(super) headers: u64,
    /// Bytes of headers and payload; `None` if the verb has none.
    pub(super) total: Option<u64>,
    /// Text behind the verb: JSON, or an error.
    pub(super) text: &'a [u8],
}

impl Line<'_> {
    /// Length of the whole message.
    pub(super) fn message_len(&self) -> u64 {
        len64(self.len).saturating_add(self.total.map_or(0, |n| n.saturating_add(2)))
    }

    /// Bytes worth reading.
    pub(super) fn want(&self) -> u64 {
        let peek = if self.may_be_jetstream() { PEEK } else { 0 };
        len64(self.len).saturating_add(self.headers).saturating_add(peek)
    }

    /// Its payload may have been written by JetStream, or for it.
    pub(super) fn may_be_jetstream(&self) -> bool {
        match self.verb {
            Verb::Msg | Verb::Hmsg => is_inbox(self.subject),
            Verb::Pub | Verb::Hpub => self.subject.starts_with(b"$JS.ACK."),
            _ => false,
        }
    }
}

/// Clients make these subjects for one answer, or for a series; `_INBOX` unless they were told another prefix.
pub(super) fn is_inbox(subject: &[u8]) -> bool {
    subject.starts_with(b"_INBOX") || subject.starts_with(b"_R_.")
}

/// Tokens separated by dots, without white space.
pub(super) fn is_subject(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.len() <= 1024 && bytes.iter().all(|b| *b > b' ' && *b != 0x7f)
}

/// The verb at the start; `Err(true)` asks for more bytes.
fn verb(bytes: &[u8]) -> Result<(Verb, usize), bool> {
    let word = bytes.iter().take(8).take_while(|b| b.is_ascii_alphabetic() || matches!(b, b'+' | b'-')).count();
    let (name, rest) = bytes.split_at_checked(word).ok_or(false)?;
    match rest.first() {
        // Any verb that begins like this.
        None if word < 8 => {
            let begun = VERBS.iter().any(|(v, _)| v.get(..word).is_some_and(|v| v.eq_ignore_ascii_case(name)));
            Err(begun)
        }
        Some(b' ' | b'\t' | b'\r' | b'\n') => {
            let found = VERBS.iter().find(|(v, _)| v.eq_ignore_ascii_case(name));
            found.map(|(_, v)| (*v, word)).ok_or(false)
        }
        _ => Err(false),
    }
}

/// Reads a line; `Err(true)` asks for more bytes.
pub(super) fn line(bytes: &[u8]) -> Result<Line<'_>, bool> {
    let (verb, word) = verb(bytes)?;
    let rest = bytes.get(word..).unwrap_or_default();
    let Some(end) = memchr(b'\n', rest) else { return Err(bytes.len() < MAX_WANTED) };
    let text = rest.get(..end).unwrap_or_default();
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let len = word.saturating_add(end).saturating_add(1);
    let blank: &[u8] = b"";
    let mut line = Line {
        verb,
        len,
        subject: blank,
        reply: blank,
        sid: blank,
        group: blank,
        headers: 0,
        total: None,
        text: blank,
    };
    let mut words: [&[u8]; 6] = [b""; 6];
    let mut count = 0usize;
    if matches!(verb, Verb::Info | Verb::Connect | Verb::Err) {
        line.text = text.trim_ascii();
        let shaped = match verb {
            Verb::Err => line.text.starts_with(b"'"),
            _ => line.text.starts_with(b"{"),
        };
        return if shaped { Ok(line) } else { Err(false) };
    }
    for w in text.split(|b| matches!(b, b' ' | b'\t')).filter(|w| !w.is_empty()) {
        *words.get_mut(count).ok_or(false)? = w;
        count = count.saturating_add(1);
    }
    let [a, b, c, d, e, _] = words;
    let size = |w: &[u8]| decimal(w).filter(|n| *n <= MAX_PAYLOAD).ok_or(false);
    match (verb, count) {
        (Verb::Ping | Verb::Pong | Verb::Ok, 0) => {}
        (Verb::Pub, 2) => (line.subject, line.total) = (a, Some(size(b)?)),
        (Verb::Pub, 3) => (line.subject, line.reply, line.total) = (a, b, Some(size(c)?)),
        (Verb::Hpub, 3) => (line.subject, line.headers, line.total) = (a, size(b)?, Some(size(c)?)),
        (Verb::Hpub, 4) => {
            (line.subject, line.reply, line.headers, line.total) = (a, b, size(c)?, Some(size(d)?));
        }
        (Verb::Msg, 3) => (line.subject, line.sid, line.total) = (a, b, Some(size(c)?)),
        (Verb::Msg, 4) => (line.subject, line.sid, line.reply, line.total) = (a, b, c, Some(size(d)?)),
        (Verb::Hmsg, 4) => (line.subject, line.sid, line.headers, line.total) = (a, b, size(c)?, Some(size(d)?)),
        (Verb::Hmsg, 5) => {
            (line.subject, line.sid, line.reply, line.headers, line.total) = (a, b, c, size(d)?, Some(size(e)?));
        }
        (Verb::Sub, 2) => (line.subject, line.sid) = (a, b),
        (Verb::Sub, 3) => (line.subject, line.group, line.sid) = (a, b, c),
        (Verb::Unsub, 1 | 2) => line.sid = a,
        _ => return Err(false),
    }
    let subject_ok = matches!(verb, Verb::Ping | Verb::Pong | Verb::Ok | Verb::Unsub) || is_subject(line.subject);
    let reply_ok = line.reply.is_empty() || is_subject(line.reply);
    let headers_ok = line.total.is_none_or(|n| line.headers <= n);
    if subject_ok && reply_ok && headers_ok {
        Ok(line)
    } else {
        Err(false)
    }
}

/// Text of a member of a flat JSON object, as written between the quotation marks (no escapes).
pub(super) fn json_text<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = json_value(json, name)?.strip_prefix(b"\"")?;
    let end = value.iter().position(|b| matches!(b, b'"' | b'\\'))?;
    (value.get(end) == Some(&b'"')).then(|| value.get(..end)).flatten()
}

/// The text behind the name of a member. A quotation mark inside of a text is written `\"`, so that no text looks
/// like a name.
pub(super) fn json_value<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut from = 0usize;
    loop {
        let rest = json.get(from..)?;
        let at = memchr::memmem::find(rest, name.as_bytes())?;
        let end = at.saturating_add(name.len());
        let quoted = at.checked_sub(1).and_then(|i| rest.get(i)) == Some(&b'"') && rest.get(end) == Some(&b'"');
        if quoted {
            let behind = rest.get(end.saturating_add(1)..)?.trim_ascii_start();
            if let Some(value) = behind.strip_prefix(b":") {
                return Some(value.trim_ascii_start());
            }
        }
        from = from.saturating_add(end);
    }
}

/// A header block: the status line, then fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Headers<'a> {
    pub(super) status: Option<u16>,
    pub(super) context: crate::carried::Context<'a>,
    /// `Nats-Msg-Id`.
    pub(super) message_id: Option<&'a [u8]>,
}

/// Reads headers as far as they are there.
pub(super) fn headers(block: &[u8]) -> Headers<'_> {
    let mut found = Headers::default();
    let mut lines = block.split_inclusive(|b| *b == b'\n').filter_map(|l| l.strip_suffix(b"\n"));
    let Some(first) = lines.next().and_then(|l| l.strip_prefix(b"NATS/1.")) else { return found };
    let status = first.get(1..).unwrap_or_default().trim_ascii_start();
    found.status = status.get(..3).and_then(decimal).and_then(|n| u16::try_from(n).ok());
    for line in lines {
        let Some(colon) = memchr(b':', line) else { continue };
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        found.context.field(name, value);
        if name.eq_ignore_ascii_case(b"nats-msg-id") {
            found.message_id = Some(value);
        }
    }
    found
}
