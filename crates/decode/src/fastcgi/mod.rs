//! FastCGI (specification 1.0): a web server asks an application, PHP-FPM for example.
//!
//! - **copy**: [`Need::WholeCalls`]: applications read the header of each record with a call of its own
//! - **request**: method, path and script from its parameters; other parameters (cookies, credentials, query) are not
//!   looked at
//! - **response**: the `Status` of the CGI header at the start of its output; the application's exit status comes with
//!   END_REQUEST
//! - **pairing**: by request id, several of which may be under way at once
//! - **join in the middle, gaps**: the next BEGIN_REQUEST is looked for, at the server's end the next record of a known
//!   request
//! - **memory**: [`MAX_KEPT`](parse::MAX_KEPT) bytes of parameters or header per request,
//!   [`MAX_REQUESTS`](parse::MAX_REQUESTS) requests

mod detect;
mod emit;
pub mod parse;
mod record;
mod request;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// A record that its type or its side forbids.
    pub const BAD_RECORD: &str = "fastcgi_bad_record";
    /// Records may have been lost.
    pub const GAP: &str = "fastcgi_gap";
    /// More requests under way than are remembered.
    pub const TOO_MANY: &str = "fastcgi_too_many_requests";
}

/// FastCGI.
#[derive(Clone, Copy, Debug)]
pub struct FastCgi;

impl Protocol for FastCgi {
    fn name(&self) -> L7 {
        "fastcgi"
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
        Box::<parse::FastCgiParser>::default()
    }
}
