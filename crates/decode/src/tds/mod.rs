//! Microsoft SQL Server: TDS 7.1 to 7.4 (Microsoft Open Specifications, MS-TDS); also Azure SQL.
//!
//! - **unit of work**: a batch, a remote procedure call, a bulk load, a transaction request, the login: one request;
//!   its answer ends with the packet that has the end flag
//! - **statements**: text of a batch, and of `sp_executesql`, `sp_prepare`, `sp_prepexec`; one that is executed by its
//!   handle has no text
//! - **answers**: errors, rows and database are read from the tokens up to the first table; errors and counts behind it
//!   from the last token of the last packet
//! - **attention**: one-way; the answer to it alone is no answer to a request
//! - **TLS**: for the login only: stepped over; for everything: [`Item::Upgrade`](wirespan_model::Item)
//! - **secrets**: literals are masked (`"x"` too: the session says whether it is text), parameters, rows and the login
//!   never looked at
//!
//! Not read: MARS (several sessions in one connection), TDS 8 (TLS from the first byte), TDS 5 (Sybase).
//!
//! Need: the first call of each run.

mod detect;
mod session;
mod token;

#[cfg(test)]
mod tests;

use crate::framing::exchange::SessionParser;
use crate::mask::Masker;
use crate::{Detect, Keep, KeepKey, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No packet where one has to start.
    pub const BAD_PACKET: &str = "microsoft.sql_server_bad_packet";
    /// Packets were not captured.
    pub const GAP: &str = "microsoft.sql_server_gap";
}

/// SQL Server.
#[derive(Clone, Copy, Debug)]
pub struct Tds;

impl Protocol for Tds {
    fn name(&self) -> L7 {
        "microsoft.sql_server"
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
        Box::new(SessionParser::of(session::TdsSession::with(masker)))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        &[KeepKey::Literals]
    }
}
