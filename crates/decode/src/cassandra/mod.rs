//! Cassandra's native protocol, versions 3 to 5 (Apache Cassandra, `doc/native_protocol_v5.spec`); also ScyllaDB.
//!
//! - **pairing**: by stream number: answers come in any order
//! - **frames of version 5**: segments are recognised by their checksum, also from the middle; messages in them are
//!   read as before
//! - **prepared statements**: ids are resolved to masked statements, bounded; one prepared before we joined has no text
//! - **compression**: LZ4 and snappy: the beginning is unpacked; bodies of versions 3 and 4 are marked with
//!   `wirespan.cassandra.compressed`, version 5 packs whole segments
//! - **secrets**: literals are masked, values, rows and credentials never looked at; of errors code and masked text
//! - **events**: one-way
//!
//! Need: every call, because each message has its stream number at its start.

mod detect;
mod envelope;
mod session;

#[cfg(test)]
mod tests;

use crate::framing::exchange::SessionParser;
use crate::mask::Masker;
use crate::{Detect, Keep, KeepKey, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No frame where one has to start.
    pub const BAD_FRAME: &str = "cassandra_bad_frame";
    /// Frames were not captured.
    pub const GAP: &str = "cassandra_gap";
}

/// Cassandra.
#[derive(Clone, Copy, Debug)]
pub struct Cassandra;

impl Protocol for Cassandra {
    fn name(&self) -> L7 {
        "cassandra"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn need(&self) -> Need {
        Need::EveryCall(0)
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        self.parser_with(transport, &Keep::default())
    }

    fn parser_with(&self, _transport: Transport, keep: &Keep) -> Box<dyn Parser> {
        let masker = Masker::keeping(keep.keeps_literals(self.name()));
        Box::new(SessionParser::of(session::CqlSession::with(masker)))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        &[KeepKey::Literals]
    }
}
