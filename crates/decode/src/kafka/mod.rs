//! Kafka: all API keys by name, and the bodies that name topics and offsets (kafka.apache.org/protocol; KIP-98 for
//! records, KIP-482 for compact encodings, KIP-516 for topic ids).
//!
//! - **pairing**: by correlation id; a produce with `acks=0` gets no response and is one-way
//! - **operation**: the name of the API key; the body is read up to the newest version known, beyond it only the header
//! - **offsets**: of the request, `wirespan.kafka.fetch_offset` (asked) or `wirespan.kafka.committed_offset`; of the
//!   response, `kafka.offset` (first; of records that were not captured, the one asked for) and
//!   `wirespan.kafka.last_offset` (see below); `wirespan.kafka.high_watermark` bounds what a fetch could bring
//! - **several partitions**: the first stands in the convention's attributes, up to 16 in `wirespan.kafka.partitions`
//!   as `topic/partition:first-last`
//! - **batches**: of a fetch, and of a produce that gets no response, `wirespan.kafka.batches` with a hash of each
//!   batch's sum and times, which the broker keeps
//! - **topic ids**: named by metadata responses of any connection of this process, else shown as
//!   `wirespan.kafka.topic_id`
//! - **fetch sessions**: a fetch that names no topic is about the one of its session, if that has one only
//! - **records**: batches are counted by their headers; the headers of uncompressed records are searched for a context,
//!   which is that of the request for a produce and `wirespan.link.*` for a fetch; `wirespan.kafka.compression` names
//!   the codec
//! - **errors**: the first code that is not zero, by name; messages of brokers are not kept, they quote values
//! - **secrets**: keys, values, all headers but the context, SASL tokens and mechanisms are never kept
//! - **SASL without Kafka's header (handshake version 0)**: tokens pass by until a request is seen
//! - **joined in the middle**: from the next chunk that begins with a request header that is certain; responses follow
//!   their requests
//!
//! **How much of a call is needed**: all of *every* call. Java reads the four bytes of a length in a call of their own,
//! so the first call of a run tells nothing. A produce and a fetch hold many batches of several partitions. The head of
//! a batch (61 bytes, with offsets and count) stands behind the records of the batch before. Without a batch's head it
//! is not known which records the batch has. The parser looks at 64 KiB of a frame, and at 1 MiB more of an answer to a
//! fetch ([`Framing::keep`](crate::framing::prefixed)): a consumer that is behind gets 1 MiB of a partition. What is
//! still longer is counted. Records that the broker sends with `sendfile` have no bytes to copy; their lengths are
//! known from the response's head.
//!
//! **If not all records of a fetch were captured**, and the fetch brought less than was asked for, then it brought all
//! records that there were: its last record is the one before the high watermark (with `read_committed`, before the
//! last stable offset). There are two exceptions: records that are appended while the broker answers may come along,
//! and a fetch ends at the end of a segment of the log.

mod api;
pub mod detect;
mod emit;
mod errors;
mod facts;
mod fetches;
mod head;
pub mod parse;
mod records;
mod request;
mod response;
pub mod topics;
mod wire;

#[cfg(test)]
mod tests;

use crate::{Detect, Need, Pairing, Parser, Probe, Protocol};
use wirespan_model::{Transport, L7};

/// Reasons of [`Item::Malformed`](wirespan_model::Item) that this parser counts.
pub mod reason {
    /// No request or response where one has to start.
    pub const BAD_FRAME: &str = "kafka_bad_frame";
    /// Bytes between messages were not captured.
    pub const GAP: &str = "kafka_gap";
    /// More unanswered requests than are remembered.
    pub const TOO_MANY_OUTSTANDING: &str = "kafka_too_many_outstanding";
    /// A fetch brought more than is looked at: its last records were not seen.
    pub const RECORDS_CUT: &str = "kafka_records_cut";
}

/// Kafka.
#[derive(Clone, Copy, Debug)]
pub struct Kafka;

impl Protocol for Kafka {
    fn name(&self) -> L7 {
        "kafka"
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
        Box::<parse::KafkaParser>::default()
    }
}
