//! The handshake of TLS 1.0 to 1.3 (RFC 5246, RFC 8446; extensions RFC 6066, RFC 7301), as far as it is in clear.
//!
//! - **message**: one request and one response for each handshake: from ClientHello to the server's last handshake
//!   record
//! - **kept**: `server.address`, version, cipher, `tls.next_protocol`, curve, whether resumed; up to 1.2 names and
//!   dates of the certificate
//! - **not kept**: randoms, session ids, tickets, keys
//! - **1.3**: everything behind the server's hello is encrypted: certificate and chosen ALPN are unknown (the client's
//!   offer is shown)
//! - **end**: up to 1.2 the server's Finished; in 1.3 the server's last record before the client's first encrypted one
//! - **errors**: an alert in clear, by its name. In 1.3 a client refuses by an encrypted alert, which its length gives
//!   away
//! - **afterwards**: an upgrade to its own name: ciphertext is only counted
//! - **joined in the middle**: ciphertext at both ends is recognised and only counted
//!
//! Need: every call, with enough bytes for certificates. Libraries read a record's head and its body by separate calls.

mod certificate;
pub(crate) mod ciphers;
pub mod detect;
pub(crate) mod hello;
pub mod parse;

#[cfg(test)]
mod tests;

use crate::framing::units::Units;
use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No record where one has to start.
    pub const BAD_RECORD: &str = "tls_bad_record";
    /// Bytes between records were not captured.
    pub const GAP: &str = "tls_gap";
}

/// TLS.
#[derive(Clone, Copy, Debug)]
pub struct Tls;

impl Protocol for Tls {
    fn name(&self) -> L7 {
        "tls"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    fn need(&self) -> Need {
        Need::EveryCall(4096)
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<Units<parse::Records>>::default()
    }
}
