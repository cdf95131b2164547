//! Recognises ClickHouse by the client's hello, or by a query whose dozens of fields fit.
//!
//! Bias: against. A ping of one byte is never enough.

use super::packet::{client, hello, number, query, server, server_hello, Stop};
use crate::framing::Cursor;
use crate::mask::{Dialect, Masker, Rules};
use crate::{Detect, Probe};
use wirespan_model::Transport;

/// Revisions whose queries are tried when the hello was not seen, the newest first.
const REVISIONS: [u64; 7] = [54_476, 54_472, 54_460, 54_448, 54_429, 54_412, 54_060];

/// The newest revision in which these bytes, behind the number of a query, are one with a known statement.
pub(super) fn revision(view: &Cursor<'_>, cut: bool) -> Result<u64, Stop> {
    let mut why = Stop::Bad;
    for revision in REVISIONS {
        match query(&mut view.clone(), revision, cut) {
            Ok(query) => {
                let mut masker = Masker::default();
                masker.read(query.text.get(..256).unwrap_or(query.text), Rules::of(Dialect::ClickHouse));
                if !masker.operation().is_empty() {
                    return Ok(revision);
                }
            }
            Err(Stop::More) => why = Stop::More,
            Err(Stop::Bad) => {}
        }
    }
    Err(why)
}

/// Whether the client says this: `None` if more bytes are needed.
fn asks(bytes: &[u8]) -> Option<bool> {
    let mut view = Cursor::new(bytes);
    // Clients ask whether a connection lives before they use it again.
    let mut first = number(&mut view);
    while matches!(first, Ok(client::PING)) {
        first = number(&mut view);
    }
    match first {
        Ok(client::HELLO) => match hello(&mut view) {
            Ok(_) => Some(view.rest().is_empty() || view.rest().len() < 512),
            Err(Stop::More) => None,
            Err(Stop::Bad) => Some(false),
        },
        Ok(client::QUERY) => match revision(&view, false) {
            Ok(_) => Some(true),
            Err(Stop::More) => None,
            Err(Stop::Bad) => Some(false),
        },
        _ => Some(false),
    }
}

/// Whether the server could answer so.
fn answers(bytes: &[u8]) -> bool {
    let mut view = Cursor::new(bytes);
    match number(&mut view) {
        Ok(server::HELLO) => server_hello(&mut view) != Err(Stop::Bad),
        Ok(n) => n <= server::LAST,
        Err(_) => bytes.is_empty(),
    }
}

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    if probe.transport != Transport::Tcp {
        return Detect::No;
    }
    let mut maybe = false;
    for (client, server, first) in [(probe.first, probe.second, true), (probe.second, probe.first, false)] {
        if client.is_empty() || probe.first_is_client == Some(!first) || !answers(server) {
            continue;
        }
        match asks(client) {
            Some(true) => return Detect::Yes { first_is_client: first },
            None => maybe = true,
            Some(false) => {}
        }
    }
    if maybe {
        Detect::Maybe
    } else {
        Detect::No
    }
}
