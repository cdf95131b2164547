//! Infers the protocol of a connection, once, from the bytes of both ends.
//!
//! Bias: for a connection, availability over certainty: an unknown protocol still gives L4 spans. For a protocol,
//! certainty over availability: a wrong *yes* makes wrong spans, and a late *yes* only starts later.

#[cfg(test)]
mod tests;

use crate::{Probe, Protocol, Registry};
use std::fmt;

/// Messages (runs of bytes in one direction) of each end after which an undecided connection is given up.
pub const PATIENCE: u32 = 2;

/// The result of an inference.
#[derive(Clone, Copy)]
pub enum Verdict {
    /// No protocol of the registry: L4 only.
    Unknown,
    /// Ask again with more bytes, or when the other end has spoken.
    NeedMore,
    /// This protocol.
    Known {
        /// The protocol.
        protocol: &'static dyn Protocol,
        /// Whether the end that spoke first is the client.
        first_is_client: bool,
    },
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Unknown => f.write_str("Unknown"),
            Verdict::NeedMore => f.write_str("NeedMore"),
            Verdict::Known { protocol, first_is_client } => f
                .debug_struct("Known")
                .field("protocol", &protocol.name())
                .field("first_is_client", first_is_client)
                .finish(),
        }
    }
}

/// Asks every built-in protocol; [`Registry::infer`] asks those that the user added too.
///
/// `turns` counts the messages (runs of bytes in one direction) that the first and the second speaker have sent. The
/// probe holds the bytes from where the connection was joined. After [`PATIENCE`] messages of both ends without a *yes*
/// the answer is [`Verdict::Unknown`].
pub fn infer(probe: &Probe<'_>, turns: (u32, u32)) -> Verdict {
    Registry::default().infer(probe, turns)
}
