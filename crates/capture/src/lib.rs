//! Kernel programs → [`Event`]s: what chosen processes send, receive, open, close and start.
//!
//! `bpf/` holds the programs, `bpf/wire.h` the whole contract, [`wire`] its reader. [`features`] chooses what this
//! kernel allows; [`Capture`] loads it, and hands events over in batches without a wake-up per record.
//!
//! Nothing of a process that is not a target is copied: the filter is the first thing each program does.

mod attach;
mod beside;
mod boxes;
mod capture;
#[cfg(feature = "checked-records")]
mod checked;
pub mod clock;
mod error;
pub mod features;
mod inject;
mod load;
mod memory;
pub mod mirror;
mod netlink;
mod netns;
mod object;
mod on_demand;
mod options;
mod own_context;
pub mod packet;
mod perf;
mod preemption;
mod prepared;
pub mod privilege;
mod refused;
mod ring;
mod runtime;
mod source;
pub mod targets;
mod tls;
mod uprobe;
mod verdicts;
pub mod wire;

pub use capture::Capture;
pub use error::CaptureError;
pub use inject::Propagate;
pub use options::Options;
pub use own_context::publish;
pub use source::calls::CallSet;
pub use source::flow::{FlowOptions, FlowSource, Flows, PlainEnd};
pub use source::wait::WaitOptions;
pub use targets::Targets;

use wirespan_model::broker::Delivers;

/// What user space decided about a connection (see `bpf/wire.h`, `struct ws_verdict`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What to copy.
    pub copy: Copy,
    /// Payload bytes per call; 0 leaves the default.
    pub bytes: u16,
    /// The connection speaks TLS: this is about its plaintext.
    pub plaintext: bool,
    /// The connection carries many requests at a time, answered in any order.
    pub shared: bool,
    /// What a client reads on the connection is work that it begins then.
    pub delivers: Option<Delivers>,
    /// The client sends requests that are not answered, each for a cause of its own.
    pub one_way: bool,
    /// Several requests wait at once, and are answered in order.
    pub pipelined: bool,
    /// One send may carry what several requests have given the client.
    pub gathers: bool,
}

/// Which calls carry payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// Every call while the connection is young, then the first of each direction run.
    Default,
    /// The first call of each direction run.
    First,
    /// Every call.
    Every,
    /// No records of this connection; causality is still followed.
    Ignore,
    /// Request and response in one record.
    Pair,
    /// Lengths of every call, no payload.
    Lengths,
    /// Datagrams with a long header of QUIC; of others, the length.
    LongHeaders,
}
