//! Heads → messages.

use super::commands::{is_secret, key_count};
use super::head::{Command, MAX_CHANNEL};
use super::reply::{Reply, Shape};
use crate::text::{clean, decimal, visible};
use std::borrow::Cow;
use std::fmt::Write;
use wirespan_model::{AttrVal, Body, Kind, Message, Outcome, Side};

/// Arguments that are written as `?` one by one.
const MAX_MARKS: u64 = 8;
/// Longest error text that is kept, bytes.
const MAX_ERROR: usize = 160;

/// Writes operation and masked text of a command (`CONFIG GET ?`) into `text`; returns the length of the operation.
pub(super) fn query_text(command: &Command, text: &mut String) -> usize {
    text.clear();
    text.push_str(command.name.as_ref().map_or("_OTHER", |n| n.as_str()));
    if let Some(sub) = &command.sub {
        text.push(' ');
        text.push_str(sub.as_str());
    }
    let operation = text.len();
    for argument in 0..command.arguments.min(MAX_MARKS) {
        text.push(' ');
        text.push_str(command.key.as_ref().filter(|_| argument == 0).map_or("?", |key| key.as_str()));
    }
    if let Some(more) = command.arguments.checked_sub(MAX_MARKS).filter(|n| *n > 0) {
        // Writing to a string cannot fail.
        let _ = write!(text, " …+{more}");
    }
    operation
}

/// The message of a command. `text` is what [`query_text`] wrote, `db` the decimal number of the database.
pub(super) fn command<'a>(
    command: &'a Command,
    offset: u64,
    kind: Kind,
    text: &'a str,
    operation: usize,
    db: Option<&'a str>,
) -> Message<'a> {
    let mut m = Message::new("redis", Side::Client, kind, offset);
    m.body = body(command.tail, command.left);
    m.operation = text.get(..operation).unwrap_or(text);
    m.attrs.push(("db.system.name", AttrVal::from("redis")));
    m.attrs.push(("db.operation.name", AttrVal::from(m.operation)));
    if let Some(db) = db {
        m.attrs.push(("db.namespace", AttrVal::from(db)));
    }
    if let Some(channel) = &command.channel {
        m.target = Cow::Borrowed(channel.as_str());
        m.attrs.push(("messaging.system.name", AttrVal::from("redis")));
        if m.operation.ends_with("PUBLISH") {
            m.attrs.push(("messaging.operation.type", AttrVal::from("send")));
        }
        m.attrs.push(("messaging.destination.name", AttrVal::from(channel.as_str())));
    }
    if !is_secret(m.operation) {
        m.attrs.push(("db.query.text", AttrVal::from(text)));
        if let Some(keys) = key_count(m.operation, command.arguments) {
            m.attrs.push(("wirespan.redis.keys", AttrVal::Int(i64::try_from(keys).unwrap_or(i64::MAX))));
        }
    }
    m
}

/// The bytes behind a head: the rest of a string, and elements.
fn body(tail: u64, left: u64) -> Body {
    match (tail, left) {
        (0, 0) => Body::None,
        (tail, 0) => Body::Length(tail),
        _ => Body::Open,
    }
}

/// The message of a reply. Of the reply to a secret command only the error code is kept.
pub(super) fn reply<'a>(reply: &Reply<'a>, offset: u64, kind: Kind, secret: bool) -> Message<'a> {
    let mut m = Message::new("redis", Side::Server, kind, offset);
    m.body = if reply.open_line { Body::Open } else { body(reply.tail, reply.left) };
    if let (Shape::Push(name) | Shape::Aggregate(name), Kind::OneWay) = (reply.shape, kind) {
        m.operation = push_name(name.unwrap_or_default());
    }
    if kind == Kind::OneWay {
        m.attrs.push(("db.system.name", AttrVal::from("redis")));
        if let Some(channel) = reply.channel {
            m.target = clean(channel, MAX_CHANNEL);
            m.attrs.push(("messaging.system.name", AttrVal::from("redis")));
            m.attrs.push(("messaging.operation.type", AttrVal::from("receive")));
            m.attrs.push(("messaging.destination.name", AttrVal::Str(m.target.clone())));
        }
        return m;
    }
    m.outcome = Outcome::Ok;
    if let Shape::Error(text) = reply.shape {
        let code = error_code(text);
        m.outcome = outcome(code);
        m.attrs.push(("db.response.status_code", AttrVal::from(code)));
        m.error = if secret { Cow::Borrowed(code) } else { mask_quoted(clean(text, MAX_ERROR)) };
        if m.outcome == Outcome::Ok {
            m.error = Cow::Borrowed("");
            redirect(text, &mut m);
        } else {
            m.attrs.push(("error.type", AttrVal::from(code)));
        }
    }
    m
}

/// Slot and node of `MOVED` and `ASK`: where the client has to ask instead.
fn redirect<'a>(text: &'a [u8], m: &mut Message<'a>) {
    let mut words = text.split(u8::is_ascii_whitespace).skip(1);
    let Some(slot) = words.next().and_then(decimal).filter(|slot| *slot < 16_384) else { return };
    m.attrs.push(("wirespan.redis.slot", AttrVal::Int(i64::try_from(slot).unwrap_or_default())));
    if let Some(node) = words.next().and_then(|w| visible(w, 128)) {
        m.attrs.push(("wirespan.redis.redirect", AttrVal::from(node)));
    }
}

/// First word of an error, if it is a code.
fn error_code(text: &[u8]) -> &str {
    let word = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let code = word.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
    visible(word, 32).filter(|_| code).unwrap_or("ERR")
}

/// Whose fault an error is. Redirections are no errors: the client asks the node that they name.
fn outcome(code: &str) -> Outcome {
    match code {
        "MOVED" | "ASK" => Outcome::Ok,
        "BUSY" | "CLUSTERDOWN" | "IOERR" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" | "OOM" | "TRYAGAIN"
        | "UNKILLABLE" => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}

/// Known kinds of pushes, upper case like commands.
fn push_name(name: &[u8]) -> &'static str {
    const KINDS: [&str; 10] = [
        "MESSAGE",
        "PMESSAGE",
        "SMESSAGE",
        "SUBSCRIBE",
        "PSUBSCRIBE",
        "SSUBSCRIBE",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE",
        "SUNSUBSCRIBE",
        "INVALIDATE",
    ];
    KINDS.into_iter().find(|k| name.eq_ignore_ascii_case(k.as_bytes())).unwrap_or("PUSH")
}

/// Replaces texts in quotation marks, because servers quote arguments there. An unclosed quotation masks the rest.
fn mask_quoted(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.contains(['\'', '"', '`']) {
        return text;
    }
    let mut masked = String::with_capacity(text.len());
    let mut inside = None;
    for c in text.chars() {
        match inside {
            None => {
                masked.push(c);
                if matches!(c, '\'' | '"' | '`') {
                    inside = Some(c);
                    masked.push('?');
                }
            }
            Some(quote) if quote == c => {
                masked.push(c);
                inside = None;
            }
            Some(_) => {}
        }
    }
    Cow::Owned(masked)
}
