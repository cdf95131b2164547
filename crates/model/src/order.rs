//! Causes that name a request by its order on a connection.

use crate::event::{BY_STREAM, PROVISIONAL};

/// Whether a cause stands for the request that came next on its connection when an actor was made for it. It has the
/// form of [`crate::event::by_stream`], with an even number, as no request's stream has.
pub fn is_ordered(cause: u64) -> bool {
    cause & PROVISIONAL == BY_STREAM && cause & 1 == 0
}
