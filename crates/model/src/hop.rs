//! Spans of one request at several points of its way: the attributes of a hop.

use crate::{Span, TapSide, Value};

/// Place of the point on the way from the client, from 1, among the points that saw the request.
pub const POSITION: &str = "wirespan.hop.position";
/// Number of these points.
pub const POINTS: &str = "wirespan.hop.points";
/// How the order of the points is known: `ttl`, `round-trip`, `clock` or [`UNORDERED`].
pub const EVIDENCE: &str = "wirespan.hop.evidence";
/// Several places saw the request, and nothing shows their order.
pub const UNORDERED: &str = "unknown";
/// Time in the hop from the point before to this one, request and response together, ns. It does not depend on how far
/// the clocks of the two points differ, only on whether they go at the same pace.
pub const ROUND_TRIP: &str = "wirespan.hop.round_trip_ns";
/// How far the truth may lie from it, ns.
pub const ROUND_TRIP_ERROR: &str = "wirespan.hop.round_trip_error_ns";
/// Time of the request's first byte from the point before, ns.
pub const REQUEST: &str = "wirespan.hop.request_ns";
/// How far the truth may lie from it, ns.
pub const REQUEST_ERROR: &str = "wirespan.hop.request_error_ns";
/// Time of the response's first byte to the point before, ns.
pub const RESPONSE: &str = "wirespan.hop.response_ns";
/// How far the truth may lie from it, ns.
pub const RESPONSE_ERROR: &str = "wirespan.hop.response_error_ns";
/// `two hosts` where the point before is of another host. Then a time of one direction that is not told is not known: a
/// difference of their clocks says nothing.
pub const CLOCKS: &str = "wirespan.hop.clocks";
/// Bytes of the span that entered the hop and did not leave it. They were sent again.
pub const LOST_BYTES: &str = "wirespan.hop.lost_bytes";
/// Longest time for which a packet of the request waited in the queue of the device, and one of the response, ns.
pub const QUEUE: &str = "wirespan.hop.queue_ns";
/// Most packets that waited there before a packet of the span.
pub const QUEUE_PACKETS: &str = "wirespan.hop.queue_packets";
/// Packets of the span that were dropped at the device.
pub const DROPPED: &str = "wirespan.hop.dropped_packets";
/// The kernel's reason for these drops.
pub const DROP_REASON: &str = "wirespan.hop.drop_reason";
/// Network namespace of the device, if it is not that of the agent.
pub const NETNS: &str = "wirespan.hop.netns";
/// The tunnel in which the device carries the packets.
pub const TUNNEL: &str = "wirespan.hop.tunnel";
/// Name of the device.
pub const DEVICE: &str = "network.interface.name";
/// How far the clock of this point was ahead, ns. The span's times are corrected by it.
pub const CLOCK_AHEAD: &str = "wirespan.clock.ahead_ns";
/// How far the truth may lie from it, ns.
pub const CLOCK_ERROR: &str = "wirespan.clock.error_ns";
/// Name of the capture file.
pub const CAPTURE_FILE: &str = "wirespan.capture.file";

impl Span {
    /// The number of an attribute.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.attrs.iter().find_map(|(k, v)| match v {
            Value::Int(n) if k == key => Some(*n),
            _ => None,
        })
    }

    /// Place of the span's point on the way of its request, from 1; 0 if that is not known.
    pub fn hop_position(&self) -> i64 {
        self.number(POSITION).unwrap_or(0)
    }

    /// Whether other places saw the same request, and nothing shows in which order.
    pub fn is_unordered(&self) -> bool {
        self.text(EVIDENCE) == Some(UNORDERED)
    }

    /// Whether the span is its request's first view that is not of a process. Of several captures of one request, one
    /// counts in sums over requests.
    pub fn is_first_capture(&self) -> bool {
        match self.tap {
            TapSide::Capture => true,
            TapSide::App | TapSide::ClientProcess | TapSide::ServerProcess => false,
            _ => self.pid == 0 && self.hop_position() == 1,
        }
    }
}
