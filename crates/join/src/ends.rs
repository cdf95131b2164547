//! Which two connections of this host are the ends of one: of those that speak TLS.

use rustc_hash::FxHashMap;
use wirespan_model::Endpoint;

/// Local and remote end.
type Pair = (Endpoint, Endpoint);

/// Connections that speak TLS, by slot of the table.
#[derive(Default)]
pub(crate) struct Ends {
    by_pair: FxHashMap<Pair, u32>,
    pairs: FxHashMap<u32, Pair>,
}

impl Ends {
    /// Adds a connection. Returns the one at its other end, if there is one. Network namespaces may have the same pair:
    /// the latest counts, and sequence numbers show whether it is the right one.
    pub(crate) fn add(&mut self, slot: u32, pair: Pair) -> Option<u32> {
        self.by_pair.insert(pair, slot);
        self.pairs.insert(slot, pair);
        self.other_of(slot)
    }

    /// The connection at the other end.
    pub(crate) fn other_of(&self, slot: u32) -> Option<u32> {
        let (local, remote) = self.pairs.get(&slot)?;
        self.by_pair.get(&(*remote, *local)).copied().filter(|other| *other != slot)
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(pair) = self.pairs.remove(&slot) else { return };
        if self.by_pair.get(&pair) == Some(&slot) {
            self.by_pair.remove(&pair);
        }
    }
}
