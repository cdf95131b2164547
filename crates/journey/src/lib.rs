//! Packets seen at points of their way → journeys: one packet's way, with the time at each point.
//!
//! A packet carries no number of ours. TCP is joined by sequence numbers: two sightings are of the same byte if their
//! intervals `[seq, seq + len)` overlap there. So it does not matter that devices cut packets (TSO) and join them
//! (GRO). UDP is joined by length and a hash of the payload, ICMP by id and number. Address translation changes who
//! talks to whom, but not these.
//!
//! Read in this order: [`position`] (sighting → interval) → [`flow`] (what was seen of one direction of a connection) →
//! [`attempts`] (the times that the same bytes were sent) → [`Joiner`] → [`Summary`], [`Flows`], [`Live`]. [`passing`]
//! asks the joiner what devices saw of one message. [`clocks`] compares the clocks of two hosts, and [`captures`] uses
//! it for capture files of several places. [`meeting`] joins what several hosts saw of the same packets, and
//! [`Acknowledgements`] is what it compares clocks by, where bytes go in one direction only.
#![forbid(unsafe_code)]

mod acknowledgements;
mod attempts;
pub mod captures;
pub mod clocks;
mod flow;
mod flows;
mod histogram;
mod joiner;
mod live;
pub mod meeting;
mod passing;
mod position;
mod summary;

pub use acknowledgements::Acknowledgements;
pub use flows::{FlowSum, Flows, Hop, Loss, MOST_FLOWS, UNDER_WAY_NS};
pub use histogram::Histogram;
pub use joiner::{Counts, Joiner, Settings, KNOWN_AFTER_S};
pub use live::{Heat, Live, SECONDS};
pub use passing::{Bytes, Passing};
pub use summary::{DropPlace, Drops, Leg, Summary, Times};

use compact_str::CompactString;
use serde::Serialize;
use wirespan_model::packet::{Point, Route, Sighting, Tunnel};

/// Where a packet was seen. The order is that of the fields, which has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The point.
    pub point: Point,
    /// Inode of the network namespace.
    pub netns: u32,
    /// Name of the device, at `tcp` and `copied` of the one by which the packet came; empty where none is known.
    pub device: CompactString,
    /// The function at [`Point::Function`] and [`Point::Mark`].
    #[serde(skip_serializing_if = "CompactString::is_empty")]
    pub function: CompactString,
    /// The tunnel that carried the packet there.
    pub tunnel: Tunnel,
}

impl Place {
    /// Where this packet was seen.
    pub fn of(s: &Sighting) -> Self {
        // At a mark, this is the name of a thread.
        let device = if s.point == Point::Mark { CompactString::default() } else { s.device.clone() };
        Place { point: s.point, netns: s.netns, device, function: s.function.clone(), tunnel: s.tunnel }
    }
}

/// A packet at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The place.
    #[serde(flatten)]
    pub place: Place,
    /// Unix ns.
    pub time_ns: u64,
    /// The processor.
    pub cpu: u16,
    /// Packets that waited in the device's queue, where that is known.
    pub queue_len: u32,
    /// Addresses and ports of the sender and the receiver at this point; address translation changes them.
    pub route: Route,
    /// Addresses and ports with which it came to this network namespace, if conntrack has translated them there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<Box<Route>>,
}

/// The end of a packet that the kernel dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Where; the point is [`Point::Drop`].
    #[serde(flatten)]
    pub step: Step,
    /// The kernel's number of the reason.
    pub reason: u32,
    /// How long after the drop TCP sent the same bytes again.
    pub resent_after_ns: Option<u64>,
}

/// The way of one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Journey {
    /// Who sent to whom, where the packet was seen first.
    pub route: Route,
    /// TCP: sequence number of the first byte.
    pub seq: u32,
    /// Bytes of payload.
    pub len: u32,
    /// Of a datagram: a number made of its length and payload, the same on every host. TCP: sequence number of the byte
    /// that stands for the packet, the last one; if only a part of these bytes was sent again, the last one of that
    /// part.
    #[serde(skip)]
    pub number: u64,
    /// 1, or more if these bytes were sent before.
    pub attempt: u32,
    /// In the order of time.
    pub steps: Vec<Step>,
    /// The end, if the kernel dropped the packet.
    pub dropped: Option<Dropped>,
}

impl Journey {
    /// From the first to the last step.
    pub fn duration_ns(&self) -> u64 {
        match (self.steps.first(), self.steps.last()) {
            (Some(first), Some(last)) => last.time_ns.saturating_sub(first.time_ns),
            _ => 0,
        }
    }

    /// When it was seen first.
    pub fn start_ns(&self) -> u64 {
        let first = self.steps.first().or(self.dropped.as_ref().map(|d| &d.step));
        first.map_or(0, |step| step.time_ns)
    }
}
