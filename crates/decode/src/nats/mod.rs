//! NATS client protocol, core and JetStream (docs.nats.io, "Client Protocol"; `nats-architecture-and-design`, ADR-4
//! headers).
//!
//! - **secrets**: of CONNECT only the client's name is kept; payloads are skipped, except JetStream's own
//!   acknowledgements, which are read and not kept
//! - **publish, deliver**: one-way; with an inbox as reply subject they are requests, answered by the message to
//!   exactly that inbox on the same connection
//! - **PING**: answered by the next PONG of the other end
//! - **verbose mode**: `+OK` and `-ERR` answer commands in order; joined later the mode is unknown and they stay alone
//! - **carried context**: headers of HPUB and HMSG
//! - **JetStream**: stream, consumer and sequences of a delivery from its `$JS.ACK` reply subject; of a publication
//!   from its answer; API errors; acknowledgements are settlements
//! - **no responders, expired pulls**: status line of the headers
//! - **TLS**: asked for by INFO and begun by the client: [`Item::Upgrade`](wirespan_model::Item)
//! - **nRPC**: is request and reply on `package.service.method`; nothing on the wire tells it from any other subject,
//!   so it is shown as a subject
//! - **after a gap or nonsense**: the next chunk that starts like a command
//!
//! Need: whole calls. Clients write many messages with one call, and each names its subject.

pub mod detect;
mod jetstream;
mod line;
mod reader;
mod session;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// NATS.
#[derive(Clone, Copy, Debug)]
pub struct Nats;

impl Protocol for Nats {
    fn name(&self) -> L7 {
        "nats"
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
        Box::<reader::NatsParser>::default()
    }
}
