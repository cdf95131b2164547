//! What is counted of an edge as it happens, and what it is called.

use wirespan_model::Transport;

/// Upper bounds of the buckets of durations, seconds: those of OpenTelemetry's service-graph connector.
pub const BOUNDS_S: [f64; 16] =
    [0.002, 0.004, 0.006, 0.008, 0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.4, 2.0, 5.0, 10.0, 15.0];

/// An edge as service graphs name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphEdge {
    /// Name of the caller.
    pub client: Box<str>,
    /// Name of the called.
    pub server: Box<str>,
    /// Empty, or `virtual_node`, `database`, `messaging_system`.
    pub connection_type: &'static str,
}

/// An edge as flow records name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkEdge {
    /// Name of the caller.
    pub client: Box<str>,
    /// Name of the called.
    pub server: Box<str>,
    /// Transport.
    pub transport: Transport,
    /// Port of the called.
    pub port: u16,
}

/// Counts of durations by [`BOUNDS_S`], and their sum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    /// One more than bounds.
    pub counts: [u64; BOUNDS_S.len() + 1],
    /// Seconds.
    pub sum_s: f64,
}

impl Durations {
    pub(super) fn add(&mut self, ns: u64) {
        let seconds = ns as f64 / 1e9;
        let bucket = BOUNDS_S.iter().position(|b| seconds <= *b).unwrap_or(BOUNDS_S.len());
        self.counts[bucket] += 1;
        self.sum_s += seconds;
    }

    pub(super) fn merge(&mut self, other: &Durations) {
        self.counts.iter_mut().zip(other.counts).for_each(|(n, more)| *n += more);
        self.sum_s += other.sum_s;
    }
}

/// Requests of an edge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallSums {
    /// Requests, each once.
    pub requests: u64,
    /// Of these, failed.
    pub failed: u64,
    /// As callers saw them.
    pub client: Durations,
    /// As the called saw them.
    pub server: Durations,
}

/// Flow records of an edge, as the client's end saw it (as the server's did, if the client was not observed).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSums {
    /// Connections opened.
    pub opened: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Bytes from client to server.
    pub request_bytes: u64,
    /// Bytes from server to client.
    pub response_bytes: u64,
    /// Segments retransmitted; both ends together.
    pub retransmits: u64,
    /// Resets.
    pub resets: u64,
}
