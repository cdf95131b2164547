//! ZMTP 2.0, 3.0 and 3.1, the protocol of ZeroMQ (rfc.zeromq.org, 15/ZMTP, 23/ZMTP, 37/ZMTP).
//!
//! - **secrets**: of the greeting the mechanism is kept, of READY the socket type, of ERROR the reason; user names,
//!   passwords, identities, certificates and payloads are skipped
//! - **messages**: of any number of frames: one-way, with their sizes; a socket type that takes turns makes them
//!   requests and responses: REQ asks, REP answers, ROUTER answers a REQ, DEALER asks a REP
//! - **handshake**: HELLO is answered by WELCOME, INITIATE by READY, either by ERROR; without a mechanism READY is
//!   one-way
//! - **subscriptions**: SUBSCRIBE and CANCEL, or their older form as messages; the destination of a message is the
//!   longest subscription that it begins with, never more of it
//! - **PING, PONG**: one-way
//! - **CURVE**: sizes only
//! - **joined later**: not recognised: nothing but the greeting is certain
//! - **after a gap or nonsense**: the next chunk that consists of frames
//!
//! Need: 512 bytes of every call. Many small messages share a call, and each frame has its length at its start.

mod command;
pub mod detect;
mod reader;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// ZMTP.
#[derive(Clone, Copy, Debug)]
pub struct Zmtp;

impl Protocol for Zmtp {
    fn name(&self) -> L7 {
        "zmtp"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::InOrder
    }

    fn need(&self) -> Need {
        Need::EveryCall(512)
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<reader::ZmtpParser>::default()
    }
}
