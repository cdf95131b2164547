//! A packet program that runs in this process, as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `/api/v1/packets`: the packet program that runs or ran last, and its tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PacketsView {
    /// What the process does.
    pub state: PacketsState,
    /// The program as it was written.
    pub program: String,
    /// How often it was changed while it ran.
    pub changes: u32,
    /// How long it has run, ms.
    pub elapsed_ms: u64,
    /// How long it may run, ms.
    pub limit_ms: u64,
    /// Sightings that were told.
    pub sightings: u64,
    /// Sightings that were not told: no room in the ring, or in the memory of the join.
    pub lost: u64,
    /// What the user should know: points that this kernel does not show, why the program ended.
    pub notes: Vec<String>,
    /// Packets whose way is known.
    pub journeys: u64,
    /// Of these, packets of bytes that had been sent before.
    pub resent: u64,
    /// Packets by place (action `count`).
    pub places: Vec<PlaceCount>,
    /// Time from place to place, in the order of the way (action `latency`).
    pub legs: Vec<LegView>,
    /// Time from the first to the last place (action `latency`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<HeatView>,
    /// Drops by place and reason, the most frequent first (action `drops`).
    pub drops: Vec<DropView>,
    /// What became of the packets at each place, in the order of the way (action `loss`).
    pub loss: Vec<PlaceLoss>,
    /// Flows, those with the most bytes first (`by: flow`).
    pub flows: Vec<FlowView>,
    /// Flows with fewer bytes that are not in `flows`.
    pub flows_left_out: u64,
}

/// What a process does with packet programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PacketsState {
    /// It runs no programs: it traces nothing, or was not allowed to.
    #[default]
    Off,
    /// None has run yet.
    Idle,
    /// One runs.
    Running,
    /// One has ended.
    Ended,
}

/// A place where packets are seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct PacketPlace {
    /// `queue`, `xmit`, `receive`, …
    pub point: String,
    /// Name of the device, at `tcp` and `copied` of the one by which the packet came; empty where none is known.
    pub device: String,
    /// Name of the network namespace; empty for wirespan's own.
    pub netns: String,
    /// The tunnel that carried the packet there; empty for none.
    pub tunnel: String,
}

/// What was seen at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlaceCount {
    /// The place.
    pub place: PacketPlace,
    /// Packets.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

/// The way from one place to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LegView {
    /// From.
    pub from: PacketPlace,
    /// To.
    pub to: PacketPlace,
    /// Mean difference between one time and the next, ns.
    pub jitter_ns: u64,
    /// How long it took.
    pub times: HeatView,
}

/// Times, as a whole and by second. They are counted by size, in halves of doublings: number `2 n` begins at 2ⁿ ns,
/// number `2 n + 1` at 1.5 · 2ⁿ ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeatView {
    /// Number of times.
    pub packets: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// Quantiles, within 1 %.
    pub p50_ns: u64,
    /// See above.
    pub p99_ns: u64,
    /// See above.
    pub p999_ns: u64,
    /// Number of the half, and how many times lie there.
    pub halves: Vec<(u16, u64)>,
    /// The last seconds.
    pub seconds: Vec<HeatSecond>,
}

/// Times of packets that were sent in one second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeatSecond {
    /// Unix second.
    pub second: u64,
    /// Number of the half, and how many times lie there.
    pub halves: Vec<(u16, u64)>,
}

/// Packets that were dropped at one place for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DropView {
    /// Where.
    pub place: PacketPlace,
    /// Where they were seen before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<PacketPlace>,
    /// The kernel's name of the reason.
    pub reason: String,
    /// Packets.
    pub packets: u64,
    /// Of these, packets whose bytes were sent again.
    pub resent: u64,
    /// How much later, ns; half of them sooner.
    pub resent_p50_ns: u64,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LossView {
    /// Packets that were seen there.
    pub packets: u64,
    /// Of these: seen at a later place.
    pub went_on: u64,
    /// Dropped by the kernel, before they were seen at a later place.
    pub dropped: u64,
    /// Not seen again where other packets between the same addresses were, for no reason that the kernel told.
    pub missing: u64,
    /// Packets of which nothing is known: they may be on their way still.
    pub under_way: u64,
}

/// The packets at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlaceLoss {
    /// The place.
    pub place: PacketPlace,
    /// The place to which most of them went on; none: packets end here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<PacketPlace>,
    /// What became of them.
    pub loss: LossView,
}

/// One direction of a connection, or between two ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct FlowEnds {
    /// `tcp`, `udp`, …
    pub protocol: String,
    /// Address of the sender, with its port if the protocol has ports.
    pub source: String,
    /// The receiver's.
    pub destination: String,
}

/// The packets of one flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowView {
    /// Which one; none: all flows after the first thousand, together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowEnds>,
    /// Packets.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Packets of bytes that were sent before.
    pub resent: u64,
    /// Packets whose time from the first to the last place is known.
    pub timed: u64,
    /// Half of them took at most so long, within 1 %.
    pub p50_ns: u64,
    /// See above.
    pub p99_ns: u64,
    /// See above. 0 from an older agent.
    #[serde(default)]
    #[schema(required)]
    pub p999_ns: u64,
    /// Mean difference between one time and the next.
    pub jitter_ns: u64,
    /// What became of them.
    pub loss: LossView,
}
