//! WebSocket (RFC 6455), behind the upgrade of an HTTP connection.
//!
//! - **detect**: never by its bytes: masked frames look like anything; HTTP says when it begins, so that a connection
//!   joined later stays unknown
//! - **copy**: [`Need::EveryCall`]: a call may carry several messages
//! - **messages**: one-way: `text`, `binary`, `ping`, `pong`, `close`; fragments make one message, which ends with its
//!   last frame
//! - **payload**: never read, except the code of a close; its size is shown
//! - **control frames between fragments**: counted in `wirespan.websocket.control_frames` of the message around them
//! - **gaps**: skipped inside a payload; else a call is read again once its bytes are exactly whole frames

pub mod parse;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// A frame that the protocol forbids.
    pub const BAD_FRAME: &str = "websocket_bad_frame";
    /// Frames may have been lost.
    pub const GAP: &str = "websocket_gap";
}

/// WebSocket.
#[derive(Clone, Copy, Debug)]
pub struct WebSocket;

impl Protocol for WebSocket {
    fn name(&self) -> L7 {
        "websocket"
    }

    fn detect(&self, _probe: &Probe<'_>) -> Detect {
        Detect::No
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    fn need(&self) -> Need {
        Need::EveryCall(0)
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<parse::WebSocketParser>::default()
    }
}
