//! Memcached: the text protocol, its meta commands, and the binary protocol (github.com/memcached/memcached,
//! `doc/protocol.txt` and the wiki's "BinaryProtocolRevamped").
//!
//! - **pairing**: text: in order; binary: by the opaque value. Because pairing differs, the registry has two protocols;
//!   both use one parser
//! - **what is kept**: the command, the number of keys, the status word, the number of hits; never a value, a key only
//!   where the user lets keys through
//! - **values**: skipped by their lengths; a response to several keys ends with its `END`
//! - **no answer asked for**: `noreply`, `quit`, quiet meta commands (`q`) and quiet opcodes are one-way; so is an
//!   answer that comes all the same
//! - **misses**: are no errors: the status word tells them (`NOT_FOUND`, `EN`)
//! - **errors**: `ERROR`, `CLIENT_ERROR` and failing statuses are the client's, `SERVER_ERROR`, busy and out of memory
//!   the server's
//! - **after a gap**: the next chunk that starts with a known command or reply
//! - **UDP**: is not read: its frames are switched off by default since 1.5.6
//!
//! Need: of the text protocol the first call of each run, because lengths announce the values; of the binary protocol
//! every call, because answers come by id.

mod binary;
pub mod detect;
pub mod parse;
mod text;

#[cfg(test)]
mod tests;

use crate::framing::units::Units;
use crate::{Detect, Keep, KeepKey, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No command or reply where one has to start.
    pub const BAD_MESSAGE: &str = "memcached_bad_message";
    /// Bytes between messages were not captured.
    pub const GAP: &str = "memcached_gap";
}

/// Memcached's text protocol with its meta commands.
#[derive(Clone, Copy, Debug)]
pub struct Memcached;

impl Protocol for Memcached {
    fn name(&self) -> L7 {
        "memcached"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::text(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        self.parser_with(transport, &Keep::default())
    }

    fn parser_with(&self, _transport: Transport, keep: &Keep) -> Box<dyn Parser> {
        Box::new(Units::of(parse::Memcache::showing(keep.keeps_keys(self.name()))))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        &[KeepKey::Keys]
    }
}

/// Memcached's binary protocol.
#[derive(Clone, Copy, Debug)]
pub struct MemcachedBinary;

impl Protocol for MemcachedBinary {
    fn name(&self) -> L7 {
        "memcached"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::binary(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        self.parser_with(transport, &Keep::default())
    }

    fn parser_with(&self, _transport: Transport, keep: &Keep) -> Box<dyn Parser> {
        Box::new(Units::of(parse::Memcache::showing(keep.keeps_keys(self.name()))))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        &[KeepKey::Keys]
    }
}
