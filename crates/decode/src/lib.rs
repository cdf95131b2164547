//! Bytes of one connection → messages. One folder per protocol; pure: no I/O, no async, no clock.
//!
//! Adding a protocol is one folder (detect, parse, tests) and one line in [`REGISTRY`].
//!
//! A parser never panics, never loops without consuming, and keeps at most [`MAX_BUFFERED`] bytes per side; what it
//! cannot read it reports as [`Item::Malformed`](wirespan_model::Item) with a reason, and it resynchronises.
//!
//! Messages are emitted as soon as their head is complete, bodies are skipped and never kept. Cutting the same bytes into
//! other chunks does not change what is emitted.
//!
//! A [`Malformed`](Item::Malformed) whose reason ends in `_gap` says that messages of that side may have been lost, so
//! pairing by order has to start afresh with the next message.
#![forbid(unsafe_code)]

pub mod carried;
pub mod dns;
pub mod http1;
pub mod infer;
pub mod redis;

mod text;

#[cfg(test)]
mod carried_tests;
#[cfg(test)]
mod infer_tests;
#[cfg(test)]
mod testing;

pub use infer::{infer, Verdict};

use wirespan_model::{Chunk, Item, Transport, L7};

/// Most bytes that a parser keeps per side while a message head is incomplete.
pub const MAX_BUFFERED: usize = 16 * 1024;

/// The start of a connection (or where we joined it), as far as it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// Transport.
    pub transport: Transport,
    /// Captured bytes of the end that spoke first.
    pub first: &'a [u8],
    /// Captured bytes of the other end; empty if it has not spoken.
    pub second: &'a [u8],
    /// Whether the first speaker is the client, if the capture source knows (it connected, or it accepted).
    pub first_is_client: Option<bool>,
    /// Server port, if known.
    pub server_port: Option<u16>,
}

/// Answer of a protocol to a [`Probe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// Not this protocol.
    No,
    /// Could be; needs more bytes or the other side.
    Maybe,
    /// This protocol.
    Yes {
        /// Whether the first speaker is the client.
        first_is_client: bool,
    },
}

/// How requests and responses find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// The n-th response answers the n-th request.
    InOrder,
    /// By [`Message::id`](wirespan_model::Message::id).
    ById,
}

/// A protocol: how to recognise it and how to read it.
pub trait Protocol: Sync {
    /// Name, lower case, as OpenTelemetry writes it where it has one.
    fn name(&self) -> L7;
    /// Recognises the start of a connection. States its bias in its documentation: a wrong *yes* costs more than a late one.
    fn detect(&self, probe: &Probe<'_>) -> Detect;
    /// How its messages pair.
    fn pairing(&self) -> Pairing;
    /// A fresh parser for one connection (for UDP: for one pair of ends).
    fn parser(&self, transport: Transport) -> Box<dyn Parser>;
}

/// Reads the bytes of one connection.
pub trait Parser: Send {
    /// Takes the next bytes of one side and emits what became clear. For UDP one call is one datagram.
    ///
    /// Offsets in the items count all bytes of the side since the parser was made, `missing` ones included.
    fn feed(&mut self, chunk: Chunk<'_>, out: &mut dyn FnMut(Item<'_>));
    /// The connection ended: emits what is known of heads that were never completed. Nothing may be fed afterwards.
    fn finish(&mut self, _out: &mut dyn FnMut(Item<'_>)) {}
    /// Bytes currently buffered, both sides; for the memory account.
    fn buffered(&self) -> usize;
}

/// Every protocol, in the order in which they are asked.
///
/// A *yes* of any of them wins over a *maybe* of an earlier one.
pub const REGISTRY: &[&dyn Protocol] = &[&http1::Http1, &redis::Redis, &dns::Dns];
