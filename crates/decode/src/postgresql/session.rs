//! What both sides of a connection have agreed on: which answer belongs to which request.

use super::message::{self, SSL};
use super::{detect, reason};
use crate::framing::exchange::{Frame, Measure, Session};
use crate::framing::Out;
use crate::mask::{Backslash, Dialect, Masker, Rules, Statements};
use std::collections::VecDeque;
use wirespan_model::{Item, Side};

/// Unanswered requests that are remembered.
pub(super) const MAX_OUTSTANDING: usize = 4096;
/// Portals that are remembered.
const MAX_PORTALS: usize = 64;

/// The kind of a request, as far as its answer depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The start of the connection, authentication included.
    Startup,
    /// A request for encryption: one byte answers.
    Encryption { tls: bool },
    /// A simple query or a function call: `ReadyForQuery` ends it.
    Query,
    /// `Execute`, with what stands before it.
    Execute,
    /// `Parse`, `Bind`, `Describe`, `Close` without `Execute`.
    Prepare,
    /// `Sync` alone; `silent` if it belongs to a request that was answered before it.
    Sync { silent: bool },
    /// An answer whose request was not seen.
    Unseen,
}

/// A request that waits for (the rest of) its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) what: What,
    /// `ReadyForQuery` ends it.
    pub(super) sync: bool,
    /// Its answer has begun.
    pub(super) begun: bool,
    /// An error was told, at the latest with its end.
    pub(super) failed: bool,
    /// A row was seen.
    pub(super) rows: bool,
    pub(super) returned: Option<i64>,
    pub(super) affected: Option<i64>,
    pub(super) notices: u32,
}

impl Unit {
    pub(super) fn new(what: What) -> Self {
        let sync = !matches!(what, What::Execute | What::Prepare);
        Unit { what, sync, begun: false, failed: false, rows: false, returned: None, affected: None, notices: 0 }
    }
}

/// Messages of the extended protocol that were not told yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) offset: u64,
    /// Offset behind the last known byte of them.
    pub(super) end: u64,
    pub(super) operation: &'static str,
    /// Statement that was parsed, bound or described.
    pub(super) statement: Option<u64>,
}

/// State of one connection.
#[derive(Debug, Default)]
pub(super) struct PgSession {
    pub(super) queue: VecDeque<Unit>,
    pub(super) group: Option<Group>,
    pub(super) masker: Masker,
    pub(super) statements: Statements,
    pub(super) portals: VecDeque<(u64, u64)>,
    pub(super) backslash: Backslash,
    pub(super) database: String,
    /// An `Execute` was sent since the last `Sync`.
    pub(super) unsynced: bool,
    /// The server skips until `Sync`.
    pub(super) aborted: bool,
    /// Bytes of the server were lost, and the client has not asked since.
    pub(super) server_lost: bool,
    /// The client was heard.
    pub(super) client_seen: bool,
    /// `COPY` data may come from the client.
    pub(super) copying: bool,
    /// Replication data stream both ways.
    pub(super) streaming: bool,
    pub(super) over: bool,
}

impl PgSession {
    pub(super) fn with(masker: Masker) -> Self {
        PgSession { masker, ..PgSession::default() }
    }

    pub(super) fn rules(&self) -> Rules {
        Rules { dialect: Dialect::Postgres, backslash: self.backslash, double_byte: false }
    }

    /// Remembers a request.
    pub(super) fn push(&mut self, unit: Unit, out: Out<'_>) {
        if std::mem::take(&mut self.server_lost) {
            // Older ones were answered unseen.
            self.queue.clear();
            self.aborted = false;
        }
        if self.queue.len() >= MAX_OUTSTANDING {
            self.queue.pop_front();
            out(Item::Malformed { side: Side::Client, reason: reason::TOO_MANY_OUTSTANDING });
        }
        self.queue.push_back(unit);
    }

    pub(super) fn bind(&mut self, portal: u64, statement: u64) {
        match self.portals.iter_mut().find(|(p, _)| *p == portal) {
            Some(known) => known.1 = statement,
            None => {
                if self.portals.len() >= MAX_PORTALS {
                    self.portals.pop_front();
                }
                self.portals.push_back((portal, statement));
            }
        }
    }

    pub(super) fn bound(&self, portal: u64) -> Option<u64> {
        self.portals.iter().find(|(p, _)| *p == portal).map(|(_, s)| *s)
    }
}

impl Session for PgSession {
    const BAD: &'static str = reason::BAD_MESSAGE;
    const GAP: &'static str = reason::GAP;

    fn measure(&self, side: Side, bytes: &[u8]) -> Measure {
        match side {
            Side::Client => message::client(bytes),
            Side::Server => match (self.queue.front().map(|u| u.what), bytes.first()) {
                (Some(What::Encryption { .. }), Some(b'S' | b'N' | b'G')) => Measure::Frame { len: 1, keep: 1 },
                _ => message::server(bytes),
            },
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, out: Out<'_>) {
        match frame.side {
            Side::Client => self.asks(frame, out),
            Side::Server => self.answers(frame, out),
        }
    }

    fn resumes(&self, side: Side, bytes: &[u8]) -> bool {
        match side {
            Side::Client => detect::resumes_client(bytes),
            Side::Server => detect::resumes_server(bytes, !self.server_lost),
        }
    }

    fn lost(&mut self, side: Side, out: Out<'_>) -> bool {
        match side {
            Side::Client => {
                let told = self.group.is_some();
                self.tell_group(None, out);
                !told && !self.copying && !self.streaming
            }
            Side::Server => {
                self.server_lost = true;
                // The rest belongs to the answer that is under way.
                self.queue.len() > 1 || !self.queue.front().is_some_and(|u| u.begun)
            }
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(&mut self, out: Out<'_>) {
        self.tell_group(None, out);
    }
}

/// The request of a start code.
pub(super) fn encryption(code: u32) -> What {
    What::Encryption { tls: code == SSL }
}
