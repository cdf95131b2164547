//! Connections by socket, and in order of use.

use crate::conn::Conn;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use wirespan_model::{Endpoint, SocketId, Transport};

/// Key of a connection: the socket, and for UDP also a hash of the other end, as one socket may serve many peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnKey {
    pub(crate) socket: SocketId,
    /// Hash of the remote endpoint for UDP; 0 for other transports.
    pub(crate) peer: u64,
}

impl ConnKey {
    pub(crate) fn new(socket: SocketId, transport: Transport, remote: &Endpoint) -> Self {
        let peer = match transport {
            Transport::Udp => {
                let mut h = FxHasher::default();
                remote.hash(&mut h);
                h.finish()
            }
            _ => 0,
        };
        ConnKey { socket, peer }
    }
}

/// No slot.
const NIL: u32 = u32::MAX;

struct Node {
    key: ConnKey,
    conn: Option<Box<Conn>>,
    generation: u32,
    newer: u32,
    older: u32,
}

/// Slab of connections, with a linked list in order of use. A slot's generation changes when its connection is removed,
/// so that a timer of an old connection is recognised.
pub(crate) struct Table {
    map: FxHashMap<ConnKey, u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Table {
    pub(crate) fn new() -> Self {
        Table { map: FxHashMap::default(), nodes: Vec::new(), free: Vec::new(), newest: NIL, oldest: NIL }
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn slot(&self, key: &ConnKey) -> Option<u32> {
        self.map.get(key).copied()
    }

    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    pub(crate) fn slots(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.map.values().copied().collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn insert(&mut self, key: ConnKey, conn: Box<Conn>) -> u32 {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.nodes.push(Node { key, conn: None, generation: 0, newer: NIL, older: NIL });
                (self.nodes.len() - 1) as u32
            }
        };
        let node = &mut self.nodes[slot as usize];
        node.key = key;
        node.conn = Some(conn);
        self.map.insert(key, slot);
        self.link_newest(slot);
        slot
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<Box<Conn>> {
        let conn = self.nodes[slot as usize].conn.take()?;
        self.unlink(slot);
        let node = &mut self.nodes[slot as usize];
        node.generation = node.generation.wrapping_add(1);
        self.map.remove(&node.key);
        self.free.push(slot);
        Some(conn)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Conn> {
        self.nodes.get_mut(slot as usize)?.conn.as_deref_mut()
    }

    pub(crate) fn generation(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].generation
    }

    /// Makes the connection the most recently used.
    pub(crate) fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.link_newest(slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let (newer, older) = {
            let n = &self.nodes[slot as usize];
            (n.newer, n.older)
        };
        match newer {
            NIL => self.newest = older,
            n => self.nodes[n as usize].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            o => self.nodes[o as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let was = self.newest;
        {
            let node = &mut self.nodes[slot as usize];
            node.newer = NIL;
            node.older = was;
        }
        match was {
            NIL => self.oldest = slot,
            w => self.nodes[w as usize].newer = slot,
        }
        self.newest = slot;
    }
}
