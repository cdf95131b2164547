//! QUIC (RFC 9000, RFC 9001; version 2, RFC 9369; the drafts from 22 on), as far as every observer can read it: HTTP/3,
//! DNS over QUIC and others are inside.
//!
//! - **message**: one request and one response for each handshake, from the client's hello to the server's
//! - **kept**: `server.address`, the offered protocols, the versions of QUIC and TLS, cipher, curve
//! - **hello**: put together from pieces in several packets, in any order
//! - **RTT, loss**: the response comes after one round trip; a hello that is sent again counts as
//!   `wirespan.retries`. The client's proof of its address (Retry) is `wirespan.quic.retry`
//! - **errors**: the reason of a close, by its name; a refused version
//! - **not kept**: randoms, ids, tokens, keys. A hash of the client's random names the handshake, so that both ends are
//!   joined behind any translation of addresses
//! - **afterwards**: ciphertext is only counted. A further connection between the same ends is another handshake
//! - **several datagrams in one call** (GSO, GRO): read one behind the other, as far as their packets tell their length
//!   and the call was captured; the others are counted with the connection's bytes
//! - **authentication**: none; the keys are no secret, so that a tag would prove nothing
//!
//! Need: the whole datagrams of a handshake, which have at least 1,200 bytes.

pub mod detect;
mod keys;
mod packet;
pub mod parse;
mod pieces;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// A hello that cannot be read.
    pub const BAD_HELLO: &str = "quic_bad_hello";
    /// A call with a part of a hello that was captured in part: what is missing may have been the rest.
    pub const CUT: &str = "quic_cut";
}

/// QUIC.
#[derive(Clone, Copy, Debug)]
pub struct Quic;

impl Protocol for Quic {
    fn name(&self) -> L7 {
        "quic"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn need(&self) -> Need {
        Need::LongHeaders(4096)
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<parse::QuicParser>::default()
    }
}
