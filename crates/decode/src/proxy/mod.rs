//! The PROXY protocol, versions 1 and 2 (haproxy.org, "The PROXY protocol"): a header before the first byte of a
//! connection.
//!
//! | concern | what is done |
//! |---|---|
//! | message | one, one-way: the addresses of the client and of the server that it reached |
//! | afterwards | the connection goes on with another protocol: inferred afresh from the byte behind the header |
//! | original client | `client.address` and `client.port` of all later spans of the connection |
//! | `UNKNOWN`, `LOCAL` | no address is taken from it (health checks of the proxy itself) |
//! | extensions of version 2 | the authority (`server.address`) is kept, others are skipped |
//! | joined in the middle | not recognised: the header is over |

mod parse;

#[cfg(test)]
mod tests;

use crate::framing::units::Units;
use crate::{Detect, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No header where one has to be.
    pub const BAD_HEADER: &str = "proxy_bad_header";
    /// The header was not captured whole.
    pub const GAP: &str = "proxy_gap";
}

/// The PROXY protocol.
#[derive(Clone, Copy, Debug)]
pub struct Proxy;

impl Protocol for Proxy {
    fn name(&self) -> L7 {
        "proxy"
    }

    /// A whole header is needed, which nothing else can be; only the first speaker sends one.
    fn detect(&self, probe: &Probe<'_>) -> Detect {
        let stream = probe.transport.is_stream();
        if !stream || probe.first_is_client == Some(false) {
            return Detect::No;
        }
        match parse::header(probe.first) {
            Ok(_) => Detect::Yes { first_is_client: true },
            Err(parse::Stop::More) if probe.first.len() >= 5 => Detect::Maybe,
            Err(_) => Detect::No,
        }
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<Units<parse::Headers>>::default()
    }
}
