//! SMTP and LMTP (RFC 5321, RFC 2033), with pipelining, chunks (RFC 3030), AUTH (RFC 4954) and STARTTLS (RFC 3207).
//!
//! - **pairing**: in order: replies come in the order of the commands
//! - **what is kept**: verbs, status codes, the domain of an address (`MAIL`, `RCPT`), error texts without addresses
//!   and values
//! - **secrets**: arguments of `AUTH` and the lines that follow it are skipped
//! - **mail**: `DATA` is one request with the mail as its body; it ends with its lone dot or with the server's reply.
//!   354 is an interim response
//! - **greeting**: one-way, like everything that a server says unasked
//! - **reply of several lines**: one response
//! - **STARTTLS**: behind its 220: an upgrade to `tls`
//! - **errors**: 5yz the client's, 4yz (not now) the server's
//! - **after a gap**: the next chunk that starts with a known verb or a status code
//!
//! Need: the first call of each run, except for pipelining, which the joiner notices by itself.

pub mod detect;
pub mod parse;
mod reply;

#[cfg(test)]
mod tests;

use crate::framing::units::Units;
use crate::{Detect, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No command or reply where one has to start.
    pub const BAD_LINE: &str = "smtp_bad_line";
    /// Bytes between lines were not captured.
    pub const GAP: &str = "smtp_gap";
}

/// SMTP.
#[derive(Clone, Copy, Debug)]
pub struct Smtp;

impl Protocol for Smtp {
    fn name(&self) -> L7 {
        "smtp"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<Units<parse::Lines>>::default()
    }
}
