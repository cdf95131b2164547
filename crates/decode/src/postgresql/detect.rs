//! Recognises PostgreSQL by its first message, which has fixed numbers, or from the middle by chains of messages.
//!
//! Bias: against. From the middle a single message decides only if it has a form that nothing else has: a query that is
//! a statement and ends with its NUL exactly where its length says, or `ReadyForQuery` with its only length and states.
//! Anything less needs both ends to agree.

use super::message::{client, is_version, server, startup, CANCEL, GSS, SSL};
use crate::framing::exchange::Measure;
use crate::framing::Cursor;
use crate::mask::{Masker, Rules};
use crate::text::at_most;
use crate::{Detect, Probe};

/// How much one end's bytes look like PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Looks {
    Other,
    /// Nothing was said, or not enough.
    Silent,
    /// Messages with believable types and lengths.
    Chain,
    /// Bytes that only PostgreSQL has.
    Sure,
}

/// Walks over messages; `sure` says whether one of them is beyond doubt.
fn chain(bytes: &[u8], measure: fn(&[u8]) -> Measure, sure: fn(&[u8], bool) -> bool) -> (Looks, u32) {
    let (mut rest, mut count, mut looks) = (bytes, 0u32, Looks::Silent);
    while !rest.is_empty() {
        let len = match measure(rest) {
            Measure::Frame { len, .. } => at_most(len, usize::MAX),
            // The captured bytes end here. If this is the first message, none of them is in a complete one.
            Measure::More(_) => break,
            Measure::Bad => return (Looks::Other, 0),
        };
        let whole = len <= rest.len();
        let message = rest.get(..len).unwrap_or(rest);
        if sure(message, whole) {
            looks = Looks::Sure;
        }
        count = count.saturating_add(1);
        rest = rest.get(len..).unwrap_or_default();
    }
    if count > 0 {
        looks = looks.max(Looks::Chain);
    }
    (looks, count)
}

/// A message of the client that nothing else looks like.
fn sure_client(message: &[u8], whole: bool) -> bool {
    let body = message.get(5..).unwrap_or_default();
    match message.first() {
        Some(b'Q') => whole && body.iter().position(|b| *b == 0) == body.len().checked_sub(1) && is_statement(body),
        Some(b'P') => {
            let mut view = Cursor::new(body);
            let named = view.cstr().is_some_and(|name| name.len() < 64 && name.iter().all(u8::is_ascii_graphic));
            let query = view.cstr();
            let types = view.u16().map(usize::from);
            whole
                && named
                && query.is_some_and(is_statement)
                && types.and_then(|n| n.checked_mul(4)) == Some(view.rest().len())
        }
        _ => false,
    }
}

/// Whether text begins with a verb of SQL and has no control characters.
fn is_statement(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.iter().any(|b| b.is_ascii_control() && !b.is_ascii_whitespace()) {
        return false;
    }
    let mut masker = Masker::default();
    masker.read(text.get(..256).unwrap_or(text), Rules::default());
    !masker.operation().is_empty()
}

/// A message of the server that nothing else looks like.
fn sure_server(message: &[u8], whole: bool) -> bool {
    match message.first() {
        Some(b'Z') => whole && matches!(message.get(5), Some(b'I' | b'T' | b'E')),
        Some(b'E') => message
            .get(5..)
            .is_some_and(|body| [b"SERROR\0".as_slice(), b"SFATAL\0", b"SPANIC\0"].iter().any(|s| body.starts_with(s))),
        _ => false,
    }
}

/// The first message of a connection, whole or at least its version and a parameter.
fn start(bytes: &[u8]) -> bool {
    let mut view = Cursor::new(bytes);
    let (Some(len), Some(code)) = (view.u32(), view.u32()) else { return false };
    match code {
        SSL | GSS => len == 8 && bytes.len() == 8,
        CANCEL => len >= 16 && bytes.len() == at_most(u64::from(len), usize::MAX),
        code if is_version(code) => {
            let names = view.cstr().is_some_and(|name| !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic()));
            let whole = bytes.len() == at_most(u64::from(len), usize::MAX) && bytes.ends_with(b"\0\0");
            let cut = bytes.len() < at_most(u64::from(len), usize::MAX) && bytes.len() >= 200;
            names && (9..=10_000).contains(&len) && (whole || cut) && memchr::memmem::find(bytes, b"user\0").is_some()
        }
        _ => false,
    }
}

fn as_client(bytes: &[u8]) -> (Looks, u32) {
    if start(bytes) {
        return (Looks::Sure, 1);
    }
    if bytes.first() == Some(&0) {
        return (Looks::Other, 0);
    }
    chain(bytes, client, sure_client)
}

fn as_server(bytes: &[u8]) -> (Looks, u32) {
    chain(bytes, server, sure_server)
}

/// Whether the client may go on here after a gap.
pub(super) fn resumes_client(bytes: &[u8]) -> bool {
    bytes.first() != Some(&0) && bytes.len() >= 5 && as_client(bytes).0 >= Looks::Chain
}

/// Whether the server may go on here after a gap; `asked`: the client spoke since.
pub(super) fn resumes_server(bytes: &[u8], asked: bool) -> bool {
    let (looks, count) = as_server(bytes);
    looks == Looks::Sure || (looks == Looks::Chain && (asked || count > 1) && bytes.len() >= 5)
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if !probe.transport.is_stream() {
        return Detect::No;
    }
    let one = |client_bytes: &[u8], server_bytes: &[u8]| {
        // The answer to a request for encryption is one byte.
        if start(client_bytes) {
            return true;
        }
        let ((asks, _), (answers, answered)) = (as_client(client_bytes), as_server(server_bytes));
        match (asks, answers) {
            (Looks::Other, _) | (_, Looks::Other) => false,
            (Looks::Sure, _) => true,
            (Looks::Silent | Looks::Chain, Looks::Sure) => answered > 1 || asks == Looks::Chain,
            _ => false,
        }
    };
    if probe.first_is_client != Some(false) && one(probe.first, probe.second) {
        return Detect::Yes { first_is_client: true };
    }
    if probe.first_is_client != Some(true) && one(probe.second, probe.first) {
        return Detect::Yes { first_is_client: false };
    }
    let maybe = |asks: &[u8], answers: &[u8]| {
        let starting = asks.starts_with(&[0, 0]) && startup(asks) != Measure::Bad && answers.is_empty();
        starting || (as_client(asks).0 != Looks::Other && as_server(answers).0 != Looks::Other)
    };
    if maybe(probe.first, probe.second) || maybe(probe.second, probe.first) {
        Detect::Maybe
    } else {
        Detect::No
    }
}
