//! Requests on connections that carry many at a time: by stream, or by their order.

use crate::event::{BY_STREAM, PROVISIONAL};

/// Whether a cause stands for the request that came next on its connection when an actor was made for it. It has the
/// form of [`crate::event::by_stream`], with an even number, as no request's stream has.
pub fn is_ordered(cause: u64) -> bool {
    cause & PROVISIONAL == BY_STREAM && cause & 1 == 0
}

/// Whether the protocol has streams, whose ids name requests.
pub fn has_streams(protocol: &str) -> bool {
    matches!(protocol, "http2" | "grpc")
}
