//! Protocols that a user describes instead of programming them: frames with a length or a delimiter, and fields at
//! fixed places. See `docs/protocols/custom.md`.
//!
//! - **definition**: [`Definition`], read from TOML by the binary; [`Custom::new`] checks it and explains errors in
//!   words
//! - **frames**: by length or by delimiter, read by [`framing::calls`](crate::framing::calls)
//! - **request or response**: by a field, else by the connecting end
//! - **pairing**: by a field, else in order
//! - **detection**: magic bytes, ports, or both; a definition with neither is refused
//! - **privacy**: only the fields that the definition names are read, as visible text of at most [`MAX_TEXT`] bytes
//! - **order**: asked after the built-in protocols: a definition cannot take a connection away from them

mod check;
mod definition;
mod detect;
mod field;
mod parse;

#[cfg(test)]
mod tests;

pub use check::Problem;
pub use definition::{Attribute, Definition, Endian, Form, Framing, KindBy, Magic, Source, StatusBy};

use crate::framing::calls::Reasons;
use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use std::sync::Arc;
use wirespan_model::{Transport, L7};

/// Longest text that is kept of a field, bytes.
pub const MAX_TEXT: usize = 64;
/// Bytes of a frame in which fields may lie.
pub const MAX_HEAD: usize = 4096;

/// A protocol made of a definition.
#[derive(Clone, Debug)]
pub struct Custom {
    rules: Arc<Rules>,
}

/// A checked definition, with the values derived from it.
#[derive(Debug)]
struct Rules {
    name: L7,
    reasons: Reasons,
    definition: Definition,
    magic: Vec<detect::Pattern>,
    delimiter: Vec<u8>,
    /// Bytes of a frame that hold all fields.
    head: usize,
    attributes: Vec<&'static str>,
}

impl Protocol for Custom {
    fn name(&self) -> L7 {
        self.rules.name
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(&self.rules, probe)
    }

    fn pairing(&self) -> Pairing {
        match self.rules.definition.id {
            Some(_) => Pairing::ById,
            None => Pairing::InOrder,
        }
    }

    fn need(&self) -> Need {
        Need::EveryCall(self.rules.definition.need_bytes)
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        parse::parser(&self.rules, transport)
    }
}
