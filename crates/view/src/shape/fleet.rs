//! A packet program that runs on agents, as JSON.

use super::packets::{PacketsState, PacketsView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `/api/v1/packets/agents`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct FleetView {
    /// Whether a program runs.
    pub state: PacketsState,
    /// Which one it is: each order has another number.
    pub number: u64,
    /// The program as it was written.
    pub program: String,
    /// How long it has run, ms.
    pub elapsed_ms: u64,
    /// How long it may run, ms.
    pub limit_ms: u64,
    /// The agents that were asked, by name.
    pub agents: Vec<FleetAgent>,
    /// What `record` and `journeys` tell: one JSON document each, with the name of the agent.
    pub lines: Vec<String>,
    /// Number of the first of these lines.
    pub first_line: u64,
    /// Lines that found no room in the server, because nobody fetched them.
    pub lost_lines: u64,
}

/// What an agent does about a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FleetState {
    /// It was asked, and has not answered.
    #[default]
    Asked,
    /// It runs the program.
    Running,
    /// It has told everything.
    Ended,
    /// It does not run the program; `why` says the reason.
    Refused,
    /// It is connected, and tells nothing.
    Silent,
    /// Its connection has ended.
    Gone,
}

/// One agent, and what it tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct FleetAgent {
    /// Name of its host; with its process if several run there.
    pub agent: String,
    /// What it does.
    pub state: FleetState,
    /// Why it does not run the program; else empty.
    pub why: String,
    /// How long ago it was heard of, ms.
    pub heard_ms: u64,
    /// Packets that were under way when it was last heard of, and of which nothing is told.
    pub incomplete: u64,
    /// Lines of `record` and `journeys` that it made, and that did not arrive.
    pub lost_lines: u64,
    /// Answers that could not be read.
    pub malformed: u64,
    /// Its tables, without the times by second.
    pub view: PacketsView,
}
