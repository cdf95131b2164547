//! AMQP 1.0 (OASIS standard, parts 2 transport, 3 messaging, 5 security). AMQP 0-9-1 is another protocol: `amqp`.
//!
//! - **secrets**: kept are: of SASL the mechanism and the outcome; of a message ids, trace context and sizes; of an
//!   error the condition, never the description
//! - **pairing**: open, begin, attach, detach, end and close answer each other; of links by name, of sessions by
//!   channel
//! - **transfer**: one-way if settled, else a request that a disposition answers by delivery id (one may answer many)
//! - **address**: of a link, from its attach: its target if messages go to the broker, its source if they come from it
//! - **carried context**: application properties and message annotations, where they stand before the body
//! - **flow, empty frames**: skipped
//! - **joined later, after a gap**: addresses and channels that were named unseen are unknown
//! - **after a gap or nonsense**: the next chunk that starts like a frame
//!
//! Need: whole calls. Many transfers share a call, and each has its properties at its start.

pub mod detect;
mod frame;
mod reader;
mod session;
mod values;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// AMQP 1.0.
#[derive(Clone, Copy, Debug)]
pub struct Amqp1;

impl Protocol for Amqp1 {
    fn name(&self) -> L7 {
        "amqp1"
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
        Box::<reader::Amqp1Parser>::default()
    }
}
