//! Which finished spans are watched, and which servers nobody asks for.

use super::hops;
use crossbeam_channel::Sender;
use rustc_hash::FxHashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use wirespan_model::{Span, TapSide, Transport};

/// A server of which so many requests were seen, and none was watched, is left.
const UNWATCHED: u32 = 100;
/// Servers whose requests are counted at most.
const COUNTED: usize = 65_536;

/// What is watched.
#[derive(Clone, Debug)]
pub(super) struct Words(pub(super) Vec<String>);

impl Words {
    /// Whether the span is of a watched service, or a request to a watched endpoint.
    fn has(&self, span: &Span) -> bool {
        let path = || span.target.split('?').next().unwrap_or_default();
        let is = |word: &String| *word == *span.resource.service || *word == path() || *word == span.name();
        self.0.iter().any(is)
    }
}

/// What the capture thread tells the packets thread.
#[derive(Debug, Default)]
pub(super) struct Offered {
    /// Watched requests.
    pub(super) spans: Vec<Arc<Span>>,
    /// Servers of which no request was watched so far.
    pub(super) left: Vec<SocketAddr>,
}

/// Where the capture thread puts finished spans.
pub(crate) struct Offer {
    words: Words,
    to: Sender<Offered>,
    dropped: Arc<AtomicU64>,
    /// Requests to each server while none was watched; `None`: one was.
    unwatched: FxHashMap<SocketAddr, Option<u32>>,
}

impl Offer {
    pub(super) fn new(words: Words, to: Sender<Offered>, dropped: Arc<AtomicU64>) -> Self {
        Offer { words, to, dropped, unwatched: FxHashMap::default() }
    }

    /// Offers the watched ones of these. What finds no room has no devices, and is counted.
    pub(crate) fn spans(&mut self, spans: &[Arc<Span>]) {
        let mut offered = Offered::default();
        for span in spans.iter().filter(|span| may_be_watched(span)) {
            if self.words.has(span) {
                hops::servers(span).for_each(|server| _ = self.unwatched.insert(server, None));
                offered.spans.push(Arc::clone(span));
            } else {
                hops::servers(span).filter(|server| self.is_enough(*server)).for_each(|s| offered.left.push(s));
            }
        }
        if self.unwatched.len() > COUNTED {
            // They are counted anew. A watched one is known again by its next watched request.
            self.unwatched.clear();
        }
        let n = offered.spans.len() as u64;
        if n == 0 && offered.left.is_empty() {
            return;
        }
        if let Err(refused) = self.to.try_send(offered) {
            self.dropped.fetch_add(n, Ordering::Relaxed);
            for server in refused.into_inner().left {
                self.unwatched.remove(&server);
            }
        }
    }

    /// Counts a request that is not watched. Returns whether the server is to be left now.
    fn is_enough(&mut self, server: SocketAddr) -> bool {
        match self.unwatched.entry(server).or_insert(Some(0)) {
            Some(n) => {
                *n = n.saturating_add(1);
                *n == UNWATCHED
            }
            None => false,
        }
    }
}

/// Requests over TCP, at either end.
fn may_be_watched(span: &Span) -> bool {
    let ends = matches!(span.tap, TapSide::ClientProcess | TapSide::ServerProcess);
    ends && span.tuple.transport == Transport::Tcp && span.request_seq.is_some()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;
    use wirespan_model::{Endpoint, FiveTuple};

    fn span(path: &str, port: u16) -> Arc<Span> {
        let end = |port| Endpoint { ip: [10, 0, 0, 2].into(), port };
        let tuple = FiveTuple { client: end(40_000), server: end(port), transport: Transport::Tcp };
        Arc::new(Span { target: path.into(), tuple, request_seq: Some(1), ..Span::default() })
    }

    #[test]
    fn a_server_is_left_once_if_none_of_its_first_hundred_requests_is_watched() {
        let (to, from) = bounded(1000);
        let mut offer = Offer::new(Words(vec!["/pay".into()]), to, Arc::default());
        let mut left = |path: &str, port, times| {
            (0..times).for_each(|_| offer.spans(&[span(path, port)]));
            from.try_iter().flat_map(|offered| offered.left).collect::<Vec<_>>()
        };
        assert_eq!(left("/health", 1, 99), []);
        assert_eq!(left("/health", 1, 200), ["10.0.0.2:1".parse().unwrap()]);
        assert_eq!(left("/health", 2, 99), []);
        assert_eq!(left("/pay?n=1", 2, 1), []);
        assert_eq!(left("/health", 2, 500), [], "one was watched");
    }

    #[test]
    fn what_finds_no_room_is_counted_and_a_server_is_left_later() {
        let (to, from) = bounded(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut offer = Offer::new(Words(vec!["/pay".into()]), to, Arc::clone(&dropped));
        offer.spans(&[span("/pay", 1)]);
        offer.spans(&[span("/pay", 1), span("/pay", 1)]);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        (0..100).for_each(|_| offer.spans(&[span("/health", 2)]));
        assert_eq!(from.try_iter().count(), 1);
        (0..100).for_each(|_| offer.spans(&[span("/health", 2)]));
        assert_eq!(from.try_iter().flat_map(|offered| offered.left).count(), 1);
    }
}
