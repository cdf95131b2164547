//! RocketMQ remoting: headers in JSON and in the binary form of `RocketMQSerializable` (Apache RocketMQ 4 and 5).
//!
//! - **pairing**: by `opaque`; brokers ask their clients too
//! - **one-way**: flag bit 1
//! - **operation**: the request code by name
//! - **topic, group, queue, offsets**: from the fields of the header; `wirespan.rocketmq.queue_offset` is where a
//!   message was stored or the first one that came
//! - **a long message that a pull brought**: queue and offset; its topic, id and context stand behind its body, and are
//!   known if that was captured
//! - **message id**: `UNIQ_KEY` of the properties; the one that the broker gave is
//!   `wirespan.rocketmq.offset_message_id`
//! - **context**: of the properties: the parent for a send, `wirespan.link.*` for messages that a pull brought
//! - **errors**: response codes by name; remarks are not kept, they quote values
//! - **secrets**: bodies, keys, other properties, access keys and signatures are never kept
//! - **a header that was cut**: counted and skipped: whether it asks or answers stands at its end
//! - **joined in the middle**: from the next chunk that begins with a header
//!
//! **How much of a call is needed**: the beginning of *every* call, as long as possible. A JSON header is in
//! alphabetical order, so `flag` and `opaque` come behind all fields, even behind the properties of the message. Netty
//! writes several commands in a row.

mod codes;
pub mod detect;
mod emit;
mod head;
mod json;
mod messages;
pub mod parse;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No command where one has to start.
    pub const BAD_FRAME: &str = "rocketmq_bad_frame";
    /// A header that was not captured to its end.
    pub const CUT_HEADER: &str = "rocketmq_cut_header";
    /// Bytes between commands were not captured.
    pub const GAP: &str = "rocketmq_gap";
}

/// Bytes of each call that are needed; see the module's documentation.
const NEEDED: u32 = 4096;

/// RocketMQ.
#[derive(Clone, Copy, Debug)]
pub struct RocketMq;

impl Protocol for RocketMq {
    fn name(&self) -> L7 {
        "rocketmq"
    }

    fn detect(&self, probe: &Probe<'_>) -> Detect {
        detect::detect(probe)
    }

    fn pairing(&self) -> Pairing {
        Pairing::ById
    }

    fn need(&self) -> Need {
        Need::EveryCall(NEEDED)
    }

    fn parser(&self, _transport: Transport) -> Box<dyn Parser> {
        Box::<parse::RocketMqParser>::default()
    }
}
