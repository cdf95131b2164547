//! ClickHouse's native protocol (ClickHouse, `src/Core/ProtocolDefines.h` and `src/Client/Connection.cpp`).
//!
//! Packets of ClickHouse have no length. A reader can step over the blocks of columns behind a query only by reading
//! every column. This parser does not; it reads the start of each turn, where queries, errors and ends stand.
//!
//! - **unit of work**: a query with its data, a ping, the hello: one request; the answer begins with the server's next
//!   packet
//! - **end**: known when the server's `EndOfStream`, `Pong` or `Exception` stands before any block of its turn
//!   (inserts, statements without a result, errors); else the next request ends it, and rows are not counted
//! - **context**: the trace context that clients put into queries is read
//! - **secrets**: literals are masked, data inside of inserts, parameters, settings and the password never looked at;
//!   of errors the code and the text up to its first quote or colon
//! - **compression**: only blocks are compressed, and blocks are not read
//!
//! Need: the first call of each run.

mod detect;
mod packet;
mod parse;

#[cfg(test)]
mod tests;

use crate::mask::Masker;
use crate::{Detect, Keep, KeepKey, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No packet where one has to start.
    pub const BAD_PACKET: &str = "clickhouse_bad_packet";
    /// Packets were not captured.
    pub const GAP: &str = "clickhouse_gap";
}

/// ClickHouse.
#[derive(Clone, Copy, Debug)]
pub struct ClickHouse;

impl Protocol for ClickHouse {
    fn name(&self) -> L7 {
        "clickhouse"
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
        Box::new(parse::ClickHouseParser::with(Masker::keeping(keep.keeps_literals(self.name()))))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        &[KeepKey::Literals]
    }
}
