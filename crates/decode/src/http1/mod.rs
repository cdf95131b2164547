//! HTTP/1.0 and HTTP/1.1 (RFC 9110, RFC 9112).
//!
//! - **target**: the path only: query, fragment, user info and `;jsessionid=` are dropped, segments that look like
//!   credentials become `*`
//! - **secrets**: header fields other than those listed in [`head`] are never looked at, unless the user lets them
//!   through ([`Keep`](crate::Keep))
//! - **head**: read in place when one chunk holds it, else buffered up to [`MAX_BUFFERED`](crate::MAX_BUFFERED)
//! - **head too long, or not captured to its end**: emitted as far as it was captured, with `wirespan.truncated`; its
//!   body is [`Open`](wirespan_model::Body)
//! - **head never completed**: emitted in the same way when the response comes or the connection ends
//! - **body**: skipped by `Content-Length` or chunk by chunk; bytes not captured are skipped exactly as long as they
//!   lie inside
//! - **chunks not captured**: found again where a call begins with a chunk, or at the last chunk
//! - **after a gap or a broken start line**: lines are searched for the next valid start line
//! - **meaning**: gRPC-Web, GraphQL, JSON-RPC and Elasticsearch by path, content type and the first bytes of JSON
//!   bodies; facts from the body come with its end
//! - **upgrades**: `websocket`, and `h2c` as `http2`, whose stream 1 answers the request that asked for it
//! - `HEAD`, `CONNECT`: the methods of unanswered requests are remembered in order, at most
//!   [`MAX_OUTSTANDING`](parse::MAX_OUTSTANDING)
//!
//! Counted reasons: see [`reason`].

pub mod detect;
mod emit;
pub mod head;
mod missing;
pub mod parse;
mod scan;
pub mod start;
mod state;

#[cfg(test)]
mod tests;

use crate::{Detect, Keep, KeepKey, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// The first line of a request is invalid.
    pub const BAD_REQUEST_LINE: &str = "http_bad_request_line";
    /// The first line of a response is invalid.
    pub const BAD_STATUS_LINE: &str = "http_bad_status_line";
    /// `Content-Length` is no number, or says two things.
    pub const BAD_LENGTH: &str = "http_bad_content_length";
    /// A request whose last transfer coding is not `chunked`.
    pub const BAD_TRANSFER: &str = "http_bad_transfer_encoding";
    /// An invalid chunk size.
    pub const BAD_CHUNK_SIZE: &str = "http_bad_chunk_size";
    /// A chunk that is not followed by a line end.
    pub const BAD_CHUNK_END: &str = "http_bad_chunk_end";
    /// A head longer than [`MAX_BUFFERED`](crate::MAX_BUFFERED).
    pub const HEAD_TOO_LONG: &str = "http_head_too_long";
    /// The end of a head was not captured: what followed it may be lost too.
    pub const HEAD_GAP: &str = "http_head_gap";
    /// A response came, or the connection ended, before the head was complete.
    pub const HEAD_UNFINISHED: &str = "http_head_unfinished";
    /// Bytes between messages, or the framing of a body, were not captured.
    pub const GAP: &str = "http_gap";
    /// More unanswered requests than are remembered.
    pub const TOO_MANY_OUTSTANDING: &str = "http_too_many_outstanding";
}

/// HTTP/1.
#[derive(Clone, Copy, Debug)]
pub struct Http1;

impl Protocol for Http1 {
    fn name(&self) -> L7 {
        "http"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    fn need(&self) -> Need {
        Need::Starts
    }

    fn parser(&self, transport: Transport) -> Box<dyn Parser> {
        self.parser_with(transport, &Keep::default())
    }

    fn parser_with(&self, _transport: Transport, keep: &Keep) -> Box<dyn Parser> {
        Box::new(parse::Http1Parser::keeping(keep.of_http()))
    }

    fn keepable(&self) -> &'static [KeepKey] {
        KeepKey::HTTP
    }
}
