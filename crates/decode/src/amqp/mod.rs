//! AMQP 0-9-1 (amqp.org, "AMQP 0-9-1 complete reference guide"; RabbitMQ's extensions). AMQP 1.0 is another protocol:
//! `amqp1`.
//!
//! - **secrets**: kept are: of a login the mechanism's name; of a message exchange, routing key, sizes and ids; of
//!   headers the trace context
//! - **pairing**: a method and its `-ok` on one channel; a `close` with an error answers the method that it names too,
//!   and its `close-ok` carries the error
//! - **publish**: one-way; in confirm mode a request that `ack` or `nack` answers by delivery tag (one `ack` may answer
//!   many)
//! - **deliver, return**: one-way; `get` is a request that `get-ok` or `get-empty` answers
//! - **content**: method and content header are one message; the body is skipped
//! - **heartbeats, protocol header**: skipped
//! - **joined later, after a gap of the client**: delivery tags of publications cannot be counted: publications and
//!   confirmations stay one-way
//! - **after a gap or nonsense**: the next chunk that starts like a frame
//!
//! Need: whole calls. A client writes many publications with one call, and each has its own exchange and routing key.

mod begun;
mod content;
pub mod detect;
mod methods;
mod reader;
mod session;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// AMQP 0-9-1.
#[derive(Clone, Copy, Debug)]
pub struct Amqp;

impl Protocol for Amqp {
    fn name(&self) -> L7 {
        "amqp"
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
        Box::<reader::AmqpParser>::default()
    }
}
