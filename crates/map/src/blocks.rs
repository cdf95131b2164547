//! Address blocks for ends that arrive one by one.

use crate::directory::NodeKey;
use crate::graph::NodeKind;
use crate::remote::{bits_of, prefix, LEVELS};
use rustc_hash::{FxHashMap, FxHashSet};
use std::net::IpAddr;

/// Chooses a node for each unobserved end while ends arrive one by one. The first addresses of a block are nodes of
/// their own, and stay so; later addresses are counted for the block.
#[derive(Default)]
pub(crate) struct Blocks {
    blocks: FxHashMap<(IpAddr, u8), FxHashSet<(IpAddr, u8)>>,
    members: usize,
}

/// Most addresses and blocks with a node of their own; beyond it, only the largest blocks have one.
const MAX_MEMBERS: usize = 4096;

impl Blocks {
    /// The node for an end that has no name: itself, or its block.
    pub(crate) fn of(&mut self, end: NodeKey) -> NodeKey {
        let ip = match end.kind {
            NodeKind::Caller => end.name.parse::<IpAddr>().ok(),
            NodeKind::Address => end.name.parse::<std::net::SocketAddr>().ok().map(|a| a.ip()),
            _ => None,
        };
        let Some(ip) = ip else { return end };
        match self.item(ip) {
            (net, bits) if bits < bits_of(ip) => NodeKey::new(NodeKind::Block, format!("{net}/{bits}")),
            _ => end,
        }
    }

    /// The address itself, or the smallest of its blocks that still has room.
    fn item(&mut self, ip: IpAddr) -> (IpAddr, u8) {
        let mut item = (ip, bits_of(ip));
        for (v4, v6, most) in LEVELS {
            let parent = prefix(ip, v4, v6);
            let children = self.blocks.get(&parent);
            if children.is_some_and(|c| c.contains(&item)) {
                return item;
            }
            if children.map_or(0, FxHashSet::len) < most && self.members < MAX_MEMBERS {
                self.blocks.entry(parent).or_default().insert(item);
                self.members += 1;
                return item;
            }
            item = parent;
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_first_ends_of_a_block_stay_and_nodes_are_few() {
        let mut crowds = Blocks::default();
        let caller = |text: &str| NodeKey::new(NodeKind::Caller, text);
        for round in 0..2 {
            for n in 1..=16 {
                let one = caller(&format!("10.1.2.{n}"));
                assert_eq!(crowds.of(one.clone()), one, "{round}");
            }
            assert_eq!(crowds.of(caller("10.1.2.17")), NodeKey::new(NodeKind::Block, "10.1.2.0/24"));
        }
        let named = NodeKey::new(NodeKind::Name, "a.example");
        assert_eq!(crowds.of(named.clone()), named);
        let server = NodeKey::new(NodeKind::Address, "10.1.2.99:80");
        assert_eq!(crowds.of(server), NodeKey::new(NodeKind::Block, "10.1.2.0/24"));
        let all = (0..300_000u32).map(|n| crowds.of(caller(&Ipv4Addr::from_bits((10 << 24) | (n * 55)).to_string())));
        let nodes: FxHashSet<NodeKey> = all.collect();
        assert!(nodes.len() <= MAX_MEMBERS + 256, "{}", nodes.len());
        assert!(crowds.blocks.len() <= MAX_MEMBERS * 4, "{}", crowds.blocks.len());
    }
}
