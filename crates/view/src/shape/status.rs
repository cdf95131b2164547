//! State of the process and its store as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wirespan_store::StoreStatus;

/// Answer of `/api/v1/status`.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct StatusView {
    /// Version of wirespan.
    pub(crate) version: &'static str,
    /// Current time of the server's clock, Unix ns.
    pub(crate) now_ns: String,
    /// The store.
    pub(crate) store: StoreView,
    /// The other parts of the process.
    pub(crate) agent: AgentStatus,
}

/// State of the store.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct StoreView {
    /// Number of spans in the store.
    pub(crate) spans: u64,
    /// Bytes on disk.
    pub(crate) disk_bytes: u64,
    /// Start of the oldest span, Unix ns; absent if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oldest_ns: Option<String>,
    /// Start of the newest span, Unix ns; absent if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) newest_ns: Option<String>,
    /// Why the store does not write at present; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stopped: Option<String>,
    /// Spans that the store refused since the start; most senders keep them and try again.
    pub(crate) refused: u64,
    /// Files of the store that are missing or damaged, one line each. Everything else can be read.
    pub(crate) damaged: Vec<String>,
}

impl From<StoreStatus> for StoreView {
    fn from(s: StoreStatus) -> Self {
        let time = |ns: u64| (ns != 0).then(|| ns.to_string());
        StoreView {
            spans: s.spans,
            disk_bytes: s.disk_bytes,
            oldest_ns: time(s.oldest_ns),
            newest_ns: time(s.newest_ns),
            stopped: s.stopped,
            refused: s.refused,
            damaged: s.damaged,
        }
    }
}

/// State of the stages beside the view: capture, decode, join, ship.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentStatus {
    /// The command: `run`, `up`, `server`, …
    pub mode: String,
    /// The targets, in words; empty for a server.
    pub targets: String,
    /// Problems that the user should know: a missing kernel feature, a full disk. One sentence each.
    pub notes: Vec<String>,
    /// Stages in the order of the data flow. What the store forgot since the start is in that of the store.
    pub stages: Vec<Stage>,
    /// Memory that the process takes.
    pub memory: Memory,
}

/// Memory that a process takes, bytes. Together it is what the machine loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Memory {
    /// Tables and rings of the kernel programs.
    pub kernel_tables: u64,
    /// The kernel programs.
    pub kernel_programs: u64,
    /// The process itself, its program file included.
    pub resident: u64,
}

/// Counters of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stage {
    /// Name of the stage: `capture`, `decode`, `join`, …
    pub name: String,
    /// Counters of the stage.
    pub counters: Vec<Counter>,
}

/// A counter since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counter {
    /// Name of the counter: `events in`, `ring full`.
    pub name: String,
    /// Count since the start of the process.
    pub value: u64,
    /// Whether the counter counts losses.
    pub loss: bool,
    /// What can be done about a loss; empty for what is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub todo: String,
}

impl Counter {
    /// A counter, with what can be done if it counts a loss.
    pub fn new(name: impl Into<String>, value: u64, loss: bool) -> Self {
        let name = name.into();
        let todo = if loss { super::what_to_do(&name).to_owned() } else { String::new() };
        Counter { name, value, loss, todo }
    }
}
