//! DNS (RFC 1035) over UDP and TCP, with EDNS response codes (RFC 6891); mDNS and LLMNR share the format.
//!
//! - **pairing**: by the id of the message
//! - **names**: decompressed (pointers only backwards, at most 255 bytes), lower case, odd bytes as `\DDD`
//! - **several questions**: the first names the message, `wirespan.dns.questions` counts them
//! - **answers**: up to [`parse::MAX_ANSWERS`] addresses and names of the answer section, as text
//! - **answers to no question**: one-way (multicast announcements, further messages of a zone transfer)
//! - **not captured to its end**: emitted as far as it was captured, with `wirespan.truncated`; over TCP its length
//!   tells where the next message begins
//! - **TCP after a gap**: the next chunk that starts with a whole message

pub mod detect;
mod emit;
pub mod name;
pub mod parse;
pub mod types;
pub mod wire;

#[cfg(test)]
mod tests;

use crate::{Detect, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// Shorter than a header, or a question that cannot be read.
    pub const BAD_MESSAGE: &str = "dns_bad_message";
    /// A resource record that cannot be read; what stood before it was emitted.
    pub const BAD_RECORD: &str = "dns_bad_record";
    /// Bytes between messages were not captured.
    pub const GAP: &str = "dns_gap";
}

/// DNS.
#[derive(Clone, Copy, Debug)]
pub struct Dns;

impl Protocol for Dns {
    fn name(&self) -> L7 {
        "dns"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        Box::new(parse::DnsParser::new(transport))
    }
}
