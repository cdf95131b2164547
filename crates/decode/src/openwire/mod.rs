//! OpenWire, ActiveMQ's own protocol (activemq.apache.org, "OpenWire version 2 specification", and the marshallers of
//! its clients for the order of fields), tight and loose encoding.
//!
//! - **secrets**: of the login only the client id is kept; contents and properties are skipped, except trace context in
//!   properties; of an exception the class is kept, because its text quotes names of users
//! - **encoding**: as both ends agree in their WireFormatInfo; joined later, told by the first response, which is one
//!   byte longer in the tight encoding
//! - **pairing**: a command that requires a response, and the response with its id; either end may ask
//! - **publish, dispatch**: a message is a request if it requires a response, else one-way; a dispatch is one-way
//! - **cached values**: resolved; joined later, or after a gap, destinations are unknown
//! - **no size prefix**: if both ends want to do without, commands cannot be told apart: no more is read
//! - **after a gap or nonsense**: the next chunk that starts like a command
//!
//! Need: 1 KiB of every call. A command has its destination behind ids at its start; only a trace context stands behind
//! the content.

mod commands;
pub mod detect;
mod fields;
mod marshal;
mod reader;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// OpenWire.
#[derive(Clone, Copy, Debug)]
pub struct OpenWire;

impl Protocol for OpenWire {
    fn name(&self) -> L7 {
        "openwire"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn need(&self) -> Need {
        Need::EveryCall(1024)
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<reader::OpenWireParser>::default()
    }
}
