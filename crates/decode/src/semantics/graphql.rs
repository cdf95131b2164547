//! GraphQL over HTTP: type and name of the operation. The document itself, with its literals, is not kept.

use super::json::{members, unescape, Value};
use super::{failed, name, text};
use wirespan_model::message::AttrList;
use wirespan_model::{AttrVal, Late, Outcome};

/// Longest operation name, bytes.
const MAX_NAME: usize = 128;

/// An operation of a document.
struct Operation {
    kind: &'static str,
    name: Option<String>,
}

/// Reads a request body: an object with a `query` that is a document, or with a persisted one.
pub(super) fn request(body: &[u8]) -> Option<AttrList<'static>> {
    let (mut document, mut chosen, mut persisted) = (None, None, false);
    members(body, |key, value| match (key, value) {
        (b"query", Value::Text { raw, .. }) => document = Some(unescape(raw)),
        (b"operationName", Value::Text { raw, whole: true }) => chosen = name(raw, b"", MAX_NAME),
        (b"extensions", Value::Object(all)) => persisted = memchr::memmem::find(all, b"\"persistedQuery\"").is_some(),
        _ => {}
    });
    let operation = document.as_deref().and_then(|d| operation(d, chosen.as_deref()));
    match operation {
        Some(operation) => Some(attributes(Some(operation.kind), chosen.or(operation.name))),
        None if persisted && document.is_none() => Some(attributes(None, chosen)),
        None => None,
    }
}

/// Reads a body that is the document itself.
pub(super) fn document(body: &[u8]) -> (AttrList<'static>, bool) {
    match operation(body, None) {
        Some(operation) => (attributes(Some(operation.kind), operation.name), true),
        None => (AttrList::new(), false),
    }
}

fn attributes(kind: Option<&'static str>, name: Option<String>) -> AttrList<'static> {
    let mut attrs = AttrList::new();
    if let Some(kind) = kind {
        attrs.push(("graphql.operation.type", AttrVal::from(kind)));
    }
    if let Some(name) = name {
        attrs.push(("graphql.operation.name", text(name)));
    }
    attrs
}

/// The operation of this name, or the first, of a document of which only the beginning may be there.
fn operation(document: &[u8], chosen: Option<&str>) -> Option<Operation> {
    let mut rest = document;
    let mut first = None;
    loop {
        rest = ignored(rest);
        let Some((found, behind)) = definition(rest) else { return first };
        if let Some(found) = found {
            if chosen.is_none() || found.name.as_deref() == chosen {
                return Some(found);
            }
            // Another one is chosen; it may lie behind the captured bytes.
            first = None;
        }
        let Some(behind) = behind else { return first };
        rest = behind;
    }
}

type Definition<'a> = (Option<Operation>, Option<&'a [u8]>);

/// One definition: an operation or a fragment, and the text behind it, if its end was captured.
fn definition(text: &[u8]) -> Option<Definition<'_>> {
    if text.first() == Some(&b'{') {
        let inside = ignored(text.get(1..)?);
        let selects = inside.first().is_none_or(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.'));
        return selects.then(|| (Some(Operation { kind: "query", name: None }), selection_end(text)));
    }
    let (keyword, behind) = word(text);
    let kind = match keyword {
        b"query" => Some("query"),
        b"mutation" => Some("mutation"),
        b"subscription" => Some("subscription"),
        b"fragment" => None,
        _ => return None,
    };
    let behind = ignored(behind);
    let (named, behind) = word(behind);
    let behind = ignored(behind);
    let Some(kind) = kind else {
        let (on, _) = word(behind);
        return (on == b"on" && !named.is_empty()).then(|| (None, selection_end(behind)));
    };
    // The next characters tell it from a sentence that begins with the same word.
    let shaped = behind.first().is_none_or(|b| matches!(b, b'{' | b'(' | b'@'));
    shaped.then(|| (Some(Operation { kind, name: name(named, b"", MAX_NAME) }), selection_end(behind)))
}

/// Behind the selection set of a definition.
fn selection_end(text: &[u8]) -> Option<&[u8]> {
    let (mut depth, mut quoted, mut escaped, mut parens) = (0usize, false, false, 0usize);
    for (at, b) in text.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' => parens = parens.saturating_add(1),
            b')' => parens = parens.saturating_sub(1),
            b'{' if parens == 0 => depth = depth.saturating_add(1),
            b'}' if parens == 0 => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return text.get(at.saturating_add(1)..);
                }
            }
            _ => {}
        }
    }
    None
}

/// Without leading spaces, commas and comments.
fn ignored(mut text: &[u8]) -> &[u8] {
    loop {
        match text.first() {
            Some(b' ' | b'\t' | b'\r' | b'\n' | b',') => text = text.get(1..).unwrap_or_default(),
            Some(b'#') => {
                let end = memchr::memchr(b'\n', text).unwrap_or(text.len());
                text = text.get(end..).unwrap_or_default();
            }
            _ => return text,
        }
    }
}

fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, b""))
}

/// Reads the beginning of a response. Errors with data come from resolvers, those without any from the request (GraphQL
/// specification, section 7.1); which of the two they are is said only if the whole body was seen.
pub(super) fn response(body: &[u8], cut: bool) -> Late<'static> {
    let (mut errors, mut data) = (false, false);
    members(body, |key, value| match (key, value) {
        (b"errors", Value::Array(all)) => {
            errors = all.get(1..).is_some_and(|inside| !matches!(inside.trim_ascii_start().first(), None | Some(b']')));
        }
        (b"data", value) => data = value != Value::Word(b"null"),
        _ => {}
    });
    if !errors {
        return Late::default();
    }
    let outcome = match (data, cut) {
        (true, _) => Outcome::ServerError,
        (false, true) => Outcome::Unset,
        (false, false) => Outcome::ClientError,
    };
    let mut late = failed(outcome, "GraphQL errors".to_owned());
    late.attrs.push(("error.type", AttrVal::from("graphql_errors")));
    late
}
