//! Recognises QUIC by a client's first datagram.
//!
//! Bias: against. The keys of that datagram follow from its connection id; what they decrypt has to be frames from its
//! beginning to its end, a piece of the handshake among them. A connection joined later stays unknown.

use super::parse::opens;
use crate::{Detect, Probe};
use wirespan_model::Transport;

pub(super) fn detect(probe: &Probe<'_>) -> Detect {
    match probe.transport {
        Transport::Udp if opens(probe.first) => probe.agrees(true),
        Transport::Udp if opens(probe.second) => probe.agrees(false),
        _ => Detect::No,
    }
}
