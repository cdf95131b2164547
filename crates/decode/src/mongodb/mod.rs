//! MongoDB wire protocol (mongodb.com, "MongoDB Wire Protocol"): `OP_MSG`, `OP_COMPRESSED`, and the older operations.
//!
//! - **pairing**: `responseTo` of a reply names the `requestID` of its request
//! - **what is kept**: command, database, collection, and of replies `ok`, `code`, `codeName` and a masked text; no
//!   other value, unless the user names a field ([`emit::Fields`])
//! - **BSON**: the top level is walked, at most [`parse::MAX_HEAD`] bytes; deeper levels are skipped by their lengths
//! - **errors**: `ok: 0`, the first of `writeErrors`, `writeConcernError`, and the flags of `OP_REPLY`
//! - **not captured to its end**: emitted as far as it was captured; a reply whose `ok` was not seen has no outcome,
//!   unless it holds a cursor
//! - `moreToCome`: of a client: one-way (unacknowledged writes). Of a server: the replies after the first are one-way
//! - `OP_COMPRESSED`: the compressor is named, and the beginning of the packed message is read. Of zstd the first block
//!   is read if it was captured whole (16 KiB at most); of a longer block only the compressor is known. Whole calls are
//!   copied from the first greeting that offers zstd, or the first message that uses it
//! - **legacy writes**: `OP_INSERT`, `OP_UPDATE`, `OP_DELETE`, `OP_KILL_CURSORS` are one-way
//! - **after a gap**: the next chunk that begins with a whole header and document
//!
//! Need: every call. Drivers read the 16 bytes of a header by a call of their own, and replies come in any order.

mod bson;
mod compressed;
pub mod detect;
mod emit;
pub mod parse;

#[cfg(test)]
mod tests;

use crate::framing::units::Units;
use crate::{Detect, Keep, KeepKey, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No message where one has to start.
    pub const BAD_MESSAGE: &str = "mongodb_bad_message";
    /// Bytes between messages were not captured.
    pub const GAP: &str = "mongodb_gap";
}

/// MongoDB.
#[derive(Clone, Copy, Debug)]
pub struct MongoDb;

impl Protocol for MongoDb {
    fn name(&self) -> L7 {
        "mongodb"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        self.parser_with(transport, &Keep::default())
    }

    fn parser_with(&self, _transport: Transport, keep: &Keep) -> Box<dyn Parser> {
        Box::new(Units::of(parse::Messages::keeping(keep.of_fields(self.name()))))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        &[KeepKey::Fields]
    }
}
