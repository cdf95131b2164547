//! Agent → server: batches of spans over one TCP connection, acknowledged when the server has taken them.
//!
//! ```text
//! agent                                   server
//!   "WSPN" version                  →            magic, then everything in frames: length u32, kind u8, body
//!   Hello {session, host, …}        →
//!                                   ←   "WSPN" version, Welcome {stored} or Refused "why"
//!   Spans #1, #2, … (window)        →
//!                                   ←   Ack 2         (everything up to #2 was taken)
//!                                   ←   Busy "why"    (the batch after the last acknowledged one has to wait)
//!   Ping                            →
//!                                   ←   Ack 2
//!                                   ←   Order #7 body   (only if the agent's Hello says that it takes orders)
//!   Answer #7 body, …               →
//! ```
//!
//! A batch that was not acknowledged is sent again after a reconnect. The server remembers, for each session, the last
//! batch that it took, so a lost acknowledgement does not double spans. Only a restart of the server in that moment can
//! double them; spans carry their id, so the store may still recognise them. Numbers are little-endian; bodies are
//! postcard; spans are then compressed as one LZ4 block. Postcard has no field names: any change of `model::Span` needs
//! a new [`VERSION`], and a test fails when the encoding of a span changes.
//!
//! Memory is bounded on both ends: see [`SenderConfig`] and [`ReceiverConfig`].

mod connection;
pub(crate) mod frame;
mod in_time;
mod received;
mod receiver;
mod sender;
mod status;

pub use frame::{FrameError, MAX_BATCH, MAX_FRAME, MAX_RAW, VERSION};
pub use received::{AgentStatus, ReceiverConfig, ReceiverStatus, Refusal};
pub use receiver::{Agents, AnswerSink, Receiver, Sinks};
pub use sender::{Sender, SenderConfig};
pub use status::{SenderState, SenderStatus};

use serde::{Deserialize, Serialize};

/// An agent's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentInfo {
    /// `host.name`.
    pub host: String,
    /// [`Span::host_id`](wirespan_model::Span::host_id) of its spans.
    pub host_id: u64,
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Whether it carries out orders.
    pub takes_orders: bool,
}

/// What an agent should do. What the body means is a matter of those who write and read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Its answers have the same number.
    pub number: u64,
    /// At most 128 KiB.
    pub body: Vec<u8>,
}

/// One of the answers to an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// That of the order.
    pub number: u64,
    /// At most [`MAX_FRAME`] − 8 bytes.
    pub body: Vec<u8>,
}
