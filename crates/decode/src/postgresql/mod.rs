//! PostgreSQL, protocol 3 (PostgreSQL documentation, "Frontend/Backend Protocol"); also CockroachDB, YugabyteDB,
//! Redshift, pgbouncer.
//!
//! - **unit of work**: a simple query, or an `Execute` with the `Parse`, `Bind`, `Describe` before it, is one request;
//!   a group without `Execute` is one too (`PREPARE`)
//! - **end**: `ReadyForQuery` where a `Sync` follows (the commit is part of it), else `CommandComplete`: rows and late
//!   errors come with [`Item::End`](wirespan_model::Item)
//! - **pipelines**: answers go to units in order; a unit that the server skips after an error is answered with
//!   `error.type=pipeline_aborted`
//! - **names**: portals and statements are resolved, bounded and least recently used first; a statement prepared before
//!   we joined has no text
//! - **secrets**: literals are masked, parameters, rows, `COPY` data, passwords and cancel keys never looked at; of
//!   errors only code and masked text
//! - **TLS, GSS**: after the server's consent: [`Item::Upgrade`](wirespan_model::Item)
//! - **replication**: `CopyBoth` ends the answer; the stream behind it is skipped
//! - **notices, parameters**: no messages of their own; notifications are one-way
//!
//! Need: the first call of each run. The end of a large result is not captured then, and its row count is unknown.
//! Copying every call would cost more and tell nothing more, because messages do not begin where calls do.

mod client;
pub mod detect;
mod message;
mod server;
mod session;

#[cfg(test)]
mod tests;

use crate::framing::exchange::SessionParser;
use crate::mask::Masker;
use crate::{Detect, Keep, KeepKey, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No message where one has to start.
    pub const BAD_MESSAGE: &str = "postgresql_bad_message";
    /// Messages were not captured.
    pub const GAP: &str = "postgresql_gap";
    /// More unanswered requests than are remembered.
    pub const TOO_MANY_OUTSTANDING: &str = "postgresql_too_many_outstanding";
}

/// PostgreSQL.
#[derive(Clone, Copy, Debug)]
pub struct Postgresql;

impl Protocol for Postgresql {
    fn name(&self) -> L7 {
        "postgresql"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    fn need(&self) -> Need {
        Need::FirstCall
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        self.parser_with(transport, &Keep::default())
    }

    fn parser_with(&self, _transport: Transport, keep: &Keep) -> Box<dyn Parser> {
        let masker = Masker::keeping(keep.keeps_literals(self.name()));
        Box::new(SessionParser::of(session::PgSession::with(masker)))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        &[KeepKey::Literals]
    }
}
