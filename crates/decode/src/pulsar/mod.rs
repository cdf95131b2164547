//! Pulsar's binary protocol: `BaseCommand` of PulsarApi.proto, read by hand (pulsar.apache.org, "Binary protocol").
//!
//! - **pairing**: by request id; a send and its receipt by producer and sequence id; connect and ping by their kind
//! - **operation**: the type of the command
//! - **topic, subscription**: of the producer or consumer that a command names, learnt when it was made
//! - **message id**: `ledger:entry`, with `:partition` and `:batch` where given, of receipts, messages and
//!   acknowledgements
//! - **messages, flow, acknowledgements**: one-way (an acknowledgement with a request id is a request)
//! - **context**: the properties of a message, or of the first one of a batch that is not compressed: the parent for a
//!   send, `wirespan.link.*` for a message that came
//! - **errors**: `ServerError` by name; texts of brokers are not kept, they quote names and values
//! - **secrets**: authentication data, keys, payloads and all other properties are never kept
//! - **joined in the middle**: from the next chunk that begins with a command; producers and consumers made before have
//!   no topic
//!
//! **How much of a call is needed**: the beginning of *every* call. Netty writes several commands in a row, and
//! messages one after the other. A command has some hundred bytes; 1 KiB reaches the metadata of a message behind it,
//! too.

pub mod commands;
pub mod detect;
mod emit;
mod errors;
mod fields;
mod metadata;
pub mod parse;
mod session;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No command where one has to start.
    pub const BAD_FRAME: &str = "pulsar_bad_frame";
    /// Bytes between commands were not captured.
    pub const GAP: &str = "pulsar_gap";
}

/// Bytes of each call that are needed; see the module's documentation.
const NEEDED: u32 = 1024;

/// Pulsar.
#[derive(Clone, Copy, Debug)]
pub struct Pulsar;

impl Protocol for Pulsar {
    fn name(&self) -> L7 {
        "pulsar"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn need(&self) -> Need {
        Need::EveryCall(NEEDED)
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<parse::PulsarParser>::default()
    }
}
