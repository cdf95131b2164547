//! Bodies → messages.

use super::bson::{elements, Value};
use super::compressed::{NOOP, SNAPPY, ZLIB, ZSTD};
use super::parse::{op, Body};
use crate::text::{clean, hide_values, visible};
use crate::url::looks_secret;
use std::borrow::Cow;
use std::sync::Arc;
use wirespan_model::message::AttrList;
use wirespan_model::{AttrVal, Kind, Message, Outcome, Side};

/// Longest error text that is kept, bytes.
const MAX_ERROR: usize = 160;
/// Longest name that is kept, bytes.
const MAX_NAME: usize = 120;

/// Commands whose own value is the name of a collection; those of others (`createUser`) are not kept.
const ON_COLLECTION: [&str; 26] = [
    "aggregate",
    "collMod",
    "collStats",
    "compact",
    "convertToCapped",
    "count",
    "create",
    "createIndexes",
    "createSearchIndexes",
    "delete",
    "deleteIndexes",
    "distinct",
    "drop",
    "dropIndexes",
    "find",
    "findAndModify",
    "findandmodify",
    "geoNear",
    "insert",
    "killCursors",
    "listIndexes",
    "mapReduce",
    "planCacheClear",
    "reIndex",
    "update",
    "validate",
];

/// Fields of documents whose values in queries are let through, each with its attribute.
pub(super) type Fields = Arc<[(String, &'static str)]>;

/// Longest value of a field that the user lets through, bytes.
const MAX_FIELD: usize = 64;

/// The document by which a command chooses others, if this element of it holds one.
fn filter<'a>(key: &[u8], value: Value<'a>) -> Option<&'a [u8]> {
    let Value::Document(inner) = value else { return None };
    let first = |of: &[u8]| match elements(inner).next()? {
        (_, Value::Document(first)) => match elements(first).find(|(key, _)| *key == of)? {
            (_, Value::Document(found)) => Some(found),
            _ => None,
        },
        _ => None,
    };
    match key {
        b"filter" | b"query" => Some(inner),
        b"updates" | b"deletes" => first(b"q"),
        b"pipeline" => first(b"$match"),
        _ => None,
    }
}

/// Writes the values that a query compares with the fields that the user lets through.
fn parameters<'a>(query: &'a [u8], fields: &Fields, attrs: &mut AttrList<'a>) {
    for (key, value) in elements(query) {
        let Some((_, name)) = fields.iter().find(|(field, _)| field.as_bytes() == key) else { continue };
        match value {
            Value::Text(text) if !looks_secret(text) => attrs.push((name, AttrVal::Str(clean(text, MAX_FIELD)))),
            Value::Number(n) => attrs.push((name, AttrVal::Str(Cow::Owned(n.to_string())))),
            _ => {}
        }
    }
}

/// The message of a command or of an older operation.
pub(super) fn request<'a>(body: &Body<'a>, offset: u64, kind: Kind, fields: &Fields) -> Message<'a> {
    let mut m = Message::new("mongodb", Side::Client, kind, offset);
    m.attrs.push(("db.system.name", AttrVal::from("mongodb")));
    let (mut database, mut collection) = split(body.name);
    if let Some(document) = body.document.filter(|_| body.op == op::MSG || collection == "$cmd") {
        let mut document = document;
        if let Some((b"$query" | b"query", Value::Document(inner))) = elements(document).next() {
            document = inner;
        }
        if collection == "$cmd" {
            collection = "";
        }
        command(document, &mut m, &mut database, &mut collection);
        if !fields.is_empty() {
            let queries = elements(document).filter_map(|(key, value)| filter(key, value));
            queries.for_each(|query| parameters(query, fields, &mut m.attrs));
        }
    } else {
        m.operation = match body.op {
            op::QUERY => "find",
            op::INSERT => "insert",
            op::UPDATE => "update",
            op::DELETE => "delete",
            op::GET_MORE => "getMore",
            op::KILL_CURSORS => "killCursors",
            _ => "",
        };
    }
    if !m.operation.is_empty() {
        m.attrs.push(("db.operation.name", AttrVal::from(m.operation)));
    }
    if !database.is_empty() {
        m.attrs.push(("db.namespace", AttrVal::from(database)));
    }
    if !collection.is_empty() {
        m.attrs.push(("db.collection.name", AttrVal::from(collection)));
    }
    m.target = Cow::Borrowed(if collection.is_empty() { database } else { collection });
    compressor(body, &mut m);
    m
}

fn command<'a>(document: &'a [u8], m: &mut Message<'a>, database: &mut &'a str, collection: &mut &'a str) {
    let mut name = "";
    for (n, (key, value)) in elements(document).enumerate() {
        match (n, key, value) {
            (0, key, value) => {
                name = identifier(key);
                m.operation = name;
                if let (Value::Text(text), true) = (value, ON_COLLECTION.contains(&name)) {
                    *collection = named(text);
                }
                if let (Value::Document(inner), "explain") = (value, name) {
                    if let Some((key, Value::Text(text))) = elements(inner).next() {
                        if ON_COLLECTION.contains(&identifier(key)) {
                            *collection = named(text);
                        }
                    }
                }
            }
            (_, b"$db", Value::Text(text)) => *database = named(text),
            (_, b"collection", Value::Text(text)) if name == "getMore" => *collection = named(text),
            _ => {}
        }
    }
}

