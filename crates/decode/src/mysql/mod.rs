//! MySQL and MariaDB (MySQL Internals, "Client/Server Protocol"; MariaDB Knowledge Base, same title); also TiDB,
//! Percona, ProxySQL.
//!
//! - **unit of work**: one command; statements of a multi-statement answer as one
//! - **end**: followed through definitions and rows, with and without `CLIENT_DEPRECATE_EOF`; joined later, the packets
//!   themselves tell which
//! - **prepared statements**: numbers are resolved to masked statements, bounded, least recently used first; one
//!   prepared before we joined has no text
//! - **one-way**: `QUIT`, `STMT CLOSE`, `STMT SEND LONG DATA`; events behind `BINLOG DUMP` are skipped
//! - **secrets**: literals are masked, parameters, rows, files and credentials never looked at; of errors code and
//!   masked text
//! - **strings**: the server's status says whether a backslash escapes, the client's character set whether bytes come
//!   in pairs
//! - **TLS**: the client's short login asks for it: [`Item::Upgrade`](wirespan_model::Item)
//! - **compression**: marked with `wirespan.mysql.compressed`; packets that the sender left uncompressed are read
//!
//! Need: whole calls, because a call holds many packets. The server, and some clients, read the four bytes of a
//! packet's header with a call of their own, so the first call of a run tells nothing. The rows of a long result that
//! was cut are not counted.

mod auth;
mod client;
pub mod detect;
mod packet;
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
    /// No packet where one has to start.
    pub const BAD_PACKET: &str = "mysql_bad_packet";
    /// Packets were not captured.
    pub const GAP: &str = "mysql_gap";
    /// More unanswered commands than are remembered.
    pub const TOO_MANY_OUTSTANDING: &str = "mysql_too_many_outstanding";
}

/// MySQL.
#[derive(Clone, Copy, Debug)]
pub struct Mysql;

impl Protocol for Mysql {
    fn name(&self) -> L7 {
        "mysql"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    fn need(&self) -> Need {
        Need::WholeCalls
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        self.parser_with(transport, &Keep::default())
    }

    fn parser_with(&self, _transport: Transport, keep: &Keep) -> Box<dyn Parser> {
        let masker = Masker::keeping(keep.keeps_literals(self.name()));
        Box::new(SessionParser::of(session::MySession::with(masker)))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        &[KeepKey::Literals]
    }
}
