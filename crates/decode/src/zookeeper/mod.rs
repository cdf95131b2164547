//! ZooKeeper's client protocol (apache/zookeeper, `zookeeper.jute` and `ZooDefs.java`).
//!
//! | concern | what is done |
//! |---|---|
//! | frames | a length of four bytes before each; the head of a frame is read, data is skipped |
//! | pairing | by `xid`; the session's own request has none and gets an id of its own |
//! | what is kept | operation, path, error code; never data, credentials, session ids or passwords |
//! | watches | events are one-way: their kind and path |
//! | errors | named after `KeeperException.Code`; a missing node is no error of `exists`, which asks for that |
//! | transactions | `multi` is one request; its operations are not read |
//! | four-letter commands | are another protocol, and not read |
//! | after a gap | the next chunk that starts with a whole frame of a known operation (replies: with a known error) |
//!
//! Need: whole calls. Replies and events mix, and each is short.

pub mod detect;
mod names;
pub mod parse;

#[cfg(test)]
mod tests;

use crate::framing::units::Units;
use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No frame where one has to start.
    pub const BAD_FRAME: &str = "zookeeper_bad_frame";
    /// Bytes between frames were not captured.
    pub const GAP: &str = "zookeeper_gap";
}

/// ZooKeeper.
#[derive(Clone, Copy, Debug)]
pub struct ZooKeeper;

impl Protocol for ZooKeeper {
    fn name(&self) -> L7 {
        "zookeeper"
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
        Box::<Units<parse::Frames>>::default()
    }
}
