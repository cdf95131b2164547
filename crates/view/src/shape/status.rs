//! State of the process and its store as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wirespan_store::StoreStatus;

/// What `/api/v1/status` answers.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct StatusView {
    /// Version of wirespan.
    pub(crate) version: &'static str,
    /// Now by the server's clock, Unix ns.
    pub(crate) now_ns: String,
    /// The store.
    pub(crate) store: StoreView,
    /// The rest of the process.
    pub(crate) agent: AgentStatus,
}

/// State of the store.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct StoreView {
    /// Spans that can be found.
    pub(crate) spans: u64,
    /// Bytes on disk.
    pub(crate) disk_bytes: u64,
    /// Start of the oldest span, Unix ns; absent if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oldest_ns: Option<String>,
    /// Start of the newest span, Unix ns; absent if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) newest_ns: Option<String>,
    /// Why nothing is written at present, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stopped: Option<String>,
    /// Spans refused since the start, by reason.
    pub(crate) dropped: Vec<Counter>,
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
            dropped: s.dropped.into_iter().map(|(name, value)| Counter { name, value, loss: true }).collect(),
        }
    }
}

/// State of what runs beside the view: capture, decode, join, ship.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentStatus {
    /// `run`, `up`, `server`, …
    pub mode: String,
    /// What is traced, in words; empty for a server.
    pub targets: String,
    /// Things that a person should know: a missing kernel feature, a full disk. One sentence each.
    pub notes: Vec<String>,
    /// Stages in the order of the data flow.
    pub stages: Vec<Stage>,
}

/// Counters of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stage {
    /// `capture`, `decode`, `join`, …
    pub name: String,
    /// Its counters.
    pub counters: Vec<Counter>,
}

/// A counter since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counter {
    /// What is counted: `events in`, `ring full`.
    pub name: String,
    /// How many.
    pub value: u64,
    /// Whether it counts something lost.
    pub loss: bool,
}
