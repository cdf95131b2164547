//! A packet program that runs on agents, as JSON.

use super::hop::TimeView;
use super::packets::{FlowEnds, HeatView, LossView, PacketPlace, PacketsState, PacketsView};
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
    /// How often it was changed while it ran.
    pub changes: u32,
    /// How long it has run, ms.
    pub elapsed_ms: u64,
    /// How long it may run, ms.
    pub limit_ms: u64,
    /// The agents that are connected now, by name.
    pub connected: Vec<ConnectedView>,
    /// The agents that were asked, by name.
    pub agents: Vec<FleetAgent>,
    /// What `record` and `journeys` tell: one JSON document each, with the name of the agent.
    pub lines: Vec<String>,
    /// Number of the first of these lines.
    pub first_line: u64,
    /// Lines that found no room in the server, because nobody fetched them.
    pub lost_lines: u64,
    /// Time from the last place at one agent to the first place at another (action `latency`).
    pub between: Vec<BetweenView>,
    /// How the clocks of agents differ that saw the same packets.
    pub clocks: Vec<ClockView>,
    /// What was lost on the way from one agent to another (action `loss`). What was lost at an agent is in its tables.
    pub loss: Vec<LostBetween>,
    /// The flows of all agents, those with the most bytes first (`by: flow`).
    pub flows: Vec<FleetFlow>,
    /// Flows with fewer bytes that are not in `flows`; at most so many.
    pub flows_left_out: u64,
}

/// Packets that left an agent for another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct LostBetween {
    /// The agent that packets leave.
    pub from_agent: String,
    /// Where it saw them last.
    pub from: PacketPlace,
    /// The agent at which most of them arrive.
    pub to_agent: String,
    /// Where it saw them first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<PacketPlace>,
    /// What became of them. Missing: they left between packets of the same addresses that arrived. `under_way`: packets
    /// that left before the first one that arrived or after the last one, or whose addresses never arrived.
    pub loss: LossView,
    /// Some of the missing ones may have arrived: an agent is silent or gone, or has not told of all its packets.
    pub at_most: bool,
}

/// A flow that one or several agents saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct FleetFlow {
    /// Which one; none: all flows after the first thousand of each agent, together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowEnds>,
    /// The agents that saw it.
    pub agents: Vec<String>,
    /// Packets, as the agent saw them that saw the most bytes: others may see them cut or joined.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// How long that agent has watched, ms.
    pub elapsed_ms: u64,
    /// Packets of bytes that were sent before.
    pub resent: u64,
    /// Packets that were dropped at an agent, or that are missing there.
    pub lost_at_agents: u64,
    /// Packets that left one agent and are missing at the next.
    pub lost_between: u64,
    /// Packets of which it is not known whether they arrived.
    pub unknown: u64,
    /// Some of `lost_between` may have arrived, see [`LostBetween::at_most`].
    pub at_most: bool,
}

/// An agent that is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ConnectedView {
    /// Its name.
    pub agent: String,
    /// Whether it carries out orders.
    pub takes_orders: bool,
}

/// The way from one agent to another. Each agent has a clock of its own, so each time has an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct BetweenView {
    /// The agent that packets leave.
    pub from_agent: String,
    /// Where it saw them last.
    pub from: PacketPlace,
    /// The agent at which they arrive.
    pub to_agent: String,
    /// Where it saw them first.
    pub to: PacketPlace,
    /// Packets that went this way.
    pub packets: u64,
    /// Of these, packets of which no time is known: the clocks could not be compared, because packets were seen in one
    /// direction only, or because a clock was set.
    pub unknown: u64,
    /// Half of the newest packets took at most so long. Quantiles are those of the newest 65,536.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<TimeView>,
    /// See above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<TimeView>,
    /// See above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<TimeView>,
    /// The middle of the bounds of each packet's time.
    pub times: HeatView,
}

/// How the clock of one agent differs from that of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct ClockView {
    /// The agent.
    pub agent: String,
    /// The agent with which it is compared.
    pub than: String,
    /// For this time of the latter, Unix ns: that of the last minute at which the bounds are narrowest.
    pub at_ns: u64,
    /// It is ahead by at least so much, ns; negative if it is behind. Missing if packets were seen in one direction
    /// only, or if a clock was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_ns: Option<i64>,
    /// And by at most so much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_ns: Option<i64>,
    /// It gains at least so much, parts in a million.
    pub drift_low_ppm: f64,
    /// And at most so much.
    pub drift_high_ppm: f64,
    /// Packets that say so, from `than` to `agent`.
    pub packets_to: u64,
    /// And back.
    pub packets_back: u64,
    /// How often packets contradicted each other, because a clock was set.
    pub set: u64,
}

/// What became of the packets of an agent, as it saw them: other agents may see them cut or joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct MetView {
    /// They began and ended at this agent's machine.
    pub whole: u64,
    /// They left it, and another agent saw them arrive.
    pub met: u64,
    /// They left it, and no other agent saw them arrive.
    pub only_left: u64,
    /// They arrived, and no other agent saw them leave.
    pub only_came: u64,
    /// They were dropped on this machine.
    pub dropped: u64,
    /// Of `met`, packets without a time: the same bytes were sent more than once; which ones arrived is not known.
    pub unclear: u64,
    /// Of `met`, packets without a time: several agents passed them on, in an order that is not known.
    pub unordered: u64,
    /// Packets that are not compared, for want of room.
    pub left_out: u64,
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
    /// Why it does not run the program, or goes on with the one before a change; else empty.
    pub why: String,
    /// How long ago it was heard of, ms.
    pub heard_ms: u64,
    /// Packets that were under way when it was last heard of, and of which nothing is told.
    pub incomplete: u64,
    /// Lines of `record` and `journeys` that it made, and that did not arrive.
    pub lost_lines: u64,
    /// Answers that could not be read.
    pub malformed: u64,
    /// Which of its packets other agents saw; missing unless several agents run a program with `latency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<MetView>,
    /// Its tables, without the times by second.
    pub view: PacketsView,
}
