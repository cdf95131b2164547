//! The flow records of an edge, added up.

use serde::{Deserialize, Serialize};
use wirespan_model::FlowCounts;

/// Flow records of one end of an edge, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeFlow {
    /// Records.
    pub records: u64,
    /// Their counts. Directions are those of the edge, as its client has them: bytes and messages *sent* go from client
    /// to server, whichever end this is. `active` is the sum over the last record of each flow.
    pub counts: FlowCounts,
}

impl EdgeFlow {
    /// Adds a record of the server's (`serves`) or of the client's end; all but `active`.
    pub(crate) fn add(&mut self, counts: &FlowCounts, serves: bool) {
        self.records = self.records.saturating_add(1);
        if serves {
            self.counts.add(&turned_round(counts));
        } else {
            self.counts.add(counts);
        }
    }

    /// Resets sent by this end, and received by it.
    pub fn resets(&self) -> u64 {
        self.counts.resets_sent.saturating_add(self.counts.resets_received)
    }
}

/// The counts from the view of the other end.
fn turned_round(c: &FlowCounts) -> FlowCounts {
    FlowCounts {
        bytes_sent: c.bytes_received,
        bytes_received: c.bytes_sent,
        messages_sent: c.messages_received,
        messages_received: c.messages_sent,
        ..c.clone()
    }
}
