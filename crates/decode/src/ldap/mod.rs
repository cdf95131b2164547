//! LDAP version 3 (RFC 4511) over TCP.
//!
//! - **pairing**: by message id
//! - **several messages to one request**: entries and references of a search are one response, which its
//!   `searchResDone` ends; they are counted
//! - **what is kept**: operation, scope, filter and names with their attribute types (`uid=?,dc=?`), mechanism, result
//!   code; no value
//! - **secrets**: passwords and SASL credentials are skipped with the rest of the message; diagnostic texts hold
//!   values, and are not kept
//! - **errors**: named after RFC 4511, appendix A; referrals, comparisons, and the steps of a bind are none
//! - **one-way**: `unbind`, `abandon`, notices of disconnection
//! - **StartTLS**: behind its granted answer: an upgrade to `tls`
//! - **SASL layers**: what they sign behind a bind is read, what they encrypt is stepped over
//! - **after a gap**: the next chunk that starts with a whole message of a known operation
//!
//! Need: whole calls. Answers come in any order, and one answer holds many entries.

pub mod detect;
mod emit;
mod filter;
mod layer;
pub mod parse;

#[cfg(test)]
mod tests;

use crate::framing::units::Units;
use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No message where one has to start.
    pub const BAD_MESSAGE: &str = "ldap_bad_message";
    /// Bytes between messages were not captured.
    pub const GAP: &str = "ldap_gap";
}

/// LDAP.
#[derive(Clone, Copy, Debug)]
pub struct Ldap;

impl Protocol for Ldap {
    fn name(&self) -> L7 {
        "ldap"
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

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<Units<parse::Messages>>::default()
    }
}