/// The success or failure of a reply.
#[derive(Default)]
struct Said<'a> {
    ok: Option<bool>,
    cursor: bool,
    code: Option<i32>,
    code_name: &'a str,
    text: Cow<'a, str>,
}

/// The message of a reply.
pub(super) fn response<'a>(body: &Body<'a>, offset: u64, kind: Kind) -> Message<'a> {
    let mut m = Message::new("mongodb", Side::Server, kind, offset);
    compressor(body, &mut m);
    if kind == Kind::OneWay {
        m.attrs.push(("db.system.name", AttrVal::from("mongodb")));
    }
    let mut said = Said::default();
    if let Some(document) = body.document {
        read_reply(document, &mut said);
    }
    if body.op == op::REPLY && body.flags & 3 != 0 {
        // The cursor is not known any more, or the query failed.
        said.ok = Some(false);
        if body.flags & 1 != 0 {
            (said.code, said.code_name) = (Some(43), "CursorNotFound");
        }
    }
    let ok =
        said.ok.or(said.cursor.then_some(true)).or((body.op == op::REPLY && body.compressor.is_none()).then_some(true));
    m.outcome = match ok {
        None => Outcome::Unset,
        Some(true) => Outcome::Ok,
        Some(false) => outcome(said.code.unwrap_or(8)),
    };
    if m.outcome == Outcome::Ok || ok.is_none() {
        return m;
    }
    m.status_code = said.code;
    if let Some(code) = said.code {
        let text = code.to_string();
        m.attrs.push(("db.response.status_code", AttrVal::Str(Cow::Owned(text.clone()))));
        let name = if said.code_name.is_empty() { Cow::Owned(text) } else { Cow::Borrowed(said.code_name) };
        m.attrs.push(("error.type", AttrVal::Str(name)));
    }
    m.error = if said.text.is_empty() { Cow::Borrowed(said.code_name) } else { said.text };
    m
}

fn read_reply<'a>(document: &'a [u8], said: &mut Said<'a>) {
    for (key, value) in elements(document) {
        match (key, value) {
            (b"ok", Value::Number(n)) => said.ok = Some(said.ok.unwrap_or(true) && n != 0.0),
            (b"cursor", Value::Document(_)) => said.cursor = true,
            (b"writeErrors", Value::Document(list)) => {
                if let Some((_, Value::Document(first))) = elements(list).next() {
                    said.ok = Some(false);
                    failure(first, said);
                }
            }
            (b"writeConcernError", Value::Document(error)) => {
                said.ok = Some(false);
                failure(error, said);
            }
            _ => field(key, value, said),
        }
    }
}

fn failure<'a>(document: &'a [u8], said: &mut Said<'a>) {
    for (key, value) in elements(document) {
        field(key, value, said);
    }
}

fn field<'a>(key: &[u8], value: Value<'a>, said: &mut Said<'a>) {
    match (key, value) {
        (b"code", Value::Number(n)) => said.code = said.code.or_else(|| integer(n)),
        (b"codeName", Value::Text(text)) => said.code_name = identifier(text),
        (b"errmsg" | b"$err", Value::Text(text)) if said.text.is_empty() => {
            said.text = hide_values(clean(text, MAX_ERROR));
        }
        _ => {}
    }
}

/// Codes are small integers, whatever type they come in.
fn integer(n: f64) -> Option<i32> {
    let fits = n.fract() == 0.0 && n.abs() < 2e9;
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    fits.then_some(n as i32)
}

fn compressor(body: &Body<'_>, m: &mut Message<'_>) {
    let name = match body.compressor {
        None => return,
        Some(NOOP) => "noop",
        Some(SNAPPY) => "snappy",
        Some(ZLIB) => "zlib",
        Some(ZSTD) => "zstd",
        Some(_) => "unknown",
    };
    m.attrs.push(("wirespan.mongodb.compressor", AttrVal::from(name)));
}

/// Database and collection of `database.collection`.
fn split(name: &[u8]) -> (&str, &str) {
    let mut parts = name.splitn(2, |b| *b == b'.');
    let mut part = || named(parts.next().unwrap_or_default());
    (part(), part())
}

/// Names of databases and collections.
fn named(text: &[u8]) -> &str {
    let text = text.get(..MAX_NAME).unwrap_or(text);
    std::str::from_utf8(text).ok().filter(|t| !t.chars().any(char::is_control)).unwrap_or_default()
}

/// Names of commands and codes.
fn identifier(text: &[u8]) -> &str {
    let ok = |text: &&str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    visible(text, 64).filter(ok).unwrap_or_default()
}

/// Whose fault an error is: the server's where it is not able to serve anyone (not the primary, shutting down, out of
/// time).
fn outcome(code: i32) -> Outcome {
    match code {
        1 | 6 | 7 | 8 | 24 | 50 | 64 | 89 | 91 | 100 | 112 | 133 | 146 | 175 | 189 | 202 | 262 | 9001 | 10_058
        | 10_107 | 11_600 | 11_602 | 13_388 | 13_435 | 13_436 | 14_031 => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}
