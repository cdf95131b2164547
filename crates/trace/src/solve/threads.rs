//! Whether the threads that read requests also make the calls, each on connections of its own. If so, each thread may
//! act for the requests that it reads itself.

use rustc_hash::{FxHashMap, FxHashSet};
use wirespan_model::Span;

/// Most connections, and most threads, that are watched.
const MAX_SOCKETS: usize = 4096;
const MAX_THREADS: usize = 64;
/// One in so many messages on a known connection may come from another thread.
const RARE: u32 = 100;
/// One in so many calls may come from a thread that reads no requests.
const FEW: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Threads {
    of_socket: FxHashMap<u64, u32>,
    readers: FxHashSet<u32>,
    stayed: u32,
    moved: u32,
    calls: u32,
    calls_by_others: u32,
}

impl Threads {
    /// Adds a request that was answered.
    pub(super) fn add_request(&mut self, span: &Span) {
        if self.readers.len() < MAX_THREADS {
            self.readers.insert(span.tid);
        }
        self.used(span);
    }

    /// Adds a call.
    pub(super) fn add_call(&mut self, span: &Span) {
        self.calls += 1;
        self.calls_by_others += u32::from(!self.readers.contains(&span.tid));
        self.used(span);
    }

    fn used(&mut self, span: &Span) {
        if self.of_socket.len() >= MAX_SOCKETS {
            self.of_socket.clear();
        }
        match self.of_socket.insert(span.socket, span.tid) {
            Some(before) if before == span.tid => self.stayed += 1,
            Some(_) => self.moved += 1,
            None => {}
        }
    }

    /// Whether several threads serve requests, each on its own connections.
    pub(super) fn are_apart(&self) -> bool {
        let by_readers = self.calls_by_others * FEW <= self.calls;
        self.readers.len() > 1 && by_readers && self.stayed > 0 && self.moved * RARE <= self.stayed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(socket: u64, tid: u32) -> Span {
        Span { socket, tid, ..Span::default() }
    }

    #[test]
    fn threads_are_apart_that_keep_their_connections() {
        let mut t = Threads::default();
        (0..10).for_each(|i| t.add_request(&span(i % 2, 7)));
        assert!(!t.are_apart(), "one thread");
        (0..10).for_each(|i| t.add_request(&span(i % 2 + 2, 8)));
        assert!(t.are_apart());
        (0..10).for_each(|i| t.add_call(&span(4, 7 + i % 2)));
        assert!(!t.are_apart(), "a connection that both use");
    }

    #[test]
    fn threads_that_have_workers_are_not_apart() {
        let mut t = Threads::default();
        (0..10).for_each(|i| t.add_request(&span(i % 2, 7 + i as u32 % 2)));
        (0..10).for_each(|i| t.add_call(&span(2 + i % 2, 9 + i as u32 % 2)));
        assert!(!t.are_apart());
        (0..90).for_each(|i| t.add_call(&span(4 + i % 2, 7 + i as u32 % 2)));
        assert!(t.are_apart());
    }
}
