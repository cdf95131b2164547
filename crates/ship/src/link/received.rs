//! Limits of a receiver, and what it shows.

use super::AgentInfo;
use std::net::SocketAddr;
use std::time::Duration;

/// Limits of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Most agents connected at once; each costs a thread and up to about 10 MB while a batch is decoded.
    pub max_connections: usize,
    /// Most agents of one address, except of loopback.
    pub max_per_address: usize,
    /// Most connections that have not presented the secret yet. A further one takes the place of the oldest.
    pub max_strangers: usize,
    /// Time in which a connection must present the secret.
    pub hello_timeout: Duration,
    /// Shared secret that agents must present; empty for none.
    pub token: String,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        ReceiverConfig {
            max_connections: 512,
            max_per_address: 128,
            max_strangers: 32,
            hello_timeout: Duration::from_secs(10),
            token: String::new(),
        }
    }
}

/// One agent, connected or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentStatus {
    /// The agent's description of itself.
    pub agent: AgentInfo,
    /// Address of its last connection.
    pub peer: Option<SocketAddr>,
    /// Whether it is connected.
    pub connected: bool,
    /// Spans taken.
    pub spans: u64,
    /// Time of its last message, Unix ns.
    pub last_seen_ns: u64,
    /// Its own counters, as last reported.
    pub report: Vec<(String, u64)>,
}

/// A connection that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its other end.
    pub peer: SocketAddr,
    /// Why.
    pub why: String,
    /// When, Unix ns.
    pub at_ns: u64,
}

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStatus {
    /// Agents, by host name.
    pub agents: Vec<AgentStatus>,
    /// Spans that the sink took.
    pub spans: u64,
    /// Flows that the sink took.
    pub flows: u64,
    /// Batches that were sent twice, and skipped.
    pub repeated_batches: u64,
    /// Spans and flows of batches that had to wait because the sink was busy; their agents keep them.
    pub deferred: u64,
    /// The last connection that was refused.
    pub refused: Option<Refusal>,
    /// Batches and connections dropped, by reason; `sink` counts spans that the sink refused for good.
    pub dropped: Vec<(&'static str, u64)>,
}

impl ReceiverStatus {
    /// All counters with their names, for `/metrics` and `wirespan status`.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let connected = self.agents.iter().filter(|a| a.connected).count() as u64;
        let mut all = vec![
            ("agents_connected".to_string(), connected),
            ("spans".to_string(), self.spans),
            ("flows".to_string(), self.flows),
            ("repeated_batches".to_string(), self.repeated_batches),
            ("deferred".to_string(), self.deferred),
        ];
        all.extend(self.dropped.iter().map(|(reason, n)| (format!("dropped_{reason}"), *n)));
        all
    }
}
