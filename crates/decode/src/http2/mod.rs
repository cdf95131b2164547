//! HTTP/2 (RFC 9113) and gRPC over it, also where the beginning of the connection was not seen.
//!
//! - **copy**: [`Need::WholeCalls`]: streams interleave, so that the heads of requests stand in any call, and every
//!   header block changes the HPACK table
//! - **join in the middle**: frames are found by chains of headers ([`chain`]); [`hpack`] explains which fields the
//!   dynamic table still gives
//! - **fields that cannot be known**: left out and named in `wirespan.unknown`, never guessed; the request is counted
//!   all the same
//! - **target, secrets**: as HTTP/1: the path without query, credentials in it masked; other fields are not decoded
//!   ([`hpack`])
//! - **header block cut or lost**: emitted as far as it was captured, with `wirespan.truncated`; the table is forgotten
//! - **payload not captured**: passed over exactly as long as the hole lies inside; else the next call is searched for
//!   frames
//! - **pairing**: by stream; bodies end with `END_STREAM`, trailers, RST_STREAM or GOAWAY
//! - **cancelled by the client**: an end of its own with outcome *client error*; a response that still comes is dropped
//! - **gRPC**: by content type: service, method, status and message from the trailers; protocol `grpc`
//! - **push**: the promise is a one-way message of the server; the pushed response is passed over
//! - **memory**: half of [`MAX_BUFFERED`](crate::MAX_BUFFERED) per header block, [`MAX_STREAMS`](streams::MAX_STREAMS)
//!   streams, 64 KiB of table
//!
//! Counted reasons: see [`reason`].

mod blocks;
mod chain;
mod detect;
mod emit;
mod frame;
mod hpack;
pub mod parse;
mod streams;

#[cfg(test)]
mod tests;

use crate::{Detect, Keep, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// A frame that its type forbids.
    pub const BAD_FRAME: &str = "http2_bad_frame";
    /// A header block that HPACK forbids, or that another frame interrupts.
    pub const BAD_BLOCK: &str = "http2_bad_header_block";
    /// Frames may have been lost.
    pub const GAP: &str = "http2_gap";
}

/// HTTP/2.
#[derive(Clone, Copy, Debug)]
pub struct Http2;

impl Protocol for Http2 {
    fn name(&self) -> L7 {
        "http2"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn need(&self) -> Need {
        Need::WholeCalls
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        self.parser_with(transport, &Keep::default())
    }

    fn parser_with(&self, _transport: Transport, keep: &Keep) -> Box<dyn Parser> {
        Box::new(parse::Http2Parser { kept: keep.of_http(), ..Default::default() })
    }
}
