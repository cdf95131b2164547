//! SOCKS 4, 4a and 5 (RFC 1928, RFC 1929; "SOCKS: A protocol for TCP proxy across firewalls").
//!
//! - **messages**: each step is a request and its response: the methods (`NEGOTIATE`), the password (`AUTH`), the
//!   request itself
//! - **target**: `CONNECT` and its kin: name or address, and port
//! - **secrets**: user names, passwords and user ids are skipped
//! - **afterwards**: behind a granted request another protocol speaks: inferred afresh from the next byte; its spans
//!   have `wirespan.socks.target`
//! - **GSSAPI**: is not followed: the connection counts as not understood
//! - **data sent before the answer**: is not shown to the next protocol, which joins late
//! - **joined in the middle**: the tunnel's own protocol is found, as on any connection

mod parse;

#[cfg(test)]
mod tests;

use crate::framing::units::Units;
use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No step of a handshake where one has to be.
    pub const BAD_MESSAGE: &str = "socks_bad_message";
    /// A step was not captured whole.
    pub const GAP: &str = "socks_gap";
}

/// SOCKS.
#[derive(Clone, Copy, Debug)]
pub struct Socks;

impl Protocol for Socks {
    fn name(&self) -> L7 {
        "socks"
    }

    /// A few small bytes are easily something else: both ends must have spoken, and the answer must be one to the
    /// question.
    fn detect(&self, probe: &Probe<'_>) -> Detect {
        let stream = probe.transport.is_stream();
        if !stream || probe.first_is_client == Some(false) {
            return Detect::No;
        }
        parse::detect(probe.first, probe.second)
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    /// Steps of few bytes, often read byte by byte.
    fn need(&self) -> Need {
        Need::EveryCall(0)
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<Units<parse::Steps>>::default()
    }
}
