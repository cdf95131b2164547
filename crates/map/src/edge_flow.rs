//! What flow records say of an edge.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wirespan_model::{FlowCounts, Log2Histogram};

/// Flow records of one end of an edge, added up. Directions are those of the edge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeFlow {
    /// Records.
    pub records: u64,
    /// Connections opened.
    pub opened: u64,
    /// Attempts to connect that failed.
    pub failed: u64,
    /// Connections closed.
    pub closed: u64,
    /// Connections open at the end of the last record of each flow.
    pub active: u64,
    /// Bytes from client to server.
    pub request_bytes: u64,
    /// Bytes from server to client.
    pub response_bytes: u64,
    /// Messages (UDP: datagrams) from client to server.
    pub request_messages: u64,
    /// Messages from server to client.
    pub response_messages: u64,
    /// Segments that this end retransmitted.
    pub retransmits: u64,
    /// Resets sent by this end, and received by it.
    pub resets: u64,
    /// Times that the peer's receive window was found closed.
    pub zero_windows: u64,
    /// Segments received out of order.
    pub out_of_order: u64,
    /// Packets dropped by the kernel, by reason.
    pub drops: BTreeMap<Box<str>, u64>,
    /// Handshakes.
    pub handshake: Log2Histogram,
    /// Smoothed RTT.
    pub srtt: Log2Histogram,
}

impl EdgeFlow {
    /// Adds a record of the server's (`serves`) or of the client's end; all but `active`.
    pub(crate) fn add(&mut self, c: &FlowCounts, serves: bool) {
        let swap = |own, other| if serves { (other, own) } else { (own, other) };
        let (request_bytes, response_bytes) = swap(c.bytes_sent, c.bytes_received);
        let (request_messages, response_messages) = swap(c.messages_sent, c.messages_received);
        self.merge(&EdgeFlow {
            records: 1,
            opened: c.opened,
            failed: c.failed,
            closed: c.closed,
            active: 0,
            request_bytes,
            response_bytes,
            request_messages,
            response_messages,
            retransmits: c.retransmits,
            resets: c.resets_sent.saturating_add(c.resets_received),
            zero_windows: c.zero_windows,
            out_of_order: c.out_of_order,
            drops: c.drops.clone(),
            handshake: c.handshake,
            srtt: c.srtt,
        });
    }

    fn merge(&mut self, other: &EdgeFlow) {
        for (mine, theirs) in [
            (&mut self.records, other.records),
            (&mut self.opened, other.opened),
            (&mut self.failed, other.failed),
            (&mut self.closed, other.closed),
            (&mut self.active, other.active),
            (&mut self.request_bytes, other.request_bytes),
            (&mut self.response_bytes, other.response_bytes),
            (&mut self.request_messages, other.request_messages),
            (&mut self.response_messages, other.response_messages),
            (&mut self.retransmits, other.retransmits),
            (&mut self.resets, other.resets),
            (&mut self.zero_windows, other.zero_windows),
            (&mut self.out_of_order, other.out_of_order),
        ] {
            *mine = mine.saturating_add(theirs);
        }
        for (reason, n) in &other.drops {
            let sum = self.drops.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
        self.handshake.merge(&other.handshake);
        self.srtt.merge(&other.srtt);
    }
}
