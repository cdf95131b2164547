//! Connections on which one system call reads several requests, so that the kernel's cause names all of them.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use wirespan_model::event::exchange_socket;
use wirespan_model::Span;

/// Most connections that are remembered, and exchanges of each.
const MAX_SOCKETS: usize = 1_024;
const RECENT: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Sharing {
    recent: FxHashMap<u64, VecDeque<u64>>,
    /// Connections on which requests shared an exchange.
    sockets: FxHashSet<u64>,
}

impl Sharing {
    /// Adds a request that was answered.
    pub(super) fn add_answer(&mut self, span: &Span) {
        let (Some(range), true) = (span.exchange, span.message_id.is_some()) else { return };
        let socket = exchange_socket(range.first);
        if self.sockets.contains(&socket) {
            return;
        }
        if self.recent.len() >= MAX_SOCKETS && !self.recent.contains_key(&socket) {
            self.recent.clear();
        }
        let recent = self.recent.entry(socket).or_default();
        if recent.contains(&range.last) {
            self.recent.remove(&socket);
            if self.sockets.len() >= MAX_SOCKETS {
                self.sockets.clear();
            }
            self.sockets.insert(socket);
            return;
        }
        recent.push_back(range.last);
        if recent.len() > RECENT {
            recent.pop_front();
        }
    }

    /// Whether several requests may have this exchange.
    pub(super) fn is_shared(&self, exchange: u64) -> bool {
        self.sockets.contains(&exchange_socket(exchange))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespan_model::ExchangeRange;

    fn request(socket: u64, exchange: u64) -> Span {
        let x = socket << 24 | exchange;
        Span { exchange: Some(ExchangeRange { first: x, last: x }), message_id: Some(exchange), ..Span::default() }
    }

    #[test]
    fn one_call_that_brings_two_requests_is_noticed() {
        let mut sharing = Sharing::default();
        for exchange in [1, 2, 3, 4] {
            sharing.add_answer(&request(7, exchange));
            sharing.add_answer(&request(8, exchange));
        }
        assert!(!sharing.is_shared(7 << 24 | 9) && !sharing.is_shared(8 << 24 | 9));
        sharing.add_answer(&request(8, 3));
        assert!(!sharing.is_shared(7 << 24 | 9) && sharing.is_shared(8 << 24 | 9));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut sharing = Sharing::default();
        for socket in 0..3 * MAX_SOCKETS as u64 {
            (0..3).for_each(|x| sharing.add_answer(&request(socket, x / 2)));
        }
        assert!(sharing.recent.len() <= MAX_SOCKETS && sharing.sockets.len() <= MAX_SOCKETS);
    }
}
