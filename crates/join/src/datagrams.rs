//! Copy rules of datagram sockets, each of which may have many peers.

use crate::verdict::CopyRule;
use rustc_hash::FxHashMap;
use wirespan_model::{SocketId, L7};

/// Sockets that are remembered; those that nobody asked for meanwhile are forgotten first.
const KEPT: usize = 4096;

/// The kernel keeps one rule for a socket. So a peer that is not understood, or asks for less, must not take away what
/// other peers of the same socket need.
#[derive(Default)]
pub(crate) struct DatagramSockets {
    recent: FxHashMap<SocketId, CopyRule>,
    older: FxHashMap<SocketId, CopyRule>,
}

impl DatagramSockets {
    /// The rule of a socket one of whose peers asks for `copy`. `protocol` is empty if that peer was not understood.
    pub(crate) fn rule(&mut self, socket: SocketId, protocol: L7, copy: CopyRule) -> CopyRule {
        let known = self.recent.get(&socket).copied().or_else(|| self.older.remove(&socket));
        let rule = match known {
            Some(known) if protocol.is_empty() => known,
            Some(known) => wider(known, copy),
            None => copy,
        };
        if known.is_some() || !protocol.is_empty() {
            if self.recent.len() >= KEPT {
                self.older = std::mem::take(&mut self.recent);
            }
            self.recent.insert(socket, rule);
        }
        rule
    }
}

/// The narrowest rule that gives what both give.
fn wider(a: CopyRule, b: CopyRule) -> CopyRule {
    let parts = |rule| match rule {
        CopyRule::Ignore => (0, 0),
        CopyRule::EveryCall(0) => (1, 0),
        CopyRule::LongHeaders(n) => (2, n),
        CopyRule::PairInKernel => (3, 0),
        CopyRule::FirstCallOnly(n) => (4, n),
        CopyRule::EveryCall(n) => (5, n),
    };
    let (a, b) = (parts(a), parts(b));
    let bytes = a.1.max(b.1);
    match a.0.max(b.0) {
        0 => CopyRule::Ignore,
        1 => CopyRule::EveryCall(0),
        2 => CopyRule::LongHeaders(bytes),
        3 => CopyRule::PairInKernel,
        4 => CopyRule::FirstCallOnly(bytes),
        _ => CopyRule::EveryCall(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_peer_takes_away_what_another_needs() {
        let mut sockets = DatagramSockets::default();
        let (quic, none) = (CopyRule::LongHeaders(4096), CopyRule::EveryCall(0));
        assert_eq!(sockets.rule(SocketId(1), "", none), none);
        assert_eq!(sockets.rule(SocketId(1), "quic", quic), quic);
        assert_eq!(sockets.rule(SocketId(1), "", none), quic);
        assert_eq!(sockets.rule(SocketId(1), "dns", CopyRule::EveryCall(512)), CopyRule::EveryCall(4096));
        assert_eq!(sockets.rule(SocketId(2), "", none), none, "another socket");
        for socket in 10..10 + KEPT as u64 {
            sockets.rule(SocketId(socket), "dns", CopyRule::EveryCall(512));
        }
        assert_eq!(sockets.rule(SocketId(1), "", none), CopyRule::EveryCall(4096), "still in use");
        for socket in 10..10 + 2 * KEPT as u64 {
            sockets.rule(SocketId(100_000 + socket), "dns", CopyRule::EveryCall(512));
        }
        assert_eq!(sockets.rule(SocketId(1), "", none), none, "forgotten");
        assert!(sockets.recent.len() + sockets.older.len() <= 2 * KEPT);
    }
}
